"""``vadd train``, ``vadd fit-prior`` and ``vadd export``."""

from collections.abc import Sequence
from pathlib import Path

import typer

import vadd
from vadd.cli.checks import parse_checkpoint
from vadd.cli.console import err_console, out_console
from vadd.cli.syntax import Export, FitPrior, Train
from vadd.core.health import REMEDIES
from vadd.data import TextData
from vadd.data.text.documents import ROW_SUFFIXES
from vadd.errors import UserError, refuse_if
from vadd.parallel import is_main, leave
from vadd.progress import progress_bar, warn
from vadd.recipe import MODELS, Recipe, load_recipe, recipe_for, with_data
from vadd.recipe.recipe import parse_value
from vadd.report.results import card_results
from vadd.run.directory import RunDirectory, SavedStep, best_of
from vadd.run.export import export as write
from vadd.run.export import push
from vadd.run.priors import PriorRecord
from vadd.run.traced import Format, check_sampler
from vadd.training.loop import train as run_training
from vadd.training.prior import fit_prior as fit
from vadd.training.prior import fit_priors_of_recipe
from vadd.training.train import Job, reading, run_directory
from vadd.words import listed, plural

RISE = 0.01
"""Of the held-out objective above its least value, that is mentioned: a share of it."""


def train(options: Train) -> None:
    refuse_if((options.resume and options.overwrite, "--resume and --overwrite exclude each other"))
    job = _job(options)
    with progress_bar() as progress:
        data = job.prepare(progress)
    if data.kind.parts:  # what is about to be learnt
        rows = f"{len(data.train) + len(data.test):,} rows, {len(data.test):,} held out"
        err_console.out(f"{data.name}: {rows}")
        for line in data.kind.parts:
            err_console.out(f"  {line}", style="dim")
    outcome = run_training(job.recipe, job.directory, data, resume=options.resume)
    place, speed = job.directory.path, f"{outcome.step} steps, {outcome.seconds:.0f} s"
    if outcome.finished and is_main():
        with progress_bar() as progress:
            for fitted in fit_priors_of_recipe(place, progress):
                show_fitted(fitted)
    leave()
    if not outcome.finished:
        hint = f"Go on with: vadd train --out {place} --resume"
        err_console.out(f"stopped after {speed}; saved. {hint}")
        raise typer.Exit(130)
    count, steps, to = data.kind.try_out
    if outcome.collapsed:
        steps = "--steps 32"
        warn(f"posterior collapse: few steps draw positions independently of each other. Train again with: {REMEDIES}")
    elif job.recipe.has_latent and job.recipe.latent.prior == "autoregressive":
        steps = "--steps 1"
    # With a smaller KL weight it is not the objective that was trained for.
    full_weight = job.recipe.training.kl_weight == 1
    if full_weight and (why := overfitted(job.directory.saved_steps())) is not None:
        warn(why)
    words = ["vadd sample", str(place), count, steps if MODELS[job.recipe.model].chosen_steps else "", to]
    if getattr(job.recipe.data, "known", None):  # it has not learnt to draw whole examples
        words = ["vadd infill", str(place), "--array unfinished.npy"]
    out_console.out(f"{place}: done, {speed}. Try: {' '.join(filter(None, words))}")


def overfitted(saved: Sequence[SavedStep]) -> str | None:
    """What to say where the held-out objective has risen again."""
    best = best_of(saved)
    least, last = (None if each is None else each.test_loss for each in (best, saved[-1] if saved else None))
    if best is None or least is None or last is None or last - least <= RISE * abs(least):
        return None
    return (
        f"the held-out objective was least at step {best.step:,}, {least:.3f} nats per position, now {last:.3f}; "
        "the training was long for the data. `vadd sample` and `vadd eval` take --checkpoint best"
    )


def _job(options: Train) -> Job:
    name, data, out, changes = options.recipe, options.data, options.out, options.overrides or []
    if name is not None and "=" in name and not Path(name).exists():
        changes, name = [name, *changes], None  # no recipe was named; the first word is a change already
    if options.start_from is not None:
        changes = [*changes, f"training.start_from={options.start_from}", f"training.freeze={options.freeze}"]
    if name is not None:
        recipe = load_recipe(name) if data is None else with_data(load_recipe(name), data)
    elif data is not None:
        values = {key: parse_value(text) for key, _, text in (change.partition("=") for change in changes)}
        recipe = recipe_for(data, **reading(values))
    elif out is not None and options.resume:
        recipe = RunDirectory.open(out).recipe()
    else:
        hint = "" if out is None else f"; to go on with a run: vadd train --out {out} --resume"
        missing = f"name a recipe (see `vadd recipes`) or give your own --data{hint}"
        raise UserError("--resume needs the run directory: --out DIR" if options.resume else missing)
    recipe = recipe.with_overrides(changes)
    for key in [change.partition("=")[0] for change in changes]:
        if why := _unused(recipe, key):
            warn(f"{key} is not used: {why}")
    return Job(recipe, run_directory(out, recipe.name, recipe.model), options.resume, options.overwrite)


def _unused(recipe: Recipe, key: str) -> str:
    """Why the key of a recipe does nothing, if so."""
    data = recipe.data
    plain = isinstance(data, TextData) and data.path is not None and Path(data.path).suffix not in ROW_SUFFIXES
    reasons = {
        f"model={recipe.model} has no latent": key.startswith("latent.") and not recipe.has_latent,
        "data.labels is false": key.startswith("data.label_") and not getattr(data, "labels", True),
        f"only {listed(sorted(ROW_SUFFIXES))} have fields": key == "data.field" and plain,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def fit_prior(options: FitPrior) -> None:
    RunDirectory.open(options.run)  # an exported model cannot be changed
    run = vadd.load(options.run, checkpoint=parse_checkpoint(options.checkpoint), prior="trained")
    with progress_bar() as progress:
        fitted = fit(run, "conditional" if options.conditional else "flow", steps=options.steps, progress=progress)
    show_fitted(fitted)


def show_fitted(fitted: PriorRecord) -> None:
    out_console.out(
        f"{fitted.name} prior: KL of the recognition model, everything masked, held-out examples: "
        f"{fitted.kl_normal:.2f} nats to N(0, I), {fitted.kl:.2f} to the prior; {fitted.seconds or 0:.0f} s"
        + ("" if fitted.helps else f". It is worse than N(0, I) and is not used, unless with --prior {fitted.name}")
    )


def export(options: Export) -> None:
    formats: list[Format] = ["onnx"] if options.onnx else []
    formats += ["pt2"] if options.torch_export else []
    directory, which = options.directory, parse_checkpoint(options.checkpoint)
    if formats:
        run, how = vadd.load(options.run, "cpu", checkpoint=which), {"steps": options.steps, "sampler": options.sampler}
        for format in formats:
            check_sampler(run.model, run.options(**how), format)
    is_run, sampler_alone = RunDirectory(options.run).is_run(), "of an exported model only the sampler is written"
    refuse_if(
        (
            formats and not is_run and (options.half or options.results),
            f"{sampler_alone}: leave --half and --results out",
        )
    )
    if not formats or is_run:  # of an exported model the sampler alone
        source, results = RunDirectory.open(options.run), options.results
        card = None if results is None else card_results(results)
        exported = write(source, directory, checkpoint=which, results=card, half=options.half)
        out_console.out(
            f"{directory}: {exported.recipe.name} {exported.recipe.model}, weights of step {exported.step}. "
            f"Choose a licence in {directory / 'README.md'} before you publish it; "
            f"try: vadd sample {directory} -n 5"
        )
    for format in formats:
        run.export_sampler(directory, format, **how)
        out_console.out(f"{directory}: {plural(run.options(**how).steps, 'step')} as {format}")
    if options.push is not None:
        out_console.out(push(directory, options.push, private=options.private))
