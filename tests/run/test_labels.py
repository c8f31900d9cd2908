"""``vadd.train`` with labels: of arrays and texts in memory, and those that files have."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from tests.helpers.tiny import TINY_ARRAY
from vadd.data import ArrayData, DiscreteDataset
from vadd.training.events import Event

SMALL: dict[str, Any] = {
    "network": {"width": 16, "denoiser": {"blocks": 1}, "recognizer": {"blocks": 1}},
    "latent": {"dim": 2, "autoregressive": {"width": 16, "blocks": 1}},
    "steps": 30,
    "batch": 32,
    "warmup_steps": 5,
    "log_every": 5,
    "evaluate_every": 10,
    "checkpoint_every": 10,
    "progress": False,
}
"""Keywords that say what TINY_ARRAY says on the command line."""
SHORT: dict[str, Any] = {**SMALL, "steps": 2}
TEXT: dict[str, Any] = {"steps": 2, "batch": 4, "latent": {"prior": "normal"}, "progress": False}
VALUES = np.arange(200) % 3
NAMES = np.array(["low", "mid", "high"])[VALUES]
TOPICS = ["politics", "sports"]
NEWS = [f"{'ball' if number % 2 else 'vote'} {number}" for number in range(40)]


def stop_at_12(event: Event) -> None:
    if event.step >= 12:
        event.stop()


@pytest.fixture
def codes() -> np.ndarray:
    """Four equal values each: the label is a function of the value."""
    return np.repeat(VALUES[:, None], 4, axis=1)


def test_labels_in_memory_give_what_labels_in_a_file_give(
    codes: np.ndarray, tmp_path: Path, vadd_command: Command
) -> None:
    run = vadd.train(codes, tmp_path / "memory", labels=NAMES, **SMALL)
    np.save(tmp_path / "codes.npy", codes)
    np.save(tmp_path / "labels.npy", NAMES)
    arguments = ("--data", tmp_path / "codes.npy", "data.labels=true", *TINY_ARRAY, "--out", tmp_path / "file")
    assert vadd_command("train", *arguments).code == 0
    other = vadd.load(tmp_path / "file")
    assert run.kind.labels == other.kind.labels == ("high", "low", "mid")
    assert run.kind.label_shares == other.kind.label_shares
    assert run.sample(16, label="mid").equal(other.sample(16, label="mid"))
    assert not run.sample(16, label="mid").equal(run.sample(16, label="low"))


@pytest.mark.parametrize(
    "given",
    [
        list,
        lambda names: pandas.Series(names),
        lambda names: pandas.Categorical(names),
        lambda names: np.array(names, dtype=object),
        lambda names: torch.from_numpy(VALUES),
        lambda names: VALUES.astype(np.uint8),
    ],
    ids=["list", "series", "categories", "objects", "tensor", "integers"],
)
def test_labels_may_be_held_in_anything(codes: np.ndarray, tmp_path: Path, given: Callable[[Any], Any]) -> None:
    run = vadd.train(codes, tmp_path / "run", labels=given(NAMES), **SHORT)
    for examples, labels in ((run.data.train, run.data.train_labels), (run.data.test, run.data.test_labels)):
        assert labels is not None
        named = [(run.kind.labels or ())[label] for label in labels.tolist()]
        of_values = {0: {"low", "0"}, 1: {"mid", "1"}, 2: {"high", "2"}}
        assert all(name in of_values[value] for name, value in zip(named, examples[:, 0].tolist(), strict=True))


def test_a_run_with_labels_is_moved_resumed_and_judged_without_them(codes: np.ndarray, tmp_path: Path) -> None:
    whole = vadd.train(codes, tmp_path / "whole", labels=NAMES, **SMALL)
    vadd.train(codes, tmp_path / "run", labels=NAMES, on_step=stop_at_12, **SMALL)
    moved = shutil.move(tmp_path / "run", tmp_path / "moved")
    resumed = vadd.train(out=moved, resume=True, progress=False)
    assert resumed.step == 30
    assert resumed.sample(16, label="low").equal(whole.sample(16, label="low"))
    assert resumed.data.test_labels is not None
    assert resumed.bound(1, particles=2, limit=4).bounds[1].valid
    with pytest.raises(vadd.UserError, match="was trained on other data, or other labels"):
        vadd.train(codes, moved, labels=VALUES, resume=True)
    with pytest.raises(vadd.UserError, match="was trained on other data, or other labels"):
        vadd.train(codes, moved, resume=True)
    assert vadd.train(codes, moved, labels=NAMES, resume=True, progress=False).step == 30
    vadd.train(codes, tmp_path / "plain", **SHORT)
    with pytest.raises(vadd.UserError, match="was trained on other data, or other labels"):
        vadd.train(codes, tmp_path / "plain", labels=NAMES, resume=True)


def test_texts_with_labels(tmp_path: Path) -> None:
    long = [f"{text} " + "and so on " * 20 for text in NEWS[:38]]
    run = vadd.train([*long, " ", "ball"], tmp_path / "run", labels=TOPICS * 20, **TEXT)
    assert run.kind.labels == ("politics", "sports")
    assert run.kind.pad is not None
    assert run.data.train_labels is not None
    for text, label in zip(run.texts(run.data.train), run.data.train_labels.tolist(), strict=True):
        assert text.startswith(["vote", "ball"][label])
    assert len(run.texts(run.sample(2, label="sports", steps=2))) == 2
    with pytest.raises(vadd.UserError, match="trained on other data"):
        vadd.train([*long, " ", "ball"], tmp_path / "run", labels=TOPICS[::-1] * 20, resume=True)


def test_labels_that_files_have_are_asked_for(codes: np.ndarray, tmp_path: Path) -> None:
    rows = [{"text": text, "topic": TOPICS[number % 2]} for number, text in enumerate(NEWS)]
    (tmp_path / "news.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = vadd.train(tmp_path / "news.jsonl", tmp_path / "news", labels=True, label_field="topic", **TEXT)
    assert run.kind.labels == ("politics", "sports")
    np.save(tmp_path / "codes.npy", codes)
    np.save(tmp_path / "labels.npy", NAMES)
    labelled = ArrayData(path=str(tmp_path / "codes.npy"), labels=True).load()
    for number, asked in enumerate(({"labels": True}, {"data.labels": True})):
        run = vadd.train(tmp_path / "codes.npy", tmp_path / f"codes-{number}", **{**SHORT, **asked})
        assert run.kind == labelled.kind
    run = vadd.train("digits", tmp_path / "digits", labels=True, **{**TEXT, "network": {"width": 16}})
    assert run.kind.labels == tuple("0123456789")
    assert run.sample(2, label=7).shape == (2, 64)


def labelled_data_set(codes: np.ndarray) -> DiscreteDataset:
    examples = torch.from_numpy(codes)
    return DiscreteDataset("mine", 3, (4,), examples, examples)


BAD: dict[str, tuple[Callable[[np.ndarray], Any], Any, str]] = {
    "too few": (lambda codes: codes, NAMES[1:], "the array: 199 labels for 200 examples"),
    "fractions": (lambda codes: codes, VALUES / 2, "(n,) integers or text, not float64"),
    "two axes": (lambda codes: codes, np.stack([VALUES, VALUES], 1), "(n,) integers or text"),
    "ragged": (lambda codes: codes, [[1], [1, 2]], "not lists of them"),
    "one missing": (lambda codes: codes, [None, *NAMES[1:]], "the label None is neither text nor an integer"),
    "one not there": (lambda codes: codes, pandas.Series([pandas.NA, *NAMES[1:]]), "is neither text nor an integer"),
    "a blank one": (lambda codes: codes, ["", *NAMES[1:]], "a label is blank"),
    "one only": (lambda codes: codes, ["a"] * 200, "all examples have the label 'a'"),
    "a single one": (lambda codes: codes, ["a", *NAMES[1:]], "a single example has the label 'a'"),
    "true for an array": (lambda codes: codes, True, "labels=[...], one for each example"),
    "true for texts": (lambda codes: NEWS, True, "labels=[...], one for each example"),
    "too few for texts": (lambda codes: NEWS, TOPICS, "the texts: 2 labels for 40 examples"),
    "an array for a recipe": (lambda codes: "digits", NAMES, "labels=True takes those of a recipe"),
    "a data set": (labelled_data_set, NAMES, "train_labels, test_labels and label_names"),
    "a table": (lambda codes: pandas.DataFrame(codes), NAMES, "a label of a table is one of its columns"),
    "no data": (lambda codes: None, NAMES, "vadd.train needs data"),
}


@pytest.mark.parametrize("case", BAD)
def test_labels_that_do_not_fit_get_one_line_and_leave_nothing(case: str, codes: np.ndarray, tmp_path: Path) -> None:
    data, labels, said = BAD[case]
    with pytest.raises(vadd.UserError) as refused:
        vadd.train(data(codes), tmp_path / "run", labels=labels)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
