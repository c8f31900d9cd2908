"""What sampling costs: against the plain sampler, against sampling without the latent, and in memory.

    python benchmarks/sampling.py [--parts plain latent prior compile memory] [--plain-steps 16 1024] [--json FILE]

*plain*: the sampler as it is usually written (logits at all positions of all steps, one float64 draw of "value or mask"
from V + 1 at each) over ours, for text of the paper's size: 1,024 positions, 50,257 values and the mask, a small
transformer. Of many steps the plain one is timed at 8, evenly spread, ours at the first 64, and the sums are scaled
up.
*latent*: VADD's time over MDLM's at equal numbers of steps.
*prior*: that of VADD with a flow prior over that with N(0, I), one z for all steps.
*compile*: that of VADD with sampling.compile over that without; what compilation takes is not part of it.
*memory*: the peak of a process that writes 10,000 samples over that of one that writes 1,000.

The weights do not matter for the time, so the models are untrained and no data set is needed. Times are those of the
processor, over all threads: what else the machine does stays out of them. Ratios are those of the medians of repeats.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor, nn

from vadd.core import Model, Noise, sample, step_grid
from vadd.core.compiling import compile_network
from vadd.core.sampling import LatentPolicy
from vadd.kinds.files import npy_file
from vadd.recipe import build_model, load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.run import Run

SAMPLES = {"checkerboard": 8192, "digits": 4096, "mnist-small": 1024, "cifar10-small": 256, "mnist": 2}
TEXT = ("openwebtext", "network.size=tiny", "network.recognizer.blocks=1")
WHOLE = 16
"""Steps of which all are timed; of more, these:"""
TIMED_PLAIN, TIMED_OURS = 8, 64
Result = dict[str, object]
PARTS = ["plain", "latent", "prior", "compile", "memory"]


def untrained(name: str, *overrides: str) -> Model:
    recipe = load_recipe(name).with_overrides(overrides)
    return build_model(recipe, recipe.data.example_kind()).eval().requires_grad_(False)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@torch.no_grad()
def plain_step(model: Model, x: Tensor, t: float, s: float, generator: torch.Generator) -> Tensor:
    """From time t to s, the way it is usually written."""
    times = torch.full((len(x),), t)
    z = model.latent.draw(x, times, Noise.of(generator, len(x)))
    logits = model.denoiser(x, z, times, torch.ones_like(x, dtype=torch.bool))
    left_t, left_s = model.schedule.masked_fraction(torch.tensor([t, s], dtype=torch.float64)).tolist()
    # A race of exponential numbers: what has the largest quotient is drawn.
    race = logits.double().softmax(dim=-1).mul_((left_t - left_s) / left_t)
    race.div_(torch.empty_like(race).exponential_(generator=generator))
    mask = left_s / left_t / torch.empty(len(race), dtype=torch.float64).exponential_(generator=generator)
    best, drawn = race.max(dim=-1)
    drawn = drawn.masked_fill(mask > best, model.mask_value).view_as(x)
    return torch.where(x == model.mask_value, drawn, x)


def plain_seconds(model: Model, steps: int, seed: int) -> float:
    """All of its steps, or some of many, each from a state as it is on the way, scaled up."""
    generator, times = torch.Generator().manual_seed(seed), step_grid(steps)
    chosen = range(steps, 0, -1) if steps <= WHOLE else torch.linspace(steps, 1, TIMED_PLAIN).long().tolist()
    taken = 0.0
    for step in chosen:
        hidden = torch.rand(1, model.positions, generator=generator) < times[step]
        x = torch.zeros(1, model.positions, dtype=torch.int64).masked_fill(hidden, model.mask_value)
        t, s = float(times[step]), float(times[step - 1])
        taken += seconds(lambda x=x, t=t, s=s: plain_step(model, x, t, s, generator))  # type: ignore[misc]
    return taken * steps / len(chosen)


class Enough(Exception):  # noqa: N818  # not an error
    pass


def our_seconds(model: Model, steps: int, seed: int) -> tuple[float, float]:
    """Of all steps, or of the first of many, scaled up: on a uniform grid one costs what another does. With it, how
    often the network is called.
    """
    timed = steps if steps <= WHOLE else min(steps, TIMED_OURS)
    called: list[int] = []

    def count(evaluations: int) -> None:
        called.append(evaluations)
        if len(called) == timed:
            raise Enough

    began = time.process_time()
    with suppress(Enough):
        sample(model, 1, steps, torch.Generator().manual_seed(seed), on_step=count)
    return (time.process_time() - began) * steps / timed, called[-1] * steps / timed


def measure_plain(steps: int, repeats: int) -> Result:
    model = untrained(*TEXT)
    plain_step(model, torch.full((1, model.positions), model.mask_value), 1.0, 0.5, torch.Generator())
    plain, ours, evaluations = [], [], []
    for repeat in range(repeats):
        plain.append(plain_seconds(model, steps, repeat))
        took, called = our_seconds(model, steps, repeat)
        ours.append(took)
        evaluations.append(called)
    slow, fast = statistics.median(plain), statistics.median(ours)
    return {
        "steps": steps,
        "plain": slow,
        "extrapolated": steps > WHOLE,
        "ours": fast,
        "evaluations": statistics.median(evaluations),
        "ratio": slow / fast,
    }


def with_and_without(part: str, name: str) -> tuple[Model, Model]:
    """*latent*: MDLM and VADD; *prior*: VADD with N(0, I) and with a flow; *compile*: VADD as it is and compiled."""
    if part == "latent":
        return untrained(name, "model=mdlm"), untrained(name)
    recipe, model = load_recipe(name), untrained(name)
    if part == "compile":
        compiled = untrained(name)
        assert isinstance(compiled.denoiser, nn.Module)
        compile_network(compiled.denoiser, rows=True)
        return model, compiled
    return model, model.with_prior(
        recipe.latent.build_prior(recipe.network, recipe.data.example_kind(), conditional=False).eval()
    )


def measure_ratio(part: str, name: str, steps: int, repeats: int) -> Result:
    models = with_and_without(part, name)
    policy: LatentPolicy = "fixed" if part == "prior" else "resample"
    taken: list[list[float]] = [[], []]
    for repeat in range(-1, repeats):
        for model, times in zip(models, taken, strict=True):
            generator = torch.Generator().manual_seed(repeat + 1)
            took = seconds(lambda m=model, g=generator: sample(m, SAMPLES[name], steps, g, latent_policy=policy))  # type: ignore[misc]
            if repeat >= 0:  # the first one starts threads and fills caches
                times.append(took)
    without, with_it = map(statistics.median, taken)
    return {
        "recipe": name,
        "steps": steps,
        "samples": SAMPLES[name],
        "without": without,
        "with": with_it,
        "ratio": with_it / without,
    }


def write_samples(name: str, n: int, answer: Connection) -> None:
    recipe = load_recipe(name)
    run = Run(RunDirectory("untrained"), untrained(name), recipe, recipe.data.example_kind())
    with tempfile.TemporaryDirectory() as place, npy_file(Path(place) / "samples.npy", (n, *run.shape)) as write:
        for part in run.stream(n):
            write(part.tokens.numpy())
    answer.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measure_memory(name: str) -> Result:
    def peak(n: int) -> float:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(target=write_samples, args=(name, n, theirs))
        child.start()
        theirs.close()
        found = int(ours.recv())
        child.join()
        return found / 1024

    few, many = peak(1_000), peak(10_000)
    return {"recipe": name, "megabytes_1000": few, "megabytes_10000": many, "ratio": many / few}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--plain-steps", nargs="+", type=int, default=[16, 1024], help="T of the plain comparison")
    parser.add_argument("--plain-repeats", type=int, default=1)
    parser.add_argument(
        "--recipes", nargs="+", choices=SAMPLES, default=list(SAMPLES), help="of the comparisons with and without"
    )
    parser.add_argument(
        "--steps", nargs="+", type=int, default=[1, 5, 20], help="T of the comparisons with and without"
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, list[Result]] = {part: [] for part in arguments.parts}
    # First: a child inherits the peak of the process that starts it.
    if "memory" in results:
        print(f"{'recipe':14} {'1,000: MB':>10} {'10,000: MB':>10} {'ratio':>6}")
        for name in ("checkerboard", "digits"):
            found = measure_memory(name)
            results["memory"].append(found)
            print(
                f"{name:14} {found['megabytes_1000']:10.0f} {found['megabytes_10000']:10.0f} {found['ratio']:6.3f}",
                flush=True,
            )
    if "plain" in results:
        print("one text of 1,024 tokens, 50,257 values and the mask, tiny transformer")
        print(f"{'T':>5} {'plain, s':>9} {'ours, s':>8} {'evaluations':>11} {'plain / ours':>12}")
        for steps in arguments.plain_steps:
            found = measure_plain(steps, arguments.plain_repeats)
            results["plain"].append(found)
            note = f"  ({TIMED_PLAIN} and {TIMED_OURS} steps timed, scaled up)" if found["extrapolated"] else ""
            print(
                f"{steps:5d} {found['plain']:9.1f} {found['ours']:8.1f} {found['evaluations']:11.0f} "
                f"{found['ratio']:12.1f}{note}",
                flush=True,
            )
    for part, names in (
        ("latent", ("MDLM", "VADD")),
        ("prior", ("N(0, I)", "flow")),
        ("compile", ("plain", "compiled")),
    ):
        if part not in results:
            continue
        print(f"{'recipe':14} {'T':>3} {'samples':>8} {names[0] + ', s':>10} {names[1] + ', s':>9} {'ratio':>6}")
        for name in arguments.recipes:
            for steps in arguments.steps:
                found = measure_ratio(part, name, steps, arguments.repeats)
                results[part].append(found)
                print(
                    f"{name:14} {steps:3d} {found['samples']:8d} {found['without']:10.3f} {found['with']:9.3f} "
                    f"{found['ratio']:6.3f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
