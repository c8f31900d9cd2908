"""The diffusion transformers: the paper's sizes, their shortcuts beside plain forms, what depends on what."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import properties, seeded
from tests.helpers.networks import awaken, flat_settings, gradients, weights_of
from tests.helpers.small_transformers import (
    DIM,
    NO_TIME,
    POSITIONS,
    SIZE,
    VALUES,
    everywhere,
    latents,
    small_denoiser,
    small_recognizer,
    tokens,
)
from vadd.data import CopiesData
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.networks.transformer import (
    SIZES,
    TransformerDenoiser,
    TransformerRecognizer,
    TransformerRecognizerSettings,
    TransformerSettings,
)
from vadd.networks.transformer_blocks import Condition, TransformerSize
from vadd.recipe import Recipe, build_model

GPT2, BERT = 50_257, 30_521


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


# Sizes


@pytest.mark.parametrize(
    ("values", "latent_dim", "expected", "millions"),
    [
        (GPT2, 256, 169_626_449, 169.6),  # the latent in the place of the usual 256 features of time
        (GPT2, 128, 169_610_065, 169.6),
        (GPT2, 512, 169_659_217, 169.7),  # the paper's latent for OpenWebText
        (BERT, 256, 139_292_217, 139.3),
        (BERT, 128, 139_275_833, 139.3),  # the paper's latent for LM1B
        (BERT + 1, 128, 139_277_370, 139.3),  # BERT's own mask token kept beside the mask of the diffusion
    ],
)
def test_the_denoisers_have_the_papers_sizes(values: int, latent_dim: int, expected: int, millions: float) -> None:
    with torch.device("meta"):
        network = TransformerDenoiser(128, values, flat_settings("transformer"), latent_dim=latent_dim)
    assert weights_of(network) == expected
    assert round(weights_of(network) / 1e6, 1) == millions


@pytest.mark.parametrize(("values", "expected"), [(GPT2, 162_302_545), (BERT, 131_968_313)])
def test_mdlm_is_smaller_by_the_conditioning_around_six_per_cent(values: int, expected: int) -> None:
    """7.33M, beside the 125M of GPT-2 small to which the paper compares them; MDLM has constants instead."""
    with torch.device("meta"):
        mdlm = TransformerDenoiser(128, values, flat_settings("transformer"))
        vadd = TransformerDenoiser(128, values, flat_settings("transformer"), latent_dim=128)
    assert weights_of(mdlm) == expected
    assert weights_of(vadd, "modulate") == 7_331_328
    assert round(100 * weights_of(vadd, "modulate") / 125e6) == 6
    assert weights_of(mdlm, "constant") == (12 * 6 + 2) * 768
    without_constants = weights_of(mdlm) - weights_of(mdlm, "constant")
    assert without_constants == weights_of(vadd) - weights_of(vadd, "modulate") - weights_of(vadd, "latent")


def test_the_sizes_of_recipes_are_those_of_the_networks() -> None:
    assert get_args(TransformerSettings.model_fields["size"].annotation) == tuple(SIZES)
    with torch.device("meta"):
        sizes = {
            name: weights_of(TransformerDenoiser(8, 100, flat_settings("transformer", TransformerSize(**n))))  # type: ignore[arg-type]
            for name, n in SIZES.items()
        }
        assert sizes["tiny"] < sizes["small"] < sizes["medium"]
        assert sizes["small"] == weights_of(TransformerDenoiser(8, 100, flat_settings("transformer"))), (
            "the paper's is the default"
        )


def test_a_recipe_may_state_its_own_numbers_beside_a_size() -> None:
    network = TransformerSettings(
        size="tiny", width=32, heads=2, recognizer=TransformerRecognizerSettings(blocks=1), convolution=3
    )
    model = build_model(Recipe(name="tiny", data=CopiesData(), network=network), kind_of((6,), 4))
    denoiser, recognizer = model.denoiser, model.latent.recognizer
    assert isinstance(denoiser, TransformerDenoiser)
    assert isinstance(recognizer, TransformerRecognizer)
    assert denoiser.readout.in_features == 32
    assert len(denoiser.body.attentions) == SIZES["tiny"]["blocks"]
    assert len(recognizer.body.attentions) == 1
    assert (denoiser.positions, denoiser.vocab_size, denoiser.uses_time) == (6, 4, False)


@pytest.mark.parametrize("option", [{"heads": 3}, {"width": 6, "heads": 2}])
def test_a_width_that_does_not_divide_is_refused(option: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"does not divide into \d heads of even size"):
        small_denoiser(**option)


def test_an_even_convolution_is_refused() -> None:
    with pytest.raises(UserError, match="odd, or 0 for none, not 4"):
        small_recognizer(convolution=4)


# The denoiser


def logits_everywhere(network: TransformerDenoiser, xt: Tensor, z: Tensor | None) -> Tensor:
    """All logits (B, N, V), nothing gathered: the blocks written out."""
    condition = None if network.latent is None else Condition(network.latent(z))
    h = network.body.embedding(xt)
    for attention, perceptron in zip(network.body.attentions, network.body.perceptrons, strict=True):
        h = attention(h, condition, network.body.rotation)
        h = perceptron(h, condition)
    logits: Tensor = network.readout(network.body.norm(h, condition)[0])
    return logits


@properties
@given(
    batch=st.integers(1, 4),
    positions=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    heads=st.sampled_from([1, 2, 4]),
    latent_dim=st.sampled_from([None, 1, 3]),
    convolution=st.sampled_from([0, 3]),
    seed=st.integers(0, 100),
)
def test_logits_and_gradients_where_asked_are_those_of_all_logits(
    batch: int, positions: int, density: float, heads: int, latent_dim: int | None, convolution: int, seed: int
) -> None:
    torch.manual_seed(seed)
    options = {"heads": heads, "latent_dim": latent_dim, "convolution": convolution}
    network = small_denoiser(positions, **options).double()
    awaken(network)
    xt = torch.randint(VALUES + 1, (batch, positions))
    z = None if latent_dim is None else torch.randn(batch, latent_dim, dtype=torch.float64)
    where = torch.rand(batch, positions) < density
    expected = logits_everywhere(network, xt, z)[where]
    weights = torch.randn_like(expected)
    (weights * expected).sum().backward()  # type: ignore[no-untyped-call]
    plain = [gradient.clone() for gradient in gradients(network)]
    network.zero_grad()
    some = network(xt, z, torch.ones(batch), where)
    assert some.shape == (int(where.sum()), VALUES)
    (weights * some).sum().backward()
    assert_close(some, expected)
    assert_close(gradients(network), plain)


def test_one_position_alone_can_be_asked_for() -> None:
    network = small_denoiser()
    awaken(network)
    everything = network(tokens(), latents(), NO_TIME, everywhere()).view(SIZE, POSITIONS, VALUES)
    where = torch.zeros(SIZE, POSITIONS, dtype=torch.bool)
    where[2, 4] = True
    assert_close(network(tokens(), latents(), NO_TIME, where), everything[2, 4][None])


def test_the_output_layer_sees_only_what_is_asked_for() -> None:
    network = small_denoiser()
    seen: list[int] = []
    for layer in (network.readout, network.body.perceptrons[-1]):
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    where = tokens() == VALUES
    network(tokens(), latents(), NO_TIME, where)
    assert 0 < where.sum() < where.numel()
    assert seen == [int(where.sum())] * 2


@pytest.mark.parametrize("latent_dim", [None, DIM])
def test_an_untrained_denoiser_says_the_uniform_distribution_whatever_it_sees(latent_dim: int | None) -> None:
    network = small_denoiser(latent_dim=latent_dim)
    for seed in (0, 1):
        assert not network(tokens(seed), latents(seed), NO_TIME, everywhere()).any()


@pytest.mark.parametrize("latent_dim", [None, DIM])
def test_the_blocks_start_as_their_shortcuts(latent_dim: int | None) -> None:
    network = small_denoiser(latent_dim=latent_dim)
    features = network.body(tokens(), None if latent_dim is None else Condition(torch.randn(SIZE, 6)))
    assert_close(features, network.body.norm.norm(network.body.embedding(tokens())))


@pytest.mark.parametrize("convolution", [0, 3])
def test_a_trained_denoiser_sees_every_token_and_z_but_not_the_time(convolution: int) -> None:
    network = small_denoiser(convolution=convolution)
    awaken(network)
    outputs = network(tokens(), latents(), NO_TIME, everywhere())
    assert outputs.equal(network(tokens(), latents(), NO_TIME / 2, everywhere()))
    assert not torch.allclose(outputs, network(tokens(), latents(1), NO_TIME, everywhere()))
    for position in range(POSITIONS):
        other = tokens()
        other[:, position] = (other[:, position] + 1) % (VALUES + 1)
        changed = network(other, latents(), NO_TIME, everywhere())
        assert ((outputs - changed).view(SIZE, POSITIONS, VALUES).abs().amax(dim=(0, 2)) > 1e-5).all()


@pytest.mark.parametrize("latent_dim", [None, DIM])
def test_positions_are_told_apart_by_their_distances(latent_dim: int | None) -> None:
    """Attention alone would not see the order; with rotary positions a permutation is more than a relabelling."""
    network = small_denoiser(latent_dim=latent_dim)
    awaken(network)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    straight = network(tokens(), latents(), NO_TIME, everywhere()).view(SIZE, POSITIONS, VALUES)
    shuffled = network(tokens()[:, order], latents(), NO_TIME, everywhere()).view(SIZE, POSITIONS, VALUES)
    assert (straight[:, order] - shuffled).abs().max() > 1e-3


def test_examples_do_not_influence_each_other() -> None:
    network = small_denoiser(convolution=3)
    awaken(network)
    together = network(tokens(), latents(), NO_TIME, everywhere()).view(SIZE, -1, VALUES)
    alone = network(tokens()[2:], latents()[2:], NO_TIME[2:], everywhere()[2:])
    assert_close(together[2], alone, rtol=1e-4, atol=1e-5)


def test_the_zero_start_is_left_within_a_few_steps() -> None:
    """First the output layer moves, then the AdaLN layers, which bring z in: it matters from the third step on."""
    network = small_denoiser()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    target = torch.randint(VALUES, (SIZE * POSITIONS,), generator=seeded(5))
    seen: list[bool] = []
    reached: list[bool] = []
    for _ in range(4):
        outputs = [network(tokens(), latents(seed), NO_TIME, everywhere()) for seed in (0, 1)]
        seen.append(not outputs[0].equal(outputs[1]))
        optimiser.zero_grad()
        loss: Tensor = F.cross_entropy(outputs[0], target)
        loss.backward()  # type: ignore[no-untyped-call]
        assert network.latent is not None
        reached.append(all(bool(gradient.any()) for gradient in gradients(network.latent)))
        optimiser.step()
    assert seen == reached == [False, False, True, True]


# The recognition model


def test_an_untrained_recognizer_sees_x0_and_the_mask() -> None:
    """At the paper's width and depth two."""
    network = TransformerRecognizer(16, VALUES, flat_settings("transformer", blocks=2), latent_dim=DIM).eval()
    x0 = torch.randint(VALUES, (SIZE, 16), generator=seeded(0))
    masked = torch.rand(x0.shape, generator=seeded(1)) < 0.5
    xt = x0.masked_fill(masked, VALUES)
    mean, log_std = network(x0, xt, NO_TIME)
    assert mean.shape == log_std.shape == (SIZE, DIM)
    other = torch.where(masked, (x0 + 1) % VALUES, x0)
    for x, y in [(other, xt), (x0, x0), (x0, x0.masked_fill(~masked, VALUES))]:
        for parameter, changed in zip((mean, log_std), network(x, y, NO_TIME), strict=True):
            assert (parameter - changed).abs().max() > 0.005


def test_the_recognizer_reads_x0_and_the_pattern_of_the_mask_and_nothing_else() -> None:
    network = small_recognizer()
    x0, masked = tokens(values=VALUES), tokens(1) > 2
    before = network(x0, x0.masked_fill(masked, VALUES), NO_TIME)
    after = network(x0, torch.where(masked, VALUES, (x0 + 1) % VALUES), NO_TIME / 2)
    assert_close(before, after, rtol=0, atol=0)


def test_the_learned_vector_reaches_masked_positions_only() -> None:
    """With nothing masked it changes nothing; with one position masked it does."""
    network = small_recognizer()
    x0 = tokens(values=VALUES)
    one = x0.clone()
    one[:, 3] = VALUES
    before = [network(x0, xt, NO_TIME)[0] for xt in (x0, one)]
    with torch.no_grad():
        network.mask.add_(1)
    after = [network(x0, xt, NO_TIME)[0] for xt in (x0, one)]
    assert before[0].equal(after[0])
    assert not torch.allclose(before[1], after[1])
