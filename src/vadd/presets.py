"""The recipes that come with the package, by name alone: a mistyped one is answered before recipes are put together,
which takes a quarter of a second.
"""

from pathlib import Path

from vadd.errors import UserError
from vadd.words import suggestion

FOLDER = Path(__file__).parent / "recipe" / "presets"


def recipe_names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def check_recipe_name(name: str) -> None:
    """Refuse what is neither a preset nor the path of a YAML file."""
    if name in recipe_names() or Path(name).suffix in {".yaml", ".yml"}:
        return
    if (Path(name) / "recipe.yaml").is_file():
        raise UserError(f"{name} is a directory; its recipe is {Path(name) / 'recipe.yaml'}")
    if Path(name).exists():
        raise UserError(f"unknown recipe {name!r}; to learn from {name}: vadd train --data {name}")
    raise UserError(f"unknown recipe {name!r}{suggestion(name, recipe_names())}; see `vadd recipes`")
