"""Small files that others wrote: recipes, configurations, lines of metrics.

Whatever is in them, reading ends soon: in values that can be shown and counted, or in a ValueError of one line.
"""

import json
import os
import stat
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES, MOST_YAML = 2**24, 2**18
MOST_DEPTH = 32
MOST_VALUES = 10_000
"""Of a YAML document, references counted as often as they stand there: a page of them can mean billions of values."""
TOO_DEEP = "it is nested too deeply"
LARGEST_INTEGER = 2**63 - 1


def regular_file(path: Path) -> Path:
    """The path itself, if reading it will come to an end: not a pipe, a device or a socket."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "it is not a regular file", str(path))
    return path


def read_small_text(path: Path) -> str:
    """The whole of a file, UTF-8. OSError where it cannot be read, ValueError where it is not such a file."""
    if os.path.getsize(regular_file(path)) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None


def read_json(path: Path) -> Any:
    return parse_json(read_small_text(path))


def parse_json(text: str | bytes) -> Any:
    try:
        return json.loads(text, parse_int=lambda digits: _checked(int(digits)))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def parse_yaml(text: str) -> Any:
    """Values of plain types; a key that stands twice in a mapping is an error."""
    if len(text) > MOST_YAML:  # PyYAML takes seconds for that
        raise ValueError(f"it has more than {MOST_YAML:,} characters")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except (yaml.YAMLError, ValueError, ArithmeticError, TypeError, LookupError) as error:
        # Not all that PyYAML finds wrong is an error of its own: a date like 2001-99-99, a base64 with a letter lost.
        raise ValueError(" ".join(str(error).split())) from None


class _Loader(yaml.SafeLoader):  # CSafeLoader is faster, but 65,000 brackets end the process
    """Plain types, integers of at most 64 bits, every key once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.tag != "tag:yaml.org,2002:merge" and (key.tag, key.value) in seen:
                    first = seen[key.tag, key.value]
                    raise ValueError(f"the key {key.value!r} stands there twice, in lines {first} and {line}")
                seen[key.tag, key.value] = line
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return _checked(int(super().construct_yaml_int(node)))


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _measure(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """How many values a node stands for, itself included, and how deep they lie."""
    if id(node) in known:
        if (measured := known[id(node)]) is None:
            raise ValueError("something in it contains itself")
        return measured
    known[id(node)] = None
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        inner = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        inner = node.value
    count, depth = 1, 0
    for values, below in (_measure(part, known) for part in inner):
        count, depth = count + values, max(depth, below + 1)
    if count > MOST_VALUES:
        raise ValueError(f"it stands for more than {MOST_VALUES:,} values")
    if depth > MOST_DEPTH:
        raise ValueError(TOO_DEEP)
    known[id(node)] = count, depth
    return count, depth


def _checked(number: int) -> int:
    if abs(number) > LARGEST_INTEGER:
        raise ValueError("an integer in it has more than 64 bits")
    return number
