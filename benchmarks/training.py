"""Where a training step's time goes, how much of the machine's matrix-product rate it reaches, and what saving costs.

    python benchmarks/training.py [--recipes checkerboard] [--models mdlm vadd] [--steps 100] [--compile] [--json FILE]

All figures come from one run: the steps of each recipe and model, and the rate of plain matrix products of the shape
that most of the network's are of. The arithmetic counted is that of the linear layers (forward, and twice that
backward), nothing else; the benchmark is for networks made of them, and says little of convolutions. Outside
the network are the draws of examples and masks, the optimiser, the averaged weights and the sums for the log. The cost
of a checkpoint every minute is the time of one, written and flushed to the temporary directory's disk, over a minute.

*--compile*: instead, the time of a step over that of one with training.compile. The two take turns, and the medians
count, of the processor's time: what else the machine does stays out of it. What compilation takes is not part of it.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from vadd.core import Objective
from vadd.networks.layers import linear
from vadd.recipe import Recipe, build_dataset, load_recipe
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer

RECIPES = ("checkerboard", "checkerboard-paper", "digits", "pydocs")
WARM_UP = 5
"""Steps that do not count."""

PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise"}
Shape = tuple[int, int, int]
"""Of a matrix product, (rows, inner) @ (inner, columns)."""


def matmul_rate(shape: Shape, seconds: float = 1.0) -> float:
    """GFLOP/s of a product in float32."""
    rows, inner, columns = shape
    a, b = torch.randn(rows, inner), torch.randn(columns, inner)
    for _ in range(20):
        linear(a, b)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        linear(a, b)
        count += 1
    return 2 * rows * inner * columns * count / (time.perf_counter() - began) / 1e9


def linear_flops(trainer: Trainer) -> Counter[Shape]:
    """FLOP of one step's linear layers by their shape, counted by watching what passes through them."""
    flops: Counter[Shape] = Counter()

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Linear)
        shape = inputs[0].numel() // module.in_features, module.in_features, module.out_features
        flops[shape] += 3 * 2 * math.prod(shape)

    hooks = [m.register_forward_hook(count) for m in trainer.model.modules() if isinstance(m, nn.Linear)]
    trainer.step(0)
    for hook in hooks:
        hook.remove()
    return flops


class NetworkTime:
    """Seconds spent in the network: forward, objective and backward. Right where the device is the CPU."""

    def __init__(self, trainer: Trainer) -> None:
        self.seconds = 0.0
        self._undisturbed = trainer._backward
        trainer._backward = self._timed  # type: ignore[method-assign, assignment]

    def _timed(self, *arguments: Any) -> Objective:
        began = time.perf_counter()
        result = self._undisturbed(*arguments)
        self.seconds += time.perf_counter() - began
        return result


def seconds_per_checkpoint(trainer: Trainer, count: int = 5) -> float:
    began = time.perf_counter()
    for step in range(count):
        assert trainer.save(step + 1)
    return (time.perf_counter() - began) / count


def measure(recipe: Recipe, steps: int) -> dict[str, Any]:
    data = build_dataset(recipe)
    with tempfile.TemporaryDirectory() as place:
        directory = RunDirectory(Path(place) / "run")
        directory.create(recipe)
        trainer = Trainer(recipe, directory, data)
        by_shape = linear_flops(trainer)
        for step in range(10):
            trainer.step(step)
        network = NetworkTime(trainer)
        began = time.perf_counter()
        for step in range(steps):
            trainer.step(step)
        seconds = (time.perf_counter() - began) / steps
        outside = 1 - network.seconds / (seconds * steps)
        with profile(activities=[ProfilerActivity.CPU]) as record:
            for step in range(20):
                trainer.step(step)
        saving = seconds_per_checkpoint(trainer)
    times = {event.key: event.self_cpu_time_total for event in record.key_averages()}
    products = sum(value for key, value in times.items() if key in PRODUCTS)
    flops, (most, _) = by_shape.total(), by_shape.most_common(1)[0]
    rate = matmul_rate(most)
    return {
        "recipe": recipe.name,
        "model": recipe.model,
        "steps_per_second": 1 / seconds,
        "gflop_per_step": flops / 1e9,
        "gflops": flops / seconds / 1e9,
        "matmul_gflops": rate,
        "fraction_of_matmul_rate": flops / seconds / 1e9 / rate,
        "time_in_matrix_products": products / sum(times.values()),
        "time_outside_the_network": outside,
        "seconds_per_checkpoint": saving,
        "cost_of_a_checkpoint_every_minute": saving / 60,
    }


def measure_compiled(recipe: Recipe, steps: int) -> dict[str, Any]:
    data, trainers = build_dataset(recipe), []
    taken: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        for setting in ("false", "true"):
            directory = RunDirectory(Path(place) / setting)
            directory.create(recipe)
            changed = recipe.with_overrides([f"training.compile={setting}"])
            trainers.append(Trainer(changed, directory, data))
        compiling = time.perf_counter() - began
        for step in range(-WARM_UP, steps):
            for trainer, times in zip(trainers, taken, strict=True):
                began = time.process_time()
                trainer.step(step + WARM_UP)
                times.append(time.process_time() - began)
    plain, compiled = (statistics.median(times[WARM_UP:]) for times in taken)
    return {
        "recipe": recipe.name,
        "model": recipe.model,
        "seconds_plain": plain,
        "seconds_compiled": compiled,
        "ratio": plain / compiled,
        "seconds_to_compile": compiling,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--models", nargs="+", default=["mdlm", "vadd"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [
        (measure_compiled if arguments.compile else measure)(
            load_recipe(name).with_overrides([f"model={model}"]), arguments.steps
        )
        for name in arguments.recipes.split(",")
        for model in arguments.models
    ]
    print(f"{torch.get_num_threads()} threads")
    for r in results:
        if arguments.compile:
            print(
                f"{r['recipe']:20} {r['model']}  {r['seconds_plain']:.3f} s a step, compiled "
                f"{r['seconds_compiled']:.3f} s, ratio {r['ratio']:.2f}; {r['seconds_to_compile']:.0f} s to compile"
            )
            continue
        print(
            f"{r['recipe']:20} {r['model']}  {r['steps_per_second']:6.1f} it/s  {r['gflop_per_step']:.2f} GFLOP/step  "
            f"{r['gflops']:.0f} of {r['matmul_gflops']:.0f} GFLOP/s = {r['fraction_of_matmul_rate']:.0%}, "
            f"{r['time_in_matrix_products']:.0%} of the time in matrix products, "
            f"{r['time_outside_the_network']:.0%} outside the network; "
            f"a checkpoint every minute costs {r['cost_of_a_checkpoint_every_minute']:.2%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
