"""A run as Python sees it: samples and completions, and what can be measured and shown of it."""

import html
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from vadd.core import Particles
from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation import evaluate as measure
from vadd.evaluation.evaluate import DEFAULT_STEPS, report_of
from vadd.evaluation.likelihood import measure_bounds
from vadd.kinds.table.reading import from_frame
from vadd.progress import Progress, silent
from vadd.report.frames import frame_of
from vadd.report.run_results import Results
from vadd.run.directory import CheckpointName, PriorChoice, RunDirectory
from vadd.run.export import export
from vadd.run.options import SamplingOptions
from vadd.run.run import Run as LoadedRun
from vadd.run.run import load as load_run
from vadd.run.tables import Where, fill_rows, sample_rows
from vadd.run.tables import frame_of as table_frame
from vadd.training.custom_networks import given_networks

if TYPE_CHECKING:
    from vadd.report.samples import ShownFigure

SHOWN_POINTS, SHOWN_IMAGES, SHOWN_ROWS, SHOWN_TEXTS = 5000, 36, 30, 5
BOUND_STEPS = (1, 2, 4, 8, 16)
PARTICLES = 64


class Run(LoadedRun):
    """A trained model with its recipe: :meth:`sample`, :meth:`infill`, :meth:`evaluate`, :meth:`bound`, :meth:`plot`,
    :meth:`export`; :func:`vadd.train` and :func:`vadd.load` give one.
    """

    @property
    def metrics(self) -> Any:
        """What the training logged, a pandas DataFrame with one row a line: step, split (train, test or latent), loss
        and the rest.
        """
        return frame_of(list(self.directory.metrics()))

    def sample_frame(self, n: int = 1, where: Where = (), **options: Unpack[SamplingOptions]) -> Any:
        """``n`` rows of a table as a pandas DataFrame; ``where={"age": "40-49", "sex": "F"}`` fixes columns."""
        return table_frame(sample_rows(self, n, where, **options))

    def infill_frame(self, frame: Any, count: int | None = None, **options: Unpack[SamplingOptions]) -> Any:
        """A DataFrame with its missing cells filled and nothing else changed; with ``count`` a list of so many."""
        filled = [table_frame(columns) for columns in fill_rows(self, from_frame(frame), count or 1, **options)]
        return filled[0] if count is None else filled

    def evaluate(
        self,
        steps: Sequence[int] = DEFAULT_STEPS,
        samples: int | None = None,
        *,
        bound: Sequence[int] = (),
        particles: int = PARTICLES,
        limit: int | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Results:
        """How far samples drawn in so many ``steps`` are from the data, as ``vadd eval`` measures it; with ``bound``
        also what :meth:`bound` gives for these numbers of steps.
        """
        bounds = BoundSettings(Particles(particles), tuple(bound), limit=limit, seed=seed) if bound else None
        return Results(measure(self, steps, samples, seed, bounds, progress=progress).report)

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
    ) -> Results:
        """Bounds of the negative log-likelihood of ``examples``, by default the held-out ones, for the sampler with so
        many ``steps``; ``results.bounds[T].nats`` is one of them.

        ``particles`` are the latents drawn for each estimate, ``limit`` the examples that are judged. With ``delbo``
        masks for each example also the paper's DELBO, which is not a bound (for a model without a latent the ELBO).
        """
        counts = (steps,) if isinstance(steps, int) else tuple(steps)
        if min(counts, default=0) < 1:
            raise UserError(f"the numbers of steps must be at least 1, not {list(counts)}")
        settings = BoundSettings(Particles(particles), counts, delbo_draws=delbo, limit=limit, seed=seed)
        judged = self.data.test if examples is None else self._flat(examples)
        likelihood = measure_bounds(self, judged, settings, progress)
        return Results(replace(report_of(self), likelihood=likelihood))

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
        from vadd.report.samples import ShownFigure, draw_objective  # matplotlib: sampling does without

        figure = ShownFigure(figsize=(9.2, 4), layout="constrained")
        objective_axis, samples_axis = figure.subplots(1, 2)
        draw_objective(objective_axis, list(self.directory.metrics()))
        self._draw_samples(samples_axis, steps, seed)
        return figure

    def _draw_samples(self, axis: Any, steps: int | None, seed: int) -> None:
        from vadd.report.samples import draw_samples

        kinds = {"text": SHOWN_TEXTS, "images": SHOWN_IMAGES, "points": SHOWN_POINTS, "rows": SHOWN_ROWS}
        drawn = self.sample(kinds[self._kind], steps=steps, seed=seed)
        texts = self.texts(drawn) if self._kind == "text" else None
        draw_samples(axis, drawn.cpu().numpy(), self.shape, self.format.vocab_size, texts)
        axis.set_title("samples" if steps is None else f"samples in {steps} step{'s' * (steps != 1)}", fontsize=10)

    @property
    def _kind(self) -> str:
        if self.tokenizer is not None:
            return "text"
        if len(self.shape) == 3:
            return "images"
        return "points" if self.model.positions == 2 else "rows"

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {value}" for name, value in self._facts().items())
        return f"<vadd.Run {str(self.directory.path)!r} ({facts})>"

    def _facts(self) -> dict[str, str]:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        shape = " x ".join(map(str, self.shape))
        return {
            "recipe": self.recipe.name,
            "model": self.recipe.model,
            "examples": f"{shape} of {self.format.vocab_size} values",
            "parameters": f"{parameters:,}",
            "training": f"step {self.step:,} of {self.recipe.training.steps:,}" if self.step is not None else "unknown",
        }

    def _repr_html_(self) -> str:
        """The facts beside a picture of samples."""
        from vadd.report.samples import ShownFigure, as_html_image

        rows = "".join(
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            f"<td style='text-align: left'>{html.escape(value)}</td></tr>"
            for name, value in {"run": str(self.directory.path), **self._facts()}.items()
        )
        figure = ShownFigure(figsize=(3.4, 3.4), layout="constrained")
        self._draw_samples(figure.subplots(), None, 0)
        picture = as_html_image(figure, "samples")
        return f"<div style='display: flex; gap: 1em; align-items: center'><table>{rows}</table>{picture}</div>"


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
    "trained"; "flow" and "informed" ask for that one. A run that was trained with a ``denoiser`` and a ``recognizer``
    of your own is opened with modules of the same kind and size; they stay as they are, the run has copies. The data
    are read only when they are needed; sampling does not need them.
    """
    own = given_networks(denoiser, recognizer)
    loaded = load_run(path, device, checkpoint=checkpoint, prior=prior, own=own)
    run = Run.__new__(Run)
    run.__dict__.update(loaded.__dict__)
    return run
