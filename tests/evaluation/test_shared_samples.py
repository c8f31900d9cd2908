"""Under several processes each draws a part of the samples, and all judge the same ones."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.children import together
from vadd.evaluation import evaluate
from vadd.parallel import process_count
from vadd.run import run as memory
from vadd.run.loading import load
from vadd.run.sampling import draw as draw_samples

ROWS, SAMPLES = 64, 300


def judged(run: Path, out: Path) -> None:
    memory.CPU_ROWS = ROWS
    drawn: list[range] = []
    undisturbed = draw_samples

    def draw(model: object, settings: object, start: object, rows: range, **more: object) -> object:
        drawn.append(rows)
        return undisturbed(model, settings, start, rows, **more)  # type: ignore[arg-type]

    setattr(memory, "draw", draw)  # noqa: B010
    report = evaluate(load(run), (2,), SAMPLES).report
    (out / f"{process_count()}-{os.environ.get('RANK', '0')}.json").write_text(
        json.dumps({"report": report.to_json(), "drawn": sum(map(len, drawn))})
    )


def test_two_processes_divide_the_samples_and_find_what_one_finds(
    vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CPU_ROWS", ROWS)
    monkeypatch.setattr(memory, "draw", draw_samples)
    judged(vadd_run, tmp_path)
    together(2, judged, vadd_run, tmp_path)
    alone, first, second = (json.loads((tmp_path / name).read_text()) for name in ("1-0.json", "2-0.json", "2-1.json"))
    assert alone["report"] == first["report"] == second["report"]
    assert (alone["drawn"], first["drawn"], second["drawn"]) == (300, 172, 128)
