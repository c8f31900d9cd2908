"""``vadd.train``: what ``vadd train`` does, from Python and for data in memory."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from vadd.core.checking import check, latent_size
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks import CustomNetworks
from vadd.parallel import is_main
from vadd.progress import console, silent, warn
from vadd.recipe import Recipe
from vadd.recipe.loading import with_settings
from vadd.recipe.models import ModelName
from vadd.recipe.recipe import validate
from vadd.run.run import Run, given_networks, load
from vadd.training.data import RecipeSource, Source, source_of
from vadd.training.display import NotebookProgress, in_notebook
from vadd.training.events import Callbacks, CheckpointEvent, EvaluationEvent, StepEvent
from vadd.training.job import Job, new_job, prepare, resumed_job, run_directory
from vadd.training.loop import Outcome
from vadd.training.loop import train as run_training
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

    ``out`` is the run's directory, by default ``runs/NAME-MODEL``; an existing run is never replaced without
    ``overwrite``. ``model`` is "vadd" unless the recipe says otherwise, or "mdlm" for the same without a latent, or
    another of :mod:`vadd.recipe.models`.

    ``labels`` are those of an array or of texts, one integer or text for each example: the run then draws of one of
    them, ``run.sample(16, label="cat")``. For a file, a folder or a recipe ``labels=True`` takes those that are there.

    A custom ``denoiser`` (:class:`vadd.Denoiser`) and, for "vadd", a ``recognizer`` (:class:`vadd.Recognizer`) take
    the place of the recipe's networks. They are checked (:func:`vadd.check`) and copied. Resuming and
    :func:`vadd.load` need the same.

    The callbacks are given one event each and may end the training with ``event.stop()``; so does Ctrl-C or the
    notebook's stop button. A run that ended early goes on with ``resume=True``; the data may then be left out.

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
        raise UserError("labels are given with their data: vadd.train(data, labels=labels)")
    if source is None and not resume:
        raise UserError("vadd.train needs data: an array, texts, a path or the name of a recipe")
    job = _job(source, out, settings, given_networks(denoiser, recognizer), resume=resume, overwrite=overwrite)
    dataset = (
        prepare(job, silent, source.read, source.keep) if source is not None and not resume else prepare(job, silent)
    )
    outcome = _trained(job, dataset, Callbacks(on_step, on_evaluation, on_checkpoint), progress=progress)
    if outcome.finished and is_main():
        fit_priors_of_recipe(job.directory.path, networks=job.networks)
    return load(job.directory.path, denoiser=denoiser, recognizer=recognizer)


def _reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the keywords say of how a file is read, which decides what recipe it gets."""
    field = settings.get("data.field", settings.get("field"))
    return {"field": None if field is None else str(field), "labels": bool(settings.get("data.labels"))}


def _job(
    source: Source | None,
    out: str | Path | None,
    settings: Mapping[str, Any],
    networks: CustomNetworks | None,
    *,
    resume: bool,
    overwrite: bool,
) -> Job:
    if source is None and out is None:
        raise UserError("resume=True needs the run's directory: out=...")
    name = "" if source is None else source.name
    directory = run_directory(out, name, str(settings.get("model", "vadd")))
    if resume:
        recipe = directory.open(directory.path).recipe()
        if source is not None:
            source.check_same(directory)
        if isinstance(source, RecipeSource):
            recipe = source.recipe(directory)
    else:
        assert source is not None
        recipe = source.recipe(directory)
    recipe = with_settings(recipe, settings, list(inspect.signature(train).parameters))
    recipe = recipe if networks is None else with_networks(recipe, networks)
    if resume:
        return resumed_job(recipe, directory, networks)
    return new_job(recipe, directory, overwrite=overwrite, networks=networks)


def _trained(job: Job, dataset: DiscreteDataset, callbacks: Callbacks, *, progress: bool) -> Outcome:
    start = partial(run_training, job.recipe, job.directory, dataset, resume=job.resume, networks=job.networks)
    if not progress or not in_notebook():
        return start(callbacks=callbacks, silent=not progress)
    with NotebookProgress(f"{job.recipe.name} {job.recipe.model}", callbacks) as shown:
        outcome = start(callbacks=shown.callbacks, silent=True)
    if not outcome.finished:
        console.print(f"stopped after {outcome.step} steps; saved, resume=True goes on", markup=False)
    return outcome


def with_networks(recipe: Recipe, networks: CustomNetworks) -> Recipe:
    """The recipe of a run with these networks; refused where they break the protocol."""
    if recipe.model not in ("vadd", "mdlm"):
        raise UserError(f"custom networks need model=vadd or model=mdlm, not {recipe.model}")
    # Codes alone need no recognition model.
    needs_recognizer = recipe.has_latent and recipe.latent.dim > 0
    if needs_recognizer and networks.recognizer is None:
        raise UserError(
            "model=vadd needs a recognition model besides the denoiser: recognizer=..., for example "
            "vadd.networks.SiameseMlpRecognizer(positions, vocab_size, MlpSettings(), latent_dim=...); "
            "model='mdlm' needs none"
        )
    if not needs_recognizer and networks.recognizer is not None:
        raise UserError("a recognition model needs model=vadd with a latent.dim above 0")
    codes = recipe.latent.codes if recipe.has_latent else 0
    size = None if networks.recognizer is None else partial(latent_size, networks.recognizer)
    # With codes the denoiser's input is longer than the recognition model's output.
    if not codes:
        findings = check(networks.denoiser, networks.recognizer)
    else:
        findings = check(networks.denoiser, latent_dim=codes + (0 if size is None else size(*networks.sizes)))
    if not findings.ok:
        more = f" (and {len(findings.problems) - 1} more, see vadd.check)" if len(findings.problems) > 1 else ""
        raise UserError(f"{type(networks.denoiser).__name__} cannot be trained: {findings.problems[0]}{more}")
    for note in findings.notes:
        warn(note)
    changes: dict[str, Any] = {"network": networks.section().model_dump()}
    if size is not None:
        latent = recipe.latent.model_dump(mode="json")
        changes["latent"] = latent | {"dim": size(*networks.sizes), "per": "example"}
    return validate(recipe.model_dump(mode="json") | changes, recipe.name)
