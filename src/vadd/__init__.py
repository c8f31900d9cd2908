"""Few-step generation of discrete data: masked diffusion models with a latent variable (VADD) and without (MDLM).

import vadd
run = vadd.load("runs/demo/checkerboard-vadd")
points = run.sample(1000, steps=1)
"""

from typing import TYPE_CHECKING, Any

from vadd.errors import UserError
from vadd.version import __version__

if TYPE_CHECKING:
    from vadd.recipe import Recipe, load_recipe
    from vadd.runs.run import Run, load

__all__ = ["Recipe", "Run", "UserError", "__version__", "load", "load_recipe"]

_HOMES = {"Recipe": "vadd.recipe", "load_recipe": "vadd.recipe", "Run": "vadd.runs.run", "load": "vadd.runs.run"}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and ``vadd --help`` should not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vadd' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
