"""Two who write the same thing at once, as processes and as threads: what is there at the end is one of the two, whole,
and nobody's files are lost.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vadd
from tests.helpers.children import CONTEXT, command
from tests.helpers.commands import Command
from tests.helpers.runs import assert_same_state, newest
from tests.helpers.tiny import SHORT_TRAINING, TINY, tiny_recipe, train_in
from vadd.errors import UserError
from vadd.files import write_json
from vadd.kinds.files import npy_file
from vadd.run.directory import RunDirectory
from vadd.run.priors import prior_records
from vadd.training.prior import fit_prior

ROUNDS = 2


def commands_at_once(folder: Path, *commands: tuple[object, ...], pause: float = 0.0) -> list[tuple[int, str]]:
    """``vadd`` in processes that begin ``pause`` seconds after each other: how each ended, and what it printed."""
    said = [folder / f"said-{number}" for number in range(len(commands))]
    children = [
        CONTEXT.Process(target=command, args=(arguments, file, {}))
        for arguments, file in zip(commands, said, strict=True)
    ]
    for child in children:
        child.start()
        time.sleep(pause)
    for child in children:
        child.join(300)
    ended = [(child.exitcode or 0, file.read_text()) for child, file in zip(children, said, strict=True)]
    for code, text in ended:
        assert code in (0, 2), text
        assert "Traceback" not in text
    for file in said:
        file.unlink()
    return ended


def threads_at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each of them returns, or the error of ours that it raises."""
    results: list[Any] = [None] * len(works)
    together = threading.Barrier(len(works))

    def do(number: int) -> None:
        together.wait()
        try:
            results[number] = works[number]()
        except UserError as error:
            results[number] = error

    threads = [threading.Thread(target=do, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return results


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if "partial" in path.name or "removed" in path.name)


@pytest.mark.parametrize(("suffix", "pause"), [(".csv", 0.0), (".npy", 0.2)])
def test_two_processes_sample_into_one_file(
    vadd_run: Path, tmp_path: Path, suffix: str, pause: float, vadd_command: Command
) -> None:
    def arguments(seed: int, out: Path) -> tuple[object, ...]:
        return ("sample", vadd_run, "-n", 1000, "--seed", seed, "--memory", "100kB", "--out", out, "--overwrite")

    expected = []
    for seed in (1, 2):
        assert vadd_command(*arguments(seed, tmp_path / f"{seed}{suffix}")).code == 0
        expected.append((tmp_path / f"{seed}{suffix}").read_bytes())
    place = tmp_path / "place"
    place.mkdir()
    out = place / f"same{suffix}"
    ended = commands_at_once(tmp_path, arguments(1, out), arguments(2, out), pause=pause)
    assert [code for code, _ in ended] == [0, 0]
    assert out.read_bytes() in expected
    assert [path.name for path in place.iterdir()] == [out.name]


def test_two_processes_train_in_one_folder(tmp_path: Path) -> None:
    out, alone = tmp_path / "run", tmp_path / "alone"
    settings = (*TINY, "training.trackers=[]")
    both = [("train", "checkerboard", *settings, f"seed={seed}", "--out", out) for seed in (1, 2)]
    ended = commands_at_once(tmp_path, *both)
    assert sorted(code for code, _ in ended) == [0, 2], ended
    seed = RunDirectory(out).recipe().seed
    assert ended[seed - 1][0] == 0, "the recipe is that of the training that was not refused"
    train_in(alone, tiny_recipe("training.trackers=[]", f"seed={seed}"))
    assert_same_state(newest(out), newest(alone))
    assert not left_over(out)


def test_two_processes_replace_one_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = (*TINY, "training.trackers=[]")
    train_in(out, tiny_recipe())
    both = [("train", "checkerboard", *settings, f"seed={seed}", "--out", out, "--overwrite") for seed in (1, 2)]
    ended = commands_at_once(tmp_path, *both)
    assert 0 in [code for code, _ in ended]
    seed = RunDirectory(out).recipe().seed
    alone = tmp_path / "alone"
    train_in(alone, tiny_recipe("training.trackers=[]", f"seed={seed}"))
    assert_same_state(newest(out), newest(alone))
    assert not left_over(out)


def test_two_processes_export_to_one_folder(vadd_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "exported" / "one"
    ended = commands_at_once(tmp_path, *[("export", vadd_run, out)] * 2)
    assert sorted(code for code, _ in ended) == [0, 2], ended
    assert vadd.load(out).sample(3).equal(vadd.load(vadd_run).sample(3))
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_two_processes_evaluate_into_one_file(vadd_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "place" / "same.json"
    out.parent.mkdir()
    both = [("eval", vadd_run, "--steps", 1, "--samples", n, "--json", out, "--overwrite") for n in (200, 300)]
    ended = commands_at_once(tmp_path, *both)
    assert [code for code, _ in ended] == [0, 0], ended
    assert json.loads(out.read_text())["samples"] in (200, 300)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


@pytest.fixture
def fitted_twice(vadd_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    return shutil.copytree(vadd_run, tmp_path / "one"), shutil.copytree(vadd_run, tmp_path / "other")


def test_two_processes_fit_the_priors_of_one_run(fitted_twice: tuple[Path, Path], tmp_path: Path) -> None:
    run, alone = fitted_twice
    kinds: list[tuple[object, ...]] = [(), (), ("--conditional",)]
    ended = commands_at_once(tmp_path, *[("fit-prior", run, "--steps", 5, *kind) for kind in kinds])
    assert [code for code, _ in ended] == [0, 0, 0]
    for kind in ("flow", "conditional"):
        fit_prior(vadd.load(alone, prior="trained"), kind, steps=5)
    place = RunDirectory(run).checkpoints()[-1]
    assert set(prior_records(place)) == {"flow", "conditional"}
    assert vadd.load(run).sample(20).equal(vadd.load(alone).sample(20))
    assert not left_over(place)


CODES = np.random.default_rng(0).integers(0, 3, (200, 4))
SETTINGS: dict[str, Any] = {
    **{key: int(value) for key, value in (pair.split("=") for pair in SHORT_TRAINING)},
    "network.width": 8,
    "latent.prior": "normal",
    "training.trackers": [],
    "progress": False,
}


def test_two_threads_train_in_one_folder(tmp_path: Path) -> None:
    arrays = (CODES, CODES[::-1].copy())
    for number in range(ROUNDS):
        out = tmp_path / str(number)
        runs = threads_at_once(*(partial(vadd.train, codes, out, **SETTINGS) for codes in arrays))
        refused = [run for run in runs if isinstance(run, UserError)]
        assert len(refused) == 1, runs
        (winner,) = [place for place, run in enumerate(runs) if run is not refused[0]]
        assert np.array_equal(np.load(out / "examples.npy"), arrays[winner])
        assert vadd.load(out).step == 30
        assert not left_over(out)


def test_two_threads_export_and_fit_and_write(fitted_twice: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = fitted_twice
    runs = [vadd.load(path, prior="trained") for _ in range(2)]
    exported = threads_at_once(*(partial(run.export, tmp_path / "exported") for run in runs))
    assert sum(isinstance(each, UserError) for each in exported) == 1
    assert vadd.load(tmp_path / "exported").sample(3).equal(runs[0].sample(3))

    fitted = threads_at_once(
        lambda: fit_prior(runs[0], "flow", steps=3), lambda: fit_prior(runs[1], "conditional", steps=3)
    )
    assert not any(isinstance(each, UserError) for each in fitted), fitted
    assert set(prior_records(RunDirectory(path).checkpoints()[-1])) == {"flow", "conditional"}

    out, report = tmp_path / "same.npy", tmp_path / "same.json"

    def write_all(value: int) -> None:
        with npy_file(out, (400, 2)) as write:
            for _ in range(100):
                write(np.full((4, 2), value))
        write_json(report, [value] * 1000)

    threads_at_once(lambda: write_all(1), lambda: write_all(2))
    assert len(np.unique(np.load(out))) == 1
    assert len(set(json.loads(report.read_text()))) == 1
    assert not left_over(tmp_path)
