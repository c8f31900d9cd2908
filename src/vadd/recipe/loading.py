"""Recipes from files: presets by name, others by path; a recipe may extend another and state only what differs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vadd.data import TextData
from vadd.errors import UserError
from vadd.parsing import parse_yaml, read_small_text
from vadd.presets import FOLDER, check_recipe_name, recipe_names
from vadd.recipe.models import MODELS, merged
from vadd.recipe.recipe import COMPUTING, Recipe, differences, flatten, name_from, same_learning, upgraded, validate
from vadd.settings import Section
from vadd.words import suggestion


def load_recipe(name_or_path: str) -> Recipe:
    """The recipe of that name, or of the file at that path."""
    return validate(read_content(name_or_path), name_or_path)


def read_content(name_or_path: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """What is written there, with what it extends, not validated."""
    if name_or_path in seen:
        raise UserError(f"recipe {name_or_path} extends itself")
    check_recipe_name(name_or_path)
    if name_or_path in recipe_names():
        text = (FOLDER / f"{name_or_path}.yaml").read_text()
    else:
        try:
            text = read_small_text(Path(name_or_path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"cannot read the recipe {name_or_path}: {reason}") from None
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{name_or_path} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name_or_path} is not a recipe: it should be a mapping of keys to values")
    content.setdefault("name", name_from(Path(name_or_path).stem))
    base = content.pop("extends", None)
    if base is None:
        return upgraded(content)
    if Path(str(base)).suffix:  # a file that is extended lies beside the one that extends it
        base = Path(name_or_path).parent / str(base)
    below = read_content(str(base), (*seen, name_or_path))
    return merged(below, upgraded(content))  # each separately: whatever the version, what extends wins


TOYS = ("checkerboard-paper", "swissroll-paper", "circles-paper")
PUBLISHED = (*TOYS, "mnist", "cifar10", "cifar10-2m", "lm1b", "openwebtext")
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


FIRST = ("training", "latent", "network", "data", "diffusion")
"""Sections in which a bare name is looked for, in this order: ``steps`` are those of the training."""
WITH_KINDS = ("data", "network")


def with_settings(recipe: Recipe, settings: Mapping[str, Any], keywords: Sequence[str] = ()) -> Recipe:
    """``steps=500``, ``latent={"dim": 8}`` or ``**{"training.steps": 500}``: any key of the recipe.

    A section of another kind, ``network={"kind": "residual"}``, replaces the present one. The
    ``keywords`` are other names that the user may have meant.
    """
    rest = dict(settings)
    if "model" in rest:  # which may change the keys that there are
        recipe = recipe.with_values([("model", _plain(rest.pop("model")))])
    for section in WITH_KINDS:
        kind = getattr(recipe, section).kind
        if isinstance(given := rest.get(section), Mapping) and given.get("kind", kind) != kind:
            recipe = validate({**recipe.model_dump(mode="json"), section: _plain(rest.pop(section))}, recipe.name)
    keys = recipe.keys()
    return recipe.with_values([pair for name, value in rest.items() for pair in _pairs(name, value, keys, keywords)])


def _pairs(name: str, value: Any, keys: Sequence[str], keywords: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and name not in keys:
        for inner, content in value.items():
            yield from _pairs(f"{name}.{inner}", content, keys, keywords)
    else:
        yield _key(name, keys, keywords), _plain(value)


def _key(name: str, keys: Sequence[str], keywords: Sequence[str]) -> str:
    """The dotted key that ``name`` stands for; of a dotted one the recipe itself says what is wrong."""
    if name in keys or "." in name:
        return name
    candidates = [key for section in FIRST for key in keys if key == f"{section}.{name}"]
    candidates += [key for key in keys if key.rsplit(".", 1)[-1] == name]
    if candidates:
        return candidates[0]
    known = [*keywords, *(key.rsplit(".", 1)[-1] for key in keys), *keys]
    raise UserError(f"unknown keyword {name!r}{suggestion(name, known) or '; the keys of a recipe are allowed'}")


def _plain(value: Any) -> Any:
    """What YAML could say: paths as text, NumPy's numbers as Python's."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
