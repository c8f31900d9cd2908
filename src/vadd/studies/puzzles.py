"""Sudoku puzzles, made by the program `qqwing`, and how many of them a model completes.

Each has one solution, and none of the about 25 values that are given could be left out. qqwing calls a puzzle by the
methods that solve it: easy by single values, intermediate by pairs of values or lines of a box too, expert by guesses.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL, Array
from vadd.progress import note
from vadd.run.run import Run

LEVELS = {"easy": "easy", "medium": "intermediate", "hard": "expert"}
"""As they are called here, and by qqwing."""


@dataclass(frozen=True)
class Puzzles:
    by_level: Mapping[str, tuple[Array, Array]]
    """Grids (n, 9, 9) of which a part is given, else -1, and their solutions."""

    def scores(self, run: Run, steps: int) -> dict[str, float]:
        """The share of puzzles completed in so many steps, and of their cells: the likeliest values, the surest first;
        with one z for all steps it is chosen by what is given.
        """
        found = {}
        for level, (given, solutions) in self.by_level.items():
            right = run.infill(given, steps=steps, sampler="confidence", temperature=0, seed=0).numpy() == solutions
            found[level] = float(right.all((1, 2)).mean())
            found[f"{level}, cells"] = float(right[given == TO_FILL].mean())
        return found


def reordered(grids: Array, count: int, rng: np.random.Generator) -> Array:
    """So many (n, 9, 9, ...), each one of the ``grids`` with lines of a band, and bands, in another order."""

    def lines() -> Array:
        return np.ravel(3 * rng.permutation(3)[:, None] + rng.permuted(np.tile(np.arange(3), (3, 1)), axis=1))

    return np.array([grids[rng.integers(len(grids))][lines()][:, lines()] for _ in range(count)])


def renamed(grids: Array, rng: np.random.Generator) -> Array:
    """With other names for the nine values, of each grid by itself."""
    return np.array([rng.permutation(9)[grid] for grid in grids])


def made(count: int, *options: str) -> list[str]:
    """The lines that qqwing writes for so many puzzles: each is followed by its solution."""
    command = ("qqwing", "--generate", str(count), "--one-line", "--solution", *options)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def cells(lines: Sequence[str]) -> Array:
    """(n, 9, 9), values from 0."""
    return np.array([[TO_FILL if cell == "." else int(cell) - 1 for cell in line] for line in lines]).reshape(-1, 9, 9)


def puzzles(folder: Path, count: int) -> Puzzles | None:
    """So many of each level, from files in the ``folder``; they are made where they are missing, if qqwing is there."""
    found = {}
    for level, name in LEVELS.items():
        file = folder / f"{level}-{count}.txt"
        if not file.is_file():
            if shutil.which("qqwing") is None:
                note("Sudoku puzzles are left out: they need the program qqwing (Debian: apt install qqwing)")
                return None
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(made(count, "--difficulty", name)))
        lines = file.read_text().split()
        if len(lines) != 2 * count or any(len(line) != 81 for line in lines):
            raise UserError(f"{file} does not hold {count} puzzles with their solutions, a line each")
        found[level] = cells(lines[::2]), cells(lines[1::2])
    return Puzzles(found)
