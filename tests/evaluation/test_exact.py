"""The sampler's distribution without sampling noise, against the sampler itself."""

import numpy as np
import pytest
import torch

from tests.helpers.exact import chi_square_p_value
from tests.helpers.tiny import tiny_recipe
from vadd.core import Model, sample
from vadd.core.sampling import Grid
from vadd.evaluation.divergence import ExactDistributions
from vadd.kinds import kind_of
from vadd.kinds.arrays import Array
from vadd.recipe import build_model

SAMPLES = 60_000
LEVEL = 1e-5
"""Of each of the 30 chi-square tests here: with other seeds than these, a false alarm once in 3,000 times."""


def untrained(vocab_size: int, *overrides: str) -> Model:
    """A random model; its last layer is scaled up so that predictions are far from uniform and depend on the latent."""
    recipe = tiny_recipe("network.denoiser.depth=2", "network.denoiser.latent_frequencies=[1]", *overrides)
    model = build_model(recipe, kind_of((2,), vocab_size))
    torch.nn.init.normal_(model.denoiser.readout[-1].weight, generator=torch.Generator().manual_seed(1))  # type: ignore[attr-defined]
    return model.requires_grad_(False)


def counts(model: Model, steps: int, grid: Grid, seed: int = 0) -> Array:
    drawn = sample(model, SAMPLES, steps, torch.Generator().manual_seed(seed), grid=grid).tokens.numpy()
    return np.bincount(drawn[:, 0] * model.vocab_size + drawn[:, 1], minlength=model.vocab_size**2)


def exact(model: Model, steps: int, grid: Grid) -> Array:
    found = ExactDistributions(model, 2**14).after(steps, grid)
    assert found.sum().item() == pytest.approx(1, abs=1e-9)
    assert (found >= 0).all()
    return found.numpy()


@pytest.mark.parametrize("model", ["vadd", "mdlm"])
@pytest.mark.parametrize("time_features", [0, 8])
@pytest.mark.parametrize("grid", ["uniform", "cosine"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_samples_follow_the_exact_distribution(steps: int, grid: Grid, time_features: int, model: str) -> None:
    """Chi-square over 25 bins, 60,000 samples."""
    network = untrained(5, f"model={model}", f"network.time_features={time_features}")
    assert chi_square_p_value(counts(network, steps, grid), exact(network, steps, grid)) > LEVEL


@pytest.mark.parametrize("schedule", ["cosine", "polynomial"])
@pytest.mark.parametrize(("vocab_size", "dim"), [(4, 1), (6, 2), (4, 3)])
def test_other_schedules_sizes_and_latents_too(vocab_size: int, dim: int, schedule: str) -> None:
    """As above. In three dimensions the quadrature is a Sobol sequence."""
    network = untrained(vocab_size, f"latent.dim={dim}", f"diffusion.schedule={schedule}", "network.time_features=4")
    assert chi_square_p_value(counts(network, 3, "uniform"), exact(network, 3, "uniform")) > LEVEL


def test_the_comparison_is_sharp_enough_to_tell_steps_grids_and_axes_apart() -> None:
    network = untrained(5, "network.time_features=8")
    found = counts(network, 2, "uniform")
    one_step, other_grid, right = (exact(network, *wrong) for wrong in ((1, "uniform"), (2, "cosine"), (2, "uniform")))
    for wrong in (one_step, other_grid, right.T):
        assert chi_square_p_value(found, wrong) < 1e-12


def test_one_step_without_a_latent_is_the_product_of_its_marginals() -> None:
    found = exact(untrained(6, "model=mdlm"), 1, "uniform")
    assert found == pytest.approx(np.outer(found.sum(axis=1), found.sum(axis=0)), abs=1e-12)
    correlated = exact(untrained(6), 1, "uniform")
    assert np.abs(correlated - np.outer(correlated.sum(axis=1), correlated.sum(axis=0))).max() > 1e-3


def test_more_nodes_change_little() -> None:
    network = untrained(5)
    coarse, fine = (ExactDistributions(network, nodes).after(2) for nodes in (2**12, 2**16))
    assert float((coarse - fine).abs().max()) < 2e-3


def test_the_order_of_questions_does_not_matter() -> None:
    network = untrained(4, "network.time_features=4")
    asked_before = ExactDistributions(network, 2**10)
    for steps in (3, 1, 2):
        asked_before.after(steps)
    assert torch.equal(asked_before.after(2, "cosine"), ExactDistributions(network, 2**10).after(2, "cosine"))


def test_more_than_two_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="two positions, not 3"):
        ExactDistributions(build_model(tiny_recipe(), kind_of((3,), 4)))
