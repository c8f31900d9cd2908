"""Files of strangers: values of plain types, or one line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vadd.parsing import MOST_BYTES, MOST_YAML, parse_json, parse_yaml, read_small_text

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def outcome(parse: Callable[[str], object], text: str) -> str:
    try:
        return repr(parse(text))
    except ValueError as error:
        return str(error)


@given(plain)
def test_what_was_written_is_read_again(content: object) -> None:
    assert parse_yaml(yaml.safe_dump(content)) == content


@given(st.text(max_size=60) | st.text("{}[]:,&*!|>-?'\"# \n\tax0", max_size=60))
def test_any_text_is_values_or_one_line(text: str) -> None:
    for parse in (parse_yaml, parse_json):
        assert "\n" not in outcome(parse, text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &a {b: *a}", "contains itself"),
        ("a: &a [*a]", "contains itself"),
        ("a: " + 5000 * "[" + 5000 * "]", "nested too deeply"),
        ("a: &a0 []\n" + "".join(f"b{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 99)), "nested too deeply"),
        ("a: " + 100 * "[" + 100 * "]", "nested too deeply"),
        (BOMB, "more than 10,000 values"),
        ("a: 1\nb: 2\na: 3\n", "the key 'a' stands there twice, in lines 1 and 3"),
        ("s: {x: 1, x: 2}", "the key 'x' stands there twice, in lines 1 and 1"),
        ("a: 99999999999999999999", "more than 64 bits"),
        ("a: 0x" + 6000 * "f", "more than 64 bits"),
        ("a: " + 6000 * "9", "integer"),
        ("a: 2001-99-99", "month"),
        ("a: !!binary x", "base64"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("#" + MOST_YAML * "x", "characters"),
    ],
    ids=lambda value: value[:20].strip() if isinstance(value, str) else None,
)
def test_what_would_never_end_or_means_two_things_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        parse_yaml(text)
    assert len(str(caught.value)) < 300


def test_references_are_read_where_they_are_few() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": [{"x": 1}, {"x": 1}],
    }


@pytest.mark.parametrize("text", [100_000 * "[", '{"a": ' * 100_000, "1" + 400 * "0", "[1" + 5000 * "0" + "]"])
def test_json_without_end(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested too deeply|64 bits|digits"):
        parse_json(text)


def test_files_that_are_none_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_small_text(path)


def test_large_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="bytes"):
        read_small_text(tmp_path / "large")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match="UTF-8"):
        read_small_text(tmp_path / "latin")
