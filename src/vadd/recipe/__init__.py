"""What to do: recipes, everything that defines a run, typed and validated.

One file a section; :mod:`~vadd.recipe.recipe` puts them together, :mod:`~vadd.recipe.loading` reads files and presets,
:mod:`~vadd.recipe.own_data` makes recipes for somebody's own data, :mod:`~vadd.recipe.upgrade` reads older ones.
"""

from vadd.data import (
    ArrayData,
    Cifar10Data,
    CopiesData,
    Data,
    DigitsData,
    FolderData,
    GivenData,
    MnistData,
    TableData,
    TextData,
    ToyData,
)
from vadd.presets import recipe_names
from vadd.recipe.diffusion import Diffusion
from vadd.recipe.latent import LatentSection
from vadd.recipe.loading import load_recipe
from vadd.recipe.models import COMPARED_ONLY, EVERY_MODEL, MODELS, ModelEntry
from vadd.recipe.own_data import (
    recipe_for_array,
    recipe_for_examples,
    recipe_for_folder,
    recipe_for_items,
    recipe_for_table,
    recipe_for_text,
)
from vadd.recipe.published import how_computed, published_recipe, unlike
from vadd.recipe.recipe import (
    COMPUTING,
    Recipe,
    differences,
    flatten,
    may_change_on_resume,
    parse_value,
    same_learning,
    validate,
)
from vadd.recipe.sampling import Sampling
from vadd.recipe.training import Training
from vadd.words import suggestion

__all__ = [
    "COMPARED_ONLY",
    "COMPUTING",
    "EVERY_MODEL",
    "MODELS",
    "ArrayData",
    "Cifar10Data",
    "CopiesData",
    "Data",
    "Diffusion",
    "DigitsData",
    "FolderData",
    "GivenData",
    "LatentSection",
    "MnistData",
    "ModelEntry",
    "Recipe",
    "Sampling",
    "TableData",
    "TextData",
    "ToyData",
    "Training",
    "differences",
    "flatten",
    "how_computed",
    "load_recipe",
    "may_change_on_resume",
    "parse_value",
    "published_recipe",
    "recipe_for_array",
    "recipe_for_examples",
    "recipe_for_folder",
    "recipe_for_items",
    "recipe_for_table",
    "recipe_for_text",
    "recipe_names",
    "same_learning",
    "suggestion",
    "unlike",
    "validate",
]
