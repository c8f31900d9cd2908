"""Every command with every model: it works, or it is refused in one line with exit code 2. Never a traceback."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Command, Finished
from tests.helpers.model_runs import ModelRuns, settings_of
from vadd.recipe import MODELS

WITH_LATENT = {"vadd", "vadd-uniform"}
WITHOUT_LATENT = {str(model) for model in MODELS} - WITH_LATENT
WITHOUT_LABELS = {"genmd4", "sedd", "edlm", "udlm", "vadd-uniform", "ar"}


class Case:
    """One model's run, and a place for files."""

    def __init__(self, model: str, runs: ModelRuns, vadd_command: Command, place: Path) -> None:
        self.model, self.runs, self.vadd, self.place = model, runs, vadd_command, place

    @property
    def run(self) -> Path:
        return self.runs[self.model]

    def copy(self) -> Path:
        return Path(shutil.copytree(self.run, self.place / "copy"))


def train(case: Case) -> Finished:
    start = case.runs["mdlm"] if case.model == "edlm" else None
    changes = [*settings_of(case.model, start), "training.steps=2"]
    return case.vadd("train", "checkerboard", *changes, "--out", case.place / "run")


def resume(case: Case) -> Finished:
    return case.vadd("train", "--out", case.copy(), "--resume", "training.steps=32")


def status(case: Case) -> Finished:
    return case.vadd("status", case.run)


def sample(case: Case) -> Finished:
    done = case.vadd("sample", case.run, "-n", 3, "--steps", 2, "--out", case.place / "x.npy")
    assert np.load(case.place / "x.npy").shape == (3, 2)
    return done


def trajectory(case: Case) -> Finished:
    done = case.vadd("sample", case.run, "-n", 2, "--steps", 2, "--trajectory", case.place / "x.npz")
    assert (case.place / "x.npz").is_file()
    return done


def infill(case: Case) -> Finished:
    np.save(case.place / "begun.npy", np.array([[5, -1]]))
    done = case.vadd("infill", case.run, "--array", case.place / "begun.npy", "-n", 2, "--out", case.place / "x.npy")
    assert (np.load(case.place / "x.npy")[0, :, 0] == 5).all()
    return done


def evaluate(case: Case) -> Finished:
    done = case.vadd("eval", case.run, "--samples", 50, "--json", case.place / "report.json")
    assert json.loads((case.place / "report.json").read_text())["model"] == case.model
    return done


def bound(case: Case) -> Finished:
    done = case.vadd("eval", case.run, "--bound", 2, "--limit", 5, "--particles", 2, "--json", case.place / "b.json")
    (measured,) = json.loads((case.place / "b.json").read_text())["bounds"]
    assert np.isfinite(measured["nats"])
    return done


def latent(case: Case) -> Finished:
    return case.vadd("latent", case.run, "--encode", "0,1")


def fit_prior(case: Case) -> Finished:
    return case.vadd("fit-prior", case.copy(), "--steps", 2)


def plan(case: Case) -> Finished:
    return case.vadd("plan", case.run / "recipe.yaml", "--flops", "1e9")


def export(case: Case) -> Finished:
    """It draws the same samples as the run."""
    exported = case.vadd("export", case.run, case.place / "exported")
    assert exported.code == 0, exported.err
    numbers = []
    for source in (case.run, case.place / "exported"):
        out = case.place / f"{source.name}.npy"
        done = case.vadd("sample", source, "-n", 4, "--steps", 2, "--out", out)
        assert done.code == 0, done.err
        numbers.append(np.load(out))
    assert np.array_equal(*numbers)
    return done


def labels(case: Case) -> Finished:
    if case.model in WITHOUT_LABELS:
        return case.vadd("train", "digits", f"model={case.model}", "data.labels=true", "--out", case.place / "run")
    return case.vadd("sample", case.runs.labelled(case.model), "-n", 2, "--label", "7", "--out", case.place / "x.npy")


COMMANDS: dict[str, Callable[[Case], Finished]] = {
    each.__name__: each
    for each in (
        train, resume, status, sample, trajectory, infill, evaluate, bound, latent, fit_prior, plan, export, labels,
    )
}  # fmt: skip
REFUSED: dict[str, tuple[set[str], str]] = {
    "latent": (WITHOUT_LATENT, "no latent"),
    "fit_prior": (WITHOUT_LATENT, "no latent"),
    "labels": (WITHOUT_LABELS, "model="),
}
"""Models that do not have what the command needs, and words of the answer."""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_or_is_refused(
    name: str, model: str, model_runs: ModelRuns, vadd_command: Command, tmp_path: Path
) -> None:
    done = COMMANDS[name](Case(model, model_runs, vadd_command, tmp_path))
    models, answer = REFUSED.get(name, (set(), ""))
    if model in models:
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert answer in done.err
    else:
        assert done.code == 0, done.err
        assert "error" not in done.err


def test_all_models_are_compared(model_runs: ModelRuns, vadd_command: Command, tmp_path: Path) -> None:
    few = ("--steps", "2", "--samples", 20, "--bound", "2", "--limit", 3, "--particles", 2)
    done = vadd_command("compare", *(model_runs[model] for model in MODELS), *few, "--out", tmp_path / "page")
    assert done.code == 0, done.err
    numbers = json.loads((tmp_path / "page" / "results.json").read_text())
    assert [row["model"] for row in numbers] == list(MODELS)
