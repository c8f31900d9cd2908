"""Tiny runs on text and on images for the commands that fill in and walk through the latent."""

from pathlib import Path

import pytest

from tests.conftest import SHORT_TRAINING, train_in
from vadd.build import recipe_for
from vadd.recipe import Recipe, load_recipe

BOOK = "the cat sat on the mat. the dog sat on the log.\n" * 60
TINY_DIGITS = ("training.steps=20", "training.batch=32", "network.width=32", "training.evaluate_every=20")
TINY_TEXT = (
    "network.heads=2",
    "network.denoiser.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.width=16",
    "network.recognizer.blocks=1",
    *SHORT_TRAINING,
    "training.steps=10",
)


def text_recipe(path: Path, *overrides: str) -> Recipe:
    return recipe_for(path).with_overrides([*TINY_TEXT, *overrides])


@pytest.fixture(scope="session")
def book_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sequences of 24 characters, packed."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text(BOOK)
    assert train_in(folder / "run", text_recipe(folder / "book.txt", "data.length=24")).finished
    return folder / "run"


@pytest.fixture(scope="session")
def lines_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A line for each sequence of 24, between BOS and EOS, padded."""
    folder = tmp_path_factory.mktemp("lines")
    (folder / "lines.txt").write_text("\n".join(f"the cat sat on mat {n}." for n in range(60)))
    recipe = text_recipe(folder / "lines.txt", "data.length=24", "data.documents=line", "data.wrap=padded")
    assert train_in(folder / "run", recipe).finished
    return folder / "run"


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "run"
    assert train_in(path, load_recipe("digits").with_overrides(TINY_DIGITS)).finished
    return path
