"""Names of the former package ``building``, until every caller imports them from :mod:`vadd.recipe`."""

from vadd.data import DiscreteDataset
from vadd.kinds import Kind, TextKind
from vadd.networks import CustomNetworks
from vadd.progress import Progress, silent
from vadd.recipe import Recipe
from vadd.recipe.build_own_data import kind_of_data, recipe_for, recipe_for_documents, with_data
from vadd.recipe.models import build_model
from vadd.recipe.sampling import SAMPLERS, sampler_named

__all__ = [
    "SAMPLERS",
    "CustomNetworks",
    "build_dataset",
    "build_model",
    "example_kind",
    "kind_of_data",
    "recipe_for",
    "recipe_for_documents",
    "sampler_named",
    "with_data",
]


def build_dataset(recipe: Recipe, *, kind: Kind | None = None, progress: Progress = silent) -> DiscreteDataset:
    """The data of a recipe; text is read with the tokenizer of ``kind`` if one is given, else with the recipe's."""
    tokenizer = kind.tokenizer if isinstance(kind, TextKind) else None
    return recipe.data.load(recipe.seed, tokenizer, progress)


def example_kind(recipe: Recipe) -> Kind:
    """What the examples of a recipe are. The recipe says it, except for arrays and alphabets: there the data must be
    read.
    """
    return recipe.data.example_kind()
