"""Whether texts obey their labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from vadd.data import DiscreteDataset
from vadd.evaluation.classifier import LabelClassifier, labels_in_order, shares_of_labels
from vadd.evaluation.evaluators import Reference, TextEvaluator
from vadd.evaluation.reports import PairDistance, StepResult, TextMetrics

LETTERS = {"vowels": "aeiou", "consonants": "bcdfg", "digits": "01234"}
TINY: dict[str, Any] = {
    "steps": 300,
    "batch": 32,
    "learning_rate": 3e-3,
    "latent": {"dim": 2, "prior": "normal"},
    "network": {"denoiser": {"width": 32, "blocks": 1}, "recognizer": {"width": 32}, "heads": 2},
    "progress": False,
}


def texts_with_labels() -> tuple[list[str], list[str]]:
    """Of other letters for each label; consonants are twice as frequent."""
    random = np.random.default_rng(0)
    labels = ["vowels", "consonants", "consonants", "digits"] * 50
    return ["".join(random.choice(list(LETTERS[label]), 6)) for label in labels], labels


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vadd.Run:
    texts, labels = texts_with_labels()
    return vadd.train(texts, tmp_path_factory.mktemp("texts") / "run", labels=labels, **TINY)


def test_the_classifier_learns_labels_from_training_documents(run: vadd.Run) -> None:
    classifier = LabelClassifier(run.data)
    assert classifier.accuracy == 1
    assert classifier.tested == len(run.data.test)
    assert (classifier.labels(run.data.test.numpy()) == run.data.test_labels.numpy()).all()  # type: ignore[union-attr]
    texts = ["aeiaei", "gfdgfd", "012012"]
    assert [run.kind.labels[number] for number in classifier.classifier.predict(texts)] == list(LETTERS)  # type: ignore[index]
    assert len(classifier.classifier.predict(["", "ä"])) == 2


def test_samples_obey_and_disobey(run: vadd.Run, tmp_path: Path, vadd_command: Command) -> None:
    done = vadd_command("eval", run.directory.path, "--steps", "1,8", "--samples", "90", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    assert "labels obeyed" in done.out
    assert "samples are drawn" not in done.err.replace("of 90", "")
    found = json.loads((tmp_path / "e.json").read_text())
    assert found["samples"] == 90
    assert found["real_text"]["classifier_accuracy"] == 1
    assert "labels_obeyed" not in found["real_text"]
    for result in found["results"]:
        assert result["classifier_accuracy"] == 1
        assert len(result["obeyed_by_label"]) == 3
        assert result["labels_obeyed"] > 0.9
    again = StepResult.model_validate(found["results"][0])
    assert isinstance(again.metrics, TextMetrics)
    assert again.to_json() == found["results"][0]


def test_a_run_that_does_not_listen_is_found_out(run: vadd.Run) -> None:
    evaluator = TextEvaluator(Reference(run.data, 80))
    deaf = run.sample(80, label="digits", steps=8)
    metrics = evaluator(deaf.numpy(), 8)
    assert metrics.labels_obeyed == pytest.approx(evaluator.of_labels[1] / 80, abs=0.1)
    assert metrics.obeyed_by_label is not None
    assert metrics.obeyed_by_label[0] < 0.1


def test_without_labels_nothing_is_said_of_them(tmp_path: Path, vadd_command: Command) -> None:
    texts, _ = texts_with_labels()
    vadd.train(texts, tmp_path / "run", **{**TINY, "steps": 2})
    done = vadd_command("eval", tmp_path / "run", "--steps", "1", "--samples", "8", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    assert "obeyed" not in done.out + (tmp_path / "e.json").read_text()


@pytest.mark.parametrize("samples", [3, 7, 10, 100, 101])
def test_labels_are_drawn_as_frequent_as_they_were(samples: int) -> None:
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    examples = torch.zeros(10, 1, dtype=torch.int64)
    data = DiscreteDataset("d", 2, (1,), examples, examples, train_labels=labels, label_names=("a", "b", "c"))
    found = shares_of_labels(data, samples, least=0)
    assert sum(found) == samples
    assert np.abs(np.array(found) - samples * np.array([0.5, 0.3, 0.2])).max() < 1
    assert min(shares_of_labels(data, samples, least=2)) >= 2
    assert labels_in_order(found).bincount(minlength=3).tolist() == list(found)


def test_a_forest_says_whether_other_examples_obey(tmp_path: Path, vadd_command: Command) -> None:
    values = np.arange(300) % 3
    codes = np.repeat(values[:, None], 4, axis=1)
    names = np.array(["low", "mid", "high"])[values]
    small: dict[str, Any] = {"width": 32, "denoiser": {"blocks": 1}, "recognizer": {"blocks": 1}}
    settings: dict[str, Any] = {"steps": 200, "batch": 64, "learning_rate": 6e-3, "network": small, "progress": False}
    vadd.train(codes, tmp_path / "run", labels=names, **settings)
    done = vadd_command("eval", tmp_path / "run", "--steps", "2", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    assert "labels obeyed" in done.out
    (found,) = json.loads((tmp_path / "e.json").read_text())["results"]
    assert found["classifier_accuracy"] == 1
    assert found["labels_obeyed"] > 0.9
    assert len(found["obeyed_by_label"]) == 3
    again = StepResult.model_validate(found).metrics
    assert isinstance(again, PairDistance)
    assert again.labels_obeyed == found["labels_obeyed"]
