"""A trained run, and what can be done with it."""

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vadd.core import Model, Particles, Prior, Samples
from vadd.core.sampling import given_latents
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.kinds.arrays import Array
from vadd.kinds.table.codec import TableCodec, Where, data_frame
from vadd.kinds.table.reading import from_frame
from vadd.kinds.text.tokenizers import Tokenizer
from vadd.models import EnergyOfAnother, EnergyWeighted
from vadd.networks import CustomNetworks, CustomSettings
from vadd.parallel import Processes, default_device
from vadd.progress import Progress, silent
from vadd.recipe import Recipe, build_dataset, build_model
from vadd.run.checkpoint import Archive, check_fit, read_weights
from vadd.run.directory import CheckpointName, PriorChoice, RunDirectory, step_of
from vadd.run.export import export, find_exported
from vadd.run.infilling import as_given, latent_rows, masked_starts
from vadd.run.limits import LARGEST_CHUNK, bytes_per_row, check_held, check_time, chunk_size
from vadd.run.options import SamplingOptions
from vadd.run.priors import prior_records, read_prior
from vadd.run.sampling import fitting, stream
from vadd.run.tables import fill_rows, sample_rows

if TYPE_CHECKING:
    from vadd.report.results import Results
    from vadd.report.samples import ShownFigure

EVALUATED_STEPS, BOUND_STEPS = (1, 2, 5, 20), (1, 2, 4, 8, 16)
PARTICLES = 64


class Run:
    """A trained model with its recipe: :meth:`sample`, :meth:`infill`, :meth:`evaluate`, :meth:`bound`, :meth:`plot`,
    :meth:`export`; :func:`vadd.train` and :func:`vadd.load` return one. Its data are read when they are first needed.
    """

    def __init__(
        self,
        directory: RunDirectory,
        model: Model,
        recipe: Recipe,
        kind: Kind,
        step: int | None = None,
        conditional: Prior | None = None,
    ) -> None:
        self.directory = directory
        self.model = model
        self.recipe = recipe
        self.kind = kind
        """What an example is: its shape, vocabulary, pad, labels, and how samples are decoded, shown and written."""
        self.step = step
        """Of the training, that the weights are from."""
        self.conditional = conditional
        """The prior p(z | x_t) that completions draw from, where one was fitted."""
        self.fingerprint: str | None = None
        """Of the data that the model learned from, where the run knows it."""
        self.is_exported = False
        self.sampling = SamplingOptions(**recipe.sampling.model_dump())
        """The defaults of sampling: the recipe's, and one z for all steps with a flow prior."""
        self.prior_seconds: float | None = None
        """What the fit of the prior took that samples are drawn with, where that is known."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example, before it is flattened."""
        return self.kind.shape

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Of a run on text."""
        return getattr(self.kind, "tokenizer", None)

    @property
    def table(self) -> TableCodec | None:
        """Of a run on a table: what makes rows of samples."""
        return getattr(self.kind, "codec", None)

    @cached_property
    def data(self) -> DiscreteDataset:
        try:
            data = build_dataset(self.recipe, kind=self.kind)
        except UserError as error:
            raise UserError(f"this needs the data that the model learned from: {error}") from None
        if data.kind != self.kind:
            raise UserError(
                f"the data here are not what the model learned from: examples have the shape {data.shape} and "
                f"{data.vocab_size} values, not {self.kind.shape} and {self.kind.vocab_size}"
            )
        path = getattr(self.recipe.data, "path", None)
        # An exported recipe has no paths but names, and any file here may have such a name.
        if self.is_exported and path and data.fingerprint() != self.fingerprint:
            why = "has another checksum" if self.fingerprint else "cannot be verified: the export has no checksum"
            raise UserError(
                f"this needs the data that the model learned from, and {path} here {why}; give --data to bound the "
                "likelihood of other data"
            )
        return data

    def texts(self, tokens: Tensor | Array) -> list[str]:
        """Samples (n, N) of a run on text as text.

        Where a sample is one padded document it ends at its first EOS; else several documents may follow each other,
        and blank lines part them.
        """
        return self.kind.texts(np.asarray(tokens))

    def with_sampling(self, **changes: Any) -> Self:
        """The same model with other defaults of sampling, like ``latent_policy="fixed"``."""
        other = copy.copy(self)
        other.sampling = self.sampling.changed(changes)
        return other

    def options(self, **given: Any) -> SamplingOptions:
        """The options of sampling, those ``given`` and this run's defaults, as the model takes them."""
        return fitting(self.model, self.sampling, given)

    def possible_steps(self, wanted: Sequence[int]) -> list[int]:
        """Of the ``wanted`` numbers of steps those that the sampler can take; where it can take none, its own."""
        sampler = self.options().sampler
        possible = sorted({sampler.default_steps(self.model.positions, steps) for steps in wanted})
        return [steps for steps in wanted if steps in possible] or possible[:1]

    @property
    def completing_model(self) -> Model:
        """The model with the prior p(z | x_t), where one was fitted; without anything known it is of no use."""
        return self.model if self.conditional is None else self.model.with_prior(self.conditional)

    def labelled(self, label: str | int | None, guidance: float = 1.0) -> Self:
        """The same run for samples of one label, by its name or number; see :meth:`Model.labelled`."""
        self.model.labelled(self.kind.label_number(label), guidance)  # refuses what the model does not know
        return self.with_sampling(label=label, guidance=guidance)

    def restricted(self, sizes: Sequence[int]) -> "Run":
        """The same run with only the first values of each position allowed."""
        other = copy.copy(self)
        other.model = self.model.restricted(sizes)
        return other

    def with_energy(self, other: "Run", candidates: int = 8, window: float = 1.0) -> "Run":
        """The same model with its candidates weighed by the likelihood of an autoregressive run (EDLM): at each of the
        first steps, a share ``window`` of all, so many completions are drawn, and one is kept. Not exact.
        """
        if other.kind != self.kind:
            raise UserError(
                f"the energy of {other.directory.path} is over examples of shape {other.kind.shape} with "
                f"{other.kind.vocab_size} values; those of {self.directory.path} have {self.kind.shape} and "
                f"{self.kind.vocab_size}"
            )
        self.kind.check_same_coding(other.kind, str(self.directory.path))
        weighed = copy.copy(self)
        weighed.__dict__.pop("_bytes_per_row", None)
        sampler = EnergyWeighted(candidates, window)
        weighed.model = EnergyOfAnother.of(self.model, other.model.to(self.model.device), sampler)
        weighed.recipe = self.recipe.model_copy(update={"model": "edlm"})
        return weighed

    @cached_property
    def _bytes_per_row(self) -> int:
        return bytes_per_row(self.model)

    def stream(
        self,
        start: int | Tensor = 1,
        *,
        record: int = 0,
        memory: int | None = None,
        processes: Processes | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> Iterator[Samples]:
        """Samples chunk by chunk, in memory that does not grow with their number.

        ``start`` is how many, or sequences (n, N) with the mask value V where something is to be filled. The
        ``options`` are those of :class:`~vadd.run.options.SamplingOptions`. Of the first ``record`` samples the
        trajectories are kept. ``memory`` is what a chunk may take, in bytes; by default 256 MB, on a GPU a part of what
        is free. Several ``processes`` divide the chunks, and the samples come out in the main one.
        """
        chosen = fitting(self.model, self.sampling, options)
        n = start if isinstance(start, int) else len(start)
        if n < 1:
            raise UserError(f"the number of samples must be at least 1, not {n}")
        if chosen.z is not None:
            given_latents(self.model, chosen.z, n)
        model = self.model if isinstance(start, int) else self.completing_model
        if chosen.label is not None or chosen.guidance != 1:
            model = model.labelled(self.kind.label_number(chosen.label), chosen.guidance)
        size = 1
        if n > 1:  # a single sample needs no measurement, which costs a pass through the network
            check_time(f"{n:,} samples in {chosen.steps:,} steps", steps=n // LARGEST_CHUNK * chosen.steps, rows=n)
            size = chunk_size(self._bytes_per_row, self.model, chosen.steps, memory)
        return stream(model, chosen, start, size, record=record, processes=processes, progress=progress)

    def sample(self, n: int = 1, *, memory: int | None = None, progress: Progress = silent, **options: Any) -> Tensor:
        """``n`` samples, (n, N) integers, for example ``run.sample(16, steps=8, sampler="parallel", seed=3)``.

        They are the first of those that the seed stands for: a larger ``n`` begins with the same ones.
        """
        if n > 1:
            check_held(n, self.model.positions)
        return torch.cat([part.tokens for part in self.stream(n, memory=memory, progress=progress, **options)])

    def infill(
        self,
        x: Tensor | Array,
        known: Tensor | Array | None = None,
        *,
        count: int | None = None,
        memory: int | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> Tensor:
        """A completion of each of the sequences ``x``, in the shape of ``x``: (n, N), (n, *shape) or one example.

        What is ``known`` stays, or, without it, all but -1. With ``count`` there are so many completions of each,
        (n, count, ...). Infilling is sampling from another start: the ``options`` are the same.
        """
        each = 1 if count is None else count
        starts = masked_starts(self.model, self.shape, x, known, each)
        if isinstance(z := options.get("z"), Tensor) and z.ndim == 3:
            options["z"] = latent_rows(z, len(starts) // each, each)
        drawn = [part.tokens for part in self.stream(starts, memory=memory, progress=progress, **options)]
        return as_given(torch.cat(drawn), x, self.shape, count)

    def trajectory(self, n: int = 1, **options: Any) -> Tensor:
        """How the ``n`` samples that :meth:`sample` gives come about: (steps + 1, n, N), from all masked (the value V)
        to the samples.
        """
        states = [part.trajectory for part in self.stream(n, record=n, **options)]
        return torch.cat([state for state in states if state is not None], dim=1)

    @property
    def metrics(self) -> Any:
        """What the training logged, a pandas DataFrame with one row a line: step, split (train, test or latent), loss
        and the rest.
        """
        from vadd.report.results import frame_of

        return frame_of(list(self.directory.metrics()))

    def sample_frame(self, n: int = 1, where: Where = (), **options: Any) -> Any:
        """``n`` rows of a table as a pandas DataFrame; ``where={"age": "40-49", "sex": "F"}`` fixes columns."""
        return data_frame(sample_rows(self, n, where, **options))

    def infill_frame(self, frame: Any, count: int | None = None, **options: Any) -> Any:
        """A DataFrame with its missing cells filled and nothing else changed; with ``count`` a list of so many."""
        filled = [data_frame(columns) for columns in fill_rows(self, from_frame(frame), count or 1, **options)]
        return filled[0] if count is None else filled

    def evaluate(
        self,
        steps: Sequence[int] = EVALUATED_STEPS,
        samples: int | None = None,
        *,
        bound: Sequence[int] = (),
        particles: int = PARTICLES,
        limit: int | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> "Results":
        """How far samples drawn in so many ``steps`` are from the data, as ``vadd eval`` measures it; with ``bound``
        also what :meth:`bound` gives for these numbers of steps.
        """
        from vadd.evaluation import BoundSettings, evaluate
        from vadd.report.results import Results

        bounds = BoundSettings(Particles(particles), tuple(bound), limit=limit, seed=seed) if bound else None
        return Results(evaluate(self, steps, samples, seed, bounds, progress=progress).report)

    def bound(
        self,
        steps: Sequence[int] | int = BOUND_STEPS,
        examples: Tensor | Array | None = None,
        *,
        particles: int = PARTICLES,
        limit: int | None = None,
        delbo: int = 0,
        seed: int = 0,
        progress: Progress = silent,
    ) -> "Results":
        """Bounds of the negative log-likelihood of ``examples``, by default the held-out ones, for the sampler with so
        many ``steps``; ``results.bounds[T].nats`` is one of them.

        ``particles`` are the latents drawn for each estimate, ``limit`` the number of examples. With ``delbo``
        masks for each example also the paper's DELBO, which is not a bound (for a model without a latent the ELBO).
        """
        from vadd.evaluation.likelihood import BoundSettings, basic_report, measure_bounds
        from vadd.report.results import Results

        counts = (steps,) if isinstance(steps, int) else tuple(steps)
        if min(counts, default=0) < 1:
            raise UserError(f"the numbers of steps must be at least 1, not {list(counts)}")
        settings = BoundSettings(Particles(particles), counts, delbo_draws=delbo, limit=limit, seed=seed)
        chosen = self.data.test if examples is None else self._flat(examples)
        likelihood = measure_bounds(self, chosen, settings, progress)
        return Results(basic_report(self).changed(likelihood=likelihood))

    def _flat(self, examples: Tensor | Array) -> Tensor:
        """(n, N), from (n, N) or (n, *shape)."""
        given = examples if isinstance(examples, Tensor) else torch.from_numpy(np.asarray(examples))
        if given.ndim < 2 or given[0].numel() != self.model.positions:
            raise UserError(f"examples have the shape (n, {self.model.positions}) here, not {tuple(given.shape)}")
        return given.flatten(1)

    def export(self, out: str | Path) -> Path:
        """Write these weights, the recipe and a model card to the new folder ``out``, as ``vadd export`` does."""
        checkpoint: CheckpointName = "latest" if self.step is None else self.step
        return export(RunDirectory.open(self.directory.path), Path(out), checkpoint=checkpoint).path

    def plot(self, steps: int | None = None, seed: int = 0) -> "ShownFigure":
        """How the training went, and samples drawn in so many ``steps`` (default: the recipe's)."""
        from vadd.report.samples import plot_run  # imports matplotlib, which sampling does without

        return plot_run(self, steps, seed)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {value}" for name, value in self.facts.items())
        return f"<vadd.Run {str(self.directory.path)!r} ({facts})>"

    @property
    def facts(self) -> dict[str, str]:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        shape = " x ".join(map(str, self.shape))
        return {
            "recipe": self.recipe.name,
            "model": self.recipe.model,
            "examples": f"{shape} of {self.kind.vocab_size} values",
            "parameters": f"{parameters:,}",
            "training": f"step {self.step:,} of {self.recipe.training.steps:,}" if self.step is not None else "unknown",
        }

    def _repr_html_(self) -> str:
        from vadd.report.samples import run_html

        return run_html(self)


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    *,
    checkpoint: CheckpointName = "latest",
    prior: PriorChoice = "fitted",
    denoiser: nn.Module | None = None,
    recognizer: nn.Module | None = None,
) -> Run:
    """Open a run with the averaged weights of one of its checkpoints, on ``device`` (default: a GPU if there is one,
    else the CPU).

    ``path`` is the run's directory, a folder that ``vadd export`` wrote or, where there is no such path, the name
    "owner/name" of one on the Hugging Face Hub. ``checkpoint`` is "latest" (the newest that is whole), "best" (the
    lowest held-out objective) or a step. Priors that ``vadd fit-prior`` made for it are used unless ``prior`` is
    "trained"; "flow" and "conditional" ask for that one. With a flow prior samples keep one z for all steps unless the
    options say otherwise. A run that was trained with a custom ``denoiser`` and ``recognizer`` is opened with modules
    of the same kind and size; they are copied. The data are read only when they are needed; sampling does not need
    them.
    """
    own = given_networks(denoiser, recognizer)
    exported = find_exported(path)
    if exported is None:
        directory = RunDirectory.open(path)
        recipe = directory.recipe()
        chosen, weights = Archive(directory).chosen(checkpoint, read_weights)
        kind, fingerprint = directory.kind(recipe)
        step = step_of(chosen)
    else:
        if checkpoint not in ("latest", exported.step):
            raise UserError(f"{path} is an exported model: it holds the weights of step {exported.step} only")
        directory, recipe, chosen = RunDirectory(exported.path), exported.recipe, exported.path
        step, weights, kind, fingerprint = exported.step, exported.weights(), exported.kind, exported.data_sha256
    if own is not None and not isinstance(recipe.network, CustomSettings):
        raise UserError(f"{path} has networks of its recipe ({recipe.network.kind}); none of your own are needed")
    problem = f"the weights in {chosen} do not fit the recipe of {path}"
    # Every position and every value has some weight: absurd sizes need not even be built on the meta device.
    if max(kind.positions, kind.vocab_size) > sum(tensor.numel() for tensor in weights.values()) and own is None:
        raise UserError(problem)
    if not isinstance(recipe.network, CustomSettings):
        check_fit(weights, partial(build_model, recipe, kind), problem)
    model = build_model(recipe, kind, own)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"the weights in {chosen} do not fit the networks that were given") from None
    run = Run(directory, model, recipe, kind, step)
    run.is_exported, run.fingerprint = exported is not None, fingerprint
    _use_priors(run, chosen, prior)
    run.model.to(device or default_device()).eval().requires_grad_(False)
    if run.conditional is not None:
        run.conditional.to(run.model.device).eval().requires_grad_(False)
    return run


def given_networks(denoiser: nn.Module | None, recognizer: nn.Module | None) -> CustomNetworks | None:
    if denoiser is None:
        if recognizer is not None:
            raise UserError("a custom recognizer needs a custom denoiser: denoiser=...")
        return None
    return CustomNetworks(denoiser, recognizer)


def _use_priors(run: Run, place: Path, choice: PriorChoice) -> None:
    """Give a run the priors that were fitted to its weights."""
    if choice == "trained":
        return
    there = prior_records(place)
    for name in ("flow", "conditional"):
        if name not in there and choice != name:
            continue
        weights = read_prior(place, name)
        build = partial(run.recipe.latent.build_prior, run.recipe.network, run.kind, conditional=name == "conditional")
        check_fit(weights, build, f"the {name} prior in {place} does not fit the recipe of its run: fit it anew")
        fitted = build()
        fitted.load_state_dict(weights)
        if name == "conditional":
            run.conditional = fitted
        if name == choice or (name == "flow" and choice == "fitted"):
            run.model = run.model.with_prior(fitted)
            run.prior_seconds = there[name].seconds
            # It was fitted to r(z | x0, everything masked): a z for the whole sample, drawn at the start.
            run.sampling = run.sampling.changed({"latent_policy": "fixed"})
