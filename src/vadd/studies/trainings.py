"""Train what is missing: a study that is run again reuses finished runs and continues interrupted ones."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from vadd.core import Particles
from vadd.data import DiscreteDataset
from vadd.errors import Interrupted, UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.evaluate import MOST_SAMPLES
from vadd.parallel import on_main_process
from vadd.recipe import Recipe, build_dataset, differences, load_recipe
from vadd.recipe.recipe import COMPUTING, same_learning
from vadd.run.directory import RunDirectory, step_of
from vadd.run.limits import check_time
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.run.sampling import SamplingOptions
from vadd.studies.fitting import fitted
from vadd.studies.study import Measuring, Request, Study
from vadd.training.loop import train
from vadd.training.prior import fit_priors_of_recipe
from vadd.training.start import check_trainable

COMPARED = ("model", "name", "data.kind", "data.name", "latent.prior", "sampling.latent_policy")
"""Keys of the recipe that every study sets itself."""
WITHOUT_IMAGES = ("text", "toy", "copies", "table")


def check_overrides(overrides: Iterable[str], fixed: Sequence[str] = (), compared: Sequence[str] = COMPARED) -> None:
    """Refuse what would make the rows of a comparison the same, or change what they are called."""
    for override in overrides:
        key = override.partition("=")[0]
        if key in (*compared, *fixed):
            raise UserError(f"{override} contradicts what is compared: `vadd reproduce` sets {key} for each row itself")


def check_judges(request: Request, recipe: Recipe) -> None:
    """Refuse what evaluates other examples than the recipe's."""
    if request.judge is not None and recipe.data.kind != "text":
        raise UserError(f"--judge reads texts; {recipe.name} has none")
    if request.inception is not None and recipe.data.kind in WITHOUT_IMAGES:
        raise UserError(f"--inception evaluates images; {recipe.name} has none")


def trainings_of(study: Study, request: Request) -> list[tuple[Recipe, Path]]:
    """The recipe and the directory of each training."""
    check_overrides(request.overrides, study.fixed)
    trainings = []
    for entry in study.entries_of(request.setting):
        if entry.control and not request.control:
            continue
        recipe = load_recipe(request.recipe or entry.recipe)
        text = recipe.data.kind == "text"
        if study.only_text and not text:
            raise UserError(f"the recipe {recipe.name} is not one for text; `vadd recipes` lists them")
        if text and request.data is not None and not request.data.exists():
            raise UserError(f"there is no file {request.data}")
        key = "data.path" if text else "data.directory"
        place = [] if request.data is None else [f"{key}={request.data.resolve()}"]
        recipe = recipe.with_overrides([*entry.changes, *place, *request.overrides])
        if entry.time_ratio != 1 and recipe.network.kind == "short-transformer":
            recipe = recipe.with_values([("training.steps", round(entry.time_ratio * recipe.training.steps))])
        folder = entry.folder.format(name=recipe.name.removesuffix("-paper"), model=recipe.model)
        trainings += [(of_seed(recipe, seed), request.out / place_of(folder, seed)) for seed in range(request.seeds)]
    return trainings


def of_seed(recipe: Recipe, number: int) -> Recipe:
    """The same training with other random numbers."""
    return recipe if number == 0 else recipe.with_values([("seed", recipe.seed + number)])


def place_of(folder: str, seed: int) -> str:
    return folder if seed == 0 else f"{folder}-seed-{seed}"


def finished_runs(trainings: Sequence[tuple[Recipe, Path]], *, fit: bool = False) -> list[Run]:
    """:func:`finished_run` of each; what is wrong with any of them is reported before the first is trained."""
    for recipe, path in trainings:
        directory = RunDirectory(path)
        _refuse_another_recipe(recipe, directory)
        if not _has_last_checkpoint(recipe, directory):
            check_trainable(recipe)
    return [finished_run(recipe, path, fit=fit) for recipe, path in trainings]


def finished_run(recipe: Recipe, path: Path, *, fit: bool = False, data: DiscreteDataset | None = None) -> Run:
    """The run in ``path``, trained if it is missing and continued if it is unfinished; of several processes the main
    one writes. With ``fit`` it is computed so that it fits into memory (:mod:`vadd.studies.fitting`). It learns from
    ``data``, by default the recipe's.
    """
    directory = RunDirectory(path)
    _refuse_another_recipe(recipe, directory)
    if _has_last_checkpoint(recipe, directory):
        on_main_process(lambda: _complete(recipe, directory))
        run = load(path)
        if run.step == recipe.training.steps:  # otherwise the last checkpoint is damaged
            return run
    check_trainable(recipe)
    data = build_dataset(recipe) if data is None else data
    recipe = fitted(recipe, data) if fit else recipe
    on_main_process(lambda: None if directory.is_run() else directory.create(recipe))
    outcome = train(recipe, directory, data, resume=True)
    if outcome.stopped or not outcome.finished:
        raise Interrupted(f"stopped at step {outcome.step}, saved in {path}")
    on_main_process(lambda: fit_priors_of_recipe(path))
    return load(path)


def _complete(recipe: Recipe, directory: RunDirectory) -> None:
    """How a finished run is sampled may change, how it was computed does not; its prior may be missing."""
    computed = {key: old for key, (old, _) in differences(directory.recipe(), recipe).items() if key in COMPUTING}
    directory.write_recipe(recipe.with_values(computed.items()))
    fit_priors_of_recipe(directory.path)


def _refuse_another_recipe(recipe: Recipe, directory: RunDirectory) -> None:
    def refuse() -> None:
        changes = differences(directory.recipe(), recipe) if directory.is_run() else {}
        if changes := {key: values for key, values in changes.items() if not same_learning(key)}:
            listed = ", ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changes.items())
            raise UserError(f"{directory.path} was trained with another recipe ({listed}); choose another --out")

    on_main_process(refuse)


def _has_last_checkpoint(recipe: Recipe, directory: RunDirectory) -> bool:
    return directory.is_run() and any(step_of(path) == recipe.training.steps for path in directory.checkpoints())


def measuring_of(study: Study, request: Request) -> Measuring:
    """Refuses what would never end."""
    measuring = study.settings[request.setting].measuring.model_copy(update=dict(request.measuring))
    if measuring.samples > MOST_SAMPLES:
        raise UserError(f"a comparison takes at most {MOST_SAMPLES:,} samples, not {measuring.samples:,}")
    for steps in (*measuring.steps, *measuring.bound_steps):
        SamplingOptions().changed({"steps": steps})
    examples, in_delbo = max(1, measuring.limit), max(measuring.delbo_particles, default=measuring.particles)
    for name, rows in (("step bounds", measuring.particles), ("the DELBO", measuring.draws * in_delbo)):
        check_time(f"{name} of {examples:,} examples", steps=1, rows=rows * examples)
    return measuring


def bound_settings(measuring: Measuring) -> BoundSettings:
    return BoundSettings(
        Particles(measuring.particles),
        steps=measuring.bound_steps,
        delbo_draws=measuring.draws,
        delbo_particles=measuring.delbo_particles,
        limit=measuring.limit or None,
        choose_proposals=measuring.choose_proposals,
    )
