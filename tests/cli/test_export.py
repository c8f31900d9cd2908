"""``vadd export``, and the other commands on what it wrote."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vadd
from tests.helpers.commands import Command


def test_export_then_sample_and_eval(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "published" / "model"
    done = vadd_command("export", vadd_run, out, "--checkpoint", "best")
    assert done.code == 0
    assert "licence" in done.out
    sampled = vadd_command("sample", out, "-n", 20, "--steps", 2, "--out", tmp_path / "points.npy")
    assert sampled.code == 0
    expected = vadd.load(vadd_run, checkpoint="best").sample(20, steps=2).numpy()
    assert np.array_equal(np.load(tmp_path / "points.npy"), expected)
    evaluated = vadd_command("eval", out, "--steps", "1", "--samples", 100, "--json", tmp_path / "numbers.json")
    assert evaluated.code == 0
    assert json.loads((tmp_path / "numbers.json").read_text())["recipe"] == "checkerboard"
    assert "it is an exported model" in vadd_command("status", out).err


def test_samples_of_arrays_have_their_shape_without_the_data(
    vadd_command: Command, array_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vadd_command("export", array_run, tmp_path / "model").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = vadd_command("sample", "../model", "-n", 5, "--out", "codes.npy", "--trajectory", "how.npz")
    assert done.code == 0
    assert np.load("codes.npy").shape == (5, 2, 3)
    Path("codes.npy").unlink()
    refused = vadd_command("eval", "../model", "--steps", "1")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "needs the data that the model learned from: there is no file codes.npy" in refused.err


def test_the_results_of_eval_come_into_the_card_under_their_names(
    vadd_command: Command, vadd_run: Path, tmp_path: Path
) -> None:
    numbers = tmp_path / "numbers.json"
    measured = ("--steps", "1", "--samples", 100, "--bound", "1", "--delbo", "--particles", 2, "--draws", 1)
    assert vadd_command("eval", vadd_run, *measured, "--limit", 20, "--json", numbers).code == 0
    assert vadd_command("export", vadd_run, tmp_path / "model", "--results", numbers).code == 0
    card = (tmp_path / "model" / "README.md").read_text()
    report = json.loads(numbers.read_text())
    assert f"{report['results'][0]['jsd']:.4f}" in card
    for number, named in (
        (report["bounds"][0], "step bound, T = 1 | yes"),
        (report["delbo"], "the paper's DELBO, K = 2 | no: not a likelihood bound"),
    ):
        assert f"| {named} | {number['nats']:.4f} ± {number['stderr']:.4f} |" in card
    assert "### Health of the latent" in card
    assert str(vadd_run) not in card


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("thesis", "new"), "it has no recipe.yaml"),
        (("run", "thesis"), "nothing is overwritten"),
        (("run", "thesis/chapter.tex"), "nothing is overwritten"),
        (("run", "new", "--checkpoint", "first"), "latest, best or a step, not 'first'"),
        (("run", "new", "--checkpoint", "7"), "has no checkpoint 7"),
        (("run", "new", "--results", "none.json"), "there is no file none.json"),
        (("run", "new", "--results", "thesis/chapter.tex"), "is not a report of `vadd eval --json`"),
        (("run", "new", "--results", "other.json"), "is about circles mdlm; this run is checkerboard vadd"),
        (("run", "new", "--results", "step.json"), "about the weights of step 20; those chosen are of step 30"),
        (("run", "new", "--results", "half.json"), "is not a report of `vadd eval --json`"),
        (("damaged", "new"), "ema.safetensors"),
    ],
)
def test_bad_input_is_one_line_and_loses_nothing(
    vadd_command: Command,
    vadd_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(vadd_run, "run")
    for file in shutil.copytree(vadd_run, tmp_path / "damaged").rglob("ema.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("years of work")
    Path("other.json").write_text('{"recipe": "circles", "model": "mdlm", "results": []}')
    Path("step.json").write_text('{"recipe": "checkerboard", "model": "vadd", "step": 20, "results": []}')
    Path("half.json").write_text('{"recipe": "checkerboard", "model": "vadd", "results": [{"jsd": 1}]}')
    before = sorted(Path().rglob("*"))
    ended = vadd_command("export", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert told in ended.err
    assert sorted(Path().rglob("*")) == before
