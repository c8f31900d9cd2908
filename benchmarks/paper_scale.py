"""One real optimisation step of the paper's recipes at full model size: time and peak memory.

    python benchmarks/paper_scale.py [--recipes mnist,cifar10] [--batch 2] [--json FILE]

The tokens are random, the step is not: data, masks, both networks, backward pass, clipping, optimiser and averaged
weights as in training. Each recipe runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from vadd.data import DiscreteDataset
from vadd.recipe import load_recipe
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer

RECIPES = ("checkerboard-paper", "mnist", "cifar10", "lm1b", "openwebtext")


def one_step(name: str, model: str, batch: int) -> dict[str, Any]:
    recipe = load_recipe(name).with_overrides([f"model={model}", f"training.batch={batch}"])
    format = recipe.data.example_kind()
    tokens = torch.randint(format.vocab_size, (8 * batch, format.positions))
    data = DiscreteDataset(name, format.vocab_size, format.shape, train=tokens, test=tokens)
    with tempfile.TemporaryDirectory() as place:
        directory = RunDirectory(Path(place) / "run")
        directory.create(recipe)
        trainer = Trainer(recipe, directory, data)
        before = {key: parameter.detach().clone() for key, parameter in trainer.model.named_parameters()}
        began = time.perf_counter()
        loss = trainer.step(0).loss.item()
        seconds = time.perf_counter() - began
        moved = sum(bool((parameter != before[key]).any()) for key, parameter in trainer.model.named_parameters())
    return {
        "recipe": name,
        "model": model,
        "batch": batch,
        "parameters": sum(parameter.numel() for parameter in before.values()),
        "loss": loss,
        "tensors_moved": moved,
        "seconds": seconds,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    for name in arguments.recipes.split(","):
        for model in ("mdlm", "vadd"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                result = pool.apply(one_step, (name, model, arguments.batch))
            results.append(result)
            print(
                f"{name:20} {model}  {result['parameters'] / 1e6:6.2f}M parameters  batch {arguments.batch}  "
                f"loss {result['loss']:.3f}  {result['seconds']:6.1f} s  peak {result['peak_gb']:.2f} GB",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
