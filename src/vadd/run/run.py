"""A trained run, and what can be done with it."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from vadd.core import Model, Particles, Prior, Samples
from vadd.core.compiling import power_of_two
from vadd.core.host import BLOCK
from vadd.core.sampling import LikelihoodKind, given_latents
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.kinds.arrays import Array
from vadd.kinds.table.codec import TableCodec, Where, data_frame
from vadd.kinds.table.reading import from_frame
from vadd.kinds.text.tokenizers import Tokenizer
from vadd.models import EnergyOfAnother, EnergyWeighted
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.recipe import Recipe, build_dataset
from vadd.run.directory import CheckpointName, RunDirectory
from vadd.run.export import export, push
from vadd.run.infilling import as_sequences, as_tensor, is_one_example, masked_starts
from vadd.run.sampling import SamplingOptions, bytes_per_row, check_time, draw, gathered
from vadd.run.tables import fill_rows, sample_rows
from vadd.settings import Count, CountOrZero, Counts, Place, checked
from vadd.words import size_in_memory

if TYPE_CHECKING:
    from vadd.evaluation import BoundSettings
    from vadd.report.results import Results
    from vadd.report.samples import ShownFigure

EVALUATED_STEPS, BOUND_STEPS = (1, 2, 5, 20), (1, 2, 4, 8, 16)
PARTICLES = 64
CPU_MEMORY = 1 << 28
"""Bytes that one chunk's tensors may take on a CPU; kernels and allocators need about as much again."""
CPU_ROWS = 2048
"""Of a chunk: more at once are no faster on a CPU, but slower."""
GPU_SHARE = 0.25
"""Of the memory that is free on a GPU."""
LARGEST_CHUNK = 1 << 20
OWN_EXAMPLES = 100


class Run:
    """A trained model with its recipe. :func:`vadd.train` and :func:`vadd.load` return one. Its data are read when they
    are first needed.
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
        """The shape of one example, before it is flattened to N positions."""
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

    @cached_property
    def examples(self) -> Tensor:
        """(n, N): held-out ones; of an exported model, whose data may not be here, samples of its own."""
        return self.sample(OWN_EXAMPLES, seed=0) if self.is_exported else self.data.test

    def texts(self, tokens: Tensor | Array) -> list[str]:
        """The texts of samples (n, N) of a run on text.

        A padded sample ends at its first EOS. A packed one may hold several documents, with blank lines between them.
        """
        return self.kind.texts(np.asarray(tokens))

    def with_sampling(self, **changes: Any) -> Self:
        """The same model with other defaults of sampling, like ``latent_policy="fixed"``."""
        other = copy.copy(self)
        other.sampling = self.sampling.changed(changes)
        return other

    def options(self, **given: Any) -> SamplingOptions:
        """The options of sampling, those ``given`` and this run's defaults, as the model takes them."""
        return self.sampling.changed(given, self.model)

    def likelihood_kind(self, **options: Any) -> LikelihoodKind:
        """Whether the likelihood of samples drawn with these options is exact or bounded, or why it is neither."""
        chosen = self.options(**options)
        return self.model.likelihood_kind(chosen.steps, chosen.drawing)

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

    @checked
    def stream(
        self,
        n: Tensor | Count = 1,
        *,
        record: int = 0,
        memory: Count | None = None,
        processes: Processes | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> Iterator[Samples]:
        """Samples chunk by chunk, in memory that does not grow with their number.

        ``n`` is the number of samples, or sequences (n, N) to complete, with the mask value V at the positions to fill.
        The ``options`` are those of :class:`~vadd.run.sampling.SamplingOptions`. The first ``record`` samples come with
        their trajectories. ``memory`` is the most bytes that a chunk may take, by default 256 MB, on a GPU a part of
        the free memory. Several ``processes`` divide the chunks; the main one gets the samples.
        """
        chosen = self.sampling.changed(options, self.model)
        count = len(n) if isinstance(n, Tensor) else n
        if chosen.z is not None:
            given_latents(self.model, chosen.z, count)
        model = self.model if isinstance(n, int) else self.completing_model
        if chosen.label is not None or chosen.guidance != 1:
            model = model.labelled(self.kind.label_number(chosen.label), chosen.guidance)
        if count > LARGEST_CHUNK:
            what = f"{count:,} samples in {chosen.steps:,} steps"
            check_time(what, steps=count // LARGEST_CHUNK * chosen.steps, rows=count)
        size = 1
        if count > 1:  # a single sample needs no measurement, which costs a pass through the network
            device = model.device
            if memory is None:
                free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
                memory = max(CPU_MEMORY, int(GPU_SHARE * free))
            # In the network; then a dozen numbers of 8 bytes for each position (state, plan, keys to sort by), and two
            # for each step.
            bytes_of_row = self._bytes_per_row + 8 * (12 * model.positions + 2 * (chosen.steps + 1))
            size = min(max(1, memory // bytes_of_row), CPU_ROWS if device.type == "cpu" else count)
            # A generator draws for its whole block: a block cut in two would be drawn twice.
            size = size - size % BLOCK if size > BLOCK else size
        if chosen.compile:  # no rows are padded but the last ones
            size = power_of_two(size + 1) // 2
        chunks = [range(first, min(first + size, count)) for first in range(0, count, size)]
        drawn = partial(draw, model, chosen, n, record=record, progress=progress)
        return map(drawn, chunks) if processes is None else gathered(chunks, drawn, model.positions, processes)

    @checked
    def sample(
        self, n: Count = 1, *, memory: Count | None = None, progress: Progress = silent, **options: Any
    ) -> Tensor:
        """Draw ``n`` samples, (n, N) integers: ``run.sample(16, steps=8, sampler="parallel", seed=3)``.

        The ``options`` are those of :class:`~vadd.run.sampling.SamplingOptions`. A larger ``n`` with the same seed
        begins with the same samples.
        """
        import psutil  # loading a model does without

        needed, available = 8 * n * self.model.positions, psutil.virtual_memory().available
        if needed > available:
            taken = f"{n:,} samples take {size_in_memory(needed)} of memory"
            raise UserError(f"{taken}, and {size_in_memory(available)} are available: ask for fewer")
        return torch.cat([part.tokens for part in self.stream(n, memory=memory, progress=progress, **options)])

    def inexact_completions(self, **options: Any) -> list[str]:
        """The reasons why completions with these options do not follow the sampler's own distribution given the known
        values; empty if they do.
        """
        return self.options(**options).inexact_completions(latent=self.model.latent.dim > 0)

    @checked
    def infill(
        self,
        x: Any,
        known: Any = None,
        *,
        count: Count | None = None,
        memory: Count | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> Tensor:
        """Complete the sequences ``x``: an array, a tensor or lists of the shape (n, N) or (n, *shape), or one example.

        Positions where ``known`` is true keep their values. Without ``known``, these are all positions but those with
        -1. With ``count`` each sequence gets so many completions, (n, count, ...); without it the result has the shape
        of ``x``. The ``options`` are those of :meth:`sample`. With one z for all steps, z is chosen among
        ``candidates`` draws by the known values (:meth:`inexact_completions`).
        """
        each, given = 1 if count is None else count, as_tensor(x, "sequences to fill")
        starts = masked_starts(self.model, self.shape, given, known, each)
        if isinstance(z := options.get("z"), Tensor) and z.ndim == 3:
            if z.shape[:2] != (len(starts) // each, each):
                shape = f"({len(starts) // each}, {each}, d)"
                raise UserError(f"latents for them have the shape {shape}, not {tuple(z.shape)}")
            options["z"] = z.flatten(0, 1)
        filled = torch.cat([part.tokens for part in self.stream(starts, memory=memory, progress=progress, **options)])
        if count is None:
            return filled.view(given.shape)
        one = is_one_example(given, self.shape)
        return filled.view(count, *given.shape) if one else filled.view(len(given), count, *given.shape[1:])

    def trajectory(self, n: int = 1, **options: Any) -> Tensor:
        """The states of the ``n`` samples that :meth:`sample` draws: (steps + 1, n, N), from all masked (the value V)
        to the samples.
        """
        states = [part.trajectory for part in self.stream(n, record=n, **options)]
        return torch.cat([state for state in states if state is not None], dim=1)

    @property
    def metrics(self) -> Any:
        """The log of the training, a pandas DataFrame. Each row has a step, a split (train, test or latent) and its
        numbers, such as the loss.
        """
        from vadd.report.results import frame_of

        return frame_of(list(self.directory.metrics()))

    @checked
    def sample_frame(self, n: Count = 1, where: Where = (), **options: Any) -> Any:
        """``n`` rows of a table as a pandas DataFrame; ``where={"age": "40-49", "sex": "F"}`` fixes columns."""
        return data_frame(sample_rows(self, n, where, **options))

    @checked
    def infill_frame(self, frame: Any, count: Count | None = None, **options: Any) -> Any:
        """A copy of a DataFrame with its missing cells filled; with ``count`` a list of so many copies."""
        filled = [data_frame(columns) for columns in fill_rows(self, from_frame(frame), count or 1, **options)]
        return filled[0] if count is None else filled

    @checked
    def evaluate(
        self,
        steps: Counts = EVALUATED_STEPS,
        samples: Count | None = None,
        *,
        bound: Sequence[Count] = (),
        particles: Count = PARTICLES,
        limit: Count | None = None,
        seed: CountOrZero = 0,
        progress: Progress = silent,
    ) -> "Results":
        """Measure how far samples are from the data, for each number of ``steps``, like ``vadd eval``. ``bound`` has
        the numbers of steps for which :meth:`bound` is computed too.
        """
        from vadd.evaluation import BoundSettings, evaluate
        from vadd.report.results import Results

        bounds = BoundSettings(Particles(particles), tuple(bound), limit=limit, seed=seed) if bound else None
        return Results(evaluate(self, steps, samples, seed, bounds, progress=progress).report)

    @checked
    def bound(
        self,
        steps: Counts | Count = BOUND_STEPS,
        examples: Any = None,
        *,
        particles: Count = PARTICLES,
        limit: Count | None = None,
        delbo: CountOrZero = 0,
        seed: CountOrZero = 0,
        progress: Progress = silent,
        **options: Any,
    ) -> "Results":
        """Upper bounds of the negative log-likelihood of ``examples``, by default the held-out ones, for the sampler
        with T ``steps``: ``results.bounds[T].nats``. ``results.bounds[T].kind`` says whether it is exact. The
        ``options`` are those of :meth:`sample`, like ``sampler="margin"``.

        ``particles`` is the number of latents drawn for each estimate, ``limit`` the number of examples. ``delbo``
        masks per example also give the paper's DELBO, which is not a bound; for a model without a latent the ELBO.
        """
        from vadd.evaluation import BoundSettings

        counts = (steps,) if isinstance(steps, int) else tuple(steps)
        settings = BoundSettings(Particles(particles), counts, delbo_draws=delbo, limit=limit, seed=seed)
        return self._bounded(settings, examples, progress, options)

    @checked
    def bracket(
        self,
        steps: Counts | Count = 1,
        examples: Any = None,
        *,
        particles: Count = PARTICLES,
        paths: Count = 16,
        limit: Count | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> "Results":
        """An interval for the negative log-likelihood at each number of ``steps``, bounded from both sides:
        ``results.report.likelihood.brackets``. Each interval takes ``paths`` draws of the estimate of :meth:`bound`.
        """
        from vadd.evaluation import BoundSettings

        counts = (steps,) if isinstance(steps, int) else tuple(steps)
        settings = BoundSettings(Particles(particles), (), brackets=counts, paths=paths, limit=limit)
        return self._bounded(settings, examples, progress, options)

    def _bounded(
        self, settings: "BoundSettings", examples: Any, progress: Progress, options: Mapping[str, Any]
    ) -> "Results":
        from vadd.evaluation.likelihood import basic_report, measure_bounds
        from vadd.report.results import Results

        chosen = self.data.test if examples is None else as_sequences(examples, "examples")
        run = self.with_sampling(**options) if options else self
        return Results(basic_report(run).changed(likelihood=measure_bounds(run, chosen, settings, progress)))

    @checked
    def export(self, out: Place) -> Path:
        """Write these weights, the recipe and a model card to the new folder ``out``, as ``vadd export`` does."""
        checkpoint: CheckpointName = "latest" if self.step is None else self.step
        return export(RunDirectory.open(self.directory.path), Path(out), checkpoint=checkpoint).path

    @checked
    def export_sampler(self, out: Place, format: Literal["onnx", "pt2"] = "onnx", **options: Any) -> Path:
        """Write the sampler with these ``options`` to the folder ``out``: an ONNX file that draws the same samples
        without PyTorch, or the program of torch.export (``pt2``). See docs/serving.md.
        """
        from vadd.run.traced import write_sampler  # imports what only exports need

        chosen = self.options(**options)
        facts = {"shape": self.shape, "values": self.kind.vocab_size, "labels": self.kind.labels}
        model = self.model
        if chosen.label is not None or chosen.guidance != 1:
            model = model.labelled(self.kind.label_number(chosen.label), chosen.guidance)
        write_sampler(model, chosen, Path(out), format, facts)
        return Path(out)

    @checked
    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Export these weights to the Hugging Face Hub as "owner/name", and return the address. Log in before with
        ``hf auth login``, or set the variable HF_TOKEN to a token that may write.
        """
        with TemporaryDirectory() as folder:
            return push(self.export(Path(folder) / "model"), name, private=private)

    @checked
    def plot(self, steps: Count | None = None, seed: CountOrZero = 0) -> "ShownFigure":
        """A figure of the training's objective and of samples drawn in ``steps`` steps (default: the recipe's)."""
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
