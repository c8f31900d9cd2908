"""From recipes to objects: names mean what they say, seeds decide, and one's own arrays get a sensible recipe."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from tests.conftest import TINY_ARRAY, tiny_recipe
from vadd.build import build_dataset, build_mask_draw, build_model, build_schedule, recipe_for_array
from vadd.core import (
    CosineSchedule,
    EvenWeights,
    ExactCount,
    GaussianLatent,
    IidTimes,
    LinearSchedule,
    NoLatent,
    PartlyExplained,
    PolynomialSchedule,
    StratifiedTimes,
)
from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.recipe import ArrayData, Diffusion, Recipe, load_recipe


def save(path: Path, array: Array) -> Path:
    np.save(path, array)
    return path


def random_array(*shape: int, values: int = 4) -> Array:
    array = np.random.default_rng(0).integers(0, values, shape)
    array.flat[0] = values - 1
    return array


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("linear", LinearSchedule()), ("cosine", CosineSchedule()), ("polynomial", PolynomialSchedule(3.0))],
)
def test_each_schedule_has_its_name(name: str, schedule: object) -> None:
    assert build_schedule(tiny_recipe(f"diffusion.schedule={name}", "diffusion.power=3").diffusion) == schedule


def test_no_schedule_or_mask_draw_is_left_out() -> None:
    assert set(get_args(Diffusion.model_fields["schedule"].annotation)) == {"linear", "cosine", "polynomial"}
    draws = {
        name: type(build_mask_draw(tiny_recipe(f"diffusion.mask_draw={name}").diffusion))
        for name in get_args(Diffusion.model_fields["mask_draw"].annotation)
    }
    assert draws == {"iid": IidTimes, "stratified": StratifiedTimes, "exact-count": ExactCount}


def test_vadd_is_the_model_with_the_latent_and_mdlm_the_one_without() -> None:
    vadd = build_model(tiny_recipe("latent.dim=3", "latent.particles=2"), (2,), 10)
    mdlm = build_model(tiny_recipe("model=mdlm"), (2,), 10)
    assert isinstance(vadd.latent, GaussianLatent)
    assert (vadd.latent.dim, vadd.latent.particles) == (3, 2)
    assert isinstance(mdlm.latent, NoLatent)
    assert all(name.startswith("denoiser.") for name in mdlm.state_dict())
    assert (vadd.positions, vadd.values, vadd.mask_value) == (2, 10, 10)


@pytest.mark.parametrize("features", [0, 8])
def test_the_network_sees_time_only_if_the_recipe_says_so(features: int) -> None:
    model = build_model(tiny_recipe("model=mdlm", f"network.time_features={features}"), (2,), 10)
    tokens, everywhere = torch.full((1, 2), 10), torch.ones(1, 2, dtype=torch.bool)
    early, late = (model.denoiser(tokens, None, torch.tensor([t]), everywhere) for t in (0.1, 0.9))
    assert model.denoiser.uses_time == (features > 0)
    assert torch.equal(early, late) == (features == 0)


def test_the_seed_decides_the_initial_weights_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = (build_model(tiny_recipe(f"seed={seed}"), (2,), 10).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["denoiser.tokens.table"], other["denoiser.tokens.table"])


def test_the_data_of_a_toy_recipe_have_its_sizes_and_its_seed() -> None:
    data, again, other = (build_dataset(tiny_recipe(f"seed={seed}")) for seed in (1, 1, 2))
    assert (data.vocab_size, tuple(data.train.shape), tuple(data.test.shape)) == (8, (500, 2), (200, 2))
    assert torch.equal(data.train, again.train)
    assert not torch.equal(data.train, other.train)


@pytest.mark.parametrize("shape", [(200, 2), (300, 6), (64, 4, 4, 2), (2, 3), (50, 1)])
def test_an_array_of_any_shape_gets_a_recipe_that_can_be_built(tmp_path: Path, shape: tuple[int, ...]) -> None:
    recipe = recipe_for_array(save(tmp_path / "mine.npy", random_array(*shape)))
    data = build_dataset(recipe)
    model = build_model(recipe.with_overrides(TINY_ARRAY), data.shape, data.vocab_size)
    assert recipe.name == "mine"
    assert (recipe.model, data.vocab_size, data.shape) == ("vadd", 4, shape[1:])
    assert model.positions == int(np.prod(shape[1:]))
    assert 1 <= recipe.training.batch <= shape[0]
    assert recipe.training.steps >= 200


def test_a_latent_may_have_its_dimensions_at_every_position() -> None:
    recipe = tiny_recipe("latent.dim=3", "latent.per=position")
    assert build_model(recipe, (2, 5), 10).latent.dim == 30
    assert build_model(recipe.with_overrides(["latent.per=example"]), (2, 5), 10).latent.dim == 3


def test_examples_are_partly_explained_to_models_with_a_latent_only() -> None:
    asked = tiny_recipe("diffusion.partly_explained=0.3", "diffusion.weighting=root").diffusion
    draw = build_mask_draw(asked, latent=True)
    assert isinstance(draw, PartlyExplained)
    assert (draw.share, draw.draw) == (0.3, EvenWeights(ExactCount(), 0.5))
    assert build_mask_draw(asked) == EvenWeights(ExactCount(), 0.5)
    assert not isinstance(build_mask_draw(tiny_recipe().diffusion, latent=True), PartlyExplained)


def test_the_share_from_which_the_latent_is_heard_reaches_networks_and_masks() -> None:
    recipe = load_recipe("pydocs").with_overrides(["network.heard_from=0.7", "diffusion.partly_explained=0.2"])
    model = build_model(recipe, (6,), 5)
    xt = torch.tensor([[5, 5, 5, 5, 1, 2], [5, 5, 5, 5, 5, 2]])
    assert model.listens(xt).tolist() == [False, True]
    posterior = model.posterior(torch.zeros_like(xt), xt, torch.ones(2))
    assert posterior is not None
    assert posterior.mean.any(dim=1).tolist() == [False, True]
    draw = build_mask_draw(recipe.diffusion, latent=True, heard_from=0.7)
    assert isinstance(draw, PartlyExplained)
    assert draw.least_masked == 0.7


def test_longer_examples_get_more_latent_dimensions(tmp_path: Path) -> None:
    short, long = (
        recipe_for_array(save(tmp_path / f"{positions}.npy", random_array(40, positions))) for positions in (2, 100)
    )
    assert (short.latent.dim, long.latent.dim) == (2, 10)


def test_the_recipe_of_an_array_finds_it_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "mine.npy", random_array(20, 3))
    monkeypatch.chdir(tmp_path)
    recipe = recipe_for_array(Path("mine.npy"))
    monkeypatch.chdir("/")
    assert build_dataset(recipe).positions == 3


def test_values_beyond_the_stated_number_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "mine.npy", random_array(20, 3, values=9))
    recipe = Recipe(name="mine", data=ArrayData(path=str(path), vocab_size=8))
    with pytest.raises(UserError, match=r"mine\.npy holds the value 8, outside 0\.\.7"):
        build_dataset(recipe)
