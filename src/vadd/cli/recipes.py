"""``vadd recipes``."""

from typing import Annotated

import typer

import vadd
from vadd.cli.console import out_console, print_columns
from vadd.presets import check_recipe_name, recipe_names


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this one whole.", show_default=False)] = None,
) -> None:
    """List the recipes, or show one with every key and value.

    \b
    Examples:
      vadd recipes
      vadd recipes checkerboard > mine.yaml
    """
    if name is None:
        print_columns([[known, vadd.load_recipe(known).about] for known in recipe_names()])
        return
    check_recipe_name(name)
    out_console.out(vadd.load_recipe(name).to_yaml(), end="")
