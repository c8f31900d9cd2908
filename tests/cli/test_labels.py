"""Runs that learn from labels, from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command

TINY = ("data.labels=true", "training.steps=20", "training.batch=32", "network.width=32", "training.evaluate_every=20")


@pytest.fixture(scope="module")
def labelled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.helpers.tiny import train_in
    from vadd.recipe import load_recipe

    path = tmp_path_factory.mktemp("labels") / "run"
    assert train_in(path, load_recipe("digits").with_overrides(TINY)).finished
    return path


def test_samples_of_a_label_and_guidance(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    for name, arguments in {"plain": (), "one": ("--guidance", "1.0"), "more": ("--guidance", "2")}.items():
        done = vadd_command(
            "sample", labelled_run, "-n", "16", "--label", "7", *arguments, "--out", tmp_path / f"{name}.npy"
        )
        assert done.code == 0, done.err
        assert ("not exact: guidance 2" in done.out) == (name == "more")
    plain, one, more = (np.load(tmp_path / f"{name}.npy") for name in ("plain", "one", "more"))
    assert (plain == one).all()
    assert (plain != more).any()
    run = vadd.load(labelled_run)
    assert torch.equal(run.sample(16, label=7), torch.from_numpy(plain.reshape(16, -1)))
    assert not torch.equal(run.sample(16, label=7), run.sample(16))
    half = np.where(np.arange(64) < 32, run.data.test[0].long().numpy(), -1)
    filled = run.infill(half, label=3)
    assert (filled.numpy()[:32] == half[:32]).all()


def test_bounds_given_the_label(labelled_run: Path, vadd_command: Command) -> None:
    arguments = ("--bound", "1", "--limit", "20", "--particles", "4")
    given = vadd_command("eval", labelled_run, *arguments, "--given-label")
    assert given.code == 0, given.err
    assert given.out != vadd_command("eval", labelled_run, *arguments).out


def test_samples_are_judged_by_label(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    done = vadd_command("eval", labelled_run, "--steps", "1", "--samples", "200", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "e.json").read_text())["results"][0]
    assert 0 <= found["labels_obeyed"] <= 1
    assert len(found["frechet_by_label"]) == 10
    assert min(found["frechet_by_label"]) > 0
    assert "labels" in done.out


def test_a_baseline_without_a_latent_learns_from_labels_too(tmp_path: Path, vadd_command: Command) -> None:
    trained = vadd_command("train", "digits", "model=mdlm", *TINY, "--out", tmp_path / "run")
    assert trained.code == 0, trained.err
    assert vadd_command("sample", tmp_path / "run", "-n", "4", "--label", "0").code == 0
    assert vadd_command("eval", tmp_path / "run", "--bound", "2", "--delbo", "--limit", "5").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sample", "RUN", "--label", "77"), "unknown label '77', did you mean '7'"),
        (("sample", "RUN", "--label", "7", "--guidance", "-1"), "guidance must be at least 0"),
        (("sample", "PLAIN", "--label", "7"), "has not learnt from labels"),
        (("eval", "PLAIN", "--bound", "1", "--given-label"), "has not learnt from labels"),
        (("fit-prior", "RUN"), "is given labels"),
        (("train", "digits-shared", "data.labels=true", "--out", "new"), "latent.prior=normal"),
        (("train", "checkerboard", "data.labels=true", "--out", "new"), "unknown key 'data.labels'"),
    ],
)
def test_bad_input(
    labelled_run: Path, vadd_run: Path, vadd_command: Command, arguments: tuple[str, ...], said: str
) -> None:
    places = {"RUN": labelled_run, "PLAIN": vadd_run}
    ended = vadd_command(*(places.get(word, word) for word in arguments))
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
