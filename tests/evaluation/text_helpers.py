"""Tiny runs on text."""

from pathlib import Path

from tests.conftest import SHORT_TRAINING, train_in
from vadd.build import recipe_for
from vadd.runs.run import Run, load

BOOK = "the cat sat on the mat. the dog sat on the log.\n" * 60
TINY_NETWORK = ("network.heads=2", "network.denoiser.width=16", "network.denoiser.blocks=1")
SHORT = (*TINY_NETWORK, *SHORT_TRAINING, "training.steps=10", "training.batch=8")
PADDED = ("data.documents=line", "data.wrap=padded", "data.length=12")
SENTENCES = "".join(f"{'ab' * (number % 5)} c{'d' * (number % 3)}\n" for number in range(60))
"""Of 3 to 13 characters, EOS and BOS not counted; they fit into 12 positions but for a few."""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def train_on_text(folder: Path, text: str, *overrides: str) -> Run:
    path = write(folder / "learnt.txt", text)
    assert train_in(folder / "run", recipe_for(path).with_overrides([*SHORT, *overrides])).finished
    return load(folder / "run")
