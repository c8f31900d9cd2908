"""How many Sudoku puzzles a run completes, by level and number of steps.

    python benchmarks/puzzles.py --grids FOLDER
    python benchmarks/puzzles.py RUN --puzzles FOLDER [--count 2000] [--steps 1,4,16,81] [--json FILE]

The first writes grids.npy and known.npy to train on: symmetric copies of 20,000 puzzles of all levels that qqwing has
made and solved, and which of their values are given. The run is one of `vadd train` on solved grids. The FOLDER of
puzzles is that of `vadd reproduce public --sets sudoku`, OUT/data/sudoku; what it lacks is made by qqwing. It prints
and writes the scores of that study.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np

import vadd
from vadd.files import write_json
from vadd.kinds.arrays import TO_FILL
from vadd.studies.puzzles import cells, made, puzzles, renamed, reordered

SOLVED, COPIES = 20_000, 400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--grids", type=Path)
    parser.add_argument("--puzzles", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--steps", default="1,4,16,81")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    if options.grids is not None:
        if shutil.which("qqwing") is None:
            parser.error("grids are made by the program qqwing (Debian: apt install qqwing)")
        rng, lines = np.random.default_rng(0), made(SOLVED)
        given, solved = cells(lines[::2]) != TO_FILL, cells(lines[1::2])
        both = reordered(np.stack([solved, given], axis=-1), COPIES, rng)
        options.grids.mkdir(parents=True, exist_ok=True)
        np.save(options.grids / "grids.npy", renamed(both[..., 0], rng).astype(np.uint8))
        np.save(options.grids / "known.npy", both[..., 1].astype(np.uint8))
        return
    if options.run is None or options.puzzles is None:
        parser.error("give --grids FOLDER, or RUN and --puzzles FOLDER")
    run, asked = vadd.load(options.run), puzzles(options.puzzles, options.count)
    if asked is None:
        return
    scores: dict[str, dict[int, float]] = {}
    for steps in map(int, options.steps.split(",")):
        for name, share in asked.scores(run, steps).items():
            scores.setdefault(name, {})[steps] = share
            print(f"T = {steps}, {name}: {share:.1%}", flush=True)
    if options.json:
        about = {"run": options.run.name, "model": run.recipe.model, "training_steps": run.recipe.training.steps}
        write_json(options.json, {**about, "scores": scores})


if __name__ == "__main__":
    main()
