"""Likelihood bounds of a run over a data set, with standard errors, in every unit people use.

Numbers are *negative* log-likelihoods: smaller is better, and a valid one cannot lie below the entropy of the data.
Started with ``torchrun``, the processes share the batches; each has the whole report.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from vadd.core import GaussianLatent, LabelledLatent, MaskedDiffusion, Model, StandardNormal
from vadd.core.brackets import best_shift, bracket
from vadd.core.gaussian import Particles, ProposalName
from vadd.core.health import LatentHealth, latent_health
from vadd.core.host import BOUNDS, HEALTH, PILOT, step_generator
from vadd.core.model import k_sample_delbo
from vadd.core.sampling import Grid
from vadd.errors import UserError
from vadd.evaluation.conventions import conventions_of
from vadd.evaluation.reports import (
    NOT_A_BOUND,
    OF_THE_PROPOSAL,
    PADS_NOT_SCORED,
    UNKNOWN_LEFT_OUT,
    Bracket,
    LikelihoodReport,
    NamedLikelihood,
    NegativeLogLikelihood,
    RunReport,
    mean_and_error,
    negative_log_likelihood,
)
from vadd.kinds import TextKind
from vadd.kinds.arrays import Array
from vadd.models import EnergyDiffusion
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.run.run import BOUND_STEPS, Run
from vadd.run.sampling import check_time
from vadd.settings import Count, checked_fields

BATCH, TEXT_BATCH = 1000, 32
"""Examples that share a generator; part of what a seed means, and the portions that several processes divide."""
HEALTH_EXAMPLES, HEALTH_TEXTS = 10_000, 1000
PILOT_EXAMPLES, CONVENTION_DRAWS = 16, 20
MOST_PATHS = 1 << 16
CANDIDATES: tuple[tuple[ProposalName, ...], ...] = (("recognition", "prior"), ("revealed",), ("prior",))
Estimate = Callable[..., Tensor]
"""Log-likelihoods (n,) from a model, ``x0`` and ``generator``."""


def basic_report(run: Run) -> RunReport:
    """Which run a report is about, without results."""
    denoiser, sampling = run.model.denoiser, run.sampling
    sharpened = [f"temperature {sampling.temperature:g}"] * (sampling.temperature != 1)
    sharpened += [f"top-k {sampling.top_k}"] * (sampling.top_k is not None)
    sharpened += [f"top-p {sampling.top_p}"] * (sampling.top_p not in (None, 1.0))
    sharpened += [sampling.precision] * (sampling.precision != "float64")
    names = [getattr(run.recipe.data, key, None) for key in ("name", "corpus", "path")]
    return RunReport(
        run=str(run.directory.path),
        recipe=run.recipe.name,
        model=run.recipe.model,
        data=" ".join([run.recipe.data.kind, *(Path(name).name for name in names if name)]),
        values=run.kind.vocab_size,
        parameters=sum(p.numel() for p in denoiser.parameters()) if isinstance(denoiser, nn.Module) else None,
        training_steps=run.recipe.training.steps,
        seed=run.recipe.seed,
        latent_policy=sampling.latent_policy if has_latent(run) else None,
        prior=prior_name(run),
        prior_seconds=run.prior_seconds,
        sampler=sampling.sampler_name,
        labels=run.kind.labels,
        draws=" ".join(sharpened) or None,
        results=(),
    )


def prior_name(run: Run) -> str | None:
    """What the reports call a learned prior."""
    latent = run.model.latent
    latent = latent.inner if isinstance(latent, LabelledLatent) else latent
    if not isinstance(latent, GaussianLatent) or isinstance(latent.prior, StandardNormal):
        return None
    if latent.prior.conditional:
        return "conditional"
    return "flow" if run.recipe.latent.prior != "autoregressive" else "autoregressive"


@checked_fields
@dataclass(frozen=True)
class BoundSettings:
    particles: Particles
    steps: Sequence[int] = BOUND_STEPS
    delbo_draws: Annotated[int, Field(ge=0, le=MOST_PATHS)] = 0
    """Masks per example for the paper's DELBO; 0 leaves it out."""
    limit: Count | None = None
    """How many examples to score, chosen at random by the seed; all by default."""
    grid: Grid | None = None
    """The recipe's by default."""
    seed: int = 0
    delbo_particles: Sequence[int] = ()
    """Numbers of particles for the DELBO; by default the number that the bounds use."""
    score_pads: bool = False
    """Score pads like any other value: then the bounds are valid for padded examples too."""
    given_label: bool = False
    """Bound the likelihood of each held-out example given its label, for runs trained with labels."""
    brackets: Sequence[int] = ()
    """Numbers of steps of samplers whose likelihood is bounded from both sides."""
    conventions: bool = False
    """Also every number that the field calls a likelihood."""
    paths: Annotated[int, Field(ge=2, le=MOST_PATHS)] = 16
    """Draws of the bound for each interval."""
    choose_proposals: bool = False
    """Try several proposals on a few training examples first, and use the tightest, for each number of steps."""

    @property
    def delbo_counts(self) -> list[int]:
        return sorted({*self.delbo_particles} or {self.particles.count})

    def __post_init__(self) -> None:
        for count in self.delbo_particles:
            replace(self.particles, count=count)  # which refuses numbers out of its range


def measure_bounds(
    run: Run, examples: Tensor, settings: BoundSettings, progress: Progress = silent
) -> LikelihoodReport:
    """The step bounds and, if asked for, the DELBOs (for MDLM the ELBO).

    Where pads are not scored, every number has a ``convention`` that says so and none is valid: see
    ``docs/likelihood.md``.
    """
    counted = len(examples) if settings.limit is None else min(settings.limit, len(examples))
    for steps in (*settings.steps, *settings.brackets):
        what = f"the bound at {steps:,} steps with {settings.particles.count:,} particles of {counted:,} examples"
        check_time(what, steps=steps, rows=counted * settings.particles.count)
    measurement = _Measurement(run, examples, settings, progress)
    report = LikelihoodReport(
        bounds=tuple(map(measurement.step_bound, settings.steps)),
        brackets=tuple(map(measurement.bracket, settings.brackets)),
        conventions=measurement.conventions() if settings.conventions else (),
        unit=run.kind.unit,
    )
    if not settings.delbo_draws:
        return report
    if not has_latent(run):
        return report.changed(elbo=measurement.elbo())
    delbos = tuple(map(measurement.delbo, settings.delbo_counts))
    return report.changed(delbo=delbos[-1], delbo_by_particles=delbos)


class _Measurement:
    """All numbers of :func:`measure_bounds` are over the same examples, batches and random numbers."""

    def __init__(self, run: Run, examples: Tensor, settings: BoundSettings, progress: Progress) -> None:
        self.run, self.settings, self.progress = run, settings, progress
        chosen = some_of(len(examples), settings.limit or len(examples), settings.seed)
        self.x0 = check_examples(run, examples[chosen])
        self.batches = torch.split(self.x0, TEXT_BATCH if run.kind.name == "text" else BATCH)
        sampling = run.options(grid=settings.grid)
        self.how = sampling.drawing
        self.model = run.model.scoring_pads() if settings.score_pads else run.model
        if sampling.label is not None or sampling.guidance != 1:
            self.model = self.model.labelled(run.kind.label_number(sampling.label), sampling.guidance)
        if isinstance(self.model, MaskedDiffusion) and not self.how.token_sampler.exact:
            self.model = self.model.drawn_by(self.how.token_sampler)
        self.labels: Sequence[Tensor] | None = None
        if settings.given_label:
            self.labels = torch.split(held_out_labels(run, examples)[chosen], len(self.batches[0]))
        unknown = self.model.unknowns and bool((self.x0 == self.model.mask_value).any())
        self.convention = PADS_NOT_SCORED if self.model.pad is not None else UNKNOWN_LEFT_OUT if unknown else None
        if isinstance(self.model, EnergyDiffusion):
            self.how, self.convention = replace(self.how, sampler=self.model.samplers["proposal"]), OF_THE_PROPOSAL
        self.log_truth = true_log_probability(run, self.x0)
        self.characters = run.kind.characters(self.x0.numpy()) if isinstance(run.kind, TextKind) else None
        # No optimiser takes memory here, as it does during a training: twice as many sequences at once.
        self.particles = replace(settings.particles, rows_per_call=2 * run.recipe.network.rows_at_once)

    def step_bound(self, steps: int) -> NegativeLogLikelihood:
        particles, facts = self._for_steps(steps)
        return self._over_batches(
            f"step bound, T = {steps}",
            lambda model, **given: model.bound(steps=steps, how=self.how, particles=particles, **given),
            proposals=None if self.model.latent.exact else particles.proposals,
            **facts,
        )

    def bracket(self, steps: int) -> Bracket:
        """Of the same examples; the tangent that bounds from above touches where training examples say."""
        particles, facts = self._for_steps(steps)
        paths = 1 if facts["kind"] == "exact" else self.settings.paths

        def draws(model: Model, x0: Tensor, generator: torch.Generator) -> Tensor:
            each = [model.bound(x0, steps, particles, generator, self.how) for _ in range(paths)]
            return torch.stack(each)

        def interval(model: Model, x0: Tensor, generator: torch.Generator) -> Tensor:
            found = draws(model, x0, generator)
            return found.expand(2, -1) if paths == 1 else torch.stack(bracket(found, shift))

        shift = 0.0
        with suppress(UserError):  # without training data any other number is valid too
            pilot = check_examples(self.run, self.run.data.train[: 4 * PILOT_EXAMPLES])
            shift = best_shift(draws(self.model, pilot, step_generator(0, PILOT))) if paths > 1 else 0.0
        below, above = self._estimates(f"interval, T = {steps}", interval, 2)
        (high, high_error), (low, low_error) = mean_and_error(-below), mean_and_error(-above)
        return Bracket(
            low=low,
            low_stderr=low_error,
            high=high,
            high_stderr=high_error,
            scored=int(self.model.scored(self.x0).sum()),
            examples=len(self.x0),
            paths=paths,
            valid=self.convention is None,
            convention=self.convention,
            given_label=self.settings.given_label or None,
            **facts,
        )

    def conventions(self) -> tuple[NamedLikelihood, ...]:
        if not isinstance(self.model, MaskedDiffusion) or isinstance(self.model, EnergyDiffusion):
            raise UserError("the field's conventions are for masked models: use the step bound for this one")
        draws = self.settings.delbo_draws or CONVENTION_DRAWS
        found = []
        for convention in conventions_of(self.model, self.particles, draws, self.how):
            steps = convention.steps
            kind = None if convention.how is None else self.model.likelihood_kind(steps, convention.how).kind
            warning = convention.warning
            number = self._over_batches(
                convention.name, convention.estimate, valid=warning is None, kind=kind, warning=warning
            )
            found.append(NamedLikelihood(name=convention.name, number=number))
        return tuple(found)

    def _for_steps(self, steps: int) -> tuple[Particles, dict[str, Any]]:
        """The particles for so many steps, and what reports say of the sampler."""
        how, particles = self.how, self.particles
        if self.settings.choose_proposals and not self.model.latent.exact:
            particles = tightest(self.run, partial(self.model.bound, steps=steps, how=how), particles)
        facts = {
            "steps": steps,
            "particles": particles.count,
            "one_latent": (how.latent_policy == "fixed" and has_latent(self.run)) or None,
            "kind": self.model.likelihood_kind(steps, how).kind,
            "sampler": None if how.sampler is self.model.samplers["ancestral"] else self.run.options().sampler_name,
        }
        return particles, facts

    def delbo(self, particles: int) -> NegativeLogLikelihood:
        if not isinstance(self.model, MaskedDiffusion):
            raise UserError("the DELBO is a sum over numbers of masked positions; use the step bound for this model")
        drawn, draws = replace(self.particles, count=particles), self.settings.delbo_draws
        estimate = partial(k_sample_delbo, particles=drawn, draws=draws)
        what = f"DELBO, K = {particles} ({NOT_A_BOUND})"
        return self._over_batches(what, estimate, valid=False, particles=particles, draws=draws, warning=NOT_A_BOUND)

    def elbo(self) -> NegativeLogLikelihood:
        draws = self.settings.delbo_draws
        return self._over_batches("ELBO", lambda model, **given: model.elbo(draws=draws, **given), draws=draws)

    def _over_batches(
        self, what: str, estimate: Estimate, *, valid: bool = True, **facts: Any
    ) -> NegativeLogLikelihood:
        return negative_log_likelihood(
            self._estimates(what, estimate)[0],
            self.model.scored(self.x0).sum(1),
            log_truth=self.log_truth,
            characters=self.characters,
            valid=valid and self.convention is None,
            convention=self.convention,
            given_label=self.settings.given_label or None,
            **facts,
        )

    def _estimates(self, what: str, estimate: Estimate, each: int = 1) -> Tensor:
        """``each`` numbers for every example: (each, n)."""

        def draw(number: int) -> Tensor:
            """Of one batch; given their labels, of those with the same label at a time."""
            x0 = self.batches[number]
            # One generator a batch: the number must not depend on which process draws it, nor on what came before.
            generator = step_generator(self.settings.seed, BOUNDS, number)
            labels = None if self.labels is None else self.labels[number]
            if labels is None:
                estimated = estimate(self.model, x0=x0, generator=generator)
            else:
                estimated = torch.empty(each, len(x0), dtype=torch.float64)
                for label in sorted(set(labels.tolist())):
                    rows = labels == label
                    given = self.model.labelled(label, self.model.guidance)
                    estimated[:, rows] = estimate(given, x0=x0[rows], generator=generator)
            self.progress(what, sum(map(len, self.batches[: number + 1])), len(self.x0))
            return estimated.flatten()

        self.progress(what, 0, len(self.x0))
        sizes = [each * len(batch) for batch in self.batches]
        found = torch.split(Processes().in_shares(sizes, draw), sizes)
        return torch.cat([part.view(each, -1) for part in found], dim=1)


def tightest(run: Run, bound: Estimate, particles: Particles) -> Particles:
    """The same particles with the proposals that give the largest bound on a few training examples.

    The scored examples have no part in the choice, so the bound stays valid in expectation. With many steps few
    positions are revealed together, and what is known of z is little more than the prior; with one step the prior alone
    is of no use.
    """
    x0 = check_examples(run, run.data.train[:PILOT_EXAMPLES])

    def mean_bound(proposals: tuple[ProposalName, ...]) -> float:
        tried = replace(particles, proposals=proposals)
        return float(bound(x0=x0, particles=tried, generator=step_generator(0, PILOT)).mean())

    return replace(particles, proposals=max(dict.fromkeys([particles.proposals, *CANDIDATES]), key=mean_bound))


def some_of(total: int, most: int, seed: int) -> Tensor:
    """All numbers below ``total``, or ``most`` of them at random, in order: the first examples may be the easy ones."""
    if total <= most:
        return torch.arange(total)
    chosen = np.random.default_rng([seed, 5]).choice(total, most, replace=False)
    return torch.from_numpy(np.sort(chosen))


def held_out_labels(run: Run, examples: Tensor) -> Tensor:
    """Of the held-out examples, which these must be."""
    if run.kind.labels is None or run.data.test_labels is None:
        raise UserError(f"{run.directory.path} was not trained with labels: train it with data.labels=true")
    if not torch.equal(run.data.test, examples):
        raise UserError("only held-out examples have labels: leave out --data or --given-label")
    return run.data.test_labels


def true_distribution(run: Run) -> Array | None:
    """The data's own distribution, or None where it is not known: for text, and where the data are gone."""
    if run.kind.name == "text":
        return None
    try:
        known = run.data.distribution
    except UserError:
        return None
    return None if known is None else known()


def true_log_probability(run: Run, x0: Tensor) -> Tensor | None:
    """log p(x0) under the data's own distribution, where it is known: (n,) float64."""
    truth = true_distribution(run)
    if truth is None:
        return None
    probability = truth[tuple(x0.T.numpy())]
    # Examples from elsewhere may be impossible under the data's distribution; then there is nothing to compare with.
    return torch.from_numpy(np.log(probability)) if probability.min() > 0 else None


def measure_latent(run: Run, examples: Tensor) -> LatentHealth | None:
    """The health of the latent on the first examples; None for a model without a latent."""
    most = HEALTH_TEXTS if run.kind.name == "text" else HEALTH_EXAMPLES
    x0 = check_examples(run, examples[:most]).to(run.model.device)
    labels = run.data.test_labels if run.kind.labels is not None and examples is run.data.test else None
    labels = None if labels is None else labels[:most]
    return latent_health(run.model, x0, step_generator(0, HEALTH), 2 * run.recipe.network.rows_at_once, labels)


def has_latent(run: Run) -> bool:
    """Whether the run's model has a latent variable: VADD has one, MDLM has none."""
    return not run.model.latent.absent


def check_examples(run: Run, examples: Tensor) -> Tensor:
    """The examples, if the run's model can read them."""
    run.model.check_sequences(examples, "examples")
    return examples.long()
