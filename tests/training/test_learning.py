r"""A short real training: the loss reaches what the entropy of the data allows, and one step is enough for VADD.

A checkerboard of 20 x 20 values is uniform on 200 of 400 bins: H(x, y) = ln 200, H(x) = ln 20, I(x; y) = ln 2. The
objective averages the cost of one hidden value, counted twice, and of two hidden values:

* MDLM pays (2 H(y | x) + H(x) + H(y)) / 2 = H(x, y) = ln 200 at best, since it draws two values independently;
* VADD pays (2 H(y | x) + H(x, y)) / 2 = ln 200 - ln(2) / 2 at best.

In one step MDLM draws from the product of the marginals, uniform on all 400 bins; the divergence from that to a uniform
half of them is ln(4/3) * 3/4.
"""

import math

import numpy as np
import pytest

import vadd
from tests.helpers.tiny import train_in
from vadd.data import toy_distribution
from vadd.evaluation import jsd
from vadd.evaluation.divergence import ExactDistributions
from vadd.recipe import load_recipe
from vadd.run.run import Run

VALUES = 20
ENTROPY = math.log(VALUES**2 / 2)
OVERRIDES = (
    f"data.vocab_size={VALUES}",
    "data.train_size=20000",
    "data.test_size=2048",
    "network.width=64",
    "network.denoiser.depth=2",
    "network.recognizer.depth=1",
    "latent.particles=4",
    "training.steps=500",
    "training.batch=128",
    "training.learning_rate=5e-3",
    "training.warmup_steps=50",
    "training.ema=0.99",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    path = tmp_path_factory.mktemp("learning")
    for model in ("mdlm", "vadd"):
        recipe = load_recipe("checkerboard").with_overrides([*OVERRIDES, f"model={model}"])
        assert train_in(path / model, recipe).finished
    return {model: vadd.load(path / model) for model in ("mdlm", "vadd")}


def final_test_loss(run: Run) -> float:
    """Nats per example, on held-out data; the log has them per position."""
    last = [record for record in run.directory.metrics() if record["split"] == "test"][-1]
    assert last["step"] == 500
    return 2 * float(last["loss"])


def one_step_jsd(run: Run) -> float:
    return jsd(toy_distribution("checkerboard", VALUES), ExactDistributions(run.model, 2**14).after(1).numpy())


def test_the_loss_of_mdlm_ends_at_the_entropy(trained: dict[str, Run]) -> None:
    """Between ln 200 (less 0.01 for the test sample) and 0.05 nats above it; an untrained model has 2 ln 20."""
    loss = final_test_loss(trained["mdlm"])
    assert ENTROPY - 0.01 < loss < ENTROPY + 0.05


def test_the_loss_of_vadd_ends_where_no_model_without_latent_can_come(trained: dict[str, Run]) -> None:
    """At most 0.1 nats above its own optimum, which is a quarter of a nat below the optimum of MDLM."""
    optimum = ENTROPY - math.log(2) / 2
    loss = final_test_loss(trained["vadd"])
    assert optimum - 0.01 < loss < optimum + 0.1


def test_one_step_of_mdlm_is_the_product_of_the_marginals(trained: dict[str, Run]) -> None:
    """Against the closed form, to 0.005: what is left is the training's own error."""
    truth = toy_distribution("checkerboard", VALUES)
    product = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    assert jsd(truth, product) == pytest.approx(0.75 * math.log(4 / 3), abs=1e-12)
    assert one_step_jsd(trained["mdlm"]) == pytest.approx(jsd(truth, product), abs=0.005)


def test_one_step_of_vadd_comes_ten_times_nearer(trained: dict[str, Run]) -> None:
    """The exact divergences, without sampling noise: below 0.02 against 0.216."""
    ours = one_step_jsd(trained["vadd"])
    assert ours < 0.02
    assert 10 * ours < one_step_jsd(trained["mdlm"])


def test_samples_show_what_the_exact_distribution_says(trained: dict[str, Run]) -> None:
    """The share of one-step samples on filled cells: half for a factorised model, nearly all for VADD.

    The standard error of 4,000 samples is below 0.008; the limits are more than ten of them away.
    """
    filled = toy_distribution("checkerboard", VALUES) > 0
    shares = {model: float(filled[tuple(run.sample(4000).T.numpy())].mean()) for model, run in trained.items()}
    assert 0.4 < shares["mdlm"] < 0.6
    assert shares["vadd"] > 0.9
