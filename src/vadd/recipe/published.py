"""The recipes that are the paper's own, and how another recipe for the same data differs from them.

The name of a recipe does not matter: one that extends the paper's under another name, or changes some keys on the
command line, is compared with the paper's numbers, with its differences stated.
"""

from functools import cache
from typing import Any

from vadd.data import TextData
from vadd.recipe.loading import read_content
from vadd.recipe.models import MODELS
from vadd.recipe.recipe import COMPUTING, Recipe, differences, flatten, same_learning, validate
from vadd.settings import Section

PUBLISHED = (
    "checkerboard-paper",
    "swissroll-paper",
    "circles-paper",
    "mnist",
    "cifar10",
    "cifar10-2m",
    "lm1b",
    "openwebtext",
)
WHERE_DATA_LIE = {"directory", "path", "documents", "field", "tokenizer_path", "test_fraction"}
"""Of a named data set: a copy of it somewhere is the same data."""
NO_DIFFERENCE = frozenset({"name", "seed", "model"})
OF_THE_LATENT = ("latent.", "network.recognizer.", "training.kl_")


def published_recipe(recipe: Recipe) -> str | None:
    """The paper's recipe for the same data, the nearest where there are several; None where the paper has none."""
    same = [name for name in PUBLISHED if _same_data(recipe.data, name)]
    if len(same) > 1:
        return min(same, key=lambda name: len(unlike(recipe, name)))
    return same[0] if same else None


def _same_data(data: Section, name: str) -> bool:
    """Without validating the preset: most runs have data that the paper does not have."""
    written = _written(name)["data"]
    if written["kind"] != dict(data)["kind"]:
        return False
    one, other = (each.model_dump(exclude=WHERE_DATA_LIE) for each in (data, type(data).model_validate(written)))
    return one == other


def unlike(recipe: Recipe, name: str) -> tuple[str, ...]:
    """What is learnt otherwise than by the preset ``name``: "training.steps=10 instead of 200000"."""
    before = dict(flatten(_paper(name).model_dump(mode="json")))
    learnt = tuple(
        f"{key}={_shown(new)}" + (f" instead of {_shown(old)}" if key in before else "")
        for key, (old, new) in differences(_paper(name), recipe).items()
        if new is not None and not same_learning(key) and key not in NO_DIFFERENCE and not key.startswith("data.")
        if MODELS[recipe.model].latent or not key.startswith(OF_THE_LATENT)
    )
    return learnt + _split(recipe)


def _split(recipe: Recipe) -> tuple[str, ...]:
    """A copy of LM1B is one file, of which a share is held out; all other data have the published split anywhere."""
    data = recipe.data
    if not isinstance(data, TextData) or data.corpus != "lm1b" or data.path is None:
        return ()
    return (f"data.path, of which {data.test_fraction:g} is held out instead of the published test split",)


def how_computed(recipe: Recipe) -> tuple[str, ...]:
    """What was chosen so that a training fits and ends in time, where that is not the default."""
    usual = {"training.precision": "float32", "training.accumulate": 1, "training.sharding": "none"}
    values = dict(flatten(recipe.model_dump(mode="json")))
    return tuple(f"{key}={_shown(values[key])}" for key in COMPUTING if values.get(key, False) != usual.get(key, False))


@cache
def _written(name: str) -> dict[str, Any]:
    return read_content(name)


@cache
def _paper(name: str) -> Recipe:
    return validate(_written(name), name)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
