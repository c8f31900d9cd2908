"""``vadd recipes``."""

from vadd.cli.console import out_console, print_columns
from vadd.cli.syntax import Recipes
from vadd.recipe import load_recipe, recipe_names


def recipes(options: Recipes) -> None:
    if options.name is None:
        print_columns([[name, load_recipe(name).about] for name in recipe_names()])
    else:
        out_console.out(load_recipe(options.name).to_yaml(), end="")
