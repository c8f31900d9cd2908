"""Studies that several processes do together: speeds of all of them, and one choice of what fits into memory."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from tests.helpers.children import together
from tests.helpers.text_runs import TINY_NETWORK
from tests.helpers.tiny import tiny_recipe
from vadd.parallel import Processes
from vadd.recipe import Recipe, build_dataset
from vadd.recipe.plan import needed_bytes
from vadd.run.directory import RunDirectory
from vadd.studies import trainings
from vadd.studies.study import study_named
from vadd.studies.trainings import RESERVE, bytes_of_example, finished_run
from vadd.training.loop import Trainer

RECIPE = tiny_recipe("training.batch=512", "training.steps=2")


def command(*arguments: object) -> None:
    from vadd.cli import main  # here, where it can see which of the processes it is in

    torch.set_num_threads(1)
    sys.argv = ["vadd", *map(str, arguments)]
    with suppress(SystemExit):
        main()


def test_speed_is_measured_of_all_processes_and_written_by_one(tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "speed.json"
    changes = (*TINY_NETWORK, "training.batch=8", "training.accumulate=2")
    options = ("--recipe", "text8-small", "--steps", 4, "--out", out, "--json", file)
    together(2, command, "reproduce", "speed", *changes, *options)
    speeds = json.loads(file.read_text())
    assert [speed["model"] for speed in speeds] == ["mdlm", "vadd"]
    assert all((speed["processes"], speed["batch"]) == (2, 8) for speed in speeds)
    assert all(speed["steps"] == 4 and speed["steps_per_second"] > 0 for speed in speeds)
    assert json.loads((out / "results.json").read_text()) == speeds
    assert "2 x cpu" in (out / "tables.md").read_text()


def circles_alone(*arguments: object) -> None:
    setting = study_named("toys").settings["cpu"]
    study_named("toys").settings["cpu"] = setting.model_copy(update={"recipes": ("circles",)})
    command(*arguments)


def test_the_toys_with_fit_are_those_of_one_process(tmp_path: Path) -> None:
    changes = ("network.width=16", "network.denoiser.depth=1", "network.recognizer.depth=1", "training.steps=4")
    sizes = ("training.batch=32", "data.vocab_size=8", "data.train_size=500", "data.test_size=40")
    measured = ("--steps", "1", "--samples", 100, "--bound", "1", "--particles", 2, "--draws", 1)
    for processes, name in ((1, "alone"), (2, "both")):
        options = ("--fit", "--out", tmp_path / name, "--json", tmp_path / f"{name}.json")
        together(processes, circles_alone, "reproduce", "toys", *changes, *sizes, *measured, *options)
    alone, both = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("alone", "both"))
    assert [report["model"] for report in both] == ["mdlm", "vadd"]
    for one, other in zip(alone, both, strict=True):
        found, expected = (report["bounds"][0]["nats"] for report in (other, one))
        assert abs(found - expected) < 1e-4 * expected


def counted(recipe: Recipe) -> int:
    format = build_dataset(recipe).kind
    return needed_bytes(recipe, format, Processes(), bytes_of_example(recipe, format))


def give_memory(available: int) -> None:
    patched: Any = trainings
    patched.available_memory = lambda device: available


def little_memory_in_the_second(path: Path) -> None:
    whole, halves = counted(RECIPE), counted(RECIPE.with_overrides(["training.accumulate=2"]))
    between = int(RESERVE * (whole + halves) / 2)
    give_memory(between if os.environ["RANK"] == "1" else 10**12)
    assert finished_run(RECIPE, path, fit=True).recipe.training.accumulate == 2


def test_all_processes_choose_what_fits_into_the_one_with_least_memory(tmp_path: Path) -> None:
    together(2, little_memory_in_the_second, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").recipe().training.accumulate == 2


def no_memory_in_the_second(path: Path) -> None:
    undisturbed = Trainer.trial

    def trial(self: Trainer) -> None:
        if os.environ["RANK"] == "1" and self.settings.accumulate < 4:
            raise MemoryError
        undisturbed(self)

    Trainer.trial = trial  # type: ignore[method-assign]
    give_memory(10**12)
    assert finished_run(RECIPE, path, fit=True).recipe.training.accumulate == 4


def test_a_trial_that_fails_in_one_process_leaves_no_other_waiting(tmp_path: Path) -> None:
    together(2, no_memory_in_the_second, tmp_path / "run", seconds=120)
