"""A step takes the memory that was planned, and where the device refuses, a training goes on in smaller parts."""

import gc
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.accelerator.pretend import NAME, Pretend, pretend_device
from tests.helpers.runs import newest
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.data import DiscreteDataset
from vadd.recipe import Recipe, build_dataset, build_model, load_recipe
from vadd.recipe.plan import make_plan
from vadd.run.directory import RunDirectory
from vadd.studies.trainings import finished_run
from vadd.training.events import Callbacks, StepEvent
from vadd.training.loop import Trainer, train

SMALL = ("network.width=32", "network.heads=2", "network.blocks=3", "latent.dim=4", "training.batch=32")
LENGTHS = {"text8": 64, "lm1b": 32}


def random_data(recipe: Recipe) -> DiscreteDataset:
    kind = recipe.data.example_kind()
    x = torch.randint(0, kind.vocab_size, (80, kind.positions), generator=torch.Generator().manual_seed(0))
    return DiscreteDataset(name="noise", vocab_size=kind.vocab_size, shape=kind.shape, train=x[:64], test=x[64:])


@pytest.mark.parametrize("checkpointing", ["false", "true"])
@pytest.mark.parametrize("name", LENGTHS)
def test_a_step_takes_what_is_planned(name: str, checkpointing: str, tmp_path: Path) -> None:
    """Weights, moments, averages and all that a step makes; few values, and so many that logits need most."""
    how = (f"network.checkpointing={checkpointing}", f"data.length={LENGTHS[name]}")
    recipe = load_recipe(name).with_overrides([*SMALL, *how, "training.trackers=[]"])
    directory = RunDirectory(tmp_path / "run")
    directory.create(recipe)
    with pretend_device() as device:
        trainer = Trainer(recipe, directory, random_data(recipe), device=torch.device(NAME))
        draw = trainer.draw_mask
        # The masks that the plan counts with: of few examples others would ask for a tenth more logits, or less.
        draw_again = partial(torch.Generator().manual_seed, 0)
        trainer.draw_mask = lambda batch, positions, schedule, _: draw(batch, positions, schedule, draw_again())
        trainer.step(0)
        device.reset()
        trainer.step(1)
        taken = device.peak
    assert make_plan(recipe, rate=1e9).memory[0].total == pytest.approx(taken, rel=0.1)


PARTS = ("training.batch=1024", "training.steps=10", "training.trackers=[]")


def limit_between(device: Pretend, recipe: Recipe, path: Path) -> tuple[int, int]:
    """Bytes that a step takes, of the whole batch and of its halves."""
    taken = []
    for count in (1, 2):
        directory = RunDirectory(path / str(count))
        changed = recipe.with_overrides([f"training.accumulate={count}"])
        directory.create(changed)
        trainer = Trainer(changed, directory, build_dataset(changed), device=torch.device(NAME))
        trainer.step(0)
        device.reset()
        trainer.step(1)
        taken.append(device.peak - device.live)
        del trainer
        gc.collect()
    return taken[0], taken[1]


def test_a_training_whose_memory_is_taken_meanwhile_goes_on_in_smaller_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No step is lost: the weights are those of a training that nobody disturbed, up to rounding."""
    recipe = tiny_recipe(*PARTS)
    assert train_in(tmp_path / "undisturbed", recipe).finished
    directory, taken = RunDirectory(tmp_path / "run"), []
    directory.create(recipe)
    with pretend_device() as device:
        whole, halves = limit_between(device, recipe, tmp_path)

        def take(event: StepEvent) -> None:
            taken.append(event.step)
            if event.step == 4:  # another process
                gc.collect()
                device.limit = device.live + (whole + halves) // 2

        data = build_dataset(recipe)
        assert train(recipe, directory, data, callbacks=Callbacks(take), device=torch.device(NAME)).finished
    assert taken == list(range(1, 11))
    assert "not enough memory in step 5: from here on as with training.accumulate=2" in capsys.readouterr().err
    found, expected = newest(tmp_path / "run"), newest(tmp_path / "undisturbed")
    for name, value in expected.model.items():
        torch.testing.assert_close(found.model[name], value, rtol=1e-3, atol=1e-3)


def test_fit_takes_what_a_device_that_refuses_has_room_for(tmp_path: Path) -> None:
    """The count says that all fits; only the trial step tells."""
    recipe = tiny_recipe(*PARTS, "training.steps=2")
    with pretend_device() as device:
        whole, halves = limit_between(device, recipe, tmp_path)
        gc.collect()
        weights = 20 * sum(each.numel() for each in build_model(recipe, build_dataset(recipe).kind).parameters())
        device.limit = device.live + weights + (whole + halves) // 2
        assert finished_run(recipe, tmp_path / "run", fit=True).recipe.training.accumulate == 2
