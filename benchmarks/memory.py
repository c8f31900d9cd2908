"""The memory that `vadd plan` foresees for a training step, over what a step really holds at its peak.

    python benchmarks/memory.py [--recipes mnist lm1b] [--models mdlm vadd] [--changes training.batch=64] [--json FILE]

A step of the whole batch runs on fake tensors, which have a size and no content: at the paper's size in seconds. What
is alive is counted, storage by storage, in the forward and backward pass; the weights, moments and averages are added.
Allocators need more. In bfloat16 the operations are those that autocast computes in half precision on a CPU.
"""

import argparse
import json
import weakref
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vadd.core import MaskedBatch, objective
from vadd.core.host import Places
from vadd.core.masking import Masking
from vadd.recipe import Recipe, build_model, load_recipe
from vadd.recipe.plan import make_plan

RECIPES = ["mnist", "cifar10", "lm1b", "openwebtext"]
BESIDE = 4 * 4
"""Bytes for each parameter that a step finds: itself, two moments, the average. Its gradient comes with the step."""


class Alive(TorchDispatchMode):
    """Follows the memory of all tensors that are made in here."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: int = 0
        self.peak: int = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._forget, storage._cdata)
        return made

    def _forget(self, number: int) -> None:
        self.now -= self._sizes.pop(number, 0)


def peak(recipe: Recipe, *, half: bool) -> int:
    """Bytes at the worst moment of a step."""
    kind, batch = recipe.data.example_kind(), recipe.training.batch
    masked = recipe.build_mask_draw()(
        batch, kind.positions, recipe.diffusion.build_schedule(), torch.Generator().manual_seed(0)
    ).masked
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    with fakes:
        model = build_model(recipe, kind)
    asked = int(masked.sum())
    in_groups = int(masked.view(-1, model.group).any(dim=1).sum())
    with fakes:
        numbers, groups = (torch.zeros(count, dtype=torch.int64) for count in (asked, in_groups))
        x0, t = torch.zeros(batch, kind.positions, dtype=torch.int64), torch.zeros(batch)
        places = Places(numbers, batch, kind.positions, model.group, groups if model.group > 1 else None)
        fake = MaskedBatch(x0, x0.clone(), Masking(x0.bool(), t, t), places=places)
        with Alive() as alive:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                evidence = model(fake, 1.0, torch.Generator())
            objective(evidence, kind.positions).loss.backward()  # type: ignore[no-untyped-call]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return int(alive.peak) + BESIDE * parameters


def measured(name: str, model: str, rate: float, changes: Sequence[str]) -> dict[str, str | int]:
    """What is planned, without and with recomputed activations, and of its ratios to what is counted the worst."""
    row: dict[str, str | int] = {"recipe": name, "model": model}
    ratios = []
    for checkpointing in ("false", "true"):
        changed = [f"model={model}", *changes, f"network.checkpointing={checkpointing}"]
        recipe = load_recipe(name).with_overrides(changed)
        plan = make_plan(recipe, rate=rate)
        if checkpointing == "false":
            row |= {"parameters": f"{plan.parameters.trained:,}"}
            row |= {"FLOPs of a step": f"{plan.flops_per_step:.2e}", "hours": f"{plan.hours:,.0f}"}
        for memory in plan.memory:
            ratios.append(memory.total / peak(recipe, half=memory.precision == "bfloat16"))
            column = f"{memory.precision}, GB" + (", recomputed" if checkpointing == "true" else "")
            row[column] = f"{memory.total / 1e9:,.1f}" if memory.total < 1e11 else f"{memory.total / 1e9:,.0f}"
    return row | {"plan / peak": f"{max(ratios, key=lambda ratio: abs(ratio - 1)):.2f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--models", nargs="+", default=["mdlm", "vadd"])
    parser.add_argument("--changes", nargs="*", default=[], help="to the recipes, key=value")
    parser.add_argument("--flops", type=float, default=5e13, help="a second, of the device; for the hours")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    rows = []
    for name, model in product(options.recipes, options.models):
        rows.append(measured(name, model, options.flops, options.changes))
        print(*(f"{key}: {value}" for key, value in rows[-1].items()), sep="  ", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
