"""The Python examples of README and docs run as they stand."""

import doctest
import re
from pathlib import Path

import pytest

import vadd.training.train
from tests.helpers.tiny import TINY, train_in
from vadd.recipe import load_recipe

ROOT = Path(__file__).parent.parent
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```python" in page.read_text()
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the runs that the examples speak of, trained for a moment."""
    where = tmp_path_factory.mktemp("examples")
    toy = [override for override in TINY if not override.startswith("data.vocab_size")]
    train_in(where / "runs" / "checkers", load_recipe("checkerboard").with_overrides(toy))
    small = ("network.width=16", "network.denoiser.blocks=1", "network.recognizer.blocks=1", "training.steps=5")
    train_in(where / "runs" / "digits", load_recipe("digits").with_overrides(small))
    return where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_a_page_runs(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    names: dict[str, object] = {}  # the blocks of a page may build on each other
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(code, str(page), "exec"), names)


def test_the_example_of_vadd_train_runs() -> None:
    results = doctest.testmod(vadd.training.train)
    assert results.attempted > 0
    assert results.failed == 0
