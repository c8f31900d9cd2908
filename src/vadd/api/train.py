"""``vadd.train``: what ``vadd train`` does, from Python and for data in memory."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vadd.api.data import Named, Source, source_of
from vadd.api.job import Job, check_same_recipe, default_place, prepare
from vadd.api.notebook import NotebookProgress, in_notebook
from vadd.api.run import Run, load
from vadd.api.settings import with_settings
from vadd.build import build_dataset
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.parallel import is_main
from vadd.progress import console, silent
from vadd.recipe import Recipe
from vadd.recipe.models import ModelName
from vadd.runs.layout import RunDirectory
from vadd.training.callbacks import Callbacks, CheckpointEvent, EvaluationEvent, StepEvent
from vadd.training.loop import Outcome
from vadd.training.loop import train as run_training
from vadd.training.prior import fit_priors_of_recipe


def train(
    data: Any = None,
    out: str | Path | None = None,
    model: ModelName | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    on_step: Callable[[StepEvent], object] | None = None,
    on_evaluation: Callable[[EvaluationEvent], object] | None = None,
    on_checkpoint: Callable[[CheckpointEvent], object] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Train a model and open it.

    ``data`` is an array or tensor of integers (examples first), a list of texts, a pandas DataFrame, a
    :class:`~vadd.data.DiscreteDataset`, the path of an ``.npy`` file, a text or a folder of images, or the name of a
    recipe. What lies in memory is kept in the run.

    ``out`` is the run's directory, by default ``runs/NAME-MODEL``; a run that is there is never replaced without
    ``overwrite``. ``model`` is "vadd" unless the recipe says otherwise, or "mdlm" for the same without a latent, or
    another of :mod:`vadd.recipe.models`.

    The callbacks are told what happens, by one event each, and may end the training with ``event.stop()``; so does
    Ctrl-C or the notebook's stop button. A run that ended early goes on with ``resume=True``; the data may then be left
    out.

    All other keywords are keys of the recipe: ``steps=2000`` (those of the training), ``latent={"dim": 8}``,
    ``**{"data.test_fraction": 0.2}``. Whatever is not given is as in ``vadd train``.

    >>> import numpy as np, tempfile, vadd
    >>> codes = np.random.default_rng(0).integers(0, 3, (200, 1)).repeat(4, axis=1)
    >>> run = vadd.train(codes, tempfile.mkdtemp(), steps=20, progress=False)
    >>> run.sample(5, steps=1).shape
    torch.Size([5, 4])
    """
    if resume and overwrite:
        raise UserError("resume and overwrite exclude each other")
    if model is not None:
        settings["model"] = model
    source = None if data is None else source_of(data)
    make = _job_to_resume if resume else _new_job
    job = make(source, out, settings, overwrite)
    dataset = _prepared(job, source)
    callbacks = Callbacks(on_step, on_evaluation, on_checkpoint)
    outcome = _trained(job, dataset, callbacks, progress=progress)
    if outcome.finished and is_main():
        fit_priors_of_recipe(job.directory.path)
    return load(job.directory.path)


def _new_job(source: Source | None, out: str | Path | None, settings: dict[str, Any], overwrite: bool) -> Job:
    if source is None:
        raise UserError("vadd.train needs data: an array, texts, a path or the name of a recipe")
    place = default_place(source.name, settings.get("model", "vadd")) if out is None else Path(out)
    directory = RunDirectory(place)
    if directory.is_run() and not overwrite:
        raise UserError(
            f"{place} holds a run already: resume=True goes on with it, overwrite=True replaces it, "
            f"vadd.load({str(place)!r}) opens it"
        )
    directory.check_place(overwrite=overwrite)
    return Job(_with_settings(source.recipe(directory), settings), directory, overwrite=overwrite)


def _job_to_resume(source: Source | None, out: str | Path | None, settings: dict[str, Any], overwrite: bool) -> Job:
    if out is None:
        if source is None:
            raise UserError("resume=True needs the run's directory: out=...")
        out = default_place(source.name, settings.get("model", "vadd"))
    directory = RunDirectory.open(out)
    recipe = directory.recipe()
    if source is not None:
        source.check_same(directory)
    if isinstance(source, Named):
        recipe = source.recipe(directory)
    job = Job(_with_settings(recipe, settings), directory, resume=True)
    check_same_recipe(job)
    return job


def _with_settings(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    return with_settings(recipe, settings, list(inspect.signature(train).parameters))


def _prepared(job: Job, source: Source | None) -> DiscreteDataset:
    if source is None or job.resume:
        return prepare(job, lambda recipe, progress: build_dataset(recipe, progress=progress), silent)
    return prepare(job, source.read, silent, source.keep)


def _trained(job: Job, dataset: DiscreteDataset, callbacks: Callbacks, *, progress: bool) -> Outcome:
    if not progress or not in_notebook():
        return run_training(
            job.recipe, job.directory, dataset, resume=job.resume, callbacks=callbacks, silent=not progress
        )
    with NotebookProgress(f"{job.recipe.name} {job.recipe.model}", callbacks) as shown:
        outcome = run_training(
            job.recipe, job.directory, dataset, resume=job.resume, callbacks=shown.callbacks, silent=True
        )
    if not outcome.finished:
        console.print(f"stopped after {outcome.step} steps; saved, resume=True goes on", markup=False)
    return outcome
