"""Few-step generation of discrete data: masked diffusion models with a latent variable (VADD) and without (MDLM).

    import vadd
    run = vadd.load("runs/demo/checkerboard-vadd")
    points = run.sample(1000, steps=1)
"""

from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe
from vadd.run import Run, load
from vadd.version import __version__

__all__ = ["Recipe", "Run", "UserError", "__version__", "load", "load_recipe"]
