"""Draw samples of an exported model with onnxruntime and NumPy alone.

    pip install numpy onnxruntime
    python sample.py -n 16 --seed 0 --out samples.npy

`vadd export --onnx` puts this file, called sample.py, beside sampler.onnx, sampler.json and, where the latent has a
prior of its own, prior.onnx. A seed stands for the same samples as in `vadd sample --seed`: random numbers are made as
PyTorch makes them, up to the last bits of the normal ones. In Python: ``Sampler(folder)(16, seed=0)``.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SAMPLING, BLOCK = 3, 64
"""The stream of random numbers that samples are drawn with, and how many samples share a generator."""


class Generator:
    """The Mersenne Twister of PyTorch's CPU generators, for one block of samples."""

    def __init__(self, seed: int, block: int) -> None:
        state = np.random.SeedSequence([seed, SAMPLING, block]).generate_state(1, np.uint64)[0]
        self.twister = np.random.RandomState(int(state) % 2**32)

    def integers(self, count: int) -> Array:
        return self.twister.randint(0, 2**32, count, dtype=np.uint32).astype(np.uint64)

    def uniform(self, count: int) -> Array:
        """Of two integers the last 53 bits."""
        high, low = self.integers(2 * count).reshape(-1, 2).T
        whole: Array = (high << np.uint64(32) | low) & np.uint64(2**53 - 1)
        return whole.astype(np.float64) * 2.0**-53

    def normal(self, count: int) -> Array:
        """Box and Muller, eight pairs at a time; ``count`` is a multiple of 16."""
        first, second = np.moveaxis((self.integers(count) % 2**24 * 2.0**-24).reshape(-1, 2, 8), 1, 0)
        radius, angle = np.sqrt(-2 * np.log(1 - first)), 2 * np.pi * second
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return pairs.astype(np.float32).reshape(-1)


class Sampler:
    """The sampler in a folder: ``sampler(n, seed)`` gives integers (n, *shape)."""

    def __init__(self, folder: str | Path, **session: Any) -> None:
        """``session`` are arguments of onnxruntime.InferenceSession."""
        import onnxruntime

        folder = Path(folder)
        self.about = json.loads((folder / "sampler.json").read_text())
        self.sampler = onnxruntime.InferenceSession(str(folder / "sampler.onnx"), **session)
        self.prior = None
        if self.about["prior"]:
            self.prior = onnxruntime.InferenceSession(str(folder / "prior.onnx"), **session)

    def __call__(self, n: int = 1, seed: int = 0, *, label: int | None = None, z: Array | None = None) -> Array:
        """``label`` is a number, of a model with labels; ``z`` (n, d) takes the place of draws from the prior."""
        parts = []
        for first in range(0, n, BLOCK):
            rows = min(BLOCK, n - first)
            given = None if z is None else np.asarray(z, np.float32)[first : first + rows]
            parts.append(self.block(rows, Generator(seed, first // BLOCK), label, given))
        return np.concatenate(parts).reshape(n, *self.about["shape"])

    def block(self, rows: int, generator: Generator, label: int | None, z: Array | None) -> Array:
        """Samples (rows, N) with the next numbers of a generator, in the order in which `vadd` takes them."""
        drawn: dict[str, list[Array]] = {"noise": [], "choice": [], "levels": [], "values": []}
        label = self.about["label"] if label is None else label
        for name, kind, size in self.about["draws"]:
            if (name == "choice" and label is not None) or (name in ("noise", "choice") and z is not None):
                continue
            numbers = getattr(generator, kind)(BLOCK * size).reshape(BLOCK, size)[:rows]
            drawn[name].append(numbers)
        inputs = {"values": np.stack(drawn["values"], axis=1), "levels": drawn["levels"][0]}
        if self.about["dim"]:
            inputs["z"] = self.latents(drawn, rows, label) if z is None else z
        wanted = [given.name for given in self.sampler.get_inputs()]
        if "z" in wanted and self.about["new_z"] and inputs["z"].ndim == 2:
            inputs["z"] = np.repeat(inputs["z"][:, None], self.about["steps"], axis=1)
        return np.asarray(self.sampler.run(None, {name: inputs[name] for name in wanted})[0])

    def latents(self, drawn: dict[str, list[Array]], rows: int, label: int | None) -> Array:
        """One z for each of the samples, or for each of their steps: (rows, d) or (rows, steps, d)."""
        ends = np.asarray(self.about["shares"])
        chosen = [np.searchsorted(ends, level[:, 0] * ends[-1], side="right") for level in drawn["choice"]]
        choices = [np.full(rows, label)] if label is not None else chosen or [None]
        each: list[Any] = []
        for step in range(max(len(drawn["noise"]), len(choices))):
            noise = drawn["noise"][step] if drawn["noise"] else None
            choice = choices[min(step, len(choices) - 1)]
            inputs = {"noise": noise, "choice": None if choice is None else choice.clip(0, len(ends) - 1)}
            given = {name: value for name, value in inputs.items() if value is not None}
            each.append(noise if self.prior is None else np.asarray(self.prior.run(None, given)[0]))
        return np.stack(each, axis=1) if self.about["new_z"] else np.asarray(each[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw samples, integers, into an .npy file.")
    parser.add_argument("-n", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--label", type=int)
    parser.add_argument("--out", default="samples.npy")
    given = parser.parse_args()
    np.save(given.out, Sampler(Path(__file__).parent)(given.n, given.seed, label=given.label))
