"""Keywords of ``vadd.train``: keys of a recipe, in the ways people write them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vadd.errors import UserError
from vadd.recipe.recipe import Recipe, validate
from vadd.words import suggestion

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
