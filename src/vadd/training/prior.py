r"""Fitting a prior to what a trained recognition model writes, by maximum likelihood; the model is not touched.

``flow``: p(z), fitted to draws of r(z | x0, everything masked) over the training examples. ``conditional``: p(z | x_t),
fitted to the same draws, given states in which random parts, beginnings, ends, halves and blocks are hidden. A model
that is given labels has p(z | label), and a density for no label: each example serves with its label and, in the share
that training dropped, without. Some training examples are set aside: the weights that give them the highest density
are kept, and the fit ends when that has not grown for a fifth of its steps. Random numbers are functions of
(seed, step). A fit that is interrupted begins anew: most of its time goes into reading the examples.
"""

import math
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from vadd.core import CodedLatent, DiagonalGaussian, FlowPrior, LabelledLatent, Model
from vadd.core.host import PRIOR, seed_dropout, step_generator
from vadd.core.patterns import InfillMasks
from vadd.errors import UserError, refuse_if
from vadd.kinds import Kind
from vadd.networks import CustomNetworks
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.recipe import Recipe, Training
from vadd.run.checkpoint import Archive, read_weights
from vadd.run.directory import PriorName, RunDirectory
from vadd.run.loading import load
from vadd.run.priors import PriorRecord, prior_records, write_prior
from vadd.run.run import Run
from vadd.settings import Count, checked
from vadd.training.optimizer import Ema, Stepper

JUDGED = 5_000
"""Held-out examples that the KL is reported on."""
ASIDE_SHARE, MOST_ASIDE = 0.1, 1000
"""Training examples that decide when a fit ends."""
CHECKS, PATIENCE = 20, 4
"""How often they are looked at during a fit, and how many times without a gain end it."""


@checked
def fit_prior(
    run: Run,
    name: PriorName = "flow",
    *,
    steps: Count | None = None,
    progress: Progress = silent,
) -> PriorRecord:
    """Fit a prior to the weights that the run was loaded with and write it next to them; see :mod:`vadd.run.priors`."""
    latent, has, trained = run.model.latent, f"{run.directory.path} has", run.recipe.latent.prior == "autoregressive"
    refuse_if(
        (latent.dim == 0, f"{has} no latent: it is a model without one, like MDLM, and needs no prior"),
        (name == "flow" and trained, f"{has} a prior that was trained with the model: it needs no other"),
        (isinstance(latent, CodedLatent), f"{has} codes: its prior is learned already, with the model"),
    )
    directory = RunDirectory.open(run.directory.path)  # refuses an exported model
    # Read again to be sure that the checkpoint is still there and whole: the prior is written next to it.
    place, _ = Archive(directory).chosen("latest" if run.step is None else run.step, read_weights)
    fit = _Fit(run, name, steps or run.recipe.latent.flow.steps, progress)
    with ExitStack() as stack:
        with suppress(UserError):  # another process fits the same: both write the same prior
            stack.enter_context(directory.fit_lock(name))
        fitted = fit.run_steps()
        write_prior(place, fit.ema.averaged.state_dict(), fitted)
    return fitted


class _Fit:
    def __init__(self, run: Run, name: PriorName, steps: int, progress: Progress) -> None:
        self.run, self.name, self.steps, self.progress = run, name, steps, progress
        self.settings, self.seed, self.model = run.recipe.latent.flow, run.recipe.seed, run.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            build = partial(run.recipe.latent.build_prior, run.recipe.network, run.kind)
            self.prior = build(conditional=name == "conditional").to(self.model.device)
        # A fit takes a few thousand steps: an average over the last 200 or so.
        self.ema = Ema(self.prior, 0.995)
        rate = self.settings.learning_rate
        training = Training(steps=steps, learning_rate=rate, warmup_steps=min(50, steps), clip=5.0)
        self.stepper = Stepper(self.prior, training, Processes())
        self.masks = InfillMasks(run.shape)
        labelled = isinstance(self.model.latent, LabelledLatent)
        self.train_labels = run.data.train_labels if labelled else None
        self.unlabelled: DiagonalGaussian | None = None
        """What the recognition model writes of the training examples without their labels, where they have some."""

    def run_steps(self) -> PriorRecord:
        began = time.perf_counter()
        train = self.run.data.train[: self.settings.examples]
        rows = self.run.recipe.network.rows_at_once
        posterior = posteriors_of(self.model, train, rows, self.train_labels, self.progress)
        if self.train_labels is not None:
            self.unlabelled = posteriors_of(self.model, train, rows, None, self.progress)
        self._start(posterior)
        steps = self._fit(train, posterior)
        held_out, labels = self.run.data.test[:JUDGED], None
        if self.train_labels is not None and self.run.data.test_labels is not None:
            labels = self.run.data.test_labels[: len(held_out)]
        kl_normal, kl = divergence_from_priors(self.model, self.ema.averaged, held_out, rows, labels)
        if not math.isfinite(kl):
            raise UserError("the prior's density is not finite; lower latent.flow.learning_rate")
        return PriorRecord(self.name, kl_normal, kl, steps, seconds=time.perf_counter() - began)

    def _start(self, posterior: DiagonalGaussian) -> None:
        """A mixture's components begin at the posterior means of some examples, or close by: of two at the same place
        neither would ever leave the other.
        """
        generator = step_generator(self.seed, PRIOR, self.steps)  # not that of any step
        rows = torch.randint(len(posterior.mean), (self.settings.components,), generator=generator)
        noise = 0.1 * torch.randn(len(rows), self.prior.dim, generator=generator)
        z = posterior.mean[rows] + posterior.log_std[rows].exp() * noise
        self.prior.flow.start_at(z.to(self.model.device))
        self.ema.averaged.load_state_dict(self.prior.state_dict())

    def _fit(self, train: Tensor, posterior: DiagonalGaussian) -> int:
        """The steps that were taken; the average then has the weights that are best for the examples set aside."""
        shuffled = torch.randperm(len(train), generator=step_generator(self.seed, PRIOR, self.steps + 1))
        count = min(MOST_ASIDE, int(ASIDE_SHARE * len(train)))
        aside, rows = shuffled[:count], shuffled[count:]
        check_every, waited, least = math.ceil(self.steps / CHECKS), 0, math.inf
        best: dict[str, Tensor] = {}
        for step in range(self.steps):
            seed_dropout(self.seed, step, 0, self.model.device)
            generator = step_generator(self.seed, PRIOR, step)
            drawn = rows[torch.randint(len(rows), (self.settings.batch,), generator=generator)]
            loss = self._loss(self.prior, train, posterior, drawn, generator)
            self.stepper.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.ema.update(step, self.stepper.step(step, loss))
            self.progress(f"fitting the {self.name} prior", step + 1, self.steps)
            if count and (step + 1) % check_every == 0:
                with torch.no_grad():  # the same draws at each check
                    generator = step_generator(self.seed, PRIOR, self.steps + 2)
                    now = float(self._loss(self.ema.averaged, train, posterior, aside, generator))
                if now < least:
                    least, waited = now, 0
                    best = {name: value.clone() for name, value in self.ema.averaged.state_dict().items()}
                else:
                    waited += 1
                if waited == PATIENCE:
                    break
        if best:
            self.ema.averaged.load_state_dict(best)
        return step + 1

    def _loss(
        self,
        prior: FlowPrior,
        train: Tensor,
        posterior: DiagonalGaussian,
        rows: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        # The recognition model has read every example once, before the fit; z is drawn anew at every step.
        noise = torch.randn(len(rows), prior.dim, generator=generator)
        mean, log_std = posterior.mean[rows], posterior.log_std[rows]
        labels: Tensor | None = None
        if self.unlabelled is not None and self.train_labels is not None:
            dropped = torch.rand(len(rows), generator=generator) < self.run.recipe.training.label_dropout
            mean = torch.where(dropped[:, None], self.unlabelled.mean[rows], mean)
            log_std = torch.where(dropped[:, None], self.unlabelled.log_std[rows], log_std)
            labels = torch.where(dropped, prior.classes, self.train_labels[rows])
        z = (mean + log_std.exp() * noise).to(self.model.device)
        xt = torch.full((len(rows), self.model.positions), self.model.mask_value)
        if prior.conditional:
            masking = self.masks(len(rows), self.model.positions, self.model.schedule, generator)
            xt = train[rows].long().masked_fill(masking.masked, self.model.mask_value)
        # Per dimension, so that clipping and the learning rate mean the same for every size of z.
        return -prior.log_prob(z[None], xt.to(self.model.device), labels).mean() / prior.dim


@torch.no_grad()
def posteriors_of(
    model: Model, x0: Tensor, rows: int, labels: Tensor | None = None, progress: Progress = silent
) -> DiagonalGaussian:
    """r(z | x0, everything masked) for examples (n, N), given their ``labels`` (n,) if any, on the CPU."""
    parts: list[DiagonalGaussian] = []
    for first in range(0, len(x0), rows):
        some = slice(first, first + rows)
        posterior = model.encode(x0[some], None if labels is None else labels[some])
        assert posterior is not None, "a latent that can be fitted has a recognition model"
        parts.append(DiagonalGaussian(posterior.mean.cpu(), posterior.log_std.cpu()))
        progress("reading the training examples", min(first + rows, len(x0)), len(x0))
    return DiagonalGaussian.joined(parts)


@torch.no_grad()
def divergence_from_priors(
    model: Model, prior: FlowPrior, x0: Tensor, rows: int, labels: Tensor | None = None
) -> tuple[float, float]:
    """KL(r || N(0, I)) and KL(r || prior) with everything masked, in nats, averaged over held-out examples (n, N),
    given their ``labels`` (n,) if any.
    """
    posterior = posteriors_of(model, x0, rows, labels)
    # One draw for each example is enough: the mean over thousands of examples is what is reported.
    z = posterior.draws(1, step_generator(0, PRIOR))
    nothing_known = torch.full((len(x0), model.positions), model.mask_value)
    log_priors = []
    for first in range(0, len(x0), rows):
        some = slice(first, first + rows)
        states, given = nothing_known[some].to(model.device), None if labels is None else labels[some]
        log_priors.append(prior.log_prob(z[:, some].to(model.device), states, given).cpu())
    kl = (posterior.log_prob(z) - torch.cat(log_priors, dim=1)).mean()
    return float(posterior.kl_to_standard_normal().sum(-1).mean()), float(kl)


def _wanted(recipe: Recipe) -> tuple[PriorName, ...]:
    wanted: dict[str, tuple[PriorName, ...]] = {"flow": ("flow",), "conditional": ("flow", "conditional")}
    return wanted.get(recipe.latent.prior, ()) if recipe.has_latent else ()


def seconds_to_fit(recipe: Recipe, kind: Kind, device: torch.device) -> float:
    """About what :func:`fit_priors_of_recipe` will take: as many steps, each like one that is taken here."""
    flow, seconds = recipe.latent.flow, 0.0
    for name in _wanted(recipe):
        with torch.random.fork_rng(devices=[]):
            prior = recipe.latent.build_prior(recipe.network, kind, conditional=name == "conditional").to(device)
            z = torch.randn(1, flow.batch, prior.dim).to(device)
        xt = torch.full((flow.batch, kind.positions), kind.vocab_size, device=device)
        for _ in range(2):  # the first is slower
            began = time.perf_counter()
            prior.log_prob(z, xt).mean().backward()  # type: ignore[no-untyped-call]
            took = time.perf_counter() - began
        seconds += flow.steps * took
    return seconds


def fit_priors_of_recipe(
    path: Path,
    progress: Progress = silent,
    networks: CustomNetworks | None = None,
    device: str | torch.device | None = None,
) -> list[PriorRecord]:
    """What ``latent.prior`` of a finished run's recipe asks for, as far as it is not there yet."""
    directory = RunDirectory(path)
    names = _wanted(directory.recipe())
    if not names:
        return []
    place, _ = Archive(directory).chosen("latest", read_weights)
    missing = [name for name in names if name not in prior_records(place)]
    custom = {} if networks is None else vars(networks)
    return [fit_prior(load(path, device, prior="trained", **custom), name, progress=progress) for name in missing]
