"""Held-out examples are judged with the same masks and latents, however they are divided."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.helpers.tiny import tiny_recipe
from vadd.core import ExactCount, MaskedBatch, latent_health, objective
from vadd.core.host import TEST, step_generator
from vadd.parallel import Processes, padded_share
from vadd.recipe import build_dataset, build_model
from vadd.training.metrics import evaluate_held_out


@pytest.mark.parametrize("model", ["vadd", "mdlm"])
@pytest.mark.parametrize("rows_at_once", [7, 64, 8192])
def test_chunks_give_what_the_whole_gives(model: str, rows_at_once: int) -> None:
    """Against the objective of all examples at once, written out; to rounding."""
    recipe = tiny_recipe(f"model={model}", "data.test_size=203")
    data = build_dataset(recipe)
    network = build_model(recipe, data.kind).eval()
    found = evaluate_held_out(network, data.test, 3, rows_at_once, Processes())
    generator = step_generator(3, TEST)
    masking = ExactCount()(203, 2, network.schedule, generator)
    batch = MaskedBatch.of(data.test.long(), masking, network.mask_value)
    with torch.no_grad():
        expected = objective(network(batch, 1.0, generator), 2)
    for name in ("loss", "reconstruction", "kl"):
        assert getattr(found.objective, name).item() == pytest.approx(getattr(expected, name).item(), rel=1e-6)
    health = latent_health(network, data.test.long(), step_generator(3, TEST))
    assert (found.health is None) == (health is None) == (model == "mdlm")
    if found.health is not None and health is not None:
        assert found.health.kl_per_dimension == pytest.approx(health.kl_per_dimension, rel=1e-5)
        assert found.health.active_units == health.active_units


class GatheredError(Exception):
    """Carries what a process would have sent to the others."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = rows


@dataclass
class OneOfThree:
    """One of three processes, without the others: it ends where rows are gathered first, those of the bound."""

    index: int
    device = torch.device("cpu")

    def padded_share(self, total: int) -> Tensor:
        return padded_share(total, self.index, 3)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        raise GatheredError(rows)


def test_three_processes_weigh_each_example_once() -> None:
    """What the three would gather is what one process computes for each example."""
    recipe = tiny_recipe("data.test_size=100")
    data = build_dataset(recipe)
    network = build_model(recipe, data.kind).eval()
    bounds = []
    for index in range(3):
        with pytest.raises(GatheredError) as gathered:
            evaluate_held_out(network, data.test, 0, 16, OneOfThree(index))  # type: ignore[arg-type]
        bounds.append(gathered.value.rows)
    generator = step_generator(0, TEST)
    masking = ExactCount()(100, 2, network.schedule, generator)
    with torch.no_grad():
        whole = network(MaskedBatch.of(data.test.long(), masking, network.mask_value), 1.0, generator).bound
    assert torch.cat(bounds)[:100].tolist() == pytest.approx(whole.tolist(), rel=1e-5)
