"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.evaluation.divergence import histogram, jsd, paper_js, sampling_floor
from vadd.evaluation.exact import ExactDistributions
from vadd.evaluation.pairs import pair_jsd, position_pairs
from vadd.run import Run

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES = 100_000

Report = dict[str, Any]
"""What ``vadd eval --json`` writes for one run."""


def evaluate(
    run: Run,
    steps: Sequence[int] = DEFAULT_STEPS,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Sample at each number of steps and compare with the data.

    Where the data's distribution is known, with it; else, pair by pair of positions, with the held-out examples.
    """
    if not steps or min(steps) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {', '.join(map(str, steps)) or 'none'}")
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    compare = _against_distribution if run.data.distribution is not None else _against_examples
    return {
        "run": str(run.directory.path),
        "recipe": run.recipe.name,
        "model": run.recipe.model,
        "samples": samples,
        "results": compare(run, steps, samples, seed, progress),
    }


def _against_distribution(
    run: Run, steps: Sequence[int], samples: int, seed: int, progress: Callable[[str], None]
) -> list[dict[str, float | int | None]]:
    assert run.data.distribution is not None
    truth = run.data.distribution()
    progress("the sampling floor")
    floors = {
        "jsd_floor": sampling_floor(jsd, truth, samples),
        "paper_js_floor": sampling_floor(paper_js, truth, samples),
    }
    true_sample = histogram(_true_sample(truth, samples, seed), run.data.values)
    policy = run.recipe.sampling.latent_policy
    exact_after = ExactDistributions(run.model).after if run.data.positions == 2 else None
    results = []
    for count in steps:
        progress(f"{samples} samples in {count} step{'s' if count > 1 else ''}")
        drawn = histogram(run.sample(samples, steps=count, seed=seed).numpy(), run.data.values)
        exact: float | None = None
        if exact_after is not None and (policy == "resample" or count == 1):
            progress(f"the exact distribution of {count} step{'s' if count > 1 else ''}")
            exact = jsd(truth, exact_after(count, run.recipe.sampling.grid).cpu().numpy())
        results.append(
            {
                "steps": count,
                "jsd": jsd(true_sample, drawn),
                "paper_js": paper_js(true_sample, drawn),
                **floors,
                "jsd_exact": exact,
            }
        )
    return results


def _true_sample(truth: np.ndarray, count: int, seed: int) -> np.ndarray:
    """``count`` independent draws from the truth, (count, N)."""
    flat = np.random.default_rng([seed, 1]).choice(truth.size, count, p=(truth / truth.sum()).ravel())
    return np.stack(np.unravel_index(flat, truth.shape), axis=1)


def _against_examples(
    run: Run, steps: Sequence[int], samples: int, seed: int, progress: Callable[[str], None]
) -> list[dict[str, float | int | None]]:
    data = run.data
    pairs = position_pairs(data.positions)
    held_out = data.test.numpy()
    # As many samples as there are held-out examples on each side, so that the floor has the noise of the measurement.
    count = min(samples, len(held_out), len(data.train))
    chosen = np.random.default_rng(seed).choice(len(data.train), count, replace=False)
    floor = pair_jsd(data.train.numpy()[chosen], held_out[:count], data.values, pairs)
    results: list[dict[str, float | int | None]] = []
    for step_count in steps:
        progress(f"{count} samples in {step_count} step{'s' if step_count > 1 else ''}")
        drawn = run.sample(count, steps=step_count, seed=seed).numpy()
        found = pair_jsd(drawn, held_out[:count], data.values, pairs)
        results.append({"steps": step_count, "pair_jsd": found, "pair_jsd_floor": floor})
    return results
