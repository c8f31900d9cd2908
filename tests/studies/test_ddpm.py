"""DDPM beside the discrete models: a tiny UNet of diffusers is trained, kept, sampled and judged."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch

from tests.helpers.commands import Command
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.evaluation import classifier
from vadd.progress import silent
from vadd.recipe import load_recipe
from vadd.run.checkpoint import read_weights
from vadd.studies import ddpm, equal_time
from vadd.studies.ddpm import Ddpm, ddpm_trained_for, to_numbers, to_values
from vadd.studies.engine import reproduce
from vadd.studies.study import Request, study_named

TINY = ("network.width=16", "training.batch=8", "training.log_every=10")


@pytest.fixture(autouse=True)
def _little_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WARM_UP", 1), ("TIMED", 1), ("SECONDS_TIMED", 0.0)):
        monkeypatch.setattr(equal_time, name, value)
    # A poor judge, and not the one that other tests share.
    monkeypatch.setattr(classifier, "MAX_EPOCHS", 1)
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "kept"))


def of_values(levels: int, *shape: int) -> DiscreteDataset:
    """All values, in order and over again."""
    examples = (torch.arange(6 * math.prod(shape)) % levels).view(6, -1)
    return DiscreteDataset("values", levels, shape, examples, examples)


@pytest.mark.parametrize("levels", [2, 5, 256])
def test_values_become_numbers_and_come_back(levels: int) -> None:
    data = of_values(levels, 8, 8, 1)
    numbers = to_numbers(data.train, data)
    assert numbers.shape == (6, 1, 8, 8)
    assert (float(numbers.min()), float(numbers.max())) == (-1.0, 1.0)
    half = 1 / (levels - 1)
    for off in (0.0, 0.98 * half, -0.98 * half):  # nearer to the value than to the next
        assert torch.equal(to_values(numbers + off, data), data.train)
    assert torch.equal(to_values(torch.full_like(numbers, 7.0), data), torch.full_like(data.train, levels - 1))


def test_colours_keep_their_places() -> None:
    data = of_values(4, 2, 2, 3)
    numbers = to_numbers(data.train, data)
    assert torch.equal(numbers[0, :, 0, 1], data.train[0, 3:6] * (2 / 3) - 1)
    assert torch.equal(to_values(numbers, data), data.train)


def samples(trained: Ddpm, count: int, steps: int, seed: int) -> torch.Tensor:
    return torch.cat([part.tokens for part in trained.stream(count, steps=steps, seed=seed, progress=silent)])


def test_a_unet_is_trained_kept_sampled_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that needs diffusers in one test: importing it takes seconds."""
    pytest.importorskip("diffusers", reason="diffusers, the extra `ddpm`, is not installed")
    monkeypatch.setattr(ddpm, "LEVELS", 6)
    monkeypatch.setattr(ddpm, "ROWS_AT_ONCE", 3)
    recipe = load_recipe("digits").with_overrides(["model=mdlm", *TINY])
    place = tmp_path / "ddpm"
    trained = ddpm_trained_for(recipe, 0.05, place, silent)

    # Random numbers are functions of the seed and the step.
    steps = trained.training_steps
    trainer = ddpm.DdpmTrainer(recipe.with_values(equal_time.timed(steps).items()), trained.data, ddpm.CHANNEL_STEP)
    for step in range(steps):
        trainer.step(step)
    for name, weights in read_weights(place / "checkpoint").items():
        assert torch.equal(weights, trainer.ema.averaged.state_dict()[name]), name

    # Loaded, it draws the same; the first samples do not depend on how many are drawn.
    again = ddpm_trained_for(recipe, 0.05, place, silent)
    for count, taken in ((4, 1), (4, 6)):
        parts = list(trained.stream(count, steps=taken, seed=3, progress=silent))
        assert [(part.evaluations, part.sequences) for part in parts] == [(taken, 3 * taken), (taken, taken)]
        drawn = torch.cat([part.tokens for part in parts])
        assert drawn.shape == (count, 64)
        assert set(drawn.flatten().tolist()) <= {0, 1}
        assert torch.equal(samples(again, count, taken, 3), drawn)
        assert torch.equal(samples(again, 2, taken, 3), drawn[:2])
        assert not torch.equal(samples(again, count, taken, 4), drawn)
    assert trained.possible_steps((1, 6, 7)) == [1, 6]

    refuses_what_is_not_its_own(place)
    stands_beside_the_others(tmp_path)


def refuses_what_is_not_its_own(place: Path) -> None:
    recipe = load_recipe("digits").with_overrides(["model=mdlm", *TINY])
    with pytest.raises(UserError, match="was trained with another data"):
        ddpm_trained_for(recipe.with_overrides(["data.levels=4"]), 0.05, place, silent)
    with pytest.raises(UserError, match="halves images"):
        ddpm.build_unet((9, 8, 1), ddpm.CHANNEL_STEP)
    wanted = 480_000
    near = ddpm.weights_of(ddpm.build_unet((8, 8, 1), ddpm.channels_for((8, 8, 1), wanted)))
    assert abs(near / wanted - 1) < 0.15
    weights = place / "checkpoint" / "ema.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"damaged: ema\.safetensors"):
        ddpm_trained_for(recipe, 0.05, place, silent)
    (place / "ddpm.json").write_text("{}")
    with pytest.raises(UserError, match=r"ddpm\.json is damaged"):
        ddpm_trained_for(recipe, 0.05, place, silent)


def stands_beside_the_others(tmp_path: Path) -> None:
    request = Request(
        out=tmp_path / "side-by-side",
        setting="digits",
        models=("mdlm", "ddpm"),
        minutes=0.001,
        measuring={"steps": (1, 2), "samples": 20},
        overrides=TINY,
        choose=False,
    )
    result = reproduce(study_named("baselines"), request)
    rows = {(row["name"], row["steps"]): row for row in result.numbers}
    assert set(rows) == {("MDLM", 1), ("MDLM", 2), ("DDPM", 1), ("DDPM", 2)}
    row = rows["DDPM", 2]
    assert (row["evaluations"], row["sequences"], row["nats"], row["measure"]) == (2, 2, None, "frechet")
    assert [cells[-1] for cells in result.tables[-1].rows][-2:] == ["not reported"] * 2
    assert json.loads((tmp_path / "side-by-side" / "results.json").read_text())[-1]["quality"] == row["quality"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--data", "toys", "--models", "ddpm"), "DDPM is for images; --data toys has none"),
        (("--data", "digits", "--models", "mdlm,ddpm"), "pip install 'vadd[ddpm]'"),
    ],
)
def test_without_images_or_the_extra_one_line_says_so(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], line: str
) -> None:
    monkeypatch.setattr(ddpm, "find_spec", lambda name: None if name == "diffusers" else importlib.util.find_spec(name))
    done = vadd_command("reproduce", "baselines", *options, "--out", tmp_path / "new")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert line in done.err
    assert not (tmp_path / "new").exists()
