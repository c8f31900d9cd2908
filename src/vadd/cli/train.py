"""``vadd train``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import vadd
from vadd.cli.console import err_console, out_console, progress_bar
from vadd.cli.fit_prior import show_fitted
from vadd.cli.options import OptionalRecipeArgument, OverridesArgument, check_run, check_there
from vadd.cli.table_columns import show_table
from vadd.errors import UserError
from vadd.presets import check_recipe_name
from vadd.run.directory import RunDirectory

if TYPE_CHECKING:
    from vadd.training.job import Job


def check_start(source: str | None) -> str | None:
    """A run, an exported model, or weights as the MDLM code writes them."""
    if source is not None:
        (check_there if Path(source).suffix == ".safetensors" else check_run)(Path(source))
    return source


def train(
    recipe: OptionalRecipeArgument = None,
    overrides: OverridesArgument = None,
    out: Annotated[
        Path | None, typer.Option(help="The run directory; by default runs/RECIPE-MODEL.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data: a table as .csv or .parquet; an .npy file of integers, examples first; a folder of "
            "images; a text file, .jsonl, .csv with a column called text, or a folder of .txt.",
            show_default=False,
            callback=check_there,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run in --out.")
    ] = False,
    start_from: Annotated[
        str | None,
        typer.Option(
            help="Begin as this trained model without a latent: a run, an export, or a .safetensors file as the MDLM "
            "code writes it.",
            metavar="RUN",
            show_default=False,
            callback=check_start,
        ),
    ] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Leave the weights of --start-from as they are.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run that is in --out and start anew.")
    ] = False,
) -> None:
    """Train a model.

    \b
    Examples:
      vadd train checkerboard --out runs/checkers
      vadd train checkerboard model=mdlm training.steps=2000 --out runs/baseline
      vadd train --data people.csv --out runs/people
      vadd train --data people.csv data.skip=[id] data.schema_path=people.yaml --out runs/people
      vadd train --data my_codes.npy --out runs/mine
      vadd train --data photos/ data.labels=true --out runs/photos
      vadd train --data news.jsonl data.labels=true data.label_field=topic --out runs/news
      vadd train --data book.txt data.tokenizer=bpe --out runs/book
      vadd train --out runs/checkers --resume
      vadd train digits --start-from runs/digits-mdlm training.steps=1500 --out runs/upgraded
      torchrun --nproc-per-node 4 -m vadd train digits training.sharding=full
    """
    if resume and overwrite:
        raise UserError("--resume and --overwrite exclude each other")
    if freeze and start_from is None:
        raise UserError("--freeze needs --start-from")
    changes = overrides or []
    if recipe is not None and "=" in recipe and not Path(recipe).exists():
        changes, recipe = [recipe, *changes], None  # no recipe was named; the first word is a change already
    if recipe is not None:
        _check_name(recipe, out, resume)
    if start_from is not None:
        changes = [*changes, f"training.start_from={start_from}", f"training.freeze={freeze}"]
    if out is not None and resume:
        RunDirectory.open(out)
    elif out is not None and os.environ.get("WORLD_SIZE", "1") == "1":
        RunDirectory(out).check_place(overwrite=overwrite)
    _train(_recipe(recipe, data, changes), changes, out, resume, overwrite)


def _check_name(recipe: str, out: Path | None, resume: bool) -> None:
    if resume and out is None and RunDirectory(recipe).is_run():
        raise UserError(f"a run is named with --out: vadd train --out {recipe} --resume")
    check_recipe_name(recipe)


def _recipe(name: str | None, data: Path | None, changes: list[str]) -> "vadd.Recipe | None":
    """None where neither a recipe nor data were named."""
    from vadd.recipe.building import recipe_for, with_data
    from vadd.recipe.recipe import parse_value

    if name is not None:
        recipe = vadd.load_recipe(name)
        recipe = recipe if data is None else with_data(recipe, data)
    elif data is not None:
        values = dict(change.split("=", 1) for change in changes if "=" in change)
        labels = parse_value(values.get("data.labels", "false")) is True
        recipe = recipe_for(data, field=values.get("data.field"), labels=labels)
    else:
        return None
    return recipe.with_overrides(changes)


def _train(recipe: "vadd.Recipe | None", changes: list[str], out: Path | None, resume: bool, overwrite: bool) -> None:
    from vadd.parallel import is_main, leave
    from vadd.recipe import MODELS
    from vadd.training.job import prepare
    from vadd.training.loop import train as run_training
    from vadd.training.prior import fit_priors_of_recipe

    job = _job(recipe, changes, out, resume, overwrite)
    with progress_bar() as progress:
        dataset = prepare(job, progress)
    show_table(dataset)
    outcome = run_training(job.recipe, job.directory, dataset, resume=resume)
    place, speed = job.directory.path, f"{outcome.step} steps, {outcome.seconds:.0f} s"
    if outcome.finished and is_main():
        with progress_bar() as progress:
            for fitted in fit_priors_of_recipe(place, progress):
                show_fitted(fitted)
    leave()
    if not outcome.finished:
        err_console.print(
            f"stopped after {speed}; saved. Go on with: vadd train --out {place} --resume", soft_wrap=True
        )
        raise typer.Exit(130)
    count, steps, to = dataset.kind.try_out
    words = ["vadd sample", str(place), count, steps if MODELS[job.recipe.model].chosen_steps else "", to]
    out_console.print(f"{place}: done, {speed}. Try: {' '.join(filter(None, words))}", soft_wrap=True)


def _job(recipe: "vadd.Recipe | None", changes: list[str], out: Path | None, resume: bool, overwrite: bool) -> "Job":
    from vadd.training.job import new_job, resumed_job, run_directory

    if recipe is None and out is None:
        missing = "--resume needs the run directory: --out DIR"
        raise UserError(missing if resume else "name a recipe (see `vadd recipes`) or give your own --data")
    directory = run_directory(out) if recipe is None else run_directory(out, recipe.name, recipe.model)
    if resume:
        recipe = RunDirectory.open(directory.path).recipe().with_overrides(changes) if recipe is None else recipe
        return resumed_job(recipe, directory)
    if recipe is None:
        raise UserError(
            "name a recipe (see `vadd recipes`) or give your own --data; to go on with a run: "
            f"vadd train --out {out} --resume"
        )
    return new_job(recipe, directory, overwrite=overwrite)
