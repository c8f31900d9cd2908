"""How well the hidden half of held-out images is filled in: is it still the same digit, and do completions look real?

    python benchmarks/infilling.py RUN [--steps 5] [--images 5000] [--hide bottom] [--candidates 32] [--json FILE]

For runs on images with labels and one channel (digits, MNIST). The judge is the small classifier of `vadd eval`: the
share of completions that it gives the label of the original, and the Frechet distance of its features from those of the
training set. Beside them stand the same numbers of the originals, the best that can be had. The latent comes from where
the run has it: a conditional prior reads what is known, else candidates are resampled by the likelihood of what
is known.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

import vadd
from vadd.evaluation.evaluators import FrechetEvaluator, Reference


def hidden_part(shape: tuple[int, ...], which: str) -> Tensor:
    """(N,) bool, true where an image of ``shape`` is to be filled."""
    rows, columns = torch.meshgrid(torch.arange(shape[0]), torch.arange(shape[1]), indexing="ij")
    halves = {
        "top": rows < shape[0] // 2,
        "bottom": rows >= shape[0] // 2,
        "left": columns < shape[1] // 2,
        "right": columns >= shape[1] // 2,
    }
    return halves[which].flatten()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--hide", choices=("top", "bottom", "left", "right"), default="bottom")
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--prior", choices=("fitted", "flow", "trained"), default="fitted")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    run = vadd.load(options.run, prior=options.prior)
    if options.candidates:  # a run whose conditional prior is left aside falls back on candidates
        run = run.with_sampling(candidates=options.candidates)
    data = run.data
    assert data.test_labels is not None, "these images have no labels"
    judge = FrechetEvaluator(Reference(data, options.images))
    originals, labels = data.test[: options.images].long(), data.test_labels[: options.images]
    known = (~hidden_part(run.shape, options.hide)).expand(len(originals), -1)
    filled = run.infill(originals, known, steps=options.steps, seed=0)

    def judged(images: Tensor) -> dict[str, float]:
        logits = torch.cat([judge.features.network(part) for part in torch.split(images, 500)])
        right = float((logits.argmax(1) == labels).double().mean())
        return {"right": right, "frechet": judge(images.numpy(), options.steps).frechet}

    found = {"completions": judged(filled), "originals": judged(originals)}
    for name, numbers in found.items():
        print(f"{name}: right class {numbers['right']:.3f}, Frechet distance {numbers['frechet']:.2f}")
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, **found}, indent=2))


if __name__ == "__main__":
    main()
