"""``vadd status`` and ``vadd runs``: right for whole runs, patient with torn ones, and nothing is written."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import vadd
from tests.helpers.commands import Command
from vadd.core import LatentHealth
from vadd.run.directory import RunDirectory, find_runs, read_records
from vadd.run.lock import LOCK, RunLock
from vadd.run.status import latent_verdict, read_status
from vadd.training.prior import fit_prior


@pytest.fixture
def copy(vadd_run: Path, tmp_path: Path) -> Path:
    """A run to be damaged."""
    return shutil.copytree(vadd_run, tmp_path / "runs" / "copy")


def contents(path: Path) -> dict[Path, tuple[bytes, int]]:
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def logged(path: Path, split: str) -> dict[str, float]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["split"] == split][-1]


def test_a_finished_run_is_told_as_its_files_have_it(vadd_run: Path) -> None:
    found = read_status(vadd_run)
    assert (found.recipe, found.model, found.state) == ("checkerboard", "vadd", "finished")
    assert (found.step, found.steps, found.seconds_left) == (30, 30, None)
    assert (found.train, found.test) == (logged(vadd_run, "train"), logged(vadd_run, "test"))
    assert found.latent == logged(vadd_run, "latent")
    assert found.skipped == 0
    assert len(found.recent) == 5
    directory = RunDirectory(vadd_run)
    assert [saved.path for saved in found.checkpoints] == directory.checkpoints()
    assert found.latest is not None
    assert found.latest.path == directory.checkpoints()[-1]
    assert found.best == directory.best()


def test_the_newest_lines_alone_tell_the_same(vadd_run: Path) -> None:
    whole, newest = read_status(vadd_run).to_json(), read_status(vadd_run, all_lines=False).to_json()
    assert newest.pop("skipped") is None
    del whole["skipped"]
    assert newest == whole


def test_an_evaluation_far_back_is_found_all_the_same(copy: Path) -> None:
    with (copy / "metrics.jsonl").open("a") as file:
        for step in range(31, 2000):
            file.write(json.dumps({"step": step, "split": "train", "loss": 1.0, "steps_per_second": 2.0}) + "\n")
    found = read_status(copy, all_lines=False)
    assert found.test is not None
    assert (found.step, found.test["step"]) == (1999, 30)


def test_speed_and_time_left_are_steps_over_time(copy: Path) -> None:
    (copy / "recipe.yaml").write_text((copy / "recipe.yaml").read_text().replace("  steps: 30\n", "  steps: 140\n", 1))
    lines = [(10, 99.0), (20, 1.0), (40, 4.0)]  # 30 steps in 10 s and 5 s: 2 steps per second
    text = "".join(json.dumps({"step": s, "split": "train", "steps_per_second": v}) + "\n" for s, v in lines)
    (copy / "metrics.jsonl").write_text(text)
    found = read_status(copy)
    assert found.steps_per_second == pytest.approx(2.0, rel=1e-12)
    assert (found.state, found.step) == ("stopped", 40)
    assert found.seconds_left == pytest.approx(50.0, rel=1e-12)


def test_a_run_is_running_while_its_lock_is_held(copy: Path) -> None:
    with RunLock(copy):
        assert read_status(copy).state == "running"
    assert read_status(copy).state == "finished"


def test_a_fit_of_a_prior_is_named_while_it_runs(copy: Path, vadd_command: Command) -> None:
    seen = []

    def progress(what: str, done: int = 0, total: int | None = None) -> None:
        seen.append((what, read_status(copy).fitting))

    fit_prior(vadd.load(copy, prior="trained"), "conditional", steps=1, progress=progress)
    assert ("fitting the conditional prior", ("conditional",)) in seen
    assert read_status(copy).fitting == ()
    with RunDirectory(copy).fit_lock("flow"):
        shown = vadd_command("status", copy)
    assert "finished, the flow prior is being fitted" in shown.out.splitlines()[0]


def test_looking_twice_at_once_is_not_a_training(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadd.run.lock.GLANCE", 10.0)
    other = FileLock(copy / LOCK, thread_local=False)
    other.acquire()
    threading.Timer(0.05, other.release).start()
    assert read_status(copy).state == "finished"


def test_a_run_that_has_only_begun_is_new(copy: Path) -> None:
    (copy / "metrics.jsonl").unlink()
    shutil.rmtree(copy / "checkpoints")
    found = read_status(copy)
    assert (found.state, found.step, found.checkpoints, found.best) == ("new", 0, (), None)


@pytest.mark.parametrize(
    "damage", [b"", b"\x00\xff\n", b"[1]\n", b'{"step": 31, "spl', b'{"split": "train"}\n', b"{}\n\n"]
)
def test_torn_and_foreign_lines_are_passed_over(copy: Path, damage: bytes) -> None:
    whole = read_records(copy / "metrics.jsonl")
    with (copy / "metrics.jsonl").open("ab") as file:
        file.write(damage)
    assert read_records(copy / "metrics.jsonl") == whole
    (copy / "metrics.jsonl").write_bytes(damage)
    assert read_records(copy / "metrics.jsonl") == []
    assert read_status(copy).step == 30


def test_a_broken_recipe_or_manifest_does_not_hide_the_rest(copy: Path, vadd_command: Command) -> None:
    (copy / "recipe.yaml").write_text("training: {steps\n")
    for manifest in copy.rglob("checkpoint.json"):
        manifest.write_text("{")
    found = read_status(copy)
    assert (found.recipe, found.steps, found.step, found.best) == ("?", None, 30, None)
    assert vadd_command("status", copy).code == 0
    assert "30/?" in vadd_command("runs", copy.parent).out


@pytest.mark.parametrize("active", [0, 1, 3])
def test_the_verdict_is_that_of_the_latent_health(active: int) -> None:
    health = LatentHealth(1.0, 1.0, (0.5, 0.5, 0.0), active)
    assert latent_verdict({"active_units": active, "dimensions": 3}) == health.verdict


def test_runs_are_found_at_any_depth_and_nothing_else_is(copy: Path) -> None:
    root = copy.parent
    deep = shutil.copytree(copy, root / "a" / "b" / "deep")
    shutil.copytree(copy, root / ".hidden")
    shutil.copytree(copy, root / "exported")
    (root / "exported" / "config.json").touch()
    shutil.copytree(copy, copy / "inside")
    (root / "mine").mkdir()
    shutil.copy(copy / "recipe.yaml", root / "mine")
    assert find_runs(root) == [deep, copy]
    assert find_runs(copy) == [copy]


def test_status_shows_the_numbers_and_writes_nothing(vadd_command: Command, copy: Path, tmp_path: Path) -> None:
    before = contents(copy)
    done = vadd_command("status", copy, "--json", tmp_path / "status.json")
    assert done.code == 0
    assert f"{copy}: checkerboard vadd, finished" in done.out
    assert "30 of 30 (100.0 %)" in done.out
    assert f"objective {logged(copy, 'test')['loss']:.4f} nats per position" in done.out
    assert "dimensions" in done.out
    assert "0 steps whose loss or gradient was not finite" in done.out
    assert json.loads((tmp_path / "status.json").read_text()) == json.loads(json.dumps(read_status(copy).to_json()))
    assert contents(copy) == before


def test_runs_shows_a_line_for_each(vadd_command: Command, copy: Path, mdlm_run: Path, tmp_path: Path) -> None:
    shutil.copytree(mdlm_run, copy.parent / "nested" / "mdlm")
    done = vadd_command("runs", copy.parent, "--json", tmp_path / "runs.json")
    assert done.code == 0
    header, first, second, note = done.out.splitlines()
    assert header.split()[:3] == ["run", "recipe", "model"]
    assert first.split()[:5] == ["copy", "checkerboard", "vadd", "30/30", "finished"]
    assert second.split()[:6] == [
        str(Path("nested/mdlm")),
        "checkerboard",
        "mdlm",
        "30/30",
        "finished",
        f"{logged(mdlm_run, 'test')['loss']:.4f}",
    ]
    assert "not a likelihood bound" in note
    assert [run["model"] for run in json.loads((tmp_path / "runs.json").read_text())] == ["vadd", "mdlm"]


def test_a_directory_without_runs_is_told(vadd_command: Command, tmp_path: Path) -> None:
    first, second = vadd_command("runs", tmp_path).out.splitlines()
    assert first == f"no runs in {tmp_path}; those of another folder: vadd runs DIR"
    assert second.startswith("to train one: vadd demo")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("status", "nowhere"), "nowhere is not a run: there is no such directory"),
        (("status", "empty"), "empty is not a run: it has no recipe.yaml"),
        (("status", "file"), "file is not a run: it is not a directory"),
        (("runs", "nowhere"), "there is no directory nowhere"),
        (("runs", "empty", "--json", "no/x.json"), "there is no directory no"),
    ],
)
def test_bad_input_is_one_line(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()
    ended = vadd_command(*arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert told in ended.err


def test_looking_does_not_wait_for_torch(vadd_run: Path) -> None:
    script = (
        "import sys, vadd.cli\n"
        f"for command in (['status', {str(vadd_run)!r}], ['runs', {str(vadd_run.parent)!r}]):\n"
        "    sys.argv = ['vadd', *command]\n"
        "    try: vadd.cli.main()\n"
        "    except SystemExit as ended: assert not ended.code\n"
        "assert not {'torch', 'matplotlib', 'accelerate', 'numpy'} & set(sys.modules), 'too much was imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
