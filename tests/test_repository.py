"""What surrounds the package: its pages, its citation, its workflow, its version."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools.griffe_docstrings import readable
from tools.render_results import BLOCK, pages, rendered

import vadd

ROOT = Path(__file__).parent.parent
NOT_RENDERED = {"scaling.md", "text.md"}
"""Pages that have tables of counts, or of runs that are no study's; the commands stand beside each table."""
QUOTED = {"0.385"}
"""What others have published: the FCD of FLDD."""
VERSIONS = {"2.0", "3.11"}


def test_the_pages_are_built_without_a_dead_link_and_with_the_reference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    assert built.returncode == 0, built.stderr
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    for name in ("on_checkpoint", "Run", "Denoiser", "Recognizer", "check", "DiscreteDataset", "UserError"):
        assert name in reference
    assert ":class:" not in reference
    assert "fonts.googleapis" not in reference


def test_docstrings_are_made_readable() -> None:
    assert readable("See :class:`~vadd.data.DiscreteDataset`.") == "See `DiscreteDataset`."
    assert readable("Try\n\n>>> f(1)\n2\n\nand") == "Try\n\n```pycon\n>>> f(1)\n2\n```\n\nand"


def test_every_page_is_reachable() -> None:
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert {page for page in pages if f": {page}\n" not in navigation} == set()


@pytest.mark.parametrize("folder", ["docs", "docs/results"])
def test_pages_are_short_and_the_front_page_names_them(folder: str) -> None:
    front = (ROOT / folder / "index.md").read_text(encoding="utf-8")
    pages = [page for page in (ROOT / folder).glob("*.md") if page.name != "index.md"]
    assert [page.name for page in pages if len(page.read_text(encoding="utf-8").split()) > 1500] == []
    assert [page.name for page in pages if f"({page.name})" not in front] == []
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


def test_tables_are_those_of_the_numbers_in_the_repository() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages()}
    written = {name for name, text in texts.items() if "<!-- table " in text}
    assert written >= {"README.md", "baselines.md", "images.md", "own-data.md", "published.md", "tables.md", "toys.md"}
    assert [name for name, text in texts.items() if rendered(text) != text] == []


def test_no_number_is_typed_beside_the_tables() -> None:
    """Outside of tables from JSON there is no table of results, and every decimal number of the text is in one of these
    tables or in what the studies quote.
    """
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages()}
    known = {number for text in texts.values() for block in BLOCK.finditer(text) for number in numbers_of(block[0])}
    for definition in (ROOT / "src" / "vadd" / "studies" / "definitions").glob("*.yaml"):
        known |= numbers_of(definition.read_text(encoding="utf-8"))
    for name, text in ((name, text) for name, text in texts.items() if name not in NOT_RENDERED):
        free = re.sub(r"```.*?```|`[^`]*`", "", BLOCK.sub("", text), flags=re.DOTALL)
        assert [line for line in free.splitlines() if line.startswith("|") and len(numbers_of(line)) > 2] == [], name
        others = numbers_of(free) - QUOTED - VERSIONS
        assert {number for number in others if not any(_rounds_to(each, number) for each in known)} == set(), name


def _rounds_to(measured: str, said: str) -> bool:
    digits = len(said.partition(".")[2])
    return abs(float(measured) - float(said)) <= 0.5000001 * 10**-digits and len(measured) >= len(said)


def numbers_of(text: str) -> set[str]:
    """Decimal numbers, but for versions and papers' numbers."""
    return set(re.findall(r"(?<![\d./])\d+\.\d{1,3}(?![\d.])", text))


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == vadd.__version__
    assert f"\ncopyright: vadd {vadd.__version__}, " in (ROOT / "mkdocs.yml").read_text()
    assert citation["references"][0]["url"] == "https://arxiv.org/abs/2505.17384"
    assert f"\n## {vadd.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_runs_targets_that_there_are() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert "make test" in steps
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{step.removeprefix('make ')}:", makefile, re.MULTILINE) for step in steps)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "README.md", "docs/architecture.md", "docs/index.md"])
def test_files_that_a_page_names_are_there(name: str) -> None:
    page = ROOT / name
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (page.parent / target).exists()] == []
