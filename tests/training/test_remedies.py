"""Posterior collapse in training: it is noticed, the KL warm-up starts again where the recipe allows it, and a resumed
training does the same.
"""

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vadd
from tests.helpers.runs import assert_same_state, newest
from vadd.core.health import RESTARTED_WEIGHTS
from vadd.training.loop import Trainer

STEPS = 300


def weakly_dependent() -> np.ndarray:
    """Two of six positions agree in 70% of the examples: z is worth little, and collapses at KL weight 1."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (800, 6))
    codes[:, 1] = np.where(rng.random(800) < 0.6, codes[:, 0], codes[:, 1])
    return codes


def trained(path: Path, *, remedies: bool) -> vadd.Run:
    settings: dict[str, Any] = {
        "training.steps": STEPS,
        "training.kl_weight": 1.0,
        "training.kl_warmup": 0.3,
        "training.evaluate_every": 30,
        "training.checkpoint_every": 50,
        "training.batch": 64,
        "network.width": 64,
        "latent.prior": "normal",
        "training.remedies": remedies,
    }
    return vadd.train(weakly_dependent(), path, progress=False, **settings)


def lines(path: Path, split: str) -> list[dict[str, float]]:
    entries = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["split"] == split]


@pytest.fixture(scope="module")
def revived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run whose warm-up started again, and what the training said."""
    path, said = tmp_path_factory.mktemp("revived") / "run", StringIO()
    with redirect_stderr(said):
        trained(path, remedies=True)
    return path, said.getvalue()


def test_a_collapsed_latent_is_revived(
    revived: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path / "without", remedies=False)
    assert lines(tmp_path / "without", "latent")[-1]["active_units"] == 0
    assert "Try: latent.kind=shared" in capsys.readouterr().err

    path, said = revived
    assert lines(path, "latent")[-1]["active_units"] > 0
    assert f"The KL warm-up starts again, up to a weight of {RESTARTED_WEIGHTS[0]:g}" in said
    weights = [entry["kl_weight"] for entry in lines(path, "train")]
    assert max(weights) == 1.0
    assert weights[-1] == pytest.approx(RESTARTED_WEIGHTS[0])


def test_a_resumed_training_keeps_its_restart(
    revived: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = revived
    assert newest(whole).kl_restarts
    undisturbed = Trainer.step

    def crash(self: Trainer, number: int) -> object:
        if number == 220:
            raise KeyboardInterrupt
        return undisturbed(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", crash)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "parts", remedies=True)
    vadd.train(out=tmp_path / "parts", resume=True, progress=False)
    assert newest(tmp_path / "parts").kl_restarts == newest(whole).kl_restarts
    assert_same_state(newest(whole), newest(tmp_path / "parts"))


def test_there_are_two_restarts_at_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of data without any dependence nothing can be said by z, whatever the KL weighs."""
    independent = np.random.default_rng(0).integers(0, 4, (400, 3))
    training = {"steps": 200, "evaluate_every": 20, "kl_warmup": 0.1, "kl_weight": 1.0, "learning_rate": 0.01}
    settings: dict[str, Any] = {"training": training, "network.width": 16, "latent.prior": "normal"}
    vadd.train(independent, tmp_path / "run", progress=False, **settings)
    assert capsys.readouterr().err.count("starts again") <= len(RESTARTED_WEIGHTS)
    assert len(newest(tmp_path / "run").kl_restarts) <= len(RESTARTED_WEIGHTS)


def test_examples_that_are_all_alike_are_named_and_are_no_collapse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vadd.train(np.ones((50, 4), int), tmp_path / "run", steps=20, progress=False)
    assert capsys.readouterr().err == "warning: the first 45 examples are all alike: there is nothing to learn\n"
