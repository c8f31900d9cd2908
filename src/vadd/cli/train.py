"""``vadd train``, ``vadd fit-prior`` and ``vadd export``."""

from pathlib import Path

import typer

import vadd
from vadd.cli.console import err_console, out_console
from vadd.cli.options import parse_checkpoint
from vadd.cli.syntax import Export, FitPrior, Train
from vadd.core.health import REMEDIES
from vadd.errors import UserError, refuse_if
from vadd.files import writing
from vadd.parallel import is_main, leave
from vadd.progress import progress_bar, warn
from vadd.recipe import MODELS, Recipe, load_recipe, recipe_for, with_data
from vadd.recipe.recipe import parse_value
from vadd.report.results import card_results
from vadd.run.directory import CheckpointName, RunDirectory
from vadd.run.export import export as write
from vadd.run.export import push
from vadd.run.priors import PriorRecord
from vadd.run.traced import Format, check_sampler
from vadd.training.loop import train as run_training
from vadd.training.prior import fit_prior as fit
from vadd.training.prior import fit_priors_of_recipe
from vadd.training.train import Job, reading, run_directory
from vadd.words import plural


def train(options: Train) -> None:
    refuse_if(
        (options.resume and options.overwrite, "--resume and --overwrite exclude each other"),
        (options.freeze and options.start_from is None, "--freeze needs --start-from"),
    )
    job = _job(options)
    with progress_bar() as progress:
        data = job.prepare(progress)
    if data.kind.parts:  # what is about to be learnt
        rows = f"{len(data.train) + len(data.test):,} rows, {len(data.test):,} held out"
        err_console.print(f"{data.name}: {rows}", soft_wrap=True)
        for line in data.kind.parts:
            err_console.print(f"  {line}", soft_wrap=True, style="dim")
    outcome = run_training(job.recipe, job.directory, data, resume=options.resume)
    place, speed = job.directory.path, f"{outcome.step} steps, {outcome.seconds:.0f} s"
    if outcome.finished and is_main():
        with progress_bar() as progress:
            for fitted in fit_priors_of_recipe(place, progress):
                show_fitted(fitted)
    leave()
    if not outcome.finished:
        hint = f"Go on with: vadd train --out {place} --resume"
        err_console.print(f"stopped after {speed}; saved. {hint}", soft_wrap=True)
        raise typer.Exit(130)
    count, steps, to = data.kind.try_out
    if outcome.collapsed:
        steps = "--steps 32"
        warn(f"posterior collapse: few steps draw positions independently of each other. Train again with: {REMEDIES}")
    elif job.recipe.has_latent and job.recipe.latent.prior == "autoregressive":
        steps = "--steps 1"
    words = ["vadd sample", str(place), count, steps if MODELS[job.recipe.model].chosen_steps else "", to]
    out_console.print(f"{place}: done, {speed}. Try: {' '.join(filter(None, words))}", soft_wrap=True)


def _job(options: Train) -> Job:
    name, changes = options.recipe, options.overrides or []
    if name is not None and "=" in name and not Path(name).exists():
        changes, name = [name, *changes], None  # no recipe was named; the first word is a change already
    if options.start_from is not None:
        changes = [*changes, f"training.start_from={options.start_from}", f"training.freeze={options.freeze}"]
    recipe, out = _recipe(name, options.data, changes), options.out
    if recipe is None and (out is None or not options.resume):
        hint = "" if out is None else f"; to go on with a run: vadd train --out {out} --resume"
        missing = f"name a recipe (see `vadd recipes`) or give your own --data{hint}"
        raise UserError("--resume needs the run directory: --out DIR" if options.resume else missing)
    directory = run_directory(out) if recipe is None else run_directory(out, recipe.name, recipe.model)
    if recipe is None:
        recipe = RunDirectory.open(directory.path).recipe().with_overrides(changes)
    return Job(recipe, directory, options.resume, options.overwrite)


def _recipe(name: str | None, data: Path | None, changes: list[str]) -> Recipe | None:
    """None where neither a recipe nor data were named."""
    if name is not None:
        recipe = load_recipe(name)
        recipe = recipe if data is None else with_data(recipe, data)
    elif data is not None:
        values = {key: parse_value(text) for key, _, text in (change.partition("=") for change in changes)}
        recipe = recipe_for(data, **reading(values))
    else:
        return None
    return recipe.with_overrides(changes)


def fit_prior(options: FitPrior) -> None:
    RunDirectory.open(options.run)  # an exported model cannot be changed
    run = vadd.load(options.run, checkpoint=parse_checkpoint(options.checkpoint), prior="trained")
    with progress_bar() as progress:
        fitted = fit(run, "conditional" if options.conditional else "flow", steps=options.steps, progress=progress)
    show_fitted(fitted)


def show_fitted(fitted: PriorRecord) -> None:
    out_console.print(
        f"{fitted.name} prior: KL of the recognition model, everything masked, held-out examples: "
        f"{fitted.kl_normal:.2f} nats to N(0, I), {fitted.kl:.2f} to the prior; {fitted.seconds or 0:.0f} s"
        + ("" if fitted.helps else f". It is worse than N(0, I) and is not used, unless with --prior {fitted.name}"),
        soft_wrap=True,
    )


def export(options: Export) -> None:
    formats: list[Format] = ["onnx"] if options.onnx else []
    formats += ["pt2"] if options.torch_export else []
    chosen = options.steps is not None or options.sampler is not None
    refuse_if(
        (chosen and not formats, "--steps and --sampler are those of the file of --onnx or --torch-export"),
        (options.private and options.push is None, "--private needs --push OWNER/NAME"),
    )
    directory, which = options.directory, parse_checkpoint(options.checkpoint)
    sampler_only = bool(formats) and not RunDirectory(options.run).is_run()
    if formats:
        run, how = vadd.load(options.run, "cpu", checkpoint=which), {"steps": options.steps, "sampler": options.sampler}
        for format in formats:
            check_sampler(run.model, run.options(**how), format)
    if not sampler_only:
        _export_weights(options, which)
    for format in formats:
        run.export_sampler(directory, format, **how)
        out_console.print(f"{directory}: {plural(run.options(**how).steps, 'step')} as {format}", soft_wrap=True)
    if options.push is not None:
        out_console.print(push(directory, options.push, private=options.private), soft_wrap=True)


def _export_weights(options: Export, which: CheckpointName) -> None:
    source, directory = RunDirectory.open(options.run), options.directory
    results = None if options.results is None else card_results(options.results)
    with writing(directory):
        exported = write(source, directory, checkpoint=which, results=results, half=options.half)
    out_console.print(
        f"{directory}: {exported.recipe.name} {exported.recipe.model}, weights of step {exported.step}. "
        f"Choose a license in {directory / 'README.md'} before you publish it; "
        f"try: vadd sample {directory} -n 5",
        soft_wrap=True,
    )
