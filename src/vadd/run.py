"""A run directory, and what can be done with a trained run.

runs/checkerboard-vadd/
    recipe.yaml          everything that defines the run
    metrics.jsonl        one line per logged step
    training.lock        held while a training runs
    tokenizer/           when the data are text: what sampling needs of them
    checkpoints/step-00001000/{model,ema,optimizer}.safetensors, checkpoint.json
    tensorboard/         when TensorBoard is installed
"""

import copy
import json
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from vadd import sampling
from vadd.build import build_dataset, build_model
from vadd.core import MaskedDiffusion, Samples
from vadd.data import DiscreteDataset
from vadd.data.dataset import Array
from vadd.data.text.tokenizers import Tokenizer, load_tokenizer, refuse_other
from vadd.errors import UserError
from vadd.exported import CONFIG, DataWhenNeeded, find_exported
from vadd.recipe import Recipe, TextData, load_recipe
from vadd.sampling import Options, Progress, untold
from vadd.team import Team
from vadd.training.archive import Archive, step_of
from vadd.training.checkpoint import read_weights
from vadd.training.lock import RunLock

Checkpoint = Literal["latest", "best"] | int

PARTIAL = "recipe.partial"
"""A recipe that is being written."""


class RunDirectory:
    """The layout of a run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.yaml"
        self.metrics_file = self.path / "metrics.jsonl"
        self.archive = Archive(self.path / "checkpoints")
        self.tokenizer_directory = self.path / "tokenizer"

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        directory = cls(path)
        if (problem := directory._no_run()) is not None:
            raise UserError(f"{path} is not a run: {problem}")
        return directory

    def is_run(self) -> bool:
        return self._no_run() is None

    def _no_run(self) -> str | None:
        """Why this is not a run; an exported model has a recipe too, but nothing to go on from."""
        if not self.path.is_dir():
            return "it is not a directory" if self.path.exists() else "there is no such directory"
        if not self.recipe_file.is_file():
            return "it has no recipe.yaml"
        return "it is an exported model" if (self.path / CONFIG).is_file() else None

    def create(self, recipe: Recipe, *, overwrite: bool = False) -> None:
        """Make the directory. An existing run is replaced only when asked to, anything else never."""
        self.check_place(overwrite=overwrite)
        if self._holds_something():
            with RunLock(self.path):  # nobody is training in there
                for content in self.path.iterdir():
                    if content.name != RunLock.NAME:
                        shutil.rmtree(content) if content.is_dir() else content.unlink()
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_recipe(recipe)

    def check_place(self, *, overwrite: bool = False) -> None:
        """Whether a run may be made here."""
        if not self._holds_something():
            return
        if (problem := self._no_run()) is not None:
            raise UserError(f"{self.path} exists and is not a run ({problem}); choose another --out")
        if not overwrite:
            raise UserError(
                f"{self.path} holds a run already; continue it with --resume or replace it with --overwrite"
            )

    def _holds_something(self) -> bool:
        return self.path.exists() and (
            not self.path.is_dir() or any(content.name != PARTIAL for content in self.path.iterdir())
        )

    def write_recipe(self, recipe: Recipe) -> None:
        if not self.is_run() or self.recipe_file.read_text() != recipe.to_yaml():
            beside = self.path / PARTIAL
            beside.write_text(recipe.to_yaml())
            beside.replace(self.recipe_file)

    def recipe(self) -> Recipe:
        return load_recipe(str(self.recipe_file))

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of a run on text."""
        return load_tokenizer(self.tokenizer_directory) if self.tokenizer_directory.exists() else None

    def keep_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Make it the run's; a run that has another one already refuses it."""
        kept = self.tokenizer()
        if kept is None:
            tokenizer.save(self.tokenizer_directory)
        else:
            refuse_other(kept, tokenizer, str(self.path))

    def checkpoint(self, step: int) -> Path:
        return self.archive.path(step)

    def checkpoints(self) -> list[Path]:
        """All of them, oldest first."""
        return self.archive.all()

    def latest_checkpoint(self) -> Path:
        """The newest that is whole."""
        newest = self.archive.newest()
        if newest is None:
            raise UserError(f"{self.path} has no checkpoint yet")
        return newest

    def chosen_checkpoint(self, which: Checkpoint) -> Path:
        if which == "latest":
            return self.latest_checkpoint()
        if which == "best":
            best = self.archive.best()
            if best is None:
                raise UserError(f"{self.path} has no checkpoint that was evaluated on held-out examples")
            return best
        if isinstance(which, int) and self.checkpoint(which).is_dir():
            return self.checkpoint(which)
        there = ", ".join(path.name.removeprefix("step-").lstrip("0") for path in self.checkpoints()) or "none"
        raise UserError(f"{self.path} has no checkpoint {which!r}; take latest, best or one of the steps {there}")

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The logged lines, null as NaN; one that a crash cut off is passed over."""
        if self.metrics_file.exists():
            with self.metrics_file.open() as lines:
                for line in lines:
                    if line.endswith("\n"):
                        record = json.loads(line)
                        yield {key: float("nan") if value is None else value for key, value in record.items()}


class Run:
    """A trained model with its recipe and data, ready to sample from."""

    def __init__(
        self,
        directory: RunDirectory,
        model: MaskedDiffusion,
        recipe: Recipe,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.directory = directory
        self.model = model
        self.recipe = recipe
        self.tokenizer = tokenizer
        """What makes text of samples, where the data are text."""
        self.step: int | None = None
        """Of the training, that the weights are from."""

    @cached_property
    def data(self) -> DiscreteDataset:
        return build_dataset(self.recipe, tokenizer=self.tokenizer)

    def texts(self, tokens: Tensor | Array) -> list[str]:
        """Samples (n, N) of a run on text as text; where a sample holds several documents, blank lines part them."""
        if self.tokenizer is None:
            raise UserError(f"{self.directory.path} is not a run on text")
        return ["\n\n".join(self.tokenizer.documents(row)) for row in np.asarray(tokens)]

    def with_sampling(self, **changes: Any) -> "Run":
        """The same model under other habits of sampling, like ``latent_policy="fixed"``."""
        settings = self.recipe.sampling.model_copy(update=changes)
        other = copy.copy(self)
        other.recipe = self.recipe.model_copy(update={"sampling": settings})
        return other

    @cached_property
    def _bytes_per_row(self) -> int:
        return sampling.bytes_per_row(self.model)

    def stream(
        self, n: int = 1, *, team: Team | None = None, progress: Progress = untold, **options: Unpack[Options]
    ) -> Iterator[Samples]:
        """``n`` samples chunk by chunk, in memory that does not grow with ``n``; see :class:`vadd.sampling.Options`.

        ``progress`` is told how many are done and how often the network was called. Processes that were started
        together may share the work as a ``team``: the samples then come out in its main process.
        """
        settings = sampling.settle(self.model, self.recipe.sampling, **options)
        sampling.check_count(self.model, settings, n)
        size = 1 if n == 1 else sampling.chunk_size(self._bytes_per_row, self.model.positions, settings.steps)
        return sampling.stream(self.model, settings, n, size, team=team, progress=progress)

    def sample(self, n: int = 1, *, progress: Progress = untold, **options: Unpack[Options]) -> Tensor:
        """``n`` samples, (n, N) integers. They are the first of those that the seed stands for: a larger ``n`` begins
        with the same ones. See :class:`vadd.sampling.Options`, for example ``steps=8, sampler="parallel"``.
        """
        return torch.cat([part.tokens for part in self.stream(n, progress=progress, **options)])

    def infill(
        self, x: Tensor | Array, known: Tensor | Array | None = None, *, steps: int = 1, count: int = 1, **options: Any
    ) -> Tensor:
        """``count`` completions of each of the n sequences ``x``, (n, count, N); what is ``known`` stays, or, without
        it, all but -1. The ``options`` are those of :func:`vadd.infilling.infill`: seed, sampler, grid, latent, values.
        """
        from vadd.infilling import infill  # which speaks of runs

        return infill(self, x, known, steps=steps, count=count, **options)

    def trajectory(self, n: int = 1, **options: Unpack[Options]) -> Tensor:
        """How the ``n`` samples that :meth:`sample` gives come about: (steps + 1, n, N), from all masked (the value V)
        to the samples.
        """
        settings = sampling.settle(self.model, self.recipe.sampling, **options)
        sampling.check_count(self.model, settings, n)
        states = sampling.draw(self.model, settings, range(n), record=True).trajectory
        assert states is not None
        return states


def load(path: str | Path, device: str | torch.device | None = None, *, checkpoint: Checkpoint = "latest") -> Run:
    """Open a run with the averaged weights of one of its checkpoints, on ``device`` (default: a GPU if there is one,
    else the CPU).

    ``checkpoint`` is "latest" (the newest that is whole), "best" (the lowest held-out objective) or a step.
    ``path`` may also be a folder that ``vadd export`` wrote or, where there is no such path, the name "owner/name" of
    one on the Hugging Face Hub. Its ``data`` are read only when they are needed; sampling does not need them.
    """
    exported = find_exported(path)
    if exported is None:
        directory = RunDirectory.open(path)
        recipe = directory.recipe()
        chosen = directory.chosen_checkpoint(checkpoint)
        step, weights, tokenizer = step_of(chosen), read_weights(chosen), directory.tokenizer()
        if isinstance(recipe.data, TextData) and tokenizer is not None:
            # A corpus is large and may be elsewhere; all that the model needs to know of it is here.
            data: DiscreteDataset = DataWhenNeeded(recipe, (recipe.data.length,), tokenizer.values, tokenizer)
        else:
            # The shapes of the model are in the data; for arrays and toys reading it is cheap.
            data = build_dataset(recipe)
    else:
        if checkpoint not in ("latest", exported.step):
            raise UserError(f"{path} is an exported model: it holds the weights of step {exported.step} only")
        directory, recipe, chosen = RunDirectory(exported.path), exported.recipe, exported.path
        step, weights, tokenizer = exported.step, exported.weights(), directory.tokenizer()
        data = DataWhenNeeded(recipe, exported.shape, exported.values, tokenizer)
    model = build_model(recipe, data.shape, data.values, data.pad)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"the weights in {chosen} do not fit the recipe of {path}") from None
    run = Run(directory, model.to(device or default_device()).eval().requires_grad_(False), recipe, tokenizer)
    run.data, run.step = data, step
    return run


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
