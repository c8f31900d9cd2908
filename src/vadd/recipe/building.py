"""Names of the former package ``building``, until every caller imports them from :mod:`vadd.recipe`."""

from vadd.networks import CustomNetworks
from vadd.recipe.build_data import DATASETS, build_dataset, example_format
from vadd.recipe.build_own_data import kind_of_data, recipe_for, recipe_for_documents, with_data
from vadd.recipe.models import build_model
from vadd.recipe.sampling import SAMPLERS, sampler_named

__all__ = [
    "DATASETS",
    "SAMPLERS",
    "CustomNetworks",
    "build_dataset",
    "build_model",
    "example_format",
    "kind_of_data",
    "recipe_for",
    "recipe_for_documents",
    "sampler_named",
    "with_data",
]
