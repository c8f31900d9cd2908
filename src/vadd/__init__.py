"""Few-step generation of discrete data: masked diffusion models with a latent variable (VADD) and without (MDLM).

import vadd
run = vadd.train("checkerboard", "runs/checkers")
points = run.sample(1000, steps=1)
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vadd.errors import UserError as UserError
from vadd.version import __version__ as __version__

if TYPE_CHECKING:
    from vadd.core import Denoiser as Denoiser
    from vadd.core import Recognizer as Recognizer
    from vadd.core import check as check
    from vadd.data import DiscreteDataset as DiscreteDataset
    from vadd.recipe import Recipe as Recipe
    from vadd.recipe import load_recipe as load_recipe
    from vadd.run.loading import load as load
    from vadd.run.run import Run as Run
    from vadd.training.train import train as train

_HOMES = {
    "Denoiser": "vadd.core",
    "DiscreteDataset": "vadd.data",
    "Recipe": "vadd.recipe",
    "Recognizer": "vadd.core",
    "Run": "vadd.run.run",
    "check": "vadd.core",
    "load": "vadd.run.loading",
    "load_recipe": "vadd.recipe",
    "train": "vadd.training.train",
}
__all__ = [*_HOMES, "UserError", "__version__"]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and ``vadd --help`` should not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vadd' has no attribute {name!r}")
    with uncollected():
        return getattr(import_module(_HOMES[name]), name)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without searches for garbage among all objects that torch has made: they take a third of the time of loading."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
