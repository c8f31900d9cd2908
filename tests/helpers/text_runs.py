"""Tiny runs on text."""

from pathlib import Path

from tests.helpers.files import write
from tests.helpers.tiny import SHORT_TRAINING, train_in
from vadd.recipe import Recipe, recipe_for
from vadd.run.loading import load
from vadd.run.run import Run

BOOK = "the cat sat on the mat. the dog sat on the log.\n" * 60
TINY_NETWORK = ("network.heads=2", "network.denoiser.width=16", "network.denoiser.blocks=1")
PADDED = ("data.documents=line", "data.wrap=padded", "data.length=12")
SENTENCES = "".join(f"{'ab' * (number % 5)} c{'d' * (number % 3)}\n" for number in range(60))
"""Of 3 to 13 characters, EOS and BOS not counted; they fit into 12 positions but for a few."""


PER_STATE = (
    "latent.kind=per-state",
    "latent.prior=normal",
    "network.denoiser.latent_everywhere=false",
    "sampling.latent_policy=resample",
)
"""The paper's latent, about which there is more to test."""


def text_recipe(path: Path, *overrides: str) -> Recipe:
    short = [*TINY_NETWORK, *PER_STATE, *SHORT_TRAINING, "training.steps=10"]
    return recipe_for(path).with_overrides([*short, *overrides])


def train_on_text(folder: Path, text: str, *overrides: str) -> Run:
    path = write(folder / "learnt.txt", text)
    assert train_in(folder / "run", text_recipe(path, "training.batch=8", *overrides)).finished
    return load(folder / "run")
