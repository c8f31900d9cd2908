"""Input made to break things, or simply absurd: one line, exit code 2, and soon. Nothing is left behind."""

import json
import os
import resource
import shutil
import stat
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.children import CONTEXT, command
from tests.helpers.commands import Command, Finished
from tests.helpers.files import contents
from tests.helpers.forks import forked
from tests.helpers.text_runs import text_recipe
from tests.helpers.tiny import TINY, train_in
from vadd.cli import sample
from vadd.terminal import PlainConsole

TRAIN = ("train", "checkerboard", *TINY, "--out", "new")


@pytest.fixture
def place(tmp_path: Path, vadd_run: Path, exported_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a run and its export, two folders below that of the test."""
    folder = tmp_path / "around" / "inside"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    shutil.copytree(vadd_run, "run")
    shutil.copytree(exported_run, "exported")
    return folder


def refusal(ended: Finished) -> str:
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 2000
    return ended.err


NO_NAME = "a name has 1 to 100 printable characters"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("name=../../evil", NO_NAME),
        ("name=/tmp/evil", NO_NAME),
        ("name=.hidden", NO_NAME),
        ("name=", "name"),
        (f"name={'x' * 101}", NO_NAME),
        ('name="a\\nb"', NO_NAME),
        ('name="\\e[31mred"', NO_NAME),
        (f"model={'x' * 5000}", "' (5,000 characters)"),
        (f"{'x' * 5000}=1", "unknown key"),
        ("training.steps=99999999999999999999999", "training.steps: integers have at most 64 bits"),
        ("training.steps=1e400", "training.steps"),
        ("network.denoiser.depth=1000000000", "at most 1,000"),
        ("latent.flow.transforms=1000000000", "at most 1,000"),
    ],
)
def test_names_and_numbers_without_measure(place: Path, vadd_command: Command, change: str, told: str) -> None:
    around = place.parents[1]
    before = contents(around)
    assert told in refusal(vadd_command(*TRAIN[:-2], change))
    assert contents(around) == before


def test_markup_in_a_name_is_only_a_name(place: Path, vadd_command: Command) -> None:
    ended = vadd_command(*TRAIN[:-2], 'name="[red]:x: [bold"', "training.steps=5")
    assert ended.code == 0
    assert "[red]:x: [bold-vadd: done" in ended.out
    assert "[red]:x: [bold vadd:" in ended.err
    assert (place / "runs" / "[red]:x: [bold-vadd" / "recipe.yaml").is_file()


def test_data_with_an_odd_name_give_a_name_that_is_none(place: Path, vadd_command: Command) -> None:
    np.save("..odd\n\x1bname.npy", np.arange(80).reshape(40, 2) % 3)
    ended = vadd_command("train", "--data", "..odd\n\x1bname.npy", "training.steps=2", "network.width=8")
    assert ended.code == 0
    assert [folder.name for folder in (place / "runs").iterdir()] == ["odd--name-vadd"]


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("network: &n {width: *n}\ndata: {kind: toy}\n", "contains itself"),
        ("data: " + 800 * "[" + 800 * "]", "nested too deeply"),
        (BOMB, "more than 10,000 values"),
        ("data: {kind: toy}\ntraining: {steps: 1}\ntraining: {steps: 2}\n", "'training' stands there twice"),
        (f"data: {{kind: toy}}\nname: {[*range(1000)]}\n", "characters)"),
        ("".join(f"key{n}: 1\n" for n in range(300)), "and 296 mistakes more"),
        ("data: {kind: toy}\nname: ../../evil\n", NO_NAME),
        ("data: {kind: toy}\nseed: 2001-99-99\n", "not valid YAML"),
        ('"\\e[31m": 1\n', r"unknown key '\x1b[31m'"),
    ],
    ids=["recursive", "deep", "exploding", "twice", "long", "many", "evil", "date", "escape"],
)
def test_recipes_that_would_never_end(place: Path, vadd_command: Command, text: str, told: str) -> None:
    (place / "mine.yaml").write_text(text)
    for arguments in (("recipes", "mine.yaml"), ("plan", "mine.yaml"), ("train", "mine.yaml", "--out", "new")):
        assert told in refusal(vadd_command(*arguments))
    assert not (place / "new").exists()


def test_pipes_and_devices_are_not_read(place: Path, vadd_command: Command) -> None:
    for name in ("pipe.npy", "pipe.txt", "pipe.yaml"):
        os.mkfifo(name)
    for data in ("pipe.npy", "pipe.txt", "/dev/zero"):
        told = refusal(vadd_command("train", "--data", data, "--out", "new"))
        assert f"{data} is neither a regular file nor a folder" in told
    Path("array.yaml").write_text("data: {kind: array, path: pipe.npy}\n")
    assert "not a regular file" in refusal(vadd_command("train", "array.yaml", "--out", "new"))
    Path("text.yaml").write_text("data: {kind: text, path: pipe.txt}\n")
    assert "not a regular file" in refusal(vadd_command("train", "text.yaml", "--out", "new"))
    assert "not a regular file" in refusal(vadd_command("recipes", "pipe.yaml"))
    Path("exported/recipe.yaml").unlink()
    os.mkfifo("exported/recipe.yaml")
    assert "not a regular file" in refusal(vadd_command("sample", "exported"))


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (
            lambda path: np.save(path, np.array([[1, 2**40], [3, 4]])),
            "holds the value 1099511627776; number the values",
        ),
        (lambda path: np.save(path, np.array([[1, 2**63 + 5]], np.uint64)), "holds the value 9223372036854775813"),
        (lambda path: path.write_text("root:x:0:0"), "not a readable .npy file: it does not begin like one"),
        (lambda path: np.save(path, np.array([[1, "a"]], dtype=object)), "it holds Python objects, which are not read"),
    ],
    ids=["large", "beyond 63 bits", "text", "objects"],
)
def test_arrays_that_are_none(place: Path, vadd_command: Command, write: Callable[[Path], object], told: str) -> None:
    write(place / "data.npy")
    assert told in refusal(vadd_command("train", "--data", "data.npy", "--out", "new"))


def test_an_archive_of_arrays_says_what_to_do(place: Path, vadd_command: Command) -> None:
    np.savez("data.npz", a=np.arange(6).reshape(2, 3))
    told = refusal(vadd_command("train", "--data", "data.npz", "--out", "new"))
    assert "data.npz holds several arrays, as .npz files do; save the one to read as .npy" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [("values", 10**400), ("values", 10**12), ("shape", [2**62, 4]), ("shape", [10**9]), ("step", 1e999)],
)
def test_a_configuration_of_absurd_sizes(place: Path, vadd_command: Command, key: str, value: object) -> None:
    config = Path("exported/config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), key: value}))
    assert "exported" in refusal(vadd_command("sample", "exported"))


@pytest.mark.parametrize("folder", ["run", "exported"])
@pytest.mark.parametrize("change", ["width: 200000", "width: 99999999999999999", "width: 1"])
def test_weights_are_compared_with_the_recipe_before_memory_is_taken(
    place: Path, vadd_command: Command, folder: str, change: str
) -> None:
    recipe = place / folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("width: 16", change))
    assert "do not fit the recipe" in refusal(vadd_command("sample", folder))


FOREIGN_LINES = (
    '{"step": "x"}',
    '{"step": 10, "split": "test", "loss": "low"}',
    '{"step": 10, "split": "train", "steps_per_second": "fast"}',
    '{"step": 10, "split": "test", "loss": [1], "kl": {}}',
    '{"step": 1e400, "split": "test"}',
    '{"step": 1' + 5000 * "0" + ', "split": "test"}',
    100_000 * "[",
    '{"step": 10, "split": ["test"]}',
    "\x1b[31m",
)


def test_metrics_of_other_types_are_passed_over(place: Path, vadd_command: Command) -> None:
    with Path("run/metrics.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in FOREIGN_LINES)
    assert vadd_command("status", "run").code == 0
    assert vadd_command("runs", ".").code == 0
    assert vadd_command("export", "run", "again").code == 0
    compared = vadd_command("compare", "run", "--bound", "none", "--steps", "1", "--samples", "50", "--out", "page")
    assert compared.code == 0
    assert vadd_command("train", "--out", "run", "--resume", "training.steps=35").code == 0
    assert "x1b" not in Path("run/metrics.jsonl").read_text()


def test_exported_weights_have_the_mode_of_the_other_files(place: Path) -> None:
    modes = {stat.S_IMODE(file.stat().st_mode) for file in Path("exported").rglob("*") if file.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sample", "run", "-n", 5000, "--out", "points.npy"), "cannot write points.npy: File too large"),
        (("sample", "run", "-n", 9000, "--out", "points.csv"), "cannot write points.csv: File too large"),
        (("export", "run", "new"), "cannot write {place}/new: File too large"),
    ],
)
def test_a_full_disk_is_told_with_the_file(place: Path, arguments: tuple[object, ...], told: str) -> None:
    before = contents(place)
    ended = forked(*arguments, limits={resource.RLIMIT_FSIZE: 4096})
    assert (ended.code, ended.err) == (2, f"error: {told.format(place=place)}\n")
    assert contents(place) == before


def test_a_terminated_command_leaves_nothing(place: Path) -> None:
    before = contents(place)
    arguments = ("sample", "run", "-n", 30_000_000, "--out", "big.npy")
    child = CONTEXT.Process(target=command, args=(arguments, place / "said", {}))
    child.start()
    while not any(place.glob(".*big*")):
        assert child.is_alive()
        time.sleep(0.05)
    child.terminate()
    child.join(600)
    assert (child.exitcode, (place / "said").read_text()) == (130, "interrupted\n")
    (place / "said").unlink()
    assert contents(place) == before


def test_what_a_killed_command_leaves_is_named(place: Path, vadd_command: Command) -> None:
    arguments = ("sample", "run", "-n", 30_000_000, "--out", "big.npy")
    child = CONTEXT.Process(target=command, args=(arguments, place / "said", {}))
    child.start()
    while not (left := list(place.glob(".*big*"))):
        assert child.is_alive()
        time.sleep(0.05)
    child.kill()
    child.join(60)
    ended = vadd_command("sample", "run", "-n", 3, "--out", "big.npy")
    told = f"warning: {left[0]} is not finished: delete it, unless another command is writing big.npy now\n"
    assert (ended.code, ended.err) == (0, told)
    assert vadd_command("sample", "run", "-n", 3, "--out", "other.npy").err == ""


def test_escapes_in_samples_do_not_reach_a_terminal(
    place: Path, vadd_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "red.txt").write_text("\x1b[31m" * 200)
    assert train_in(place / "red", text_recipe(place / "red.txt", "data.length=8", "training.batch=8")).finished
    stream = StringIO()
    monkeypatch.setattr(sample, "out_console", PlainConsole(file=stream, force_terminal=True, color_system=None))
    assert vadd_command("sample", "red", "-n", 20).code == 0
    assert r"\x1b" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    monkeypatch.undo()
    assert vadd_command("sample", place / "red", "-n", 20, "--out", place / "red.jsonl").code == 0
    assert any("\x1b" in json.loads(line)["text"] for line in (place / "red.jsonl").read_text().splitlines())
