"""Tiny runs on text and on images for the commands that fill in and walk through the latent."""

from pathlib import Path

import pytest

from tests.helpers.text_runs import BOOK, text_recipe
from tests.helpers.tiny import train_in
from vadd.recipe import load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.export import export


@pytest.fixture(scope="session")
def exported_run(tmp_path_factory: pytest.TempPathFactory, vadd_run: Path) -> Path:
    """The export of ``vadd_run``."""
    folder = tmp_path_factory.mktemp("exports") / "exported"
    export(RunDirectory(vadd_run), folder)
    return folder


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
    tiny = ["training.steps=20", "training.batch=32", "network.width=32", "training.evaluate_every=20"]
    assert train_in(path, load_recipe("digits").with_overrides(tiny)).finished
    return path
