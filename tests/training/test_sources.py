"""What ``vadd.train`` takes from Python, and what it says of what it cannot take. Nothing is trained."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import vadd
from vadd.data import DiscreteDataset, TextData
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.progress import silent
from vadd.recipe.loading import with_settings
from vadd.run.directory import RunDirectory
from vadd.training.data import source_of

CODES = torch.arange(120).reshape(20, 2, 3) % 5
CLASSES = torch.arange(20) % 2
SPARSE = (CODES[:, 0] % 3).to_sparse()
META = torch.zeros(20, 4, dtype=torch.int64, device="meta")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "cache"))


def dataset_of(data: Any, folder: Path, labels: Any = None, **reading: Any) -> DiscreteDataset:
    """``labels`` may be True, as for :func:`vadd.train`."""
    wanted = labels is True
    source = source_of(data, None if wanted else labels, {**reading, "labels": wanted})
    recipe = source.recipe(RunDirectory(folder / "run"))
    return source.read(with_settings(recipe, {"data.labels": True} if wanted else {}), silent)


def kind_of(data: Any, folder: Path, labels: Any = None, **reading: Any) -> Kind:
    return dataset_of(data, folder, labels, **reading).kind


def test_a_tensor_dataset_keeps_its_shape_and_its_labels_if_asked_for(tmp_path: Path) -> None:
    assert kind_of(TensorDataset(CODES), tmp_path).shape == (2, 3)
    assert kind_of(TensorDataset(CODES, CLASSES), tmp_path).labels is None
    assert kind_of(TensorDataset(CODES, CLASSES), tmp_path, labels=True).labels == ("0", "1")


@pytest.mark.parametrize("rows", [[["C", "Am", "F"], ["G", "C"]], [["C", "Am"], ["F", "G"]]], ids=["ragged", "even"])
def test_sequences_of_symbols_are_texts_with_a_token_for_each_symbol(tmp_path: Path, rows: list[list[str]]) -> None:
    data = dataset_of(rows * 10, tmp_path)
    assert data.tokenizer is not None
    assert {data.tokenizer.text(row, padded=True) for row in data.train.numpy()} == {" ".join(row) for row in rows}
    assert data.vocab_size == 4 + 3  # BOS, EOS and pads


def test_arrays_of_symbols_and_lists_of_tensors_are_read(tmp_path: Path) -> None:
    assert kind_of(np.array([["C", "Am"], ["G", "C"]] * 10), tmp_path).name == "text"
    assert kind_of(SPARSE, tmp_path, CLASSES.to_sparse()).labels == ("0", "1")
    assert kind_of([torch.tensor([1, 2]), torch.tensor([0, 2])] * 10, tmp_path).shape == (2,)


def test_a_dataset_of_hugging_face_is_texts_a_table_or_examples(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    texts = datasets.Dataset.from_dict({"text": ["hello", "world"] * 10, "label": [0, 1] * 10})
    named = texts.cast_column("label", datasets.ClassLabel(names=["calm", "loud"]))
    assert kind_of(texts, tmp_path).labels is None
    assert kind_of(named, tmp_path, labels=True).labels == ("calm", "loud")
    assert kind_of(datasets.Dataset.from_dict({"age": [1, 2] * 10, "sex": ["f", "m"] * 10}), tmp_path).name == "table"
    assert kind_of(datasets.Dataset.from_dict({"x": [[1, 2, 0], [0, 1, 1]] * 10}), tmp_path).shape == (3,)
    assert kind_of(datasets.Dataset.from_dict({"x": [["C", "Am"], ["G"]] * 10}), tmp_path).name == "text"
    with pytest.raises(UserError, match=re.escape("give one split, data['train']")):
        source_of(datasets.DatasetDict({"train": texts}))


@pytest.mark.parametrize("tokenizer", ["words", "symbols"])
def test_texts_of_words_are_as_long_as_they_have_words(tmp_path: Path, tokenizer: str) -> None:
    data = dataset_of(["the cat sat on a mat near some people there", "a dog"] * 10, tmp_path, tokenizer=tokenizer)
    assert data.shape == (12,)
    recipe = vadd.recipe.recipe_for(lines(tmp_path), tokenizer=tokenizer)
    assert isinstance(recipe.data, TextData)
    assert recipe.data.length == 12


def lines(folder: Path) -> Path:
    file = folder / "lines.txt"
    file.write_text("the cat sat on a mat near some people there\n" * 30)
    return file


@pytest.mark.parametrize(
    ("data", "labels", "told"),
    [
        (META, None, "a tensor on the device meta has no values"),
        (CODES, META[:, 0], "a tensor on the device meta has no values"),
        (DiscreteDataset("x", 3, (3,), SPARSE, SPARSE), None, "the train part is a meta or sparse tensor"),
        (torch.zeros(20, 4, dtype=torch.bfloat16), None, "integers are needed"),
        ([["C m", "Am"], ["G", "C"]], None, "the symbol 'C m' is blank or has white space"),
        ([[1, 2], [3]], None, "rows of different lengths"),
        ([[], []], None, "needed is (examples, positions)"),
        ([None, None], None, "a list of texts holds NoneType too"),
        ({"a": [1]}, None, "not dict"),
        (["a\ud800", "b"], None, "'\\ud800' is half a character"),
        (np.zeros((1, 3), int), None, "holds 1 example; at least 2"),
        (["abc"], None, "there are 1 texts that are not blank"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_learnt_from_is_refused_in_one_line(tmp_path: Path, data: Any, labels: Any, told: str) -> None:
    with pytest.raises(UserError, match=re.escape(told)) as caught:
        dataset_of(data, tmp_path, labels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "array",
    [np.zeros((30, 3), int), np.full((30, 3), 2), np.arange(20).reshape(5, 4), np.array([[0, 1], [1, 0]])],
    ids=["constant", "all alike", "more values than examples", "two examples"],
)
def test_poor_data_get_a_recipe_and_are_split(tmp_path: Path, array: np.ndarray) -> None:
    data = dataset_of(array, tmp_path)
    assert len(data.train) + len(data.test) == len(array)
    assert data.vocab_size >= 2
