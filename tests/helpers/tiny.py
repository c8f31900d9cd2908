"""Recipes that train in a fraction of a second, and their training."""

from pathlib import Path

import torch

from vadd import terminal
from vadd.parallel import on_main_process
from vadd.recipe import Recipe, build_dataset, load_recipe
from vadd.run.directory import RunDirectory
from vadd.training.loop import Outcome, train

SMALL_NETWORK = ("network.width=16", "network.denoiser.depth=1", "network.recognizer.depth=1")
SHORT_TRAINING = (
    "training.steps=30",
    "training.batch=32",
    "training.warmup_steps=5",
    "training.log_every=5",
    "training.evaluate_every=10",
    "training.checkpoint_every=10",
)
TINY_ARRAY = (
    "network.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.blocks=1",
    "latent.dim=2",
    "latent.autoregressive.width=16",
    "latent.autoregressive.blocks=1",
    *SHORT_TRAINING,
)
"""Overrides that make the recipe of one's own array tiny."""
TINY = (*SMALL_NETWORK, *SHORT_TRAINING, "data.vocab_size=8", "data.train_size=500", "data.test_size=200")
"""Overrides that make a toy recipe tiny."""


def tiny_recipe(*overrides: str) -> Recipe:
    return load_recipe("checkerboard").with_overrides([*TINY, *overrides])


def train_in(path: Path, recipe: Recipe) -> Outcome:
    directory = RunDirectory(path)
    directory.create(recipe)
    return train(recipe, directory, build_dataset(recipe))


def train_or_resume(path: Path, recipe: Recipe) -> None:
    """One of the processes that train as one; says nothing."""
    torch.set_num_threads(1)
    terminal.console.quiet = True
    directory = RunDirectory(path)

    def create_once() -> None:
        if not directory.is_run():
            directory.create(recipe)

    on_main_process(create_once)
    train(recipe, directory, build_dataset(recipe), resume=True)


TINY_FLOW = ("latent.flow.steps=2", "latent.flow.transforms=2", "latent.flow.components=2", "latent.flow.width=8")
"""For recipes that fit a prior after the training."""
TINY_TABLE = (
    *TINY_ARRAY,
    "latent.flow.transforms=2",
    "latent.flow.components=4",
    "latent.flow.steps=5",
)
