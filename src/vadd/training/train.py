"""``vadd.train``: what ``vadd train`` does, from Python and for data in memory."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vadd.core.checking import check, latent_size
from vadd.data import DiscreteDataset
from vadd.errors import UserError, refuse_if
from vadd.networks import CustomNetworks
from vadd.parallel import chosen_device, is_main, on_main_process, process_count
from vadd.progress import Progress, progress_bar, warn
from vadd.recipe import Recipe, differences
from vadd.recipe.loading import with_settings
from vadd.recipe.models import ModelName
from vadd.recipe.plan import check_memory
from vadd.recipe.recipe import may_change_on_resume, validate
from vadd.run.directory import RunDirectory
from vadd.run.loading import given_networks, load
from vadd.run.run import Run
from vadd.settings import Place, checked
from vadd.training.data import RecipeSource, Source, check_same_data, source_of
from vadd.training.events import Callbacks, CheckpointEvent, EvaluationEvent, StepEvent
from vadd.training.loop import train as run_training
from vadd.training.prior import fit_priors_of_recipe
from vadd.training.start import check_trainable


@checked
def train(
    data: Any = None,
    out: Place | None = None,
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
    device: str | torch.device | None = None,
    **settings: Any,
) -> Run:
    """Train a model and open it.

    ``data`` is an array or tensor of integers whose first axis counts the examples, a list of texts or of lists of
    symbols, a DataFrame, a data set of torch (``TensorDataset``), Hugging Face or this package
    (:class:`~vadd.data.DiscreteDataset`), the path of a file or of a folder of images, or the name of a recipe. The run
    stores data that are given in memory.

    ``out`` is the run's directory, by default ``runs/NAME-MODEL``. An existing run is replaced only with ``overwrite``.
    ``model`` is "vadd" unless the recipe names another one. "mdlm" is the same model without a latent; `vadd zoo` lists
    all names.

    ``labels`` has one integer or text for each example of an array or a list of texts. The run can then draw samples of
    one label: ``run.sample(16, label="cat")``. For a file, a folder or a recipe, ``labels=True`` uses its own labels.

    A custom ``denoiser`` (:class:`vadd.Denoiser`) and, for "vadd", a ``recognizer`` (:class:`vadd.Recognizer`) replace
    the recipe's networks. They are checked (:func:`vadd.check`) and copied. Resuming and :func:`vadd.load` need them.

    Each callback is called with one event. ``event.stop()``, Ctrl-C or the notebook's stop button end the training; its
    state is saved. ``resume=True`` continues such a run, and needs no data. ``device``, like "cuda:1", is by default a
    GPU if there is one, else the CPU.

    All other keywords are keys of the recipe: ``steps=2000`` is ``training.steps``, others are ``latent={"dim": 8}`` or
    ``**{"data.test_fraction": 0.2}``. Their defaults are those of ``vadd train``.

    >>> import numpy as np, tempfile, vadd
    >>> codes = np.random.default_rng(0).integers(0, 3, (200, 1)).repeat(4, axis=1)
    >>> run = vadd.train(codes, tempfile.mkdtemp(), steps=20, progress=False)
    >>> run.sample(5, steps=1).shape
    torch.Size([5, 4])
    """
    if resume and overwrite:
        raise UserError("resume and overwrite exclude each other: give one of them")
    place = None if device is None else chosen_device(device)
    if model is not None:
        settings["model"] = model
    if isinstance(labels, bool):
        labels, settings = None, settings | {"data.labels": labels}
    source = None if data is None else source_of(data, labels, reading(settings))
    if source is None and (labels is not None or not resume or out is None):
        raise UserError(
            "vadd.train needs data: an array, texts, a path or a recipe; to resume a run, its directory out="
        )
    directory = run_directory(out, "" if source is None else source.name, str(settings.get("model", "vadd")))
    given = source if resume and not isinstance(source, RecipeSource) else None
    if source is None or given is not None:
        recipe = RunDirectory.open(directory.path).recipe()
    else:
        recipe = source.recipe(directory)
    recipe = with_settings(recipe, settings, list(inspect.signature(train).parameters))
    networks = given_networks(denoiser, recognizer)
    recipe = recipe if networks is None else with_networks(recipe, networks)
    job = Job(recipe, directory, resume, overwrite, networks)
    with progress_bar(hidden=not progress) as shown:
        dataset = job.prepare(shown, None if resume else source)
    if given is not None:
        check_same_data(given, recipe, dataset, directory.path)
    callbacks = Callbacks(on_step, on_evaluation, on_checkpoint)
    options: dict[str, Any] = {"callbacks": callbacks, "networks": networks, "device": place}
    outcome = run_training(recipe, directory, dataset, resume=resume, silent=not progress, **options)
    if outcome.finished and is_main():
        with progress_bar(hidden=not progress) as shown:
            fit_priors_of_recipe(directory.path, shown, networks, device)
    return load(directory.path, device, denoiser=denoiser, recognizer=recognizer)


def reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the keywords say of how a file is read, which decides what recipe it gets."""
    given = {key: settings.get(f"data.{key}", settings.get(key)) for key in ("field", "tokenizer")}
    texts = {key: None if value is None else str(value) for key, value in given.items()}
    return {**texts, "labels": bool(settings.get("data.labels"))}


@dataclass(frozen=True)
class Job:
    """A training that was requested, on the command line or in Python, up to the point where it can begin. Refused
    where its place is taken, or the recipe differs from the run's in more than a resumed training may change.
    """

    recipe: Recipe
    directory: RunDirectory
    resume: bool = False
    overwrite: bool = False
    networks: CustomNetworks | None = None
    """Trained in place of the recipe's."""

    def __post_init__(self) -> None:
        if not self.resume:
            if process_count() == 1:  # several processes agree first
                self.directory.check_place(overwrite=self.overwrite)
            return
        changed = differences(RunDirectory.open(self.directory.path).recipe(), self.recipe)
        # A prior that is trained with the model is a part of its weights; others are fitted afterwards.
        refused = {
            key: values
            for key, values in changed.items()
            if not may_change_on_resume(key) or (key == "latent.prior" and "autoregressive" in values)
        }
        if refused:
            listed = ", ".join(f"{key} is {old!r} there, {now!r} here" for key, (old, now) in refused.items())
            raise UserError(f"{self.directory.path} was started with another recipe: {listed}")

    def prepare(self, progress: Progress, source: Source | None = None) -> DiscreteDataset:
        """The data, after everything was checked that can be before an old run is removed; then the run's directory is
        made. ``source`` is needed for data that no recipe names.
        """
        source = RecipeSource(self.recipe) if source is None else source
        if not self.resume:
            on_main_process(partial(self.directory.check_place, overwrite=self.overwrite))  # reading may take long
        dataset = source.read(self.recipe, progress)
        check_trainable(self.recipe)
        if self.networks is not None:
            self.networks.check_sizes(dataset.kind)
        else:
            check_memory(self.recipe, dataset.kind)
        if not self.resume:
            create = partial(self.directory.create, self.recipe, overwrite=self.overwrite, keep=source.keep)
            on_main_process(create)
        return dataset


def run_directory(out: str | Path | None, name: str = "", model: str = "") -> RunDirectory:
    """Where a run is written: ``out``, or runs/NAME-MODEL."""
    return RunDirectory(Path("runs") / f"{name}-{model}" if out is None else out)


def with_networks(recipe: Recipe, networks: CustomNetworks) -> Recipe:
    """The recipe of a run with these networks; refused where they break the protocol."""
    # Codes alone need no recognition model.
    needed, given = recipe.has_latent and recipe.latent.dim > 0, networks.recognizer is not None
    missing = (
        "model=vadd needs a recognition model besides the denoiser: recognizer=..., for example "
        "vadd.networks.SiameseMlpRecognizer(positions, vocab_size, MlpSettings(), latent_dim=...); "
        "model='mdlm' needs none"
    )
    refuse_if(
        (recipe.model not in ("vadd", "mdlm"), f"custom networks need model=vadd or model=mdlm, not {recipe.model}"),
        (needed and not given, missing),
        (given and not needed, "a recognition model needs model=vadd with a latent.dim above 0"),
    )
    codes = recipe.latent.codes if recipe.has_latent else 0
    # With codes the denoiser's input is longer than the recognition model's output.
    if not codes:
        findings = check(networks.denoiser, networks.recognizer)
    else:
        findings = check(networks.denoiser, latent_dim=codes + latent_size(networks.recognizer, *networks.sizes))
    if not findings.ok:
        more = f" (and {len(findings.problems) - 1} more, see vadd.check)" if len(findings.problems) > 1 else ""
        raise UserError(f"{type(networks.denoiser).__name__} cannot be trained: {findings.problems[0]}{more}")
    for note in findings.notes:
        warn(note)
    changes: dict[str, Any] = {"network": networks.section().model_dump()}
    if networks.recognizer is not None:
        dim = latent_size(networks.recognizer, *networks.sizes)
        changes["latent"] = recipe.latent.model_dump(mode="json") | {"dim": dim, "per": "example"}
    return validate(recipe.model_dump(mode="json") | changes, recipe.name)
