"""What the transformer gains by computing logits only where they are used, and how VADD's training compares to MDLM's.

    python benchmarks/text.py [--size small] [--positions 128] [--vocab-size 50257] [--batch 4] [--json FILE]

The tokens are random and the weights untrained; neither matters to the time. The two sides of every ratio take turns
in one run, and the median of their times counts: a machine that is busy with other things slows both.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vadd.core import ExactCount, MaskedBatch, MaskedDiffusion, Model, objective, sample
from vadd.data import DiscreteDataset
from vadd.kinds import Kind, kind_of
from vadd.networks.transformer import SIZES
from vadd.recipe import Recipe, build_model, load_recipe
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer


class LogitsEverywhere(nn.Module):
    """The same network, asked for the logits at all positions; those wanted are selected afterwards."""

    def __init__(self, denoiser: nn.Module) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.positions, self.vocab_size = denoiser.positions, denoiser.vocab_size

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits: Tensor = self.denoiser(xt, z, t, torch.ones_like(where))
        return logits.index_select(0, where.flatten().nonzero()[:, 0])


def in_turns(first: Callable[[int], object], second: Callable[[int], object], repeats: int) -> tuple[float, float]:
    """Median seconds of both, after a round that does not count."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for task, taken in zip((first, second), seconds, strict=True):
            began = time.perf_counter()
            task(turn)
            taken.append(time.perf_counter() - began)
    return statistics.median(seconds[0][1:]), statistics.median(seconds[1][1:])


def gathering(recipe: Recipe, format: Kind, steps: int, repeats: int) -> dict[str, float]:
    """Forward and backward pass of the denoiser, and sampling, with and without logits at the other positions."""
    plain = build_model(recipe.with_overrides(["model=mdlm"]), format)
    wasteful = MaskedDiffusion(LogitsEverywhere(plain.denoiser), plain.schedule)  # type: ignore[arg-type]
    batch = recipe.training.batch
    x0 = torch.randint(format.vocab_size, (batch, format.positions))

    def training(model: Model) -> Callable[[int], None]:
        def run(turn: int) -> None:
            generator = torch.Generator().manual_seed(turn)
            masking = ExactCount()(batch, format.positions, model.schedule, generator)
            masked = MaskedBatch.of(x0, masking, model.mask_value)
            objective(model(masked, 1.0, generator), format.positions).loss.backward()  # type: ignore[no-untyped-call]
            model.zero_grad()

        return run

    def sampling(model: Model) -> Callable[[int], object]:
        return lambda turn: sample(model, batch, steps, torch.Generator().manual_seed(turn))

    results: dict[str, float] = {}
    for task, timed in (("training", training), ("sampling", sampling)):
        few, all_of_them = in_turns(timed(plain), timed(wasteful), repeats)
        results |= {f"{task}_gathered_seconds": few, f"{task}_everywhere_seconds": all_of_them}
    return results


def iterations(recipe: Recipe, format: Kind, repeats: int) -> dict[str, float]:
    """Whole optimisation steps of MDLM and VADD."""
    tokens = torch.randint(format.vocab_size, (8 * recipe.training.batch, format.positions))
    data = DiscreteDataset("random", format.vocab_size, format.shape, train=tokens, test=tokens)
    with tempfile.TemporaryDirectory() as place:
        trainers = []
        for model in ("mdlm", "vadd"):
            directory = RunDirectory(Path(place) / model)
            directory.create(recipe)
            trainers.append(Trainer(recipe.with_overrides([f"model={model}"]), directory, data))
        mdlm, vadd = in_turns(trainers[0].step, trainers[1].step, repeats)
    return {"mdlm_seconds": mdlm, "vadd_seconds": vadd}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small")
    parser.add_argument("--positions", type=int, default=128)
    parser.add_argument("--vocab-size", type=int, default=50_257)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    recipe = load_recipe("openwebtext").with_overrides(
        [f"network.size={arguments.size}", f"training.batch={arguments.batch}"]
    )
    format = kind_of((arguments.positions,), arguments.vocab_size)
    results: dict[str, Any] = {"threads": torch.get_num_threads(), **vars(arguments)}
    print(
        f"{arguments.size}, {arguments.positions} positions, {arguments.vocab_size} values, "
        f"batch {arguments.batch}, {results['threads']} threads",
        flush=True,
    )
    results |= gathering(recipe, format, arguments.steps, arguments.repeats)
    for task, unit in (("training", "forward and backward pass"), ("sampling", f"{arguments.steps} steps")):
        few, all_of_them = results[f"{task}_gathered_seconds"], results[f"{task}_everywhere_seconds"]
        print(
            f"{task:10} {unit:26} gathered {few:6.2f} s  everywhere {all_of_them:6.2f} s  x {all_of_them / few:.2f}",
            flush=True,
        )
    blocks = SIZES[arguments.size]["blocks"]
    for recognizer in (blocks, blocks // 2):
        changed = recipe.with_overrides([f"network.recognizer.blocks={recognizer}"])
        found = iterations(changed, format, arguments.repeats)
        results[f"iterations_recognizer_{recognizer}"] = found
        mdlm, vadd = found["mdlm_seconds"], found["vadd_seconds"]
        print(
            f"iterations MDLM {1 / mdlm:.3f} it/s  VADD with {recognizer} blocks of recognition {1 / vadd:.3f} it/s "
            f"= {mdlm / vadd:.2f} of MDLM",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
