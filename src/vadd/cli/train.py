"""``vadd train``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.console import err_console, out_console, progress_bar
from vadd.cli.options import OptionalRecipeArgument, OverridesArgument, check_run, check_there
from vadd.cli.table_columns import show_table
from vadd.errors import UserError
from vadd.presets import check_recipe_name
from vadd.training.job import Job, check_same_recipe, default_place, prepare

if TYPE_CHECKING:
    from vadd.data import DiscreteDataset
    from vadd.recipe import Data, Recipe
    from vadd.training.loop import Outcome


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
        raise UserError("--freeze is for --start-from")
    if start_from is not None:
        check_start(Path(start_from))
    started = [] if start_from is None else [f"training.start_from={start_from}", f"training.freeze={freeze}"]
    asked = Asked(recipe, [*(overrides or []), *started], data)
    job = _job_to_resume(asked, out) if resume else _new_job(asked, out, overwrite)
    dataset = _checked_data(job)
    show_table(dataset)
    from vadd.parallel import is_main, leave
    from vadd.training.loop import train as run_training

    outcome = run_training(job.recipe, job.directory, dataset, resume=resume)
    if outcome.finished and is_main():
        _fit_priors(job.directory.path)
    leave()
    _show(outcome, job, dataset)


def check_start(source: Path) -> None:
    """Before torch is imported, and before an old run is given up."""
    if source.suffix == ".safetensors":
        check_there(source)
    else:
        check_run(source)


class Asked:
    """What the command line says of the recipe."""

    def __init__(self, name: str | None, changes: list[str], data: Path | None) -> None:
        if name is not None and "=" in name and not Path(name).exists():
            changes = [name, *changes]  # no recipe was named; the first word is a change already
            name = None
        self.name, self.changes, self.data = name, changes, data

    def recipe(self) -> "Recipe | None":
        """None where neither a recipe nor data were named."""
        if self.name is None and self.data is None:
            return None
        return (self._of_data() if self.name is None else self._named(self.name)).with_overrides(self.changes)

    def _of_data(self) -> "Recipe":
        from vadd.recipe.building import recipe_for
        from vadd.recipe.recipe import parse_value

        assert self.data is not None
        said = dict(change.split("=", 1) for change in self.changes if "=" in change)
        labels = parse_value(said.get("data.labels", "false")) is True
        return recipe_for(self.data, field=said.get("data.field"), labels=labels)

    def _named(self, name: str) -> "Recipe":
        check_recipe_name(name)
        from vadd.recipe import TableData, TextData, load_recipe

        recipe = load_recipe(name)
        if self.data is None:
            return recipe
        from vadd.recipe.building import kind_of_data

        kind, path = kind_of_data(self.data), str(self.data.resolve())
        # A recipe for text says how to read it, and one for tables too; only the file is another.
        alike = isinstance(recipe.data, kind) or (isinstance(recipe.data, TextData) and self.data.suffix == ".csv")
        if alike and isinstance(recipe.data, TextData):
            new: Data = recipe.data.model_copy(update={"path": path})
        elif alike and isinstance(recipe.data, TableData):
            new = recipe.data.model_copy(update={"path": path, "name": None})
        else:
            new = kind(path=path)
        return recipe.model_copy(update={"data": new})


def _new_job(asked: Asked, out: Path | None, overwrite: bool) -> Job:
    from vadd.run.directory import RunDirectory

    recipe = asked.recipe()
    if recipe is None:
        hint = "" if out is None else f"; to go on with a run: vadd train --out {out} --resume"
        raise UserError(f"name a recipe (see `vadd recipes`) or give your own --data{hint}")
    directory = RunDirectory(default_place(recipe.name, recipe.model) if out is None else out)
    if os.environ.get("WORLD_SIZE", "1") == "1":  # who is alone is answered before torch is imported
        directory.check_place(overwrite=overwrite)
    return Job(recipe, directory, overwrite=overwrite)


def _job_to_resume(asked: Asked, out: Path | None) -> Job:
    from vadd.run.directory import RunDirectory

    if out is None and asked.name is not None and RunDirectory(asked.name).is_run():
        raise UserError(f"a run is named with --out: vadd train --out {asked.name} --resume")
    recipe = asked.recipe()
    if out is None:
        if recipe is None:
            raise UserError("--resume needs the run directory: --out DIR")
        out = default_place(recipe.name, recipe.model)
    directory = RunDirectory.open(out)
    job = Job(directory.recipe().with_overrides(asked.changes) if recipe is None else recipe, directory, resume=True)
    check_same_recipe(job)
    return job


def _checked_data(job: Job) -> "DiscreteDataset":
    from vadd.recipe.building import build_dataset

    with progress_bar() as progress:
        return prepare(job, lambda recipe, progress: build_dataset(recipe, progress=progress), progress)


def _fit_priors(run: Path) -> None:
    """What the recipe's latent.prior asks for."""
    from vadd.cli.fit_prior import show_fitted
    from vadd.training.prior import fit_priors_of_recipe

    with progress_bar() as progress:
        for fitted in fit_priors_of_recipe(run, progress):
            show_fitted(fitted)


def _show(outcome: "Outcome", job: Job, data: "DiscreteDataset") -> None:
    from vadd.recipe import MODELS

    out, speed = job.directory.path, f"{outcome.step} steps, {outcome.seconds:.0f} s"
    if not outcome.finished:
        err_console.print(f"stopped after {speed}; saved. Go on with: vadd train --out {out} --resume", soft_wrap=True)
        raise typer.Exit(130)
    count, steps, file = data.kind.try_out
    settings = f"{count} {steps}{file}" if MODELS[job.recipe.model].chosen_steps else f"{count}{file}"
    out_console.print(f"{out}: done, {speed}. Try: vadd sample {out} {settings}", soft_wrap=True)
