"""The recipes that come with the package, by name: a mistyped one is refused before torch is imported."""

from pathlib import Path

from vadd.errors import UserError
from vadd.parsing import parse_yaml
from vadd.words import suggestion

FOLDER = Path(__file__).parent / "recipe" / "presets"


def recipe_names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def recipe_about(name: str) -> str:
    """What a preset says of itself, without validating it."""
    return str(parse_yaml((FOLDER / f"{name}.yaml").read_text())["about"])


def check_recipe_name(name: str) -> None:
    """Refuse what is neither a preset nor the path of a YAML file."""
    if name in recipe_names() or Path(name).suffix in {".yaml", ".yml"}:
        return
    if (Path(name) / "recipe.yaml").is_file():
        raise UserError(f"{name} is a directory; its recipe is {Path(name) / 'recipe.yaml'}")
    if name and Path(name).exists():
        raise UserError(f"unknown recipe {name!r}; to learn from {name}: vadd train --data {name}")
    raise UserError(f"unknown recipe {name!r}{suggestion(name, recipe_names())}; see `vadd recipes`")
