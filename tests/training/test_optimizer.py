"""The learning rate over a run, the optimiser's settings, and the averaged weights."""

import math

import pytest
import torch
from torch import nn

from vadd.parallel import Processes
from vadd.recipe import Training
from vadd.training.optimizer import Ema, Stepper, learning_rate


def test_the_cosine_starts_at_the_stated_rate_and_ends_at_zero() -> None:
    training = Training(steps=100, learning_rate=0.5)
    assert learning_rate(0, training) == 0.5
    assert learning_rate(25, training) == pytest.approx(0.25 * (1 + math.sqrt(0.5)))
    assert learning_rate(50, training) == pytest.approx(0.25)
    assert 0 < learning_rate(99, training) < 0.5 * 3e-4
    assert learning_rate(100, training) == pytest.approx(0, abs=1e-16)


def test_the_warm_up_rises_in_equal_steps_and_meets_the_cosine() -> None:
    plain, warm = Training(steps=100, learning_rate=0.5), Training(steps=100, learning_rate=0.5, warmup_steps=4)
    ratios = [learning_rate(step, warm) / learning_rate(step, plain) for step in range(6)]
    assert ratios == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_a_constant_rate_is_constant_after_its_warm_up() -> None:
    training = Training(steps=10, learning_rate=0.5, learning_rate_schedule="constant", warmup_steps=2)
    assert [learning_rate(step, training) for step in range(10)] == [0.25] + [0.5] * 9


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_the_optimiser_has_the_settings_of_the_recipe(name: str, kind: type) -> None:
    training = Training.model_validate({"optimizer": name, "betas": [0.8, 0.95], "weight_decay": 0.1})
    optimizer = Stepper(nn.Linear(2, 1), training, Processes()).optimizer
    assert type(optimizer) is kind
    assert optimizer.defaults["betas"] == (0.8, 0.95)
    assert optimizer.defaults["weight_decay"] == 0.1


def one_number(value: float) -> nn.Module:
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.constant_(module.weight, value)
    return module


def follow(decay: float, values: list[float]) -> list[float]:
    """The average after each of ``values``, starting from 10."""
    model = one_number(10.0)
    ema, seen = Ema(model, decay), []
    for step, value in enumerate(values):
        nn.init.constant_(next(model.parameters()), value)
        ema.update(step)
        seen.append(next(ema.averaged.parameters()).item())
    return seen


def test_the_average_equals_one_computed_by_hand() -> None:
    """The decay is capped at (1 + n) / (10 + n): 1/10 and 2/11, then the stated 0.2 holds."""
    first = 0.1 * 10 + 0.9 * 1
    second = 2 / 11 * first + 9 / 11 * 2
    third = 0.2 * second + 0.8 * 4
    fourth = 0.2 * third + 0.8 * 8
    assert follow(0.2, [1, 2, 4, 8]) == pytest.approx([first, second, third, fourth], rel=1e-14)


def test_without_decay_the_average_is_a_copy() -> None:
    assert follow(0.0, [0.1, -2.7, 1e-30]) == [0.1, -2.7, 1e-30]


def test_the_average_is_not_trained_and_does_not_share_memory() -> None:
    model = one_number(1.0)
    ema = Ema(model, 0.5)
    nn.init.constant_(next(model.parameters()), 2.0)
    assert next(ema.averaged.parameters()).item() == 1.0
    assert not any(parameter.requires_grad for parameter in ema.averaged.parameters())
    assert next(model.parameters()).requires_grad


def test_a_step_that_was_not_taken_leaves_the_average_alone() -> None:
    model = one_number(1.0)
    ema = Ema(model, 0.5)
    nn.init.constant_(next(model.parameters()), 2.0)
    ema.update(100, torch.zeros(()))
    assert next(ema.averaged.parameters()).item() == 1.0
    ema.update(100, torch.ones(()))
    assert next(ema.averaged.parameters()).item() == 1.5
