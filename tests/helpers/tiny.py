"""Recipes that train in a fraction of a second, and their training."""

from pathlib import Path

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
TINY_ARRAY = (*SMALL_NETWORK, *SHORT_TRAINING)
TINY = (*TINY_ARRAY, "data.vocab_size=8", "data.train_size=500", "data.test_size=200")
"""Overrides that make a toy recipe tiny."""


def tiny_recipe(*overrides: str) -> Recipe:
    return load_recipe("checkerboard").with_overrides([*TINY, *overrides])


def train_in(path: Path, recipe: Recipe) -> Outcome:
    directory = RunDirectory(path)
    directory.create(recipe)
    return train(recipe, directory, build_dataset(recipe))


TINY_TABLE = (
    "network.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.blocks=1",
    "latent.dim=2",
    "latent.flow.transforms=2",
    "latent.flow.components=4",
    "latent.flow.steps=5",
    *SHORT_TRAINING,
)
