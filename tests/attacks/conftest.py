"""A working directory with a tiny run of each kind, its neighbours, and what must not change."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vadd
from tests.helpers.forks import import_everything
from tests.helpers.people import train_people
from tests.helpers.text_runs import BOOK, text_recipe
from tests.helpers.tiny import TINY_FLOW, train_in
from vadd.recipe import load_recipe

TINY_DIGITS = ("training.steps=4", "training.batch=16", "network.width=16", "training.evaluate_every=4")


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory: pytest.TempPathFactory, vadd_run: Path) -> Path:
    """``points``, ``digits``, ``book`` and ``people`` are runs, ``book.txt`` and ``codes.npy`` data."""
    import_everything()
    folder = tmp_path_factory.mktemp("attacked")
    shutil.copytree(vadd_run, folder / "points")
    (folder / "book.txt").write_text(BOOK)
    train_in(folder / "book", text_recipe(folder / "book.txt", "data.length=24", "training.steps=4"))
    train_in(folder / "digits", load_recipe("digits").with_overrides([*TINY_DIGITS, *TINY_FLOW, "data.labels=true"]))
    (folder / "table").mkdir()
    shutil.move(train_people(folder / "table"), folder / "people")
    np.save(folder / "codes.npy", np.arange(120).reshape(40, 3) % 4)
    run = vadd.load(folder / "points")  # what torch imports when it is first used, here and not in every fork
    run.bound(1, limit=2, particles=2)
    run.evaluate([1], samples=20)
    return folder


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, trained_runs: Path) -> Iterator[Path]:
    """The working directory of a module's tests, a copy of the runs; beside it lies a secret that no call may touch."""
    folder, before = tmp_path_factory.mktemp("attacks") / "inside", Path.cwd()
    shutil.copytree(trained_runs, folder)
    (folder.parent / "secret.txt").write_text("not to be read")
    os.chdir(folder)
    yield folder
    os.chdir(before)
