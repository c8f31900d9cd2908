"""What samples cost from an ONNX file, over what they cost in PyTorch.

    python benchmarks/served.py [--recipes mnist-small digits] [--samples 1 64 256] [--steps 1 4] [--json FILE]

Both draw the same samples of a seed, random numbers and prior included, on one thread. The weights do not matter for
the time, so the models are untrained. Times are those of the processor; ratios are those of the medians of repeats.
Needs the extra `onnx`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnxruntime
import torch

from vadd.recipe import build_model, load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.run.standalone import Sampler


def untrained(name: str) -> Run:
    recipe = load_recipe(name)
    kind = recipe.data.example_kind()
    model = build_model(recipe, kind)
    if recipe.latent.prior == "flow":
        model = model.with_prior(recipe.latent.build_prior(recipe.network, kind, conditional=False))
    run = Run(RunDirectory("untrained"), model.eval().requires_grad_(False), recipe, kind)
    return run.with_sampling(latent_policy="fixed")


def median_seconds(work: Callable[..., object], repeats: int) -> float:
    work(seed=0)  # fills caches
    times = []
    for repeat in range(repeats):
        began = time.process_time()
        work(seed=repeat)
        times.append(time.process_time() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["mnist-small", "digits"])
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 64, 256])
    parser.add_argument("--steps", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    results = []
    for name in given.recipes:
        run = untrained(name)
        for steps in given.steps:
            with tempfile.TemporaryDirectory() as folder:
                sampler = Sampler(run.export_sampler(folder, steps=steps), sess_options=options)
            for n in given.samples:
                ours = median_seconds(partial(run.sample, n, steps=steps), given.repeats)
                theirs = median_seconds(partial(sampler, n), given.repeats)
                results.append({"recipe": name, "steps": steps, "samples": n, "torch": ours, "onnx": theirs})
                print(
                    f"{name}, {steps} steps, {n} samples: PyTorch {ours * 1e3:.1f} ms, ONNX {theirs * 1e3:.1f} ms, "
                    f"ratio {theirs / ours:.2f}"
                )
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
