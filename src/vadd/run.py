"""A run directory, and what can be done with a trained run.

runs/checkerboard-vadd/
    recipe.yaml          everything that defines the run
    metrics.jsonl        one line per logged step
    checkpoints/step-00001000/{model,ema,optimizer}.safetensors, checkpoint.json
    tensorboard/         when TensorBoard is installed
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vadd.build import build_dataset, build_model
from vadd.core import MaskedDiffusion
from vadd.core.sampler import Grid, LatentPolicy, sample
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe
from vadd.training.checkpoint import read_weights
from vadd.training.randomness import SAMPLING, step_generator


class RunDirectory:
    """The layout of a run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.yaml"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoint_root = self.path / "checkpoints"

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        directory = cls(path)
        if not directory.is_run():
            hint = "there is no such directory" if not directory.path.exists() else "it has no recipe.yaml"
            raise UserError(f"{path} is not a run: {hint}")
        return directory

    def is_run(self) -> bool:
        return self.recipe_file.is_file()

    def create(self, recipe: Recipe, *, overwrite: bool = False) -> None:
        """Make the directory. An existing run is replaced only when asked to, anything else never."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            if not self.is_run():
                raise UserError(f"{self.path} exists and is not a run; choose another --out")
            if not overwrite:
                raise UserError(
                    f"{self.path} holds a run already; continue it with --resume or replace it with --overwrite"
                )
            shutil.rmtree(self.path)
        self.checkpoint_root.mkdir(parents=True)
        self.recipe_file.write_text(recipe.to_yaml())

    def recipe(self) -> Recipe:
        return load_recipe(str(self.recipe_file))

    def checkpoint(self, step: int) -> Path:
        return self.checkpoint_root / f"step-{step:08d}"

    def checkpoints(self) -> list[Path]:
        """All of them, oldest first."""
        return sorted(self.checkpoint_root.glob("step-*"))

    def latest_checkpoint(self) -> Path:
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise UserError(f"{self.path} has no checkpoint yet")
        return checkpoints[-1]

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The logged lines; one that a crash cut off is passed over."""
        if self.metrics_file.exists():
            with self.metrics_file.open() as lines:
                yield from (json.loads(line) for line in lines if line.endswith("\n"))


class Run:
    """A trained model with its recipe and data, ready to sample from."""

    def __init__(self, directory: RunDirectory, model: MaskedDiffusion, recipe: Recipe) -> None:
        self.directory = directory
        self.model = model
        self.recipe = recipe

    @cached_property
    def data(self) -> DiscreteDataset:
        return build_dataset(self.recipe)

    def sample(
        self,
        n: int = 1,
        *,
        steps: int = 1,
        seed: int = 0,
        grid: Grid | None = None,
        latent_policy: LatentPolicy | None = None,
        progress: Callable[..., object] = lambda done: None,
    ) -> Tensor:
        """``n`` samples in ``steps`` steps, (n, N) integers; grid and latent policy are the recipe's unless given.

        ``progress`` is told how many are done.
        """
        if n < 1:
            raise UserError(f"the number of samples must be at least 1, not {n}")
        chunks = []
        size = self.recipe.network.rows_at_once
        for first in range(0, n, size):
            drawn = sample(
                self.model,
                min(size, n - first),
                steps,
                step_generator(seed, SAMPLING, first // size),
                grid=grid or self.recipe.sampling.grid,
                latent=latent_policy or self.recipe.sampling.latent_policy,
            )
            chunks.append(drawn.tokens.cpu())
            progress(done=first + len(drawn.tokens))
        return torch.cat(chunks)

    def trajectory(self, n: int = 1, *, steps: int, seed: int = 0) -> Tensor:
        """How ``n`` samples come about: (steps + 1, n, N), from all masked (the value V) to the samples."""
        settings = self.recipe.sampling
        drawn = sample(
            self.model,
            n,
            steps,
            step_generator(seed, SAMPLING, 0),
            grid=settings.grid,
            latent=settings.latent_policy,
            record=True,
        )
        assert drawn.trajectory is not None
        return drawn.trajectory.cpu()


def load(path: str | Path, device: str | torch.device | None = None) -> Run:
    """Open a run with the averaged weights of its newest checkpoint, on ``device`` (default: a GPU if there is
    one, else the CPU).
    """
    directory = RunDirectory.open(path)
    recipe = directory.recipe()
    checkpoint = directory.latest_checkpoint()
    weights = read_weights(checkpoint)
    # The shapes of the model are in the data; for arrays and toys reading it is cheap.
    data = build_dataset(recipe)
    model = build_model(recipe, data.shape, data.values)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"the weights in {checkpoint} do not fit the recipe of {path}") from None
    run = Run(directory, model.to(device or default_device()).eval().requires_grad_(False), recipe)
    run.data = data
    return run


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
