"""The notebooks in examples/ run from top to bottom, with trainings of a moment."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def opened(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def test_there_are_four_notebooks_whose_outputs_are_there_to_be_read() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        book = opened(path)
        outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
        assert not any(output.output_type == "error" for output in outputs)
        assert any("image/png" in output.get("data", {}) for output in outputs), path
        assert "](attachment:first.png)" in book.cells[0].source
        assert "image/png" in book.cells[0].attachments["first.png"], path
        assert "site-packages" not in path.read_text(encoding="utf-8"), "a warning with somebody's paths"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = opened(path)
    (parameters,) = (cell for cell in book.cells if "parameters" in cell.metadata.get("tags", ()))
    parameters.source, changed = re.subn(r"^STEPS = \d+", "STEPS = 4", parameters.source, flags=re.MULTILINE)
    assert changed == 1
    for cell in book.cells:  # what is measured on few samples runs as well
        cell.source = re.sub(r"\b(samples|limit|train_size)=[\d_]+", r"\1=60", cell.source)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH", "")]))
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert any("4/4 steps" in output.get("data", {}).get("text/html", "") for output in shown), "a progress bar"
