"""A training that was requested, on the command line or in Python, up to the point where it can begin."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks import CustomNetworks
from vadd.parallel import on_main_process
from vadd.progress import Progress
from vadd.recipe import Recipe, build_dataset, differences
from vadd.recipe.plan import check_memory, warn_of_size
from vadd.recipe.recipe import may_change_on_resume
from vadd.run.directory import RunDirectory
from vadd.training.loop import check_trainable


@dataclass(frozen=True)
class Job:
    recipe: Recipe
    directory: RunDirectory
    resume: bool = False
    overwrite: bool = False
    networks: CustomNetworks | None = None
    """Trained in place of the recipe's."""


def run_directory(out: str | Path | None, name: str = "", model: str = "") -> RunDirectory:
    """Where a run is written: ``out``, or runs/NAME-MODEL."""
    return RunDirectory(Path("runs") / f"{name}-{model}" if out is None else out)


def new_job(
    recipe: Recipe, directory: RunDirectory, *, overwrite: bool = False, networks: CustomNetworks | None = None
) -> Job:
    if os.environ.get("WORLD_SIZE", "1") == "1":  # several processes agree first, which takes torch
        directory.check_place(overwrite=overwrite)
    return Job(recipe, directory, overwrite=overwrite, networks=networks)


def resumed_job(recipe: Recipe, directory: RunDirectory, networks: CustomNetworks | None = None) -> Job:
    """Refused where the recipe differs from the run's in more than a resumed training may change."""

    changed = differences(RunDirectory.open(directory.path).recipe(), recipe)
    refused = {key: values for key, values in changed.items() if not may_change_on_resume(key)}
    if refused:
        listed = ", ".join(f"{key} is {old!r} there, {now!r} here" for key, (old, now) in refused.items())
        raise UserError(f"{directory.path} was started with another recipe: {listed}")
    return Job(recipe, directory, resume=True, networks=networks)


def prepare(
    job: Job,
    progress: Progress,
    read: Callable[[Recipe, Progress], DiscreteDataset] | None = None,
    keep: Callable[[RunDirectory], None] = lambda directory: None,
) -> DiscreteDataset:
    """The data, after everything was checked that can be before an old run is removed; then the run's directory is
    made, into which ``keep`` writes what it must have of them. ``read`` is needed for data that no recipe names.
    """

    if not job.resume:
        on_main_process(partial(job.directory.check_place, overwrite=job.overwrite))  # reading may take long
    dataset = build_dataset(job.recipe, progress=progress) if read is None else read(job.recipe, progress)
    check_trainable(job.recipe)
    if job.networks is None:
        check_memory(job.recipe, dataset.kind)
        # The sizes of presets are known; those for other data were guessed.
        if not job.resume and getattr(job.recipe.data, "path", None) is not None:
            on_main_process(partial(warn_of_size, job.recipe, dataset.kind))
    else:
        job.networks.check_sizes(dataset.kind)

    def create() -> None:
        job.directory.create(job.recipe, overwrite=job.overwrite)
        keep(job.directory)

    if not job.resume:
        on_main_process(create)
    return dataset
