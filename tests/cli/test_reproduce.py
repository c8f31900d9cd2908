"""``vadd demo`` and ``vadd reproduce toys``, shrunk to seconds."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.tiny import TINY
from vadd.core import Objective
from vadd.studies import trainings
from vadd.studies.study import Entry, Study, study_named
from vadd.training.loop import Trainer


def change(monkeypatch: pytest.MonkeyPatch, study: Study, setting: str, **changes: object) -> None:
    monkeypatch.setitem(study.settings, setting, study.settings[setting].model_copy(update=changes))


def patch_step(monkeypatch: pytest.MonkeyPatch, before: Callable[[Trainer, int], None]) -> None:
    undisturbed = Trainer.step

    def step(self: Trainer, number: int) -> Objective:
        before(self, number)
        return undisturbed(self, number)

    monkeypatch.setattr(Trainer, "step", step)


def stop_in_the_second_training(trainer: Trainer, number: int) -> None:
    if (trainer.recipe.model, number) == ("vadd", 6):
        signal.raise_signal(signal.SIGINT)


def refuse(trainer: Trainer, number: int) -> None:
    raise AssertionError("what was trained already was trained again")


def test_an_interrupted_demo_goes_on_and_a_finished_one_only_reports_again(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, file, demo = tmp_path / "demo", tmp_path / "numbers.json", study_named("demo")
    entries = [Entry(recipe="circles", changes=(f"model={model}", *TINY)) for model in ("mdlm", "vadd")]
    measuring = demo.settings["circles"].measuring.model_copy(update={"samples": 100})
    change(monkeypatch, demo, "circles", recipes=(), entries=entries, measuring=measuring)
    with monkeypatch.context() as patched:
        patch_step(patched, stop_in_the_second_training)
        stopped = vadd_command("demo", "--toy", "circles", "--out", out)
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1].endswith("run the same command again to go on")
    assert not (out / "report.html").exists()

    finished = vadd_command("demo", "--toy", "circles", "--out", out, "--json", file)
    assert finished.code == 0
    assert finished.out.splitlines()[-1] == f"report: {(out / 'report.html').resolve()}"
    assert [report["model"] for report in json.loads(file.read_text())] == ["mdlm", "vadd"]
    logs = [(out / f"circles-{model}/metrics.jsonl").read_bytes() for model in ("mdlm", "vadd")]

    (out / "report.html").unlink()
    patch_step(monkeypatch, refuse)
    again = vadd_command("demo", "--toy", "circles", "--out", out)
    assert (again.code, again.out) == (0, finished.out)
    assert (out / "report.html").is_file()
    assert logs == [(out / f"circles-{model}/metrics.jsonl").read_bytes() for model in ("mdlm", "vadd")]


def test_the_toys_are_reproduced_beside_the_papers_numbers(vadd_command: Command, tmp_path: Path) -> None:
    out, file = tmp_path / "toys", tmp_path / "numbers.json"
    options = ("--samples", 100, "--particles", 2, "--draws", 1, "--limit", 5)
    done = vadd_command("reproduce", "toys", *TINY, "--out", out, "--json", file, *options)
    assert done.code == 0
    reports = json.loads(file.read_text())
    names = [(toy, model) for toy in ("checkerboard", "swissroll", "circles") for model in ("mdlm", "vadd")]
    assert [(report["recipe"], report["model"]) for report in reports] == names
    assert all([result["steps"] for result in report["results"]] == [1, 2, 5, 10, 20] for report in reports)
    page = (out / "report.html").read_text()
    assert all((report["elbo"]["draws"] if "elbo" in report else report["delbo"]["draws"]) == 1 for report in reports)
    for number in ("1.3950", "2.6190", "2.2730", "0.0620", "0.0860", "0.1610", "8.503", "6.132", "6.716"):
        assert number in page
        assert number in done.out


def test_at_the_papers_scale_it_is_the_papers_recipe_made_to_fit(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so much less memory that a batch is worked off in halves."""
    change(monkeypatch, study_named("toys"), "paper", recipes=("circles-paper",))
    changes = (
        "network.width=16",
        "network.time_features=8",
        "training.steps=3",
        "data.train_size=500",
        "data.test_size=50",
    )
    monkeypatch.setattr(trainings, "needed_bytes", lambda recipe, *_: 1000 // recipe.training.accumulate)
    monkeypatch.setattr(trainings, "available_memory", lambda device: 800)
    options = ("--samples", 60, "--steps", "1", "--bound", "1", "--particles", 2, "--draws", 3, "--limit", 4)
    out, file = tmp_path / "out", tmp_path / "numbers.json"
    done = vadd_command("reproduce", "toys", "--scale", "paper", *changes, *options, "--out", out, "--json", file)
    assert done.code == 0, done.err
    assert "fits into 800 with training.accumulate=2" in done.err
    reports = json.loads(file.read_text())
    assert [report["recipe"] for report in reports] == ["circles-paper"] * 2
    assert all(report["how_computed"] == ["training.accumulate=2"] for report in reports)
    assert "MDLM and VADD computed with training.accumulate=2." in " ".join(done.out.split())
    (delbo,) = (report["delbo"] for report in reports if "delbo" in report)
    assert (delbo["particles"], delbo["draws"], delbo["examples"]) == (2, 3, 4)


@pytest.mark.parametrize(
    "study", ["toys", "mnist", "cifar10", "text", "validity", "latents", "recognition", "speed", "lm1b"]
)
def test_changes_that_contradict_the_comparison_are_refused_before_anything_is_trained(
    vadd_command: Command, tmp_path: Path, study: str
) -> None:
    refused = vadd_command("reproduce", study, "model=mdlm", "--out", tmp_path / "out")
    assert refused.code == 2
    assert "model=mdlm contradicts what is compared" in refused.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_toy_is_refused_before_anything_happens(vadd_command: Command, tmp_path: Path) -> None:
    refused = vadd_command("demo", "--toy", "moons", "--out", tmp_path / "demo")
    assert refused.code == 2
    assert "moons" in refused.err
    assert list(tmp_path.iterdir()) == []
