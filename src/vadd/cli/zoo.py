"""``vadd zoo``."""

from typing import Annotated

import typer

from vadd.cli.console import out_console
from vadd.cli.options import JsonOption, OverwriteOption
from vadd.errors import UserError

SMALLEST = "checkerboard"
"""The recipe that every model learns in minutes."""
SMALLEST_IMAGES = "digits"
"""The same for models of images alone."""


def zoo(
    name: Annotated[str | None, typer.Argument(help="Show this one whole.", show_default=False)] = None,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """List the models that can be trained, sampled and judged side by side, or show what one brings to a recipe.

    \b
    Examples:
      vadd zoo
      vadd zoo sedd
      vadd train digits model=sedd --out runs/digits-sedd
    """
    from vadd.files import write_json
    from vadd.recipe import COMPARED_ONLY, EVERY_MODEL, MODELS, load_recipe, suggestion
    from vadd.recipe.recipe import differences

    if name is not None and name not in EVERY_MODEL:
        raise UserError(f"unknown model {name!r}{suggestion(name, EVERY_MODEL)}; choose from {', '.join(EVERY_MODEL)}")
    shown = [known for known in EVERY_MODEL if name in (None, known)]
    if json is not None:
        smallest = {known: SMALLEST if known in MODELS else SMALLEST_IMAGES for known in shown}
        write_json(
            json, [{"model": known, "recipe": smallest[known], **EVERY_MODEL[known].described()} for known in shown]
        )
    if name is None:
        width = max(map(len, EVERY_MODEL))
        for known in shown:
            out_console.print(f"{known:{width}}  {EVERY_MODEL[known].about}", soft_wrap=True, highlight=False)
            out_console.print(f"{'':{width}}  {EVERY_MODEL[known].paper}", soft_wrap=True, highlight=False, style="dim")
        hint = f"\nThe smallest training of each: vadd train {SMALLEST} model=NAME. Other data: vadd recipes"
        out_console.print(hint, soft_wrap=True, highlight=False)
        return
    facts_of = EVERY_MODEL[shown[0]]
    out_console.print(f"{facts_of.label}: {facts_of.about}\n{facts_of.paper}", soft_wrap=True, highlight=False)
    if name in COMPARED_ONLY:
        command = f"vadd reproduce baselines --data {SMALLEST_IMAGES} --models mdlm,vadd,{name}"
        out_console.print(f"{command}    # pip install 'vadd[{name}]'", soft_wrap=True, highlight=False)
        return
    out_console.print(f"{facts_of.command(shown[0], SMALLEST)}", soft_wrap=True, highlight=False)
    plain = load_recipe(SMALLEST).with_overrides(["model=mdlm"])
    # An energy cannot be learnt without the run that it is for.
    needed = [] if not facts_of.options else ["training.start_from=RUN"]
    recipe = plain.with_overrides([f"model={name}", *needed])
    there = recipe.keys()
    for key, (_, value) in differences(plain, recipe).items():
        if key in there:  # of another network others are gone
            out_console.print(f"  {key}: {value}", soft_wrap=True, highlight=False)
