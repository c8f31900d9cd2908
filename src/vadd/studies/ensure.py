"""Train what is missing: a study that is run again picks up finished runs and continues interrupted ones."""

from collections.abc import Sequence
from pathlib import Path

from vadd.build import build_dataset
from vadd.errors import Interrupted, UserError
from vadd.recipe import Recipe, differences, load_recipe
from vadd.run import Run, RunDirectory, load
from vadd.training.loop import train


def both_models(name: str, overrides: Sequence[str] = ()) -> list[Recipe]:
    """The same recipe for MDLM and for VADD."""
    return [load_recipe(name).with_overrides([f"model={model}", *overrides]) for model in ("mdlm", "vadd")]


def ensure_trained(recipe: Recipe, path: Path) -> Run:
    directory = RunDirectory(path)
    if directory.is_run():
        changed = differences(directory.recipe(), recipe)
        if changed:
            told = ", ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items())
            raise UserError(f"{path} was trained with another recipe ({told}); choose another --out")
    data = build_dataset(recipe)
    if not directory.is_run():
        directory.create(recipe)
    outcome = train(recipe, directory, data, resume=True)
    if not outcome.finished:
        raise Interrupted(f"stopped at step {outcome.step}, saved in {path}")
    return load(path)
