"""One tiny trained run of every model, made once a session and shared by all workers."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.tiny import SHORT_TRAINING, TINY, train_in
from vadd.recipe import load_recipe

CAUSAL = ("network.heads=2", "network.denoiser.width=8", "network.denoiser.blocks=1")
TOY = ("data.vocab_size=8", "data.train_size=500", "data.test_size=200")
DIGITS = ("data.labels=true", "training.steps=5", "training.batch=16", "training.evaluate_every=5")


def settings_of(model: str, start: Path | None) -> list[str]:
    """Changes to `checkerboard` with which a model trains in a fraction of a second; EDLM starts from ``start``."""
    small = (*TOY, *CAUSAL, *SHORT_TRAINING) if model == "ar" else TINY
    return [f"model={model}", *small, *([f"training.start_from={start}"] if model == "edlm" else [])]


@dataclass(frozen=True)
class ModelRuns:
    """``runs["sedd"]`` is trained when it is first asked for."""

    folder: Path

    def __getitem__(self, model: str) -> Path:
        start = self["mdlm"] if model == "edlm" else None
        return self._trained(f"{model}-toy", "checkerboard", settings_of(model, start))

    def labelled(self, model: str) -> Path:
        """The same on digits with their labels."""
        changes = [f"model={model}", *DIGITS, "network.width=16"]
        return self._trained(f"{model}-digits", "digits", changes)

    def _trained(self, name: str, recipe: str, changes: list[str]) -> Path:
        path = self.folder / name
        with self._alone(name):
            if not path.exists():
                unfinished = self.folder / f"{name}-unfinished"
                assert train_in(unfinished, load_recipe(recipe).with_overrides(changes)).finished
                unfinished.rename(path)
        return path

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
