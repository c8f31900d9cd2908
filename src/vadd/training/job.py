"""A training that was asked for, on the command line or in Python, up to the point where it can begin."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks import CustomNetworks
from vadd.parallel import on_main_process
from vadd.progress import Progress
from vadd.recipe import Recipe, differences, may_change_on_resume
from vadd.recipe.memory import check_memory
from vadd.recipe.size_warning import warn_of_size
from vadd.run.directory import RunDirectory
from vadd.training.custom_networks import check_sizes
from vadd.training.loop import check_trainable


@dataclass(frozen=True)
class Job:
    recipe: Recipe
    directory: RunDirectory
    resume: bool = False
    overwrite: bool = False
    own: CustomNetworks | None = None
    """Networks to train in place of the recipe's."""


def default_place(name: str, model: str) -> Path:
    """Of a run without a given place."""
    return Path("runs") / f"{name}-{model}"


def check_same_recipe(job: Job) -> None:
    """Refuse to go on with a run whose recipe differs in more than a resumed training may change."""
    changed = differences(job.directory.recipe(), job.recipe)
    refused = {key: values for key, values in changed.items() if not may_change_on_resume(key)}
    if refused:
        listed = ", ".join(f"{key} is {old!r} there, {now!r} here" for key, (old, now) in refused.items())
        raise UserError(f"{job.directory.path} was started with another recipe: {listed}")


def prepare(
    job: Job,
    read: Callable[[Recipe, Progress], DiscreteDataset],
    progress: Progress,
    keep: Callable[[RunDirectory], None] = lambda directory: None,
) -> DiscreteDataset:
    """The data, after everything was checked that can be before an old run is given up; then the run's directory, into
    which ``keep`` writes what it must have of them.
    """
    if not job.resume:
        on_main_process(partial(job.directory.check_place, overwrite=job.overwrite))  # reading may take long
    dataset = read(job.recipe, progress)
    check_trainable(job.recipe)
    if job.own is None:
        check_memory(job.recipe, dataset.kind)
        if not job.resume and _on_own_data(job.recipe):
            on_main_process(partial(warn_of_size, job.recipe, dataset.kind))
    else:  # it is in memory already
        check_sizes(job.own, dataset.kind)

    def create() -> None:
        job.directory.create(job.recipe, overwrite=job.overwrite)
        keep(job.directory)

    if not job.resume:
        on_main_process(create)
    return dataset


def _on_own_data(recipe: Recipe) -> bool:
    """The presets say what they take; a recipe for other data does not."""
    return getattr(recipe.data, "path", None) is not None
