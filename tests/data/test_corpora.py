"""Corpora: what is held out, text8, and the hub by a stand-in."""

import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.files import write
from tests.helpers.fixtures import CORPORA, official_data
from tests.helpers.published import zip_of
from tests.helpers.server import serve
from tests.helpers.texts import TOPICS, evaluation_corpus, letters_only, training_corpus
from vadd.data.text import named_corpora as text8
from vadd.data.text.corpora import Corpus, CorpusName, LastDocuments, Part, RandomShare
from vadd.data.text.named_corpora import ALPHABET, fetch_text8, unpack_text8
from vadd.errors import UserError


def texts(corpus: Corpus, part: Part) -> list[str]:
    pieces = list(corpus.pieces(part))
    assert sum(piece.size for piece in pieces) <= corpus.total(part)
    return [piece.text for piece in pieces]


@given(count=st.integers(2, 80), share=st.floats(0.01, 0.9), seed=st.integers(0, 99))
@properties
def test_every_document_is_on_one_side_of_the_split(
    tmp_path_factory: pytest.TempPathFactory, count: int, share: float, seed: int
) -> None:
    lines = [f"document {number}" for number in range(count)]
    path = write(tmp_path_factory.getbasetemp() / "split.txt", "\n".join(lines))
    corpus = training_corpus("files", path, documents="line", test_fraction=share, seed=seed)
    train, test = texts(corpus, "train"), texts(corpus, "test")
    assert sorted(train + test) == sorted(lines)
    assert len(test) == max(1, int(share * count))
    assert all(piece.ends_document for piece in corpus.pieces("train"))
    again = training_corpus("files", path, documents="line", test_fraction=share, seed=seed)
    assert texts(again, "test") == test


@pytest.mark.parametrize(("count", "held_out"), [(2_000_000, 100_000), (1_000, 100), (15, 1), (2, 1)])
def test_the_last_documents_are_held_out_or_a_tenth(count: int, held_out: int) -> None:
    chosen = LastDocuments(100_000).choose(count)
    assert chosen.sum() == held_out
    assert chosen[-held_out:].all()


def test_a_single_file_is_split_by_position_and_a_single_document_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path / "book.txt", "0123456789" * 10)
    book = training_corpus("files", path, test_fraction=0.25)
    assert book.running
    assert ("".join(texts(book, "train")), "".join(texts(book, "test"))) == (
        ("0123456789" * 10)[:75],
        "5678901234567890123456789",
    )
    with pytest.raises(UserError, match=r"holds 1 document\(s\) with text; at least 2"):
        texts(training_corpus("files", path, documents="paragraph"), "train")


def test_rows_and_folders_are_split_by_document(tmp_path: Path) -> None:
    write(tmp_path / "poems" / "a.txt", "aaa")
    write(tmp_path / "poems" / "b.txt", "bbb")
    corpus = training_corpus("files", tmp_path / "poems")
    assert not corpus.running
    assert sorted([texts(corpus, "train"), texts(corpus, "test")]) == [["aaa"], ["bbb"]]


@pytest.mark.parametrize("documents", ["file", "line", "paragraph"])
def test_an_empty_file_is_refused(tmp_path: Path, documents: Any) -> None:
    path = write(tmp_path / "empty.txt", "")
    with pytest.raises(UserError, match=f"{path} is empty"):
        training_corpus("files", path, documents=documents)
    blank = write(tmp_path / "blank.txt", " \n \n")
    if documents != "file":
        with pytest.raises(UserError, match=r"blank holds 0 document\(s\) with text"):
            texts(training_corpus("files", blank, documents=documents), "train")


def test_your_own_files_need_a_path_and_pydocs_none() -> None:
    with pytest.raises(UserError, match=r"data\.path is missing"):
        training_corpus("files")
    with pytest.raises(UserError, match=r"pydocs is part of Python"):
        training_corpus("pydocs", Path("x.txt"))


def test_pydocs_is_what_help_shows() -> None:
    corpus = training_corpus("pydocs")
    train, test = texts(corpus, "train"), texts(corpus, "test")
    assert len(train) > 5 * len(test) > 0
    assert any('The "assert" statement' in topic for topic in train + test)
    assert not set(train) & set(test)


def test_text8_is_split_ninety_five_five(tmp_path: Path) -> None:
    whole = letters_only(" ".join(TOPICS))[:200_000]
    assert set(whole.encode()) == set(ALPHABET)
    corpus = training_corpus("text8", write(tmp_path / "text8", whole))
    assert "".join(texts(corpus, "train")) == whole[:180_000]
    assert "".join(texts(corpus, "test")) == whole[190_000:]


def test_text8_is_fetched_and_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(text8, "SIZE", 1200)
    content = b"some words " * 109 + b"z"
    with serve({"text8.zip": zip_of(content)}) as url:
        monkeypatch.setattr(text8, "MIRRORS", [url])
        file = fetch_text8(tmp_path)
    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["text8"]
    monkeypatch.setattr(text8, "MIRRORS", ["http://nowhere.invalid/"])
    assert fetch_text8(tmp_path) == file
    assert training_corpus("text8", tmp_path).total("train") == 1080


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (zip_of(b"short"), "it holds 5 characters, not 100,000,000"),
        (zip_of(b"Upper"), "other characters than a to z"),
        (zip_of(b"a", "other"), "it holds no file text8"),
        (b"PK not an archive", "is not a readable archive"),
        (zip_of(b"a" * 999)[:60], "is not a readable archive"),
    ],
)
def test_another_archive_is_not_text8_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, told: str
) -> None:
    if told.startswith("other"):
        monkeypatch.setattr(text8, "SIZE", len(b"Upper"))
    path = write(tmp_path / "text8.zip", content)
    with pytest.raises(UserError, match=told):
        unpack_text8(path, tmp_path / "text8")
    assert [file.name for file in tmp_path.iterdir()] == ["text8.zip"]


def test_missing_text8_names_the_command() -> None:
    with pytest.raises(UserError, match="fetch it with: vadd data text8"):
        training_corpus("text8")


@dataclass
class Rows:
    """As much of a ``datasets.Dataset`` as we use."""

    columns: dict[str, list[str]]

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def select_columns(self, names: list[str]) -> "Rows":
        return Rows({name: self.columns[name] for name in names})

    def iter(self, batch_size: int) -> Iterator[dict[str, list[str]]]:
        for first in range(0, len(self), batch_size):
            yield {name: column[first : first + batch_size] for name, column in self.columns.items()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """A hub on which every corpus has 1,500 rows; what it was asked for."""
    asked: list[tuple[object, ...]] = []

    def load_dataset(repository: str, config: str | None, *, split: str, revision: str | None) -> Rows:
        asked.append((repository, config, split, revision))
        rows = [f"{split} {number} , so" if number % 3 else " " for number in range(1500)]
        return Rows({"text": rows, "article": rows})

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_a_corpus_with_a_test_split_comes_from_it_detokenised(asked: list[tuple[object, ...]]) -> None:
    corpus = training_corpus("lm1b")
    assert texts(corpus, "train")[:2] == ["train 1, so", "train 2, so"]
    assert len(texts(corpus, "test")) == 1000
    assert {(repository, split) for repository, _, split, _ in asked} == {
        ("dvruette/lm1b", "train"),
        ("dvruette/lm1b", "test"),
    }


def test_of_openwebtext_the_last_documents_are_held_out(asked: list[tuple[object, ...]]) -> None:
    corpus = training_corpus("openwebtext")
    assert texts(corpus, "test") == [f"train {n} , so" for n in range(1350, 1500) if n % 3]
    assert texts(corpus, "train") == [f"train {n} , so" for n in range(1350) if n % 3]
    assert asked == [("Skylion007/openwebtext", None, "train", None)]


@pytest.mark.parametrize("name", ["lambada", "wikitext", "ag_news", "pubmed", "arxiv", "lm1b"])
def test_every_corpus_to_judge_by_has_a_test_part(asked: list[tuple[object, ...]], name: Any) -> None:
    assert len(texts(evaluation_corpus(name), "test")) == 1000
    assert len(asked) == 1


def test_lambada_is_not_to_learn_from(asked: list[tuple[object, ...]]) -> None:
    with pytest.raises(UserError, match="lambada has no train part: it is for evaluation"):
        texts(training_corpus("lambada"), "train")


@pytest.mark.parametrize(
    ("name", "file", "count", "first"),
    [
        ("lambada", "lambada.txt", 3, '\n" where did you put the key ? " he asked .'),
        ("lm1b", "lm1b.txt", 20, "Asked whether the bridge would open in May, the engineer said"),
        ("ag_news", "ag_news.csv", 4, "Harbour sells its oldest crane The harbour has sold a crane of 1911"),
    ],
)
def test_of_a_local_copy_all_is_there_to_judge_by(name: CorpusName, file: str, count: int, first: str) -> None:
    found = texts(evaluation_corpus(name, CORPORA / file), "test")
    assert len(found) == count
    assert found[0].startswith(first)


@pytest.mark.parametrize(
    ("name", "file", "count"),
    [
        ("lambada", "lambada_test_plain_text.txt", 5_153),
        ("lm1b", "lm1b_heldout_00000.txt", 6_075),
        ("ag_news", "ag_news_test.csv", 7_600),
    ],
)
def test_the_official_files_have_their_published_sizes(name: CorpusName, file: str, count: int) -> None:
    assert len(texts(evaluation_corpus(name, official_data("text") / file), "test")) == count


def test_what_is_judged_can_be_one_running_text(tmp_path: Path) -> None:
    """Documents as lines; a single plain file, where a file is a document, to the letter."""
    path = write(tmp_path / "two.txt", "first\n\nsecond\n")
    joined = evaluation_corpus("files", path, joined=True)
    assert joined.running
    assert [(piece.text, piece.ends_document) for piece in joined.pieces("test")] == [
        ("first\n", False),
        ("second\n", False),
    ]
    assert joined.identity != evaluation_corpus("files", path).identity
    whole = evaluation_corpus("files", path, documents="file")
    assert whole.running
    assert texts(whole, "test") == ["first\n\nsecond\n"]
    detokenised = evaluation_corpus("lm1b", write(tmp_path / "lm1b.txt", "we 're here\n"), joined=True)
    assert texts(detokenised, "test") == ["we're here\n"]


def test_without_the_package_or_the_network_the_user_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"name a local copy with data\.path, or: pip install 'vadd\[text\]'"):
        training_corpus("lm1b").total("train")

    def unreachable(*arguments: object, **options: object) -> None:
        raise ConnectionError("could not\nreach it")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(UserError, match=r"could not fetch dvruette/lm1b from the hub \(could not reach it\)"):
        training_corpus("lm1b").total("train")

    def other_columns(*arguments: object, **options: object) -> Rows:
        return Rows({"body": ["a"]})

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=other_columns))
    with pytest.raises(UserError, match="dvruette/lm1b has no column 'text'; choose from body"):
        training_corpus("lm1b").total("train")


def test_a_random_share_holds_out_at_least_one() -> None:
    assert np.array_equal(RandomShare(0.0, 3).choose(5), RandomShare(0.0, 3).choose(5))
    assert RandomShare(0.0, 3).choose(5).sum() == 1
