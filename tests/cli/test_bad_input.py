"""Bad input: one clear line, exit code 2, and nothing on disk is touched."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Command
from tests.helpers.files import contents
from tests.helpers.tiny import TINY

TRAIN = ("train", "checkerboard", *TINY, "--out", "new")


@pytest.fixture
def place(tmp_path: Path, vadd_run: Path, array_run: Path, exported_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with whole and damaged runs, good and bad arrays, and files in the way."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(vadd_run, "run")
    shutil.copytree(array_run, "codes")
    for name in ("model", "ema"):
        copy = shutil.copytree(vadd_run, tmp_path / f"truncated-{name}")
        for file in copy.rglob(f"{name}.safetensors"):
            file.write_bytes(file.read_bytes()[:-100])
    shutil.copytree(exported_run, "exported")
    shutil.copytree(vadd_run, "no-checkpoint")
    shutil.rmtree("no-checkpoint/checkpoints")
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("years of work")
    Path("mine").mkdir()
    Path("mine/tables.md").write_text("years of work")
    Path("points.npy").write_text("old points")
    rng = np.random.default_rng(0)
    np.save("good.npy", rng.integers(0, 5, (50, 3)))
    np.save("negative.npy", rng.integers(-1, 5, (50, 3)))
    np.save("float.npy", rng.random((50, 3)))
    np.save("flat.npy", np.arange(50))
    np.save("empty.npy", np.zeros((0, 3), dtype=int))
    np.save("objects.npy", np.array([[1, "a"]], dtype=object))
    Path("cut.npy").write_bytes(Path("good.npy").read_bytes()[:200])
    np.save("large.npy", np.full((50, 6), 99))
    Path("latin.yaml").write_bytes("about: caf\xe9".encode("latin-1"))
    Path("broken.yaml").write_text("data: {kind: toy\n")
    Path("too-large.yaml").write_text("data: {kind: array, path: good.npy, vocab_size: 4}\n")
    return tmp_path


BAD_INPUT: list[tuple[str, tuple[object, ...], str]] = [
    ("unknown recipe", ("train", "chekerboard", "--out", "new"), "did you mean 'checkerboard'"),
    ("unknown recipe shown", ("recipes", "circels"), "did you mean 'circles'"),
    ("missing recipe file", ("train", "mine.yaml", "--out", "new"), "mine.yaml"),
    ("broken recipe file", ("train", "broken.yaml", "--out", "new"), "not valid YAML"),
    ("unknown key", (*TRAIN, "training.stepz=1"), "did you mean 'training.steps'"),
    ("no value", (*TRAIN, "training.steps"), "key=value"),
    ("wrong type", (*TRAIN, "training.steps=many"), "training.steps"),
    ("out of range", (*TRAIN, "training.batch=0"), "training.batch"),
    ("unknown model", (*TRAIN, "model=gan"), "model"),
    ("neither recipe nor data", ("train", "--out", "new"), "name a recipe"),
    ("overrides only", ("train", "seed=1", "--out", "new"), "name a recipe"),
    ("no such array", ("train", "--data", "none.npy", "--out", "new"), "there is no file none.npy"),
    ("negative values", ("train", "--data", "negative.npy", "--out", "new"), "holds the value -1, outside 0..4"),
    ("fractions", ("train", "--data", "float.npy", "--out", "new"), "integers are needed"),
    ("one axis", ("train", "--data", "flat.npy", "--out", "new"), "shape (50,)"),
    ("no examples", ("train", "--data", "empty.npy", "--out", "new"), "shape (0, 3)"),
    ("pickled objects", ("train", "--data", "objects.npy", "--out", "new"), "objects.npy"),
    ("cut off array", ("train", "--data", "cut.npy", "--out", "new"), "cut.npy"),
    ("not an array", ("train", "--data", "points.npy", "--out", "new"), "points.npy"),
    ("existing run", ("train", "checkerboard", *TINY, "--out", "run"), "--resume or replace it with --overwrite"),
    ("not a run", ("train", "checkerboard", *TINY, "--out", "thesis"), "is not a run"),
    ("not a run, overwrite", ("train", "checkerboard", *TINY, "--out", "thesis", "--overwrite"), "is not a run"),
    ("an exported model", ("train", "checkerboard", *TINY, "--out", "exported"), "it is an exported model"),
    (
        "an exported model, overwrite",
        ("train", "checkerboard", *TINY, "--out", "exported", "--overwrite"),
        "exported exists and is not a run (it is an exported model); choose another --out",
    ),
    ("resume an exported model", ("train", "--out", "exported", "--resume"), "it is an exported model"),
    ("resume it by its recipe", ("train", "checkerboard", *TINY, "--out", "exported", "--resume"), "exported model"),
    ("export an exported model", ("export", "exported", "new"), "exported is not a run: it is an exported model"),
    ("a file as a run", ("train", "checkerboard", *TINY, "--out", "good.npy", "--overwrite"), "is not a run"),
    ("resume and overwrite", ("train", "--out", "run", "--resume", "--overwrite"), "exclude each other"),
    ("a run for a recipe", ("train", "run", "--resume"), "vadd train --out run --resume"),
    ("a run for a recipe, anew", ("train", "run", "--out", "new"), "run is a directory; its recipe is run/recipe.yaml"),
    ("resume forgotten", ("train", "--out", "run"), "run holds a run already: continue it with --resume"),
    ("resume a file", ("train", "--out", "run/recipe.yaml", "--resume"), "it is not a directory"),
    ("keys of another network", (*TRAIN, "network.kind=unet", "network.width=8"), "network.width does not exist for"),
    ("resume nothing", ("train", "--out", "nowhere", "--resume"), "there is no such directory"),
    ("resume where", ("train", "--resume"), "--out"),
    ("a run is there, before data are read", ("train", "mnist", "data.directory=x", "--out", "run"), "holds a run"),
    ("resume another recipe", ("train", "--out", "run", "--resume", "seed=3"), "seed is 0 there, 3 here"),
    ("resume unknown key", ("train", "--out", "run", "--resume", "sede=3"), "did you mean 'seed'"),
    ("resume truncated", ("train", "--out", "truncated-model", "--resume"), "model.safetensors"),
    ("sample truncated", ("sample", "truncated-ema"), "ema.safetensors"),
    ("eval truncated", ("eval", "truncated-ema"), "ema.safetensors"),
    ("eval no such checkpoint", ("eval", "run", "--checkpoint", "7"), "one of the steps"),
    ("eval which checkpoint", ("eval", "run", "--checkpoint", "-1"), "takes latest, best or a step, not '-1'"),
    ("eval exported checkpoint", ("eval", "exported", "--checkpoint", "best"), "the weights of step 30 only"),
    ("compare truncated", ("compare", "run", "truncated-ema", "--out", "new"), "ema.safetensors"),
    ("sample no run", ("sample", "thesis"), "it has no recipe.yaml"),
    ("sample without checkpoint", ("sample", "no-checkpoint"), "no checkpoint"),
    ("no samples", ("sample", "run", "-n", 0), "greater than or equal to 1"),
    ("no steps", ("sample", "run", "--steps", 0), "steps must be at least 1, not 0"),
    ("existing file", ("sample", "run", "--out", "points.npy"), "points.npy exists"),
    ("no such directory", ("sample", "run", "--out", "no/points.npy"), "there is no directory no"),
    ("unknown format", ("sample", "run", "--out", "points.txt"), ".npy, .csv or .png"),
    ("a picture of six", ("sample", "codes", "-n", 3, "--out", "codes.png"), "not 6 positions: write .npy"),
    ("unknown grid", ("sample", "run", "--grid", "square"), "unknown grid 'square'; choose from uniform, cosine"),
    ("unknown latent policy", ("sample", "run", "--latent-policy", "none"), "'none' is not one of 'resample', 'fixed'"),
    ("unknown sampler", ("sample", "run", "--sampler", "gibbs"), "unknown sampler 'gibbs'; choose from ancestral, par"),
    ("too many steps", ("sample", "run", "--sampler", "parallel", "--steps", 3), "at most 2 steps, not 3"),
    ("steps of first hitting", ("sample", "run", "--sampler", "first-hitting", "--steps", 3), "2 steps, not 3"),
    ("a grid for parallel", ("sample", "run", "--sampler", "parallel", "--grid", "uniform"), "has no grid of times"),
    ("times not numbers", ("sample", "run", "--grid", "0,x,1"), "times like 0,0.2,1; not '0,x,1'"),
    ("times that fall", ("sample", "run", "--grid", "0,0.5,0.2,1"), "times that rise from 0 to 1"),
    ("times and steps", ("sample", "run", "--grid", "0,0.5,1", "--steps", 3), "a grid of 3 steps is 4 times"),
    ("no top-p", ("sample", "run", "--top-p", 0), "top_p must be above 0, not 0.0"),
    ("no top-k", ("sample", "run", "--top-k", 0), "top_k must be at least 1, not 0"),
    ("a cold temperature", ("sample", "run", "--temperature", -1), "temperature must be at least 0, not -1.0"),
    ("unknown precision", ("sample", "run", "--precision", "float16"), "'float16' is not one of 'float64', 'float32'"),
    ("unknown checkpoint", ("sample", "run", "--checkpoint", 7), "has no checkpoint 7"),
    ("no such checkpoint", ("sample", "run", "--checkpoint", "first"), "takes latest, best or a step, not 'first'"),
    ("steps not numbers", ("eval", "run", "--steps", "1,x"), "like 1,2,5; not '1,x'"),
    ("steps below one", ("eval", "run", "--steps", "1,0"), "at least 1, not 0"),
    ("steps empty", ("compare", "run", "--steps", "", "--out", "new"), "like 1,2,5"),
    ("too few samples", ("eval", "run", "--steps", "1", "--samples", 1), "samples must be at least 2, not 1"),
    ("bad data over an old run", ("train", "--data", "negative.npy", "--out", "run", "--overwrite"), "-1"),
    ("a seed too large", (*TRAIN, "seed=99999999999999999999999"), "seed"),
    ("a decay of one", (*TRAIN, "training.betas=[1,0.999]"), "training.betas"),
    ("an infinite rate", (*TRAIN, "training.learning_rate=inf"), "training.learning_rate"),
    ("true for a number", (*TRAIN, "training.steps=true"), "training.steps does not take true"),
    ("a recipe that is not text", ("train", "latin.yaml", "--out", "new"), "UTF-8"),
    ("a run below a file", ("train", "checkerboard", *TINY, "--out", "points.npy/run"), "points.npy"),
    ("fewer steps than done", ("train", "--out", "run", "--resume", "training.steps=5"), "at step 30 already"),
    ("numbers into a directory", ("eval", "run", "--json", "thesis"), "--json"),
    (
        "one file for two",
        ("sample", "run", "--out", "a.png", "--trajectory", "./a.png"),
        "name the file a.png; name two",
    ),
    ("somebody's tables", ("compare", "run", "--out", "mine"), "tables.md is of no earlier comparison"),
    ("no particles", ("eval", "run", "--bound", "1", "--particles", "0"), "particles must be at least 1"),
    ("unknown proposal", ("eval", "run", "--bound", "1", "--proposals", "guess"), "guess"),
    ("bound in no steps", ("eval", "run", "--bound", "0"), "--bound"),
    (
        "bound on no such grid",
        ("eval", "run", "--bound", "1", "--grid", "log"),
        "'log' is not one of 'uniform', 'cosine'",
    ),
    ("data of another length", ("eval", "run", "--bound", "1", "--data", "good.npy"), "examples have the shape (n, 2)"),
    ("data with other values", ("eval", "codes", "--bound", "1", "--data", "large.npy"), "99"),
]


@pytest.mark.parametrize(
    ("arguments", "told"), [case[1:] for case in BAD_INPUT], ids=[case[0].replace(" ", "-") for case in BAD_INPUT]
)
def test_bad_input_is_one_line_and_loses_nothing(
    place: Path, vadd_command: Command, arguments: tuple[object, ...], told: str
) -> None:
    before = contents(place)
    ended = vadd_command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert told in ended.err
    assert contents(place) == before


def test_values_beyond_the_stated_number_are_told(place: Path, vadd_command: Command) -> None:
    before = contents(place)
    ended = vadd_command("train", "too-large.yaml", "--out", "new")
    assert ended.code == 2
    assert ended.err == "error: good.npy holds the value 4, outside 0..3\n"
    assert before.items() <= contents(place).items()


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--data", "", "--out", "new"),
        ("train", "checkerboard", "--out", ""),
        ("sample", ""),
        ("sample", "run", "--out", ""),
        ("eval", "run", "--json", ""),
        ("export", "run", ""),
        ("compare", "run", ""),
        ("infill", "run", "--array", ""),
        ("runs", ""),
        ("data", "mnist", "--dir", ""),
        ("judge", ""),
        ("studio", "--out", ""),
    ],
)
def test_an_empty_name_is_not_the_working_directory(
    place: Path, vadd_command: Command, arguments: tuple[str, ...]
) -> None:
    before = contents(place)
    ended = vadd_command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: Invalid value for ")
    assert ended.err.endswith(f": an empty name is no path; see vadd {arguments[0]} --help\n")
    assert contents(place) == before


@pytest.mark.parametrize(
    "arguments", [("sample", "run", "-n", "many"), ("sample", "run", "--seed", "-1"), ("sample",), ("eval", "--what")]
)
def test_what_cannot_be_parsed_is_refused_and_the_help_named(
    place: Path, vadd_command: Command, arguments: tuple[str, ...]
) -> None:
    before = contents(place)
    ended = vadd_command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.endswith(f"; see vadd {arguments[0]} --help\n")
    assert ended.err.count("\n") == 1
    assert contents(place) == before
