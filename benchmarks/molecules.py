"""How often completions of held-out molecules are molecules, or what a sample costs.

    python benchmarks/molecules.py [--run qm9-pretrained] [--molecules 200] [--each 5] [--steps 1] [--candidates 32]
    python benchmarks/molecules.py --seconds FILE.json

From each of the held-out molecules of QM9, of 12 to 28 symbols, 4 to 8 neighbouring symbols are taken out and filled
in. Valid: RDKit reads the whole. It needs `pip install qm9pack rdkit fcd`. Seconds are those of the processor for 1,024
samples, the median of five times, of the run and of MDLM with the same denoiser, not trained.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import vadd
from vadd.recipe import build_dataset, build_model
from vadd.run.directory import RunDirectory
from vadd.studies.published_scores import canonical, molecules

SHORTEST, LONGEST, SHORTEST_GAP, LONGEST_GAP = 12, 28, 4, 8


def held_out(run: vadd.Run) -> list[str]:
    """In random order; the file that a run was trained on is made again, and divided as it was."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "qm9.txt"
        file.write_text("\n".join(molecules().train) + "\n")
        data = build_dataset(run.recipe.with_values([("data.path", str(file))]))
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))[:3000]
    texts: list[str] = data.kind.decode(data.test[order].numpy())
    return [text for text in texts if SHORTEST <= len(text) <= LONGEST]


def seconds(run: vadd.Run, steps: int) -> str:
    taken = []
    for repeat in range(6):
        began = time.process_time()
        run.sample(1024, steps=steps, seed=repeat)
        taken.append(time.process_time() - began)
    return f"{statistics.median(taken[1:]):.2f}"  # the first one starts threads and fills caches


def costs(run: vadd.Run) -> list[dict[str, str]]:
    without = run.recipe.with_overrides(["model=mdlm"])
    mdlm = vadd.Run(RunDirectory("untrained"), build_model(without, run.kind).eval(), without, run.kind)
    models = {"VADD": run, "MDLM, same denoiser": mdlm}
    return [
        {"": name} | {f"T = {steps}": seconds(each, steps) for steps in (1, 4, 30)} for name, each in models.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="qm9-pretrained")
    parser.add_argument("--molecules", type=int, default=200)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--seconds", type=Path, help="measure these instead, and write them to this file")
    options = parser.parse_args()
    if options.seconds is not None:
        options.seconds.write_text(json.dumps(costs(vadd.load(options.run)), indent=1) + "\n")
        return

    run, rng, gaps = vadd.load(options.run), random.Random(0), []
    texts = held_out(run)[: options.molecules]
    for text in texts:
        length = rng.randint(SHORTEST_GAP, LONGEST_GAP)
        begin = rng.randint(0, len(text) - length)
        gaps.append(run.kind.fill_text(text[:begin] + "_" * length + text[begin + length :]))
    allowed = gaps[0].allowed
    model = run if allowed is None else run.restricted(allowed)
    x = np.concatenate([gap.x for gap in gaps])
    filled = model.infill(x, count=options.each, steps=options.steps, candidates=options.candidates, seed=1)
    found = run.kind.decode(filled.flatten(0, 1).numpy())
    valid = np.array([molecule is not None for molecule in canonical(found)]).reshape(-1, options.each)
    same = np.mean([text == original for text, original in zip(found, np.repeat(texts, options.each), strict=True)])
    print(f"T = {options.steps}, {options.candidates} candidates, {valid.size:,} completions of {len(texts)} molecules")
    print(f"valid {valid.mean():.3f}; some of a molecule's {valid.any(1).mean():.3f}; the original {same:.3f}")


if __name__ == "__main__":
    main()
