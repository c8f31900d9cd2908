"""Train what is missing: a study that is run again picks up finished runs and continues interrupted ones."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from vadd.errors import Interrupted, UserError
from vadd.parallel import on_main_process
from vadd.recipe import COMPUTING, Recipe, differences, load_recipe, same_learning
from vadd.recipe.building import build_dataset
from vadd.run.directory import RunDirectory, step_of
from vadd.run.run import Run, load
from vadd.studies.fitting import fitted
from vadd.training.loop import check_trainable, train
from vadd.training.prior import fit_priors_of_recipe

COMPARED = ("model", "name", "data.kind", "data.name", "latent.prior", "sampling.latent_policy")
"""What the rows of a study differ in, or are told apart by."""


def check_overrides(overrides: Iterable[str], fixed: Sequence[str] = COMPARED) -> None:
    """Refuse what would make the rows of a comparison the same, or call them something else than they are."""
    for override in overrides:
        key = override.partition("=")[0]
        if key in fixed:
            raise UserError(f"{override} contradicts what is compared: `vadd reproduce` sets {key} for each row itself")


def both_models(name: str, overrides: Sequence[str] = ()) -> list[Recipe]:
    """The same recipe for MDLM and for VADD."""
    check_overrides(overrides)
    return [load_recipe(name).with_overrides([f"model={model}", *overrides]) for model in ("mdlm", "vadd")]


def ensure_all_trained(recipes: Sequence[tuple[Recipe, Path]], *, fit: bool = False) -> list[Run]:
    """:func:`ensure_trained` for all runs of a study; what speaks against any of them is told before hours are spent on
    the first.
    """
    for recipe, path in recipes:
        directory = RunDirectory(path)
        _refuse_another_recipe(recipe, directory)
        if not _has_last_checkpoint(recipe, directory):
            check_trainable(recipe)
    return [ensure_trained(recipe, path, fit=fit) for recipe, path in recipes]


def ensure_trained(recipe: Recipe, path: Path, *, fit: bool = False) -> Run:
    """The finished run in ``path``; of several processes the main one looks there and makes what is missing. With
    ``fit`` what is trained is made to fit into memory (:mod:`vadd.studies.fitting`).
    """
    directory = RunDirectory(path)

    def create_what_is_missing() -> None:
        if not directory.is_run():
            directory.create(recipe)

    _refuse_another_recipe(recipe, directory)
    if (finished := _finished(recipe, directory)) is not None:
        return finished
    check_trainable(recipe)
    data = build_dataset(recipe)
    recipe = fitted(recipe, data) if fit else recipe
    on_main_process(create_what_is_missing)
    outcome = train(recipe, directory, data, resume=True)
    if outcome.stopped or not outcome.finished:
        raise Interrupted(f"stopped at step {outcome.step}, saved in {path}")
    on_main_process(lambda: fit_priors_of_recipe(path))
    return load(path)


def _refuse_another_recipe(recipe: Recipe, directory: RunDirectory) -> None:
    def refuse() -> None:
        found = differences(directory.recipe(), recipe) if directory.is_run() else {}
        if changed := {key: values for key, values in found.items() if not same_learning(key)}:
            listed = ", ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items())
            raise UserError(f"{directory.path} was trained with another recipe ({listed}); choose another --out")

    on_main_process(refuse)


def _finished(recipe: Recipe, directory: RunDirectory) -> Run | None:
    """The run, if it has its last checkpoint; how it is sampled may have changed, how it was computed has not."""
    if not _has_last_checkpoint(recipe, directory):
        return None

    def complete() -> None:
        computed = {key: old for key, (old, _) in differences(directory.recipe(), recipe).items() if key in COMPUTING}
        directory.write_recipe(recipe.with_values(computed.items()))
        fit_priors_of_recipe(directory.path)

    on_main_process(complete)
    run = load(directory.path)
    return (
        run if run.step == recipe.training.steps else None
    )  # the last checkpoint may be damaged: then there is more to train


def _has_last_checkpoint(recipe: Recipe, directory: RunDirectory) -> bool:
    return directory.is_run() and any(step_of(path) == recipe.training.steps for path in directory.checkpoints())


def one_latent_beside(run: Run) -> list[Run]:
    """The same run drawn with one z for all steps, where that is not what its recipe says already."""
    return [] if run.sampling.latent_policy == "fixed" else [run.with_sampling(latent_policy="fixed")]
