"""Sudoku puzzles: how they are read, and what is counted."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL
from vadd.studies.league import SetRow, score_tables, scores_of
from vadd.studies.league_sets import is_solved
from vadd.studies.puzzles import LEVELS, Puzzles, puzzles, renamed, reordered
from vadd.studies.study import Published

GRID = (np.add.outer([0, 3, 6, 1, 4, 7, 2, 5, 8], np.arange(9)) % 9).astype(int)
SOLUTION = "".join(str(value + 1) for value in GRID.flat)


def qqwing(command: Any, **_: Any) -> SimpleNamespace:
    """As the program writes them: a puzzle, its solution."""
    puzzle = ".." + SOLUTION[2:]
    return SimpleNamespace(stdout=f"{puzzle}\n{SOLUTION}\n" * int(command[2]))


def test_puzzles_are_made_once_and_cells_and_whole_puzzles_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_solved(GRID[None]).all()
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", qqwing)
    assert puzzles(tmp_path, 4) is not None
    monkeypatch.setattr(subprocess, "run", None)
    made = puzzles(tmp_path, 4)
    assert made is not None
    given, solutions = made.by_level["hard"]
    assert (given[:, 0, :2] == -1).all()
    assert (given == solutions).sum() == 4 * 79

    def infill(x: Any, **options: Any) -> torch.Tensor:
        """One of four puzzles as a whole, and one more of two cells."""
        assert options == {"steps": 2, "sampler": "confidence", "temperature": 0, "seed": 0}
        filled = solutions.copy()
        filled[1:, 0, 0] = 8
        filled[2:, 0, 1] = 8
        return torch.from_numpy(filled)

    run: Any = SimpleNamespace(infill=infill)
    scores = scores_of(run, made, 2)
    assert scores == {name: share for level in LEVELS for name, share in ((level, 0.25), (f"{level}, cells", 0.375))}
    by_model = {name: {"vadd": {2: value}} for name, value in scores.items()}
    measured: dict[str, Any] = {"name": "sudoku", "scores": by_model}
    (table,) = score_tables([SetRow.model_construct(**measured)], Published())
    assert table.title == "Scores of puzzles"
    assert list(table.rows[0]) == ["sudoku", "default", 2, *["25.0%", "37.5%"] * 3]


def test_copies_are_solved_and_what_is_given_moves_with_its_values() -> None:
    rng, given = np.random.default_rng(0), np.arange(81).reshape(9, 9)
    both = reordered(np.stack([GRID, given], axis=-1)[None], 30, rng)
    grids, moved = both[..., 0], both[..., 1]
    assert is_solved(grids).all()
    assert np.array_equal(grids, GRID.ravel()[moved])
    assert len({grid.tobytes() for grid in grids}) == 30
    others = renamed(grids, rng)
    assert is_solved(others).all()
    for grid, other in zip(grids, others, strict=True):
        assert len(set(zip(grid.flat, other.flat, strict=True))) == 9


def test_without_qqwing_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert puzzles(tmp_path, 4) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "qqwing" in line
    assert "apt install qqwing" in line


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "easy-2.txt").write_text("12.\n123\n")
    with pytest.raises(UserError, match=r"easy-2\.txt does not hold 2 puzzles with their solutions"):
        puzzles(tmp_path, 2)


@pytest.mark.skipif(shutil.which("qqwing") is None, reason="qqwing is not installed")
def test_qqwings_puzzles_are_parts_of_their_solutions(tmp_path: Path) -> None:
    made = puzzles(tmp_path, 3)
    assert isinstance(made, Puzzles)
    for given, solutions in made.by_level.values():
        assert is_solved(solutions).all()
        assert ((given == solutions) | (given == TO_FILL)).all()
        assert 17 <= (given != -1).sum((1, 2)).min() < 40
