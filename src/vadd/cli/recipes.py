"""``vadd recipes``."""

from typing import Annotated

import typer

from vadd.cli.console import out_console


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this one whole.", show_default=False)] = None,
) -> None:
    """List the recipes, or show one with every key and value.

    \b
    Examples:
      vadd recipes
      vadd recipes checkerboard > mine.yaml
    """
    from vadd.recipe import load_recipe, recipe_names

    if name is not None:
        out_console.out(load_recipe(name).to_yaml(), end="")
        return
    width = max(map(len, recipe_names()))
    for known in recipe_names():
        out_console.print(f"{known:{width}}  {load_recipe(known).about}", soft_wrap=True)
