"""Runs and exports that version 0.2.0 wrote load, draw the same samples and have the same bounds.

The hashes in ``recorded.json`` were made by version 0.2.0 itself from the runs beside it.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import vadd
from tests.helpers.fixtures import VERSION_0_2_0

RECORDED: dict[str, dict[str, Any]] = json.loads((VERSION_0_2_0 / "recorded.json").read_text())
LABELLED_COMPLETIONS = "0f6da2677a1167d5"


def fingerprint(tokens: Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens.numpy()).tobytes()).hexdigest()[:16]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the runs beside the files that they learned from."""
    return Path(shutil.copytree(VERSION_0_2_0, tmp_path_factory.mktemp("old") / "runs"))


def loaded(path: Path) -> vadd.Run:
    """The prior of ``people`` is worse than N(0, I), which 0.2.0 used all the same: it must be named."""
    return vadd.load(path, prior="flow" if "people" in path.name else "fitted")


@pytest.mark.parametrize("folder", RECORDED)
def test_samples_and_completions_are_those_of_0_2_0(place: Path, folder: str) -> None:
    run = loaded(place / folder)
    recorded = RECORDED[folder]
    for policy in ("resample", "fixed"):
        assert fingerprint(run.sample(16, steps=2, seed=5, latent_policy=policy)) == recorded[policy], policy
    assert fingerprint(run.sample(16, steps=2, seed=5, sampler="parallel")) == recorded["parallel"]
    x = run.sample(4, steps=1, seed=6)
    x[:, ::2] = -1
    # Completions of a model with labels draw a number for the label first, since blank rows draw their label too.
    completed = LABELLED_COMPLETIONS if run.kind.labels else recorded["infill"]
    assert fingerprint(run.infill(x, steps=2, seed=1)) == completed
    if "label 7" in recorded:
        assert fingerprint(run.sample(16, steps=2, seed=5, label="7")) == recorded["label 7"]


@pytest.mark.parametrize("folder", ["toy", "digits", "people"])
def test_bounds_are_those_of_0_2_0(place: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    run = loaded(place / folder)
    assert float(run.bound(2, run.data.test[:8], particles=4).bounds[2].nats) == pytest.approx(
        RECORDED[folder]["bound"], abs=1e-5
    )
