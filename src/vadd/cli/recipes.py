"""``vadd recipes``."""

import vadd
from vadd.cli.console import out_console, print_columns
from vadd.cli.syntax import Recipes
from vadd.presets import recipe_about, recipe_names


def recipes(options: Recipes) -> None:
    if options.name is None:
        print_columns([[name, recipe_about(name)] for name in recipe_names()])
    else:
        out_console.out(vadd.load_recipe(options.name).to_yaml(), end="")
