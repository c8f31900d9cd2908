"""Train what is missing: a study that is run again picks up finished runs and continues interrupted ones."""

from collections.abc import Sequence
from pathlib import Path

from vadd.build import build_dataset
from vadd.errors import Interrupted, UserError
from vadd.parallel import on_main_process
from vadd.recipe import Recipe, differences, load_recipe, same_learning
from vadd.runs.layout import RunDirectory
from vadd.runs.run import Run, load
from vadd.training.loop import train
from vadd.training.prior import fit_priors_of_recipe


def both_models(name: str, overrides: Sequence[str] = ()) -> list[Recipe]:
    """The same recipe for MDLM and for VADD."""
    return [load_recipe(name).with_overrides([f"model={model}", *overrides]) for model in ("mdlm", "vadd")]


def ensure_trained(recipe: Recipe, path: Path) -> Run:
    """The finished run in ``path``; of several processes the main one looks there and makes what is missing."""
    directory = RunDirectory(path)

    def refuse_another_recipe() -> None:
        found = differences(directory.recipe(), recipe) if directory.is_run() else {}
        if changed := {key: values for key, values in found.items() if not same_learning(key)}:
            listed = ", ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items())
            raise UserError(f"{path} was trained with another recipe ({listed}); choose another --out")

    def create_what_is_missing() -> None:
        if not directory.is_run():
            directory.create(recipe)

    on_main_process(refuse_another_recipe)
    data = build_dataset(recipe)
    on_main_process(create_what_is_missing)
    outcome = train(recipe, directory, data, resume=True)
    if not outcome.finished:
        raise Interrupted(f"stopped at step {outcome.step}, saved in {path}")
    on_main_process(lambda: fit_priors_of_recipe(path))
    return load(path)
