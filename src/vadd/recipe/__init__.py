"""Recipes: everything that defines a run, typed and validated, and what is built from them.

One file a section; :mod:`~vadd.recipe.recipe` puts them together, :mod:`~vadd.recipe.loading` reads files and presets,
:mod:`~vadd.recipe.models` builds models, :mod:`~vadd.recipe.own_data` makes recipes for the user's own data.
"""

from vadd.presets import recipe_names
from vadd.recipe.loading import load_recipe
from vadd.recipe.models import COMPARED_ONLY, EVERY_MODEL, MODELS, build_model
from vadd.recipe.own_data import recipe_for, with_data
from vadd.recipe.recipe import Recipe, build_dataset, differences, flatten, parse_value, validate
from vadd.recipe.sections import SAMPLERS, Sampling, Training
