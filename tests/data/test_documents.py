"""Documents out of files: what a document is, and what is said about files that cannot be read."""

import io
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.files import write
from tests.helpers.texts import TOPICS, letters_only
from tests.helpers.tokenizers import small_tokenizer
from vadd.data.text import documents as module
from vadd.data.text.documents import Documents, TextFiles, character_border, read_running, text_files
from vadd.errors import UserError

TEXT = "\n".join(TOPICS)
POEM = "one\ntwo\n\n\nthree  \n   \nfour\nfive\n"


def documents_of(path: Path, documents: Documents = "file", field: str = "text") -> list[str]:
    return list(TextFiles(text_files(path), documents, field))


def refusal(path: Path, documents: Documents = "file", field: str = "text") -> str:
    with pytest.raises(UserError) as caught:
        documents_of(path, documents, field)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("file", [POEM]),
        ("line", ["one", "two", "three", "four", "five"]),
        ("paragraph", ["one\ntwo", "three  ", "four\nfive"]),
    ],
)
def test_a_text_file_is_one_document_or_its_lines_or_its_paragraphs(
    tmp_path: Path, documents: Documents, expected: list[str]
) -> None:
    assert documents_of(write(tmp_path / "poem.txt", POEM), documents) == expected
    windows = b"\xef\xbb\xbf" + POEM.replace("\n", "\r\n").encode()
    assert documents_of(write(tmp_path / "windows.txt", windows), documents) == expected


def test_a_folder_gives_its_text_files_in_order_but_hidden_and_blank_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/.hidden.txt", ".git/x.txt", "c.md"):
        write(tmp_path / name, f"this is {name}")
    write(tmp_path / "blank.txt", " \n\n")
    assert documents_of(tmp_path) == ["this is a/z.txt", "this is b.txt"]


def test_rows_of_jsonl_are_documents(tmp_path: Path) -> None:
    rows = [{"text": "first\nline", "n": 1}, {"text": " "}, {"text": "zwölf"}]
    path = write(tmp_path / "rows.jsonl", "\n\n".join(map(json.dumps, rows)))
    assert documents_of(path) == ["first\nline", "zwölf"]
    assert documents_of(write(tmp_path / "other.jsonl", '{"body": "x"}'), field="body") == ["x"]


def test_rows_of_csv_are_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", 'id,text\n1,"two\nlines, ""quoted"""\n2,plain\n\n')
    assert documents_of(path) == ['two\nlines, "quoted"', "plain"]
    bare = write(tmp_path / "bare.csv", '"3","Title","Body"\n"4","T2","B2"\n')
    assert documents_of(bare, field="2") == ["Title", "T2"]
    assert documents_of(bare, field="2+3") == ["Title Body", "T2 B2"]
    assert documents_of(write(tmp_path / "long.csv", f"text\n{'x' * 200_000}\n")) == ["x" * 200_000]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", b"abc\ndef\xff\xfe", "is not text in UTF-8: byte 7 is 0xff"),
        ("a.txt", b"\xef\xbb\xbfab\xc3(", "is not text in UTF-8: byte 5 is 0xc3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}\n', "is not text in UTF-8: byte 24 is 0xe9"),
        ("a.jsonl", b'{"text": "a"}\n{"body": "b", "n": 1}\n', "line 2 has no field 'text'; it has 'body', 'n'"),
        ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n', "line 2: the field 'text' is not text"),
        ("a.jsonl", b'{"text": "a"}\n[1]\n', "line 2 has no field 'text': it is no object"),
        ("a.jsonl", b'{"text": "a"}\n{"te', "line 2 is not a JSON object"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not a JSON object"),
        ("a.jsonl", b'{"text": "a\\ud800"}\n', "line 1: '\\ud800' is half a character"),
        ("a.jsonl", b'{"' + b"x" * 5_000 + b'": 1}\n', "... (5,002 characters)"),
        ("a.csv", b"title,body\n1,2\n", "has no column 'text'; choose from title, body"),
        ("a.csv", b"", "has no column 'text'; choose from nothing"),
        ("a.csv", b"id,text\n1,a\n2\n", "line 3 has 1 columns"),
        ("a.csv", b'text\n"a"b\n', "line 2 is not CSV"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_place_and_reason(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    path = write(tmp_path / name, content)
    message = refusal(path, "line")
    assert told in message
    assert str(path) in message


def test_the_offset_of_a_wrong_byte_counts_from_the_start_of_the_file(tmp_path: Path) -> None:
    """Also behind a byte order mark and after lines that ended in two characters."""
    path = write(tmp_path / "a.txt", b"a\r\nb\r\n\xff")
    assert "byte 6 is 0xff" in refusal(path)
    with pytest.raises(UserError, match="byte 6 is 0xff"):
        list(read_running(path, 0, 7))


def test_missing_files_and_folders_without_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(f"there is no file {tmp_path / 'none.txt'}")):
        text_files(tmp_path / "none.txt")
    with pytest.raises(UserError, match=re.escape(f"there are no .txt files in {tmp_path}")):
        text_files(tmp_path)


def test_what_may_have_changed_has_another_identity(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "abc")
    before = TextFiles((path,), "line", "text").identity
    assert TextFiles((path,), "line", "text").identity == before
    assert TextFiles((path,), "file", "text").identity != before
    write(path, "abcd")
    assert TextFiles((path,), "line", "text").identity != before


@given(
    text=st.text(st.sampled_from("ab é☃\U0001f600\n"), max_size=200),
    border=st.floats(0, 1),
    piece=st.integers(4, 40),
)
@properties
def test_the_two_sides_of_a_running_text_are_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, border: float, piece: int
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "running.txt", text)
    size = len(text.encode())
    middle = int(border * size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        first, second = list(read_running(path, 0, middle)), list(read_running(path, middle, size))
    assert "".join(first + second) == text
    cut = character_border(io.BytesIO(text.encode()), middle)
    assert "".join(first).encode() == text.encode()[:cut]


@pytest.mark.parametrize("name", ["gpt2", "bert"])
@pytest.mark.parametrize("running", [TEXT, letters_only(TEXT)], ids=["prose", "letters"])
def test_pieces_of_a_text_give_the_tokens_of_the_whole(
    tmp_path: Path, name: Literal["gpt2", "bert"], running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, path = small_tokenizer(name), write(tmp_path / "text.txt", running)
    monkeypatch.setattr(module, "PIECE", 5_000)
    pieces = list(read_running(path, 0, 100_000))
    assert len(pieces) >= 20
    whole = tokenizer.encode(["".join(pieces)])[0]
    assert [number for ids in tokenizer.encode(pieces) for number in ids] == whole
