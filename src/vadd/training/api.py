"""``vadd.train``: what ``vadd train`` does, from Python and for data in memory."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks import CustomNetworks
from vadd.parallel import is_main
from vadd.progress import console, silent
from vadd.recipe import Recipe
from vadd.recipe.building import build_dataset
from vadd.recipe.keywords import with_settings
from vadd.recipe.models import ModelName
from vadd.run.directory import RunDirectory
from vadd.run.run import Run, given_networks, load
from vadd.training.callbacks import Callbacks, CheckpointEvent, EvaluationEvent, StepEvent
from vadd.training.custom_networks import with_own_networks
from vadd.training.given_data import Named, Source, source_of
from vadd.training.job import Job, check_same_recipe, default_place, prepare
from vadd.training.loop import Outcome
from vadd.training.loop import train as run_training
from vadd.training.notebook import NotebookProgress, in_notebook
from vadd.training.prior import fit_priors_of_recipe


def train(
    data: Any = None,
    out: str | Path | None = None,
    model: ModelName | None = None,
    *,
    labels: Any = None,
    denoiser: nn.Module | None = None,
    recognizer: nn.Module | None = None,
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

    ``labels`` are those of an array or of texts, one integer or text for each example: the run then draws of one of
    them, ``run.sample(16, label="cat")``. For a file, a folder or a recipe ``labels=True`` takes those that are there.

    A ``denoiser`` (:class:`vadd.Denoiser`) and, for "vadd", a ``recognizer`` (:class:`vadd.Recognizer`) of your own
    take the place of the recipe's networks. They are checked (:func:`vadd.check`) and stay as they are: the run has
    copies. Resuming and :func:`vadd.load` take the same.

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
    if isinstance(labels, bool):
        labels, settings = None, settings | {"data.labels": labels}
    source = None if data is None else source_of(data, labels, _reading(settings))
    if source is None and labels is not None:
        raise UserError("labels are given beside their data: vadd.train(data, labels=labels)")
    own = given_networks(denoiser, recognizer)
    make = _job_to_resume if resume else _new_job
    job = make(source, out, _Wanted(settings, own), overwrite)
    dataset = _prepared(job, source)
    callbacks = Callbacks(on_step, on_evaluation, on_checkpoint)
    outcome = _trained(job, dataset, callbacks, progress=progress)
    if outcome.finished and is_main():
        fit_priors_of_recipe(job.directory.path, own=own)
    return load(job.directory.path, denoiser=denoiser, recognizer=recognizer)


def _reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the keywords say of how a file is read, which decides what recipe it gets."""
    field = settings.get("data.field", settings.get("field"))
    return {"field": None if field is None else str(field), "labels": bool(settings.get("data.labels"))}


@dataclass(frozen=True)
class _Wanted:
    """What changes the recipe of the data."""

    settings: Mapping[str, Any]
    own: CustomNetworks | None

    @property
    def model(self) -> str:
        return str(self.settings.get("model", "vadd"))

    def of(self, recipe: Recipe) -> Recipe:
        changed = with_settings(recipe, self.settings, list(inspect.signature(train).parameters))
        return changed if self.own is None else with_own_networks(changed, self.own)


def _new_job(source: Source | None, out: str | Path | None, wanted: _Wanted, overwrite: bool) -> Job:
    if source is None:
        raise UserError("vadd.train needs data: an array, texts, a path or the name of a recipe")
    place = default_place(source.name, wanted.model) if out is None else Path(out)
    directory = RunDirectory(place)
    if directory.is_run() and not overwrite:
        raise UserError(
            f"{place} holds a run already: resume=True goes on with it, overwrite=True replaces it, "
            f"vadd.load({str(place)!r}) opens it"
        )
    directory.check_place(overwrite=overwrite)
    return Job(wanted.of(source.recipe(directory)), directory, overwrite=overwrite, own=wanted.own)


def _job_to_resume(source: Source | None, out: str | Path | None, wanted: _Wanted, overwrite: bool) -> Job:
    if out is None:
        if source is None:
            raise UserError("resume=True needs the run's directory: out=...")
        out = default_place(source.name, wanted.model)
    directory = RunDirectory.open(out)
    recipe = directory.recipe()
    if source is not None:
        source.check_same(directory)
    if isinstance(source, Named):
        recipe = source.recipe(directory)
    job = Job(wanted.of(recipe), directory, resume=True, own=wanted.own)
    check_same_recipe(job)
    return job


def _prepared(job: Job, source: Source | None) -> DiscreteDataset:
    if source is None or job.resume:
        return prepare(job, lambda recipe, progress: build_dataset(recipe, progress=progress), silent)
    return prepare(job, source.read, silent, source.keep)


def _trained(job: Job, dataset: DiscreteDataset, callbacks: Callbacks, *, progress: bool) -> Outcome:
    start = partial(run_training, job.recipe, job.directory, dataset, resume=job.resume, own=job.own)
    if not progress or not in_notebook():
        return start(callbacks=callbacks, silent=not progress)
    with NotebookProgress(f"{job.recipe.name} {job.recipe.model}", callbacks) as shown:
        outcome = start(callbacks=shown.callbacks, silent=True)
    if not outcome.finished:
        console.print(f"stopped after {outcome.step} steps; saved, resume=True goes on", markup=False)
    return outcome
