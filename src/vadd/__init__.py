"""Few-step generation of discrete data: masked diffusion models with a latent variable (VADD) and without (MDLM).

import vadd
run = vadd.train("checkerboard", "runs/checkers")
points = run.sample(1000, steps=1)
"""

from typing import TYPE_CHECKING, Any

from vadd.errors import UserError
from vadd.version import __version__

if TYPE_CHECKING:
    from vadd.core import Denoiser, Recognizer, check
    from vadd.data import DiscreteDataset
    from vadd.recipe import Recipe, load_recipe
    from vadd.run.loading import load
    from vadd.run.run import Run
    from vadd.training.train import train

__all__ = [
    "Denoiser",
    "DiscreteDataset",
    "Recipe",
    "Recognizer",
    "Run",
    "UserError",
    "__version__",
    "check",
    "load",
    "load_recipe",
    "train",
]

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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and ``vadd --help`` should not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vadd' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
