"""``vadd train`` and ``vadd recipes``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import err_console, out_console, progress_bar
from vadd.errors import UserError
from vadd.recipe import (
    Recipe,
    TextData,
    differences,
    load_recipe,
    may_change_on_resume,
    recipe_names,
)

if TYPE_CHECKING:
    from vadd.runs.layout import RunDirectory


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A preset (see `vadd recipes`) or a YAML file.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run directory; by default runs/RECIPE-MODEL.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data: an .npy file of integers, examples first; a folder of images; a text file, .jsonl, "
            ".csv or a folder of .txt.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run in --out.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run that is in --out and start anew.")
    ] = False,
) -> None:
    """Train a model.

    \b
    Examples:
      vadd train checkerboard --out runs/checkers
      vadd train checkerboard model=mdlm training.steps=2000 --out runs/baseline
      vadd train --data my_codes.npy --out runs/mine
      vadd train --data book.txt data.tokenizer=bpe --out runs/book
      vadd train --out runs/checkers --resume
      torchrun --nproc-per-node 4 -m vadd train digits training.sharding=full
    """
    from vadd.build import build_dataset
    from vadd.parallel import leave, on_main_process
    from vadd.runs.layout import RunDirectory
    from vadd.training.loop import check_trainable
    from vadd.training.loop import train as run_training

    changes = list(overrides or [])
    if recipe is not None and "=" in recipe and not Path(recipe).exists():
        changes.insert(0, recipe)  # no recipe was named; the first word is an override already
        recipe = None
    if resume and overwrite:
        raise UserError("--resume and --overwrite exclude each other")
    if resume and out is None and recipe is not None and RunDirectory(recipe).is_run():
        raise UserError(f"a run is named with --out: vadd train --out {recipe} --resume")
    wanted = None if recipe is None and data is None else _recipe(recipe, data, changes)
    if wanted is None and not resume:
        hint = "" if out is None else f"; to go on with a run: vadd train --out {out} --resume"
        raise UserError(f"name a recipe (see `vadd recipes`) or give your own --data{hint}")
    if out is None:
        if wanted is None:
            raise UserError("--resume needs the run directory: --out DIR")
        out = Path("runs") / f"{wanted.name}-{wanted.model}"
    directory = RunDirectory(out)
    if resume:
        wanted = _resumed_recipe(directory, wanted, changes)
    assert wanted is not None
    if not resume:
        on_main_process(partial(directory.check_place, overwrite=overwrite))  # reading the data may take long
    with progress_bar() as tell:  # before the run's directory changes: bad data must not cost an old run
        dataset = build_dataset(wanted, progress=tell)
    check_trainable(wanted)
    if not resume:
        on_main_process(partial(directory.create, wanted, overwrite=overwrite))
    outcome = run_training(wanted, directory, dataset, resume=resume)
    leave()
    speed = f"{outcome.step} steps, {outcome.seconds:.0f} s"
    if outcome.finished:
        settings = "-n 1000 --steps 1" if dataset.tokenizer is None else "-n 8 --steps 32"
        out_console.print(f"{out}: done, {speed}. Try: vadd sample {out} {settings}", soft_wrap=True)
    else:
        err_console.print(f"stopped after {speed}; saved. Go on with: vadd train --out {out} --resume", soft_wrap=True)
        raise typer.Exit(130)


def _recipe(name: str | None, data: Path | None, changes: list[str]) -> Recipe:
    from vadd.build import kind_of_data, recipe_for

    if name is None:
        assert data is not None
        return recipe_for(data).with_overrides(changes)
    recipe = load_recipe(name)
    if data is not None:
        kind, path = kind_of_data(data), str(data.resolve())
        # A recipe for text says how to read it; only the text is another.
        text_for_text = kind is TextData and isinstance(recipe.data, TextData)
        new = recipe.data.model_copy(update={"path": path}) if text_for_text else kind(path=path)
        recipe = recipe.model_copy(update={"data": new})
    return recipe.with_overrides(changes)


def _resumed_recipe(directory: "RunDirectory", wanted: Recipe | None, changes: list[str]) -> Recipe:
    from vadd.runs.layout import RunDirectory

    saved = RunDirectory.open(directory.path).recipe()
    new = saved.with_overrides(changes) if wanted is None else wanted
    changed = differences(saved, new)
    refused = {key: values for key, values in changed.items() if not may_change_on_resume(key)}
    if refused:
        told = ", ".join(f"{key} is {old!r} there, {now!r} here" for key, (old, now) in refused.items())
        raise UserError(f"{directory.path} was started with another recipe: {told}")
    return new


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this one whole.", show_default=False)] = None,
) -> None:
    """List the recipes, or show one with every key and value.

    \b
    Examples:
      vadd recipes
      vadd recipes checkerboard > mine.yaml
    """
    if name is not None:
        out_console.out(load_recipe(name).to_yaml(), end="")
        return
    width = max(map(len, recipe_names()))
    for known in recipe_names():
        out_console.print(f"{known:{width}}  {load_recipe(known).about}", soft_wrap=True)
