"""Files that were tampered with: whatever is in them, a command ends by itself, with code 0 or 2 and few words.

``VADD_EXAMPLES=500`` tries so many of each kind, other ones every time.
"""

import copy
import json
import os
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.forks import in_forks
from tests.helpers.tiny import SHORT_TRAINING, tiny_recipe
from vadd.recipe import load_recipe

ASKED = os.environ.get("VADD_EXAMPLES")
tampering = settings(
    max_examples=int(ASKED or 12),
    derandomize=ASKED is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

INTEGERS = (-(2**63), -1, 0, 1, 2, 3, 7, 2**31, 10**12, 2**63 - 1, 2**63, 10**30, 10**400)
TEXTS = ("", "x", "../../evil", "a\nb", "\x1b[31m", "[/red]", "é\u202e", "x" * 3000, "1e999", "nan", "/dev/zero", "toy")
scalars = (
    st.sampled_from(INTEGERS)
    | st.sampled_from(TEXTS)
    | st.sampled_from([0.0, 0.5, -1.5, 1e308, float("inf"), float("nan"), None, True, False])
)
values = (
    scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.sampled_from(["kind", "a", "1"]), scalars, max_size=2)
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, vadd_run: Path, exported_run: Path) -> Iterator[Path]:
    """A run and its export, to be tampered with."""
    folder, before = tmp_path_factory.mktemp("tampered"), Path.cwd()
    shutil.copytree(vadd_run, folder / "run")
    shutil.copytree(exported_run, folder / "exported")
    os.chdir(folder)
    yield folder
    os.chdir(before)


def check(content: bytes, *commands: str) -> None:
    """One after the other in one fork."""
    ends = in_forks([command.split() for command in commands], lambda: shutil.rmtree("new", ignore_errors=True))
    for command, ended in zip(commands, ends, strict=True):
        assert ended.code in (0, 2), (command, content, ended)
        assert len(ended.err.encode()) < 2048, (command, content, ended.err[:300])
        assert "Traceback" not in ended.err
    shutil.rmtree("new", ignore_errors=True)


def tampered(content: Any, draw: Any) -> Any:
    """A copy with one to three values, at any depth, replaced, removed or added to."""
    changed = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        inner = changed
        while True:
            key = draw(st.sampled_from(sorted(inner, key=str)))
            if not (isinstance(inner[key], dict) and inner[key]) or draw(st.integers(0, 3)) == 0:
                break
            inner = inner[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                inner[key] = draw(values)
            case "add":
                inner[draw(st.sampled_from(TEXTS))] = draw(values)
            case "remove" if len(inner) > 1:
                del inner[key]
    return changed


def garbled(content: bytes, draw: Any) -> bytes:
    """With some bytes overwritten, and perhaps the end cut off."""
    spoilt = bytearray(content)
    for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        spoilt[place] = draw(st.integers(0, 255))
    return bytes(spoilt[: draw(st.sampled_from([len(content), len(content), len(content) // 2, 3, 0]))])


RECIPES = [
    tiny_recipe().model_dump(mode="json"),
    load_recipe("pydocs").with_overrides(SHORT_TRAINING).model_dump(mode="json"),
    load_recipe("digits").model_dump(mode="json"),
]


@tampering
@given(st.data())
def test_recipes(place: Path, data: st.DataObject) -> None:
    content = tampered(data.draw(st.sampled_from(RECIPES)), data.draw)
    text = yaml.safe_dump(content, allow_unicode=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    if data.draw(st.integers(0, 3)) == 0:
        text = garbled(text, data.draw)
    Path("mine.yaml").write_bytes(text)
    small = "training.steps=2 training.batch=8 training.evaluate_every=2 training.trackers=[]"
    train = [f"train mine.yaml {small} --out new"] if content.get("data") == RECIPES[0]["data"] else []
    check(text, "plan mine.yaml --flops 1e12", *train)


CONFIGURATIONS = ("exported/config.json", "run/data.json", "run/checkpoints/step-00000030/checkpoint.json")


@tampering
@given(st.data())
def test_configurations(place: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CONFIGURATIONS))
    file = Path(name)
    whole = file.read_bytes()
    try:
        spoilt = json.dumps(tampered(json.loads(whole), data.draw)).encode()
        file.write_bytes(garbled(spoilt, data.draw) if data.draw(st.integers(0, 3)) == 0 else spoilt)
        folder = name.split("/")[0]
        check(file.read_bytes(), f"sample {folder} -n 2", *(["status run"] if folder == "run" else []))
    finally:
        file.write_bytes(whole)


@tampering
@given(st.data())
def test_metrics(place: Path, data: st.DataObject) -> None:
    file = Path("run/metrics.jsonl")
    whole = file.read_bytes()
    lines = whole.splitlines()
    try:
        for number in data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=6)):
            lines[number] = json.dumps(tampered(json.loads(whole.splitlines()[number]), data.draw)).encode()
        content = b"\n".join(lines) + b"\n"
        file.write_bytes(garbled(content, data.draw) if data.draw(st.integers(0, 3)) == 0 else content)
        check(file.read_bytes(), "status run", "runs .", "export run new")
    finally:
        file.write_bytes(whole)


TYPES = ("i1", "u1", ">i4", "<u8", "?", "f4", "c8", "S3", "U2", "M8[s]", "V4")
SHAPES = ((), (0,), (5,), (1, 1), (2, 3), (6, 2, 2), (0, 4), (4, 0), (3, 1, 1, 1, 2))
HEADERS = ("(1000000000000, 3)", "(-1, 3)", "(2, 4611686018427387904)", "(99, )", "'x'", "(2, 3", "((2, 3), 1)")


@tampering
@given(st.data())
def test_arrays(place: Path, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    numbers = np.random.default_rng(0).integers(0, 5, shape)
    buffer = BytesIO()
    np.save(buffer, numbers.astype(data.draw(st.sampled_from(TYPES))), allow_pickle=False)
    content = buffer.getvalue()
    match data.draw(st.sampled_from(["as it is", "header", "garbled"])):
        case "header":
            content = content.replace(str(shape).encode(), data.draw(st.sampled_from(HEADERS)).encode())
        case "garbled":
            content = garbled(content, data.draw)
    Path("mine.npy").write_bytes(content)
    small = "training.steps=2 network.width=8 training.batch=2 training.trackers=[]"
    check(content, f"train --data mine.npy {small} --out new")
