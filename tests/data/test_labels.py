"""Labels of somebody's own data: folders of images, arrays with labels beside them, documents with a field."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.helpers.exact import properties
from vadd.data import (
    ArrayData,
    DiscreteDataset,
    FolderData,
    GivenData,
    TextData,
    check_dataset,
    save_dataset,
)
from vadd.data.dataset import MOST_LABELS, Labels
from vadd.errors import UserError


@given(st.lists(st.sampled_from(["cat", "dog", "2", "10", "ä b"]), min_size=4, max_size=40))
@properties
def test_every_example_keeps_its_label(found: list[str]) -> None:
    counts = [found.count(name) for name in set(found)]
    if len(counts) < 2 or min(counts) < 2:
        with pytest.raises(UserError, match="here: "):
            Labels.of(found, "here")
        return
    labels = Labels.of(found, "here")
    assert [labels.names[code] for code in labels.codes.tolist()] == found
    numbers = [int(name) for name in labels.names if name.isdecimal()]
    assert numbers == sorted(numbers)


def array_with_labels(folder: Path, labels: object) -> Path:
    """Examples of four equal values: their label is a function of the value."""
    values = np.arange(40) % 4
    np.save(folder / "codes.npy", np.repeat(values[:, None], 4, axis=1))
    np.save(folder / "labels.npy", np.asarray(labels))
    return folder / "codes.npy"


@pytest.mark.parametrize("names", [["a", "b", "c", "d"], [10, 20, 3, 7]], ids=["text", "integers"])
def test_the_labels_of_an_array_lie_beside_it(tmp_path: Path, names: list[object]) -> None:
    path = array_with_labels(tmp_path, [names[number % 4] for number in range(40)])
    data = ArrayData(path=str(path), labels=True).load()
    assert data.label_names == tuple(map(str, sorted(names)))  # type: ignore[type-var]
    for examples, codes in ((data.train, data.train_labels), (data.test, data.test_labels)):
        assert codes is not None
        assert [data.label_names[code] for code in codes] == [str(names[value]) for value in examples[:, 0].tolist()]
    shares = data.kind.label_shares
    assert shares is not None
    assert sum(shares) == pytest.approx(1)
    assert ArrayData(path=str(path)).load().label_names is None
    elsewhere = (tmp_path / "labels.npy").rename(tmp_path / "classes.npy")
    assert ArrayData(path=str(path), labels=True, labels_path=str(elsewhere)).load().label_names == data.label_names


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a"] * 40, "all examples have the label 'a'"),
        (["a"] * 39 + ["b"], "a single example has the label 'b'"),
        (["a", "b"] * 19, "38 labels for 40 examples"),
        (np.arange(80).reshape(40, 2), "(n,) integers or text"),
        (np.linspace(0, 1, 40), "(n,) integers or text, not float64"),
    ],
)
def test_labels_that_are_none_are_refused(tmp_path: Path, labels: object, said: str) -> None:
    with pytest.raises(UserError) as caught:
        ArrayData(path=str(array_with_labels(tmp_path, labels)), labels=True).load()
    assert said in str(caught.value)
    assert "labels.npy" in str(caught.value)


def test_missing_and_damaged_labels_are_named(tmp_path: Path) -> None:
    path = array_with_labels(tmp_path, ["a", "b"] * 20)
    (tmp_path / "labels.npy").write_bytes(b"no array")
    with pytest.raises(UserError, match=r"labels.npy is not a readable .npy file"):
        ArrayData(path=str(path), labels=True).load()
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(UserError, match=r"there are no labels in .*labels_path"):
        ArrayData(path=str(path), labels=True).load()
    many = np.repeat(np.arange(MOST_LABELS + 1), 2)
    with pytest.raises(UserError, match="1,001 different labels for 2,002 examples; at most 1000"):
        Labels.of(list(map(str, many)), "here")


def test_a_label_that_is_held_out_altogether_is_refused(tmp_path: Path) -> None:
    labels = Labels.of(["a", "b", "a", "b"], "here")
    with pytest.raises(UserError, match="all examples of the label 'b' are held out"):
        labels.parts(np.array([0, 2]), np.array([1, 3]), "here")


def test_folders_are_the_labels_of_the_images_in_them(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, the extra `images`, is not installed")
    for name, value in (("dark/old", 0), ("light", 255)):
        (tmp_path / name).mkdir(parents=True)
        for number in range(10):
            image.fromarray(np.full((4, 4), value, np.uint8)).save(tmp_path / name / f"{number}.png")
    data = FolderData(path=str(tmp_path), size=4, channels=1, levels=2, labels=True).load()
    assert data.label_names == ("dark", "light")
    for examples, codes in ((data.train, data.train_labels), (data.test, data.test_labels)):
        assert codes is not None
        assert codes.tolist() == examples[:, 0].tolist()
    assert FolderData(path=str(tmp_path), size=4, channels=1).load().label_names is None
    image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "stray.png")
    with pytest.raises(UserError, match=r"stray.png has no label: put it into a folder of .*"):
        FolderData(path=str(tmp_path), size=4, channels=1, labels=True).load()


def news(file: Path, rows: list[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


TOPICS = ("politics", "sports")
ROWS: list[dict[str, object]] = [
    {"text": f"{'ball' if n % 2 else 'vote'} {n}", "topic": TOPICS[n % 2]} for n in range(20)
]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_documents_have_the_labels_of_their_rows(tmp_path: Path, suffix: str) -> None:
    blank: dict[str, object] = {"text": "  ", "topic": "blank, and left out"}
    rows = [ROWS[0], blank, *ROWS[1:]]
    file = news(tmp_path / "news.jsonl", rows)
    if suffix == ".csv":
        file = tmp_path / "news.csv"
        file.write_text("topic,text\n" + "".join(f'"{row["topic"]}",{row["text"]}\n' for row in rows))
    data = TextData(path=str(file), length=12, wrap="padded", labels=True, label_field="topic").load()
    assert data.label_names == ("politics", "sports")
    assert data.tokenizer is not None
    for examples, codes in ((data.train, data.train_labels), (data.test, data.test_labels)):
        assert codes is not None
        texts = [data.tokenizer.text(row, padded=True) for row in examples.numpy()]
        assert [text.startswith("ball") for text in texts] == [code == 1 for code in codes.tolist()]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "no label"}, "line 21 has no field 'topic'"),
        ({"text": "none", "topic": None}, "line 21: the field 'topic' is not text or an integer"),
        ({"text": "blank", "topic": " "}, "the text 'blank' has an empty 'topic'"),
    ],
)
def test_documents_without_a_label_are_named(tmp_path: Path, row: dict[str, object], said: str) -> None:
    file = news(tmp_path / "news.jsonl", [*ROWS, row])
    with pytest.raises(UserError) as caught:
        TextData(path=str(file), length=12, wrap="padded", labels=True, label_field="topic").load()
    assert said in str(caught.value)


def test_only_documents_of_rows_have_labels(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match=r"has no labels: they are read from .jsonl and .csv"):
        TextData(path=str(tmp_path / "book.txt"), documents="line", length=12, wrap="padded", labels=True).load()
    with pytest.raises(ValidationError, match=r"data.wrap=padded"):
        TextData(path="news.jsonl", labels=True)


def test_a_data_set_made_in_python_keeps_the_names_of_its_labels(tmp_path: Path) -> None:
    examples, codes = torch.zeros(4, 2, dtype=torch.int64), torch.tensor([0, 1, 0, 1])
    data = DiscreteDataset(
        "mine", 2, (2,), examples, examples, train_labels=codes, test_labels=codes, label_names=("a", "b")
    )
    check_dataset(data)
    save_dataset(data, tmp_path)
    assert GivenData(path=str(tmp_path)).load().kind == data.kind
    assert GivenData(path=str(tmp_path)).load().label_names == ("a", "b")
    with pytest.raises(UserError, match=r"train_labels is \(4,\), not missing"):
        check_dataset(DiscreteDataset("mine", 2, (2,), examples, examples, label_names=("a", "b")))
    wrong = DiscreteDataset(
        "mine", 2, (2,), examples, examples, train_labels=codes + 1, test_labels=codes, label_names=("a", "b")
    )
    with pytest.raises(UserError, match="the train part holds the label 2, outside"):
        check_dataset(wrong)
