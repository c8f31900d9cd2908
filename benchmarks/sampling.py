"""What the latent costs when sampling: VADD's time over MDLM's at equal numbers of steps.

    python benchmarks/sampling.py [--recipes digits mnist-small] [--steps 1 5 20] [--repeats 7] [--json FILE]

The weights do not matter for the time, so the models are untrained and no data set is needed. Repeats alternate between
the models, so that whatever else the machine does meets both; the ratio is that of the medians.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from vadd.build import build_model
from vadd.core import MaskedDiffusion, sample
from vadd.recipe import load_recipe

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "checkerboard": ((2,), 100),
    "digits": ((8, 8, 1), 2),
    "mnist-small": ((32, 32, 1), 2),
    "cifar10-small": ((32, 32, 3), 8),
    "mnist": ((32, 32, 1), 2),
}
"""Of the examples and how many values they take."""
SAMPLES = {"checkerboard": 8192, "digits": 4096, "mnist-small": 1024, "cifar10-small": 256, "mnist": 2}


def seconds(model: MaskedDiffusion, count: int, steps: int, seed: int) -> float:
    generator = torch.Generator().manual_seed(seed)
    began = time.perf_counter()
    sample(model, count, steps, generator)
    return time.perf_counter() - began


def measure(name: str, steps: int, repeats: int) -> dict[str, object]:
    shape, values = SHAPES[name]
    models = {
        kind: build_model(load_recipe(name).with_overrides([f"model={kind}"]), shape, values).eval()
        for kind in ("mdlm", "vadd")
    }
    for model in models.values():
        seconds(model, SAMPLES[name], steps, 0)
    taken: dict[str, list[float]] = {kind: [] for kind in models}
    for repeat in range(repeats):
        for kind, model in models.items():
            taken[kind].append(seconds(model, SAMPLES[name], steps, repeat))
    mdlm, vadd = (statistics.median(taken[kind]) for kind in ("mdlm", "vadd"))
    return {"recipe": name, "steps": steps, "samples": SAMPLES[name], "mdlm": mdlm, "vadd": vadd, "ratio": vadd / mdlm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--steps", nargs="+", type=int, default=[1, 5, 20])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'recipe':14} {'T':>3} {'samples':>8} {'MDLM, s':>9} {'VADD, s':>9} {'ratio':>6}")
    results = []
    for name in arguments.recipes:
        for steps in arguments.steps:
            found = measure(name, steps, arguments.repeats)
            results.append(found)
            print(
                f"{name:14} {steps:3d} {found['samples']:8d} {found['mdlm']:9.3f} {found['vadd']:9.3f} "
                f"{found['ratio']:6.3f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
