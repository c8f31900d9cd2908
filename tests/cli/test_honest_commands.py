"""What commands promise: reports that can be made again, nothing replaced, capped or mixed up in silence."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Command
from tests.helpers.files import contents
from tests.helpers.tiny import TINY, TINY_ARRAY, tiny_recipe, train_in
from vadd.recipe import recipe_for
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.words import typed_command


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_in_a_report_makes_it_again(place: Path, vadd_command: Command, vadd_run: Path) -> None:
    shutil.copytree(vadd_run, "my run")
    arguments = ["compare", "my run", "--steps", "1", "--samples", "60", "--bound", "1", "--limit", "20", "--out"]
    assert vadd_command(*arguments, "a page").code == 0
    printed = shlex.join(["vadd", *arguments, "a page"])
    assert printed.replace("'", "&#39;") in Path("a page/report.html").read_text()
    first = Path("a page/results.json").read_bytes()
    shutil.rmtree("a page")
    assert vadd_command(*shlex.split(printed)[1:]).code == 0
    assert Path("a page/results.json").read_bytes() == first


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["/usr/bin/vadd", "eval", "a b"], "vadd eval 'a b'"),
        (["/lib/vadd/__main__.py", "runs"], "vadd runs"),
        (["pytest", "tests"], None),
    ],
)
def test_only_a_command_has_been_typed(monkeypatch: pytest.MonkeyPatch, argv: list[str], told: str | None) -> None:
    monkeypatch.setattr("sys.argv", argv)
    assert typed_command() == told


def test_runs_of_different_data_are_not_compared(
    place: Path, vadd_command: Command, vadd_run: Path, mdlm_run: Path, array_run: Path
) -> None:
    refused = vadd_command("compare", vadd_run, array_run, "--out", "page")
    assert refused.code == 2
    assert "have learned from different data: data.kind is 'toy' and 'array'" in refused.err
    train_in(place / "other", tiny_recipe("data.name=circles", "training.steps=5"))
    refused = vadd_command("compare", vadd_run, "other", "--out", "page")
    assert "different data: data.name is 'checkerboard' and 'circles'" in refused.err
    assert not Path("page").exists()
    train_in(place / "seed", tiny_recipe("seed=1", "training.steps=5"))
    options = ("--steps", "1", "--samples", "50", "--bound", "none", "--out", "page")
    assert vadd_command("compare", vadd_run, mdlm_run, "seed", *options).code == 0


def test_fewer_samples_than_asked_for_are_told(place: Path, vadd_command: Command, array_run: Path) -> None:
    ended = vadd_command("eval", array_run, "--steps", "1", "--samples", 5000)
    assert ended.code == 0
    assert "warning: of 5,000 samples 30 are drawn, as many as there are held-out examples at most" in ended.err
    assert "warning" not in vadd_command("eval", array_run, "--steps", "1").err
    refused = vadd_command("eval", array_run, "--steps", "1", "--samples", 10**20)
    assert "samples must be at most 1,000,000,000" in refused.err


@pytest.mark.parametrize("command", ["eval", "status", "plan", "runs", "compare", "zoo"])
def test_numbers_replace_nothing(place: Path, vadd_command: Command, vadd_run: Path, command: str) -> None:
    Path("numbers.json").write_text("precious")
    named: dict[str, list[object]] = {"plan": ["checkerboard"], "runs": [vadd_run.parent], "zoo": []}
    what = named.get(command, [vadd_run])
    refused = vadd_command(command, *what, "--json", "numbers.json")
    assert (refused.code, refused.err) == (2, "error: numbers.json exists; name another file or add --overwrite\n")
    assert Path("numbers.json").read_text() == "precious"


def test_numbers_replace_what_they_may(place: Path, vadd_command: Command, vadd_run: Path) -> None:
    Path("numbers.json").write_text("old")
    assert vadd_command("status", vadd_run, "--json", "numbers.json", "--overwrite").code == 0
    assert json.loads(Path("numbers.json").read_text())["step"] == 30


def test_a_start_that_fails_leaves_no_directory(place: Path, vadd_command: Command, array_run: Path) -> None:
    train = ("train", "checkerboard", *TINY, "--out", "new")
    for start in ("nosuch", "nosuch.safetensors"):
        assert vadd_command(*train, "--start-from", start).code == 2
        assert not Path("new").exists()
    refused = vadd_command(*train, "--start-from", array_run)  # found out when the model is there already
    assert "was trained on examples of shape" in refused.err
    assert not Path("new").exists()


def test_an_old_run_survives_a_start_from_nothing(place: Path, vadd_command: Command, vadd_run: Path) -> None:
    shutil.copytree(vadd_run, "run")
    before = contents(place)
    assert vadd_command("train", "checkerboard", *TINY, "--start-from", "no", "--out", "run", "--overwrite").code == 2
    assert contents(place) == before


def test_an_export_is_judged_by_its_own_data_only(place: Path, vadd_command: Command) -> None:
    rng = np.random.default_rng(0)
    np.save("codes.npy", rng.integers(0, 4, (60, 3)))
    assert train_in(place / "run", recipe_for(Path("codes.npy")).with_overrides(TINY_ARRAY)).finished
    export(RunDirectory("run"), Path("exported"))
    options = ("eval", "exported", "--steps", "1", "--samples", "6")
    assert vadd_command(*options).code == 0
    np.save("other.npy", np.concatenate([[[0, 0, 3]], rng.integers(0, 4, (59, 3))]))
    shutil.move("other.npy", "codes.npy")  # of the same name, shape and values
    refused = vadd_command(*options)
    assert refused.code == 2
    assert "codes.npy here has another checksum; give --data" in refused.err
    config = Path("exported/config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "data_sha256": None}))
    assert "the export has no checksum" in vadd_command(*options).err
    assert vadd_command("eval", "exported", "--bound", "1", "--limit", "5", "--data", "codes.npy").code in (0, 2)
    assert vadd_command("sample", "exported", "-n", "2").code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sample", "RUN", "-n", 10**18), "1,000,000,000,000,000,000 samples in 1 steps would take at least"),
        (("sample", "RUN", "-n", 10**20), "n must be at most"),
        (("sample", "RUN", "-n", 10**14, "--out", "big.npy"), "big.npy would take at least 1,600 TB, and"),
        (("sample", "RUN", "-n", 10**400), "n must be at most"),
        (("sample", "RUN", "-n", 5, "--steps", 10**9), "steps must be at most"),
        (("sample", "RUN", "-n", 1, "--steps", 10**30), "steps must be at most"),
        (("eval", "RUN", "--steps", 10**20, "--samples", 10), "steps must be at most"),
        (("eval", "RUN", "--bound", 1, "--limit", 2, "--particles", 10**13), "particles must be at most 1,048,576"),
        (("eval", "RUN", "--bound", 10**13, "--limit", 2), "would take at least"),
        (("eval", "RUN", "--fid", "--steps", 1), "the FID is for images; the examples of this run have the shape (2,)"),
    ],
)
def test_absurd_amounts_are_refused_with_what_they_would_take(
    place: Path, vadd_command: Command, vadd_run: Path, arguments: tuple[object, ...], told: str
) -> None:
    ended = vadd_command(*(vadd_run if argument == "RUN" else argument for argument in arguments))
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1
    assert list(place.iterdir()) == []


def test_a_file_for_a_recipe_is_sent_to_where_data_go(place: Path, vadd_command: Command) -> None:
    np.save("codes.npy", np.zeros((4, 2), dtype=int))
    told = vadd_command("train", "codes.npy").err
    assert told == "error: unknown recipe 'codes.npy'; to learn from codes.npy: vadd train --data codes.npy\n"


@pytest.mark.parametrize("arguments", [["train", "nosuch"], ["train", "--data", "nosuch.npy"]])
def test_mistyped_names_wait_for_no_library(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom vadd.cli import main\n"
        f"sys.argv = {['vadd', *arguments]}\n"
        "try:\n    main()\nexcept SystemExit:\n    print({'torch', 'numpy', 'vadd.recipe'} & set(sys.modules))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
    assert "nosuch" in ended.stderr
