"""From recipes to objects: names mean what they say, seeds decide, and one's own arrays get a sensible recipe."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from pydantic import BaseModel

from tests.helpers.exact import seeded
from tests.helpers.networks import SMALL, small_model, small_recipe
from tests.helpers.tiny import tiny_recipe
from vadd.core import (
    CosineSchedule,
    EvenWeights,
    ExactCount,
    GaussianLatent,
    IidTimes,
    Levels,
    LinearSchedule,
    MaskedBatch,
    Masking,
    NoLatent,
    PolynomialSchedule,
    StepTimes,
    StratifiedTimes,
)
from vadd.data import ArrayData
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.kinds.arrays import Array
from vadd.models import EnergyDiffusion, ScoreEntropy
from vadd.networks import NETWORKS
from vadd.networks.flows import CouplingFlow, SequenceFlow
from vadd.networks.short_transformer import ShortTransformerDenoiser
from vadd.recipe import SAMPLERS, Recipe, Sampling, build_dataset, build_model, recipe_for
from vadd.recipe.sections import WEIGHT_POWERS, Diffusion

TWO_OF_TEN = kind_of((2,), 10)


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
    assert tiny_recipe(f"diffusion.schedule={name}", "diffusion.power=3").diffusion.build_schedule() == schedule


def literals(section: type[BaseModel], field: str) -> set[str]:
    return set(get_args(section.model_fields[field].annotation))


def test_there_is_one_entry_for_everything_that_a_recipe_can_name() -> None:
    assert set(NETWORKS) == {*SMALL, "own", "transformers"}
    assert set(WEIGHT_POWERS) == literals(Diffusion, "weighting")
    assert {*SAMPLERS, *ScoreEntropy.samplers, *EnergyDiffusion.samplers} == literals(Sampling, "sampler")


@pytest.mark.parametrize("registry", [NETWORKS, SAMPLERS], ids=["networks", "samplers"])
def test_no_two_names_mean_the_same(registry: dict[str, object]) -> None:
    assert len(set(registry.values())) == len(registry)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("iid", IidTimes()),
        ("stratified", StratifiedTimes()),
        ("exact-count", ExactCount()),
        ("steps", StepTimes(((1, 0.5), (4, 0.5)))),
        ("levels", Levels(7, 0.5)),
    ],
)
def test_each_mask_draw_has_its_name(name: str, draw: object) -> None:
    settings = ["diffusion.steps={1: 0.5, 4: 0.5}", "diffusion.levels=7", "diffusion.auxiliary=0.5"]
    assert tiny_recipe(f"diffusion.mask_draw={name}", *settings).build_mask_draw() == draw


def half_masked(vocab_size: int = 3) -> MaskedBatch:
    x0 = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    masked = torch.tensor([[True, False, True, False]] * 2)
    return MaskedBatch.of(x0, Masking(masked, torch.full((2,), 0.5), torch.ones(2)), vocab_size)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_kind_of_network_makes_a_model_with_a_latent(kind: str) -> None:
    model, batch = small_model(kind), half_masked()
    evidence = model(batch, 1.0, seeded(0))
    assert evidence.bound.shape == (2,)
    assert (evidence.kl > 0).all()
    assert model.latent.dim == 8


@pytest.mark.parametrize("said", [None, False, True])
def test_a_recipe_says_where_the_latent_is_read(said: bool | None) -> None:
    """By default where something is masked: then numbers of z that belong to known positions change nothing."""
    overrides = [] if said is None else [f"network.denoiser.latent_everywhere={str(said).lower()}"]
    model, batch = small_model("short-transformer", overrides=overrides).eval(), half_masked()
    assert isinstance(model.denoiser, ShortTransformerDenoiser)
    assert model.denoiser.latent_everywhere is bool(said)
    z = torch.randn(2, 4, 2, generator=seeded(0))
    other = torch.where(batch.masked[..., None], z, z + 1)
    before, after = (model.predict(batch.xt, each.flatten(1), batch.t, batch.masked) for each in (z, other))
    assert torch.equal(before, after) == (not said)


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("kind", ["mlp", "short-transformer"])
def test_a_prior_has_as_many_components_as_the_recipe_says(kind: str, conditional: bool) -> None:
    """One is N(0, I) itself, whose draws take no further number."""
    for components in (1, 2, 7):
        recipe = small_recipe(
            kind, "latent.dim=8", "latent.per=example", f"latent.flow.components={components}", "latent.flow.width=4"
        )
        flow = recipe.latent.build_prior(recipe.network, kind_of((2, 2, 1), 3), conditional=conditional).flow
        assert isinstance(flow, CouplingFlow)
        assert flow.noise_dim == flow.dim + (components > 1) == 8 + (components > 1)
        if components == 1:
            assert flow.base is None
        else:
            assert flow.base is not None
            assert flow.base.means.shape == (components, 8)
            assert (flow.base.context is not None) == conditional


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("kind", ["mlp", "residual", "short-transformer"])
def test_latents_divided_among_positions_have_a_flow_over_the_sequence(kind: str, conditional: bool) -> None:
    """Two numbers for each of four positions, whatever the mixture of others; in all, where the latent is one of the
    example. A conditional one is told something else in every state.
    """
    small = ("latent.flow.width=4", "latent.flow.transforms=4", "latent.flow.components=3", "latent.flow.context=8")
    for per, expected in (("position", SequenceFlow), ("example", CouplingFlow)):
        recipe = small_recipe(kind, *small, f"latent.per={per}", f"latent.dim={2 if per == 'position' else 8}")
        prior = recipe.latent.build_prior(recipe.network, kind_of((2, 2, 1), 3), conditional=conditional).eval()
        assert type(prior.flow) is expected
        assert (prior.dim, prior.conditional) == (8, conditional)
        if isinstance(prior.flow, SequenceFlow):
            assert (prior.flow.positions, prior.flow.share, len(prior.flow.couplings)) == (4, 2, 4)
        states = torch.tensor([[0, 3, 3, 3], [3, 3, 3, 2]])
        z = prior.draws(5, states, seeded(0))
        assert z.shape == (5, 2, 8)
        assert bool(prior.log_prob(z, states).isfinite().all())
        context = prior.context(states)
        if context is None:
            assert not conditional
        else:
            assert context.shape == (1, 2, 16 if per == "position" else 8)
            assert not torch.equal(context[0, 0], context[0, 1])


def test_vadd_is_the_model_with_the_latent_and_mdlm_the_one_without() -> None:
    vadd = build_model(tiny_recipe("latent.dim=3", "latent.particles=2"), TWO_OF_TEN)
    mdlm = build_model(tiny_recipe("model=mdlm"), TWO_OF_TEN)
    assert isinstance(vadd.latent, GaussianLatent)
    assert (vadd.latent.dim, vadd.latent.particles) == (3, 2)
    assert isinstance(mdlm.latent, NoLatent)
    assert all(name.startswith("denoiser.") for name in mdlm.state_dict())
    assert (vadd.positions, vadd.vocab_size, vadd.mask_value) == (2, 10, 10)


@pytest.mark.parametrize("features", [0, 8])
def test_the_network_sees_time_only_if_the_recipe_says_so(features: int) -> None:
    model = build_model(tiny_recipe("model=mdlm", f"network.time_features={features}"), TWO_OF_TEN)
    tokens, everywhere = torch.full((1, 2), 10), torch.ones(1, 2, dtype=torch.bool)
    early, late = (model.denoiser(tokens, None, torch.tensor([t]), everywhere) for t in (0.1, 0.9))
    assert model.denoiser.uses_time == (features > 0)
    assert torch.equal(early, late) == (features == 0)


def test_the_seed_decides_the_initial_weights_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = (build_model(tiny_recipe(f"seed={seed}"), TWO_OF_TEN).state_dict() for seed in (1, 1, 2))
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
    recipe = recipe_for(save(tmp_path / "mine.npy", random_array(*shape)))
    data = build_dataset(recipe)
    model = build_model(recipe, data.kind)
    assert recipe.name == "mine"
    assert (recipe.model, data.vocab_size, data.shape) == ("vadd", 4, shape[1:])
    assert model.positions == int(np.prod(shape[1:]))
    assert 1 <= recipe.training.batch <= shape[0]
    assert recipe.training.steps >= 200


def test_a_latent_may_have_its_dimensions_at_every_position() -> None:
    recipe = tiny_recipe("latent.dim=3", "latent.per=position")
    format = kind_of((2, 5), 10)
    assert build_model(recipe, format).latent.dim == 30
    assert build_model(recipe.with_overrides(["latent.per=example"]), format).latent.dim == 3


def test_a_shared_latent_is_trained_on_steps_as_they_weigh_and_other_models_are_not() -> None:
    recipe = tiny_recipe("latent.kind=shared", "latent.particles=1", "diffusion.weighting=even")
    assert recipe.build_mask_draw() == StepTimes(tuple(recipe.diffusion.steps.items()))
    assert recipe.with_overrides(["model=mdlm"]).build_mask_draw() == EvenWeights(ExactCount(), 0.0)
    assert recipe.with_overrides(["diffusion.mask_draw=iid"]).build_mask_draw() == EvenWeights(IidTimes(), 0.0)


def test_the_pad_of_the_data_is_not_scored_by_the_model() -> None:
    for model in ("vadd", "mdlm"):
        built = build_model(tiny_recipe(f"model={model}"), kind_of((2,), 10, pad=4))
        assert built.scored(torch.tensor([[4, 1]])).tolist() == [[False, True]]


def test_longer_examples_get_more_latent_dimensions(tmp_path: Path) -> None:
    short, long = (
        recipe_for(save(tmp_path / f"{positions}.npy", random_array(40, positions))) for positions in (2, 100)
    )
    assert short.latent.size((2,)) < long.latent.size((100,))


def test_the_recipe_of_an_array_finds_it_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "mine.npy", random_array(20, 3))
    monkeypatch.chdir(tmp_path)
    recipe = recipe_for(Path("mine.npy"))
    monkeypatch.chdir("/")
    assert build_dataset(recipe).positions == 3


def test_values_beyond_the_stated_number_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "mine.npy", random_array(20, 3, values=9))
    recipe = Recipe(name="mine", data=ArrayData(path=str(path), vocab_size=8))
    with pytest.raises(UserError, match=r"mine\.npy holds the value 8, outside 0\.\.7"):
        build_dataset(recipe)
