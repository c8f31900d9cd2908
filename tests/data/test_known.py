"""Values that are given from the start: read beside the examples, never masked in training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.exact import RandomFunction, exact_count_weights, nonempty_masks, seeded, sigmas
from tests.helpers.tiny import SHORT_TRAINING
from vadd.core import ExactCount, LinearSchedule, StepTimes
from vadd.core.masking import MaskDraw, Masking
from vadd.data import ArrayData, GivenData, check_dataset, save_dataset
from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.recipe import Recipe, build_dataset, recipe_for
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer

EXAMPLES: Array = np.random.default_rng(0).integers(3, size=(60, 2, 2)).astype(np.uint8)
KNOWN: Array = np.random.default_rng(1).integers(2, size=(60, 2, 2)).astype(np.uint8)


def saved(folder: Path, known: Array = KNOWN) -> ArrayData:
    np.save(folder / "examples.npy", EXAMPLES)
    np.save(folder / "known.npy", known)
    return ArrayData(path=str(folder / "examples.npy"), known=str(folder / "known.npy"))


def test_what_is_known_follows_its_examples_through_the_split_and_a_kept_copy(tmp_path: Path) -> None:
    data = saved(tmp_path).load(seed=3)
    pairs = {(tuple(x), tuple(k)) for x, k in zip(EXAMPLES.reshape(60, 4).tolist(), KNOWN.reshape(60, 4), strict=True)}
    save_dataset(data, tmp_path)
    for each in (data, GivenData(path=str(tmp_path)).load()):
        for examples, known in ((each.train, each.train_known), (each.test, each.test_known)):
            assert known is not None
            assert {(tuple(x), tuple(k)) for x, k in zip(examples.tolist(), known.tolist(), strict=True)} <= pairs


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (KNOWN[:, :1], r"known.npy has the shape \(60, 1, 2\), the examples have \(60, 2, 2\)"),
        (KNOWN + np.uint8(1), r"known.npy holds the value 2"),
        (np.ones(KNOWN.shape, np.uint8), "known.npy holds ones only; there is nothing to learn"),
        (KNOWN.astype(float), "holds float64 values; integers are needed"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, known: Array, message: str) -> None:
    with pytest.raises(UserError, match=message):
        saved(tmp_path, known).load()


def test_a_data_set_made_in_python_whose_known_values_do_not_fit_is_refused(tmp_path: Path) -> None:
    data = saved(tmp_path).load()
    check_dataset(data)
    with pytest.raises(UserError, match=r"test_known has not the shape of test, \(6, 4\)"):
        check_dataset(replace(data, test_known=data.train_known))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    data = saved(tmp_path)
    (tmp_path / "known.npy").unlink()
    with pytest.raises(UserError, match=r"there is no file .*known\.npy"):
        data.load()


def recipe_of(data: ArrayData, *overrides: str) -> Recipe:
    recipe = recipe_for(Path(data.path)).with_overrides([*SHORT_TRAINING, "network.width=16", "latent.dim=2"])
    return recipe.with_overrides([f"data.known={data.known}", *overrides])


@pytest.mark.parametrize("model", ["sedd", "ar", "udlm"])
def test_models_that_do_not_mask_are_refused(tmp_path: Path, model: str) -> None:
    data = saved(tmp_path)
    with pytest.raises(UserError, match=f"data.known needs a model that masks, .* not {model}"):
        recipe_of(data, f"model={model}")


@pytest.mark.parametrize("model", ["mdlm", "vadd"])
def test_training_and_its_held_out_objective_mask_nothing_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    recipe = recipe_of(saved(tmp_path), f"model={model}", "training.steps=3", "training.evaluate_every=3")
    data, directory = build_dataset(recipe), RunDirectory(tmp_path / "run")
    directory.create(recipe)
    trainer, seen = Trainer(recipe, directory, data), []
    batch_of = type(trainer.model).batch

    def batch(self: object, x0: Tensor, masking: Masking, *more: object) -> object:
        seen.append((x0, masking.masked))
        return batch_of(self, x0, masking, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(trainer.model), "batch", batch)
    trainer.run(silent=True)
    assert len(seen) >= 4  # three steps, and an evaluation
    known: dict[tuple[int, ...], list[Array]] = {}
    for example, pattern in zip(EXAMPLES.reshape(60, 4).tolist(), KNOWN.reshape(60, 4), strict=True):
        known.setdefault(tuple(example), []).append(pattern)
    for x0, masked in seen:
        for example, hidden in zip(x0.tolist(), masked.numpy(), strict=True):
            assert any(not (hidden & (pattern == 1)).any() for pattern in known[tuple(example)])


@pytest.mark.parametrize("draw", [ExactCount(), StepTimes(((1, 0.5), (4, 0.5)))])
@pytest.mark.parametrize("known", [(0,), (1, 2)])
def test_the_objective_is_that_of_the_rest_given_what_is_known(draw: MaskDraw, known: Sequence[int]) -> None:
    """Of the rest alone, every subset enumerated: each position that is free is masked as if the others were not there.
    400 batches, 5 standard errors: false alarm about 6e-7 each.
    """
    function, generator, given = RandomFunction(4, timed=False), seeded(5), torch.zeros(4, dtype=torch.uint8)
    given[list(known)] = 1
    free = [position for position in range(4) if position not in known]
    inner = nonempty_masks(len(free))
    masks = torch.zeros(len(inner), 4, dtype=torch.bool)
    masks[:, free] = inner
    values = function(masks, torch.zeros(len(masks)))
    if not isinstance(draw, StepTimes):
        weights = exact_count_weights(inner)
    else:  # step i of T is drawn with probability 1 / T, masks with probability i / T and weighs T / i
        weights = torch.zeros(len(inner), dtype=torch.float64)
        for steps, share in draw.shares:
            for i in range(1, steps + 1):
                t, hidden = i / steps, inner.sum(1)
                weights += share / steps / t * t**hidden * (1 - t) ** (len(free) - hidden)
    means = []
    for _ in range(400):
        masking = draw(32, 4, LinearSchedule(), generator).sparing(given.expand(32, 4))
        assert not masking.masked[:, list(known)].any()
        means.append((masking.weight * function(masking.masked, masking.t)).mean())
    assert sigmas(torch.stack(means), float((weights * values).sum())) < 5
