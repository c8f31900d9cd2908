"""Recipes from files: presets by name, others by path; a recipe may extend another and state only what differs."""

from pathlib import Path
from typing import Any

from vadd.errors import UserError
from vadd.parsing import parse_yaml, read_small_text
from vadd.presets import FOLDER, check_recipe_name, recipe_names
from vadd.recipe.models import merged
from vadd.recipe.recipe import Recipe, name_from, validate
from vadd.recipe.upgrade import upgraded


def load_recipe(name_or_path: str) -> Recipe:
    """A preset by name, or a file by path."""
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
