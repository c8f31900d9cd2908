"""``vadd zoo``."""

from functools import partial

from vadd.cli.console import out_console
from vadd.cli.syntax import Zoo
from vadd.errors import UserError
from vadd.files import write_json
from vadd.recipe import COMPARED_ONLY, EVERY_MODEL, differences, load_recipe
from vadd.words import suggestion

SMALLEST, SMALLEST_IMAGES = "checkerboard", "digits"
"""The recipes that every model, and every model of images alone, learns in minutes."""


def zoo(options: Zoo) -> None:
    name = options.name
    if name is not None and name not in EVERY_MODEL:
        raise UserError(f"unknown model {name!r}{suggestion(name, EVERY_MODEL)}; choose from {', '.join(EVERY_MODEL)}")
    models = {key: model for key, model in EVERY_MODEL.items() if name in (None, key)}
    recipes = {key: SMALLEST_IMAGES if key in COMPARED_ONLY else SMALLEST for key in models}
    if options.json is not None:
        write_json(options.json, [{"model": key, "recipe": recipes[key], **models[key].described()} for key in models])
    show = partial(out_console.print, soft_wrap=True)
    if name is None:
        width = max(map(len, models))
        for key, model in models.items():
            show(f"{key:{width}}  {model.about}")
            show(f"{'':{width}}  {model.paper}", style="dim")
        show(f"\nThe smallest training of each: vadd train {SMALLEST} model=NAME. Other data: vadd recipes")
        return
    model = models[name]
    show(f"{model.label}: {model.about}\n{model.paper}")
    if name in COMPARED_ONLY:
        command = f"vadd reproduce baselines --data {SMALLEST_IMAGES} --models mdlm,vadd,{name}"
        show(f"{command}    # pip install 'vadd[{name}]'")
        return
    show(model.command(name, SMALLEST))
    plain = load_recipe(SMALLEST).with_overrides(["model=mdlm"])
    # An energy cannot be learnt without the run that it is for.
    recipe = plain.with_overrides([f"model={name}", *(["training.start_from=RUN"] if model.options else [])])
    keys = recipe.keys()
    for key, (_, value) in differences(plain, recipe).items():
        if key in keys:  # another network lacks some
            show(f"  {key}: {value}")
