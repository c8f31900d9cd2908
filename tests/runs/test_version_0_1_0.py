"""Runs and exports that version 0.1.0 wrote still load, draw the same samples, go on and are exported again.

All numbers to compare with were recorded by version 0.1.0 itself: the hashes below from its samples, the lines of
metrics in the runs it left in tests/fixtures/version-0.1.0. Only settings are compared that do not hang on the last bit
of a sum, which depends on the machine: samplers that reveal the surest positions first are left out for the
transformer, whose positions are equally sure while all is masked.
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

import vadd
from tests.helpers.fixtures import VERSION_0_1_0
from tests.helpers.runs import log_of, newest
from tests.helpers.tiny import train_in
from vadd.building import build_dataset
from vadd.core.sampling import LatentPolicy
from vadd.data import ExampleFormat
from vadd.recipe import ShortTransformerNetwork, ToyData
from vadd.runs.export import export
from vadd.runs.layout import RunDirectory
from vadd.runs.run import Run
from vadd.training.loop import train

TOY, FOX = ("toy-vadd", "exported-toy"), ("fox-vadd", "exported-fox")
"""Each a run and its export: a checkerboard with a perceptron, and a text with a short transformer."""

SAMPLES = {
    "toy": {
        "ancestral": "5ee1cc135afd721c",
        "parallel": "37cb9cb548fe3b15",
        "first-hitting": "326768adfbfd10e3",
        "confidence": "cae652debe70cfde",
        "margin": "1dd89b98f1dcbed4",
        "entropy": "332ac4372d4103cc",
        "entropy-bounded": "332ac4372d4103cc",
        "remask": "6278d5c0671d3047",
        "remask-rescaled": "6278d5c0671d3047",
    },
    "fox": {
        "ancestral": "1a03998d1ed0b015",
        "parallel": "8f8f1df5fea1a205",
        "first-hitting": "693e3e3a3bd929f4",
        "remask": "f20d91429e558ce2",
        "remask-rescaled": "f20d91429e558ce2",
    },
}
LATENTS: dict[str, dict[LatentPolicy, str]] = {
    "toy": {"resample": "975dc456d3851d47", "fixed": "340bb0ad45cce890"},
    "fox": {"resample": "ee0e0b0ec41e5368", "fixed": "fcfa7a32476c5d12"},
}
COMPLETIONS = {"toy": "82ad48b23a2ad06f", "fox": "e899e0f15236ff18"}
TRAJECTORIES = {"toy": "8f2f6069694250b7", "fox": "3f180233c9f0e0d0"}

SENTENCES = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs!\n" * 60
"""The text that the second run learnt from."""


def fingerprint(tokens: Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens.numpy()).tobytes()).hexdigest()[:16]


@pytest.fixture(params=[*TOY, *FOX])
def old(request: pytest.FixtureRequest) -> tuple[str, Run]:
    name: str = request.param
    return "toy" if name in TOY else "fox", vadd.load(VERSION_0_1_0 / name)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs, to be written to, in the working directory, beside the text."""
    (tmp_path / "fox.txt").write_text(SENTENCES)
    monkeypatch.chdir(tmp_path)
    for name in (TOY[0], FOX[0]):
        shutil.copytree(VERSION_0_1_0 / name, tmp_path / name)
    return tmp_path


def test_they_load_without_their_data(old: tuple[str, Run]) -> None:
    kind, run = old
    assert run.step == 6
    assert run.format == (ExampleFormat((2,), 12) if kind == "toy" else ExampleFormat((16,), 30))
    assert (run.tokenizer is None) == (kind == "toy")


def test_old_keys_of_a_recipe_mean_what_they_meant() -> None:
    toy, fox = (vadd.load(VERSION_0_1_0 / name).recipe for name in (TOY[0], FOX[0]))
    assert isinstance(toy.data, ToyData)
    assert toy.data.vocab_size == 12
    assert isinstance(fox.network, ShortTransformerNetwork)
    assert (fox.network.denoiser.width, fox.network.recognizer.width, fox.latent.heard_from) == (16, 16, 0.9)


def test_a_seed_gives_the_samples_that_it_gave(old: tuple[str, Run]) -> None:
    kind, run = old
    found = {
        sampler: fingerprint(
            run.sample(100, steps=run.model.positions if sampler == "first-hitting" else 2, sampler=sampler, seed=3)
        )
        for sampler in SAMPLES[kind]
    }
    assert found == SAMPLES[kind]
    assert {latent: fingerprint(run.sample(70, steps=2, latent=latent, seed=1)) for latent in LATENTS[kind]} == LATENTS[
        kind
    ]


def test_a_seed_gives_the_completions_and_trajectories_that_it_gave(old: tuple[str, Run]) -> None:
    kind, run = old
    x = np.full((3, run.model.positions), -1)
    x[:, 0] = 1
    assert fingerprint(run.infill(x, steps=2, count=30, seed=5)) == COMPLETIONS[kind]
    assert fingerprint(run.trajectory(3, steps=2, seed=5)) == TRAJECTORIES[kind]


@pytest.mark.parametrize("name", [TOY[0], FOX[0]])
def test_the_same_recipe_learns_as_it_did(copy: Path, name: str) -> None:
    """Every number of the log, to what sums in another order change."""
    assert train_in(copy / "again", RunDirectory(copy / name).recipe()).finished
    ours, theirs = log_of(copy / "again"), log_of(copy / name)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.pop("split") == other.pop("split")
        assert mine == pytest.approx(other, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [TOY[0], FOX[0]])
def test_a_run_goes_on(copy: Path, name: str) -> None:
    directory = RunDirectory(copy / name)
    before, lines = vadd.load(copy / name), log_of(copy / name)
    recipe = directory.recipe().with_overrides(["training.steps=12"])
    assert train(recipe, directory, build_dataset(recipe), resume=True).finished
    state, run = newest(copy / name), vadd.load(copy / name)
    assert {float(value) for key, value in state.optimizer.items() if key.startswith("step/")} == {12.0}
    assert log_of(copy / name)[: len(lines)] == lines
    assert [line["step"] for line in log_of(copy / name) if line["split"] == "test"] == [3, 6, 9, 12]
    assert (run.step, run.format, directory.recipe()) == (12, before.format, recipe)
    assert directory.data() is not None
    weights = before.model.state_dict()
    assert any(not tensor.equal(weights[key]) for key, tensor in run.model.state_dict().items())


@pytest.mark.parametrize("name", [TOY[0], FOX[0]])
def test_a_run_is_exported_again(copy: Path, name: str) -> None:
    run, exported = vadd.load(copy / name), vadd.load(export(RunDirectory(copy / name), copy / "exported").path)
    assert (exported.format, exported.step) == (run.format, 6)
    assert exported.sample(50, steps=2, seed=4).equal(run.sample(50, steps=2, seed=4))
