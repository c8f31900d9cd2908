"""From a recipe to objects: the data set, the networks, the model. The only place that knows every name.

There is one registry for each kind of thing that a recipe can name: :data:`DATASETS`, :data:`vadd.networks.NETWORKS`,
:data:`MODEL_BUILDERS`, :data:`LATENTS`, :data:`MASK_DRAWS`, :data:`SCHEDULES` and :data:`SAMPLERS`. To add one, write
it in its package, give it a section in :mod:`vadd.recipe`, and enter it in a file of this package.
"""

from vadd.recipe.build_data import DATASETS, build_dataset, example_format
from vadd.recipe.build_diffusion import MASK_DRAWS, SCHEDULES, WEIGHT_POWERS, build_mask_draw, build_schedule
from vadd.recipe.build_latents import LATENTS, build_latent, build_prior
from vadd.recipe.build_models import KERNELS, MODEL_BUILDERS, build_model
from vadd.recipe.build_own_data import kind_of_data, recipe_for, recipe_for_documents, with_data
from vadd.recipe.build_samplers import SAMPLERS, sampler_named

__all__ = [
    "DATASETS",
    "KERNELS",
    "LATENTS",
    "MASK_DRAWS",
    "MODEL_BUILDERS",
    "SAMPLERS",
    "SCHEDULES",
    "WEIGHT_POWERS",
    "build_dataset",
    "build_latent",
    "build_mask_draw",
    "build_model",
    "build_prior",
    "build_schedule",
    "example_format",
    "kind_of_data",
    "recipe_for",
    "recipe_for_documents",
    "sampler_named",
    "with_data",
]
