"""How many Sudoku puzzles a run completes, by level and number of steps.

    python benchmarks/puzzles.py --grids GRIDS.npy
    python benchmarks/puzzles.py RUN --puzzles FOLDER [--count 2000] [--steps 1,4,16,81] [--json FILE]

The first writes grids to train on, symmetric copies of 20,000 that qqwing has solved. The run is one of `vadd train` on
solved grids. FOLDER holds the puzzles of `vadd reproduce public --sets sudoku`, which are OUT/data/sudoku; what it
lacks is made by qqwing. It prints and writes the scores of that study.
"""

import argparse
from pathlib import Path

import numpy as np

import vadd
from vadd.files import write_json
from vadd.studies.puzzles import alike, cells, made, puzzles

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
        grids = alike(cells(made(SOLVED)[1::2]), COPIES, np.random.default_rng(0))
        np.save(options.grids, grids.astype(np.uint8))
        return
    if options.run is None or options.puzzles is None:
        parser.error("give --grids FILE, or RUN and --puzzles FOLDER")
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
