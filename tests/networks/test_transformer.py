"""The diffusion transformers: the paper's sizes, attention and AdaLN beside plain forms, what depends on what."""

import math
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.exact import properties, seeded
from vadd.build import build_model
from vadd.core import ExactCount, LinearSchedule, MaskedDiffusion, MaskedBatch, objective
from vadd.errors import UserError
from vadd.networks.transformer import TRANSFORMER_SIZES, TransformerDenoiser, TransformerRecognizer
from vadd.networks.transformer_blocks import AdaptiveNorm, Condition, SelfAttention, rotate, rotation_table
from vadd.recipe import CopiesData, Recipe, TransformerNetwork

SIZE, POSITIONS, VALUES, DIM = 3, 7, 5, 3
SMALL: dict[str, Any] = {"width": 16, "blocks": 2, "heads": 2, "condition": 6, "dropout": 0.0}
GPT2, BERT = 50_257, 30_521


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


def small_denoiser(positions: int = POSITIONS, **options: Any) -> TransformerDenoiser:
    return TransformerDenoiser(positions, VALUES, **SMALL | {"latent_dim": DIM} | options)


def small_recognizer(**options: Any) -> TransformerRecognizer:
    return TransformerRecognizer(POSITIONS, VALUES, **SMALL | {"latent_dim": DIM} | options)


def awaken(network: nn.Module) -> None:
    """Draw the weights that start at zero, as if the network had been trained for a while."""
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.normal_(std=0.3)


def tokens(seed: int = 0, values: int = VALUES + 1) -> Tensor:
    return torch.randint(values, (SIZE, POSITIONS), generator=seeded(seed))


def latents(seed: int = 0) -> Tensor:
    return torch.randn(SIZE, DIM, generator=seeded(seed))


def everywhere() -> Tensor:
    return torch.ones(SIZE, POSITIONS, dtype=torch.bool)


NO_TIME = torch.ones(SIZE)


def size(network: nn.Module, part: str = "") -> int:
    return sum(parameter.numel() for name, parameter in network.named_parameters() if part in name)


def gradients(network: nn.Module) -> list[Tensor]:
    found = []
    for parameter in network.parameters():
        assert parameter.grad is not None
        found.append(parameter.grad)
    return found


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
        network = TransformerDenoiser(128, values, latent_dim=latent_dim)
    assert size(network) == expected
    assert round(expected / 1e6, 1) == millions


@pytest.mark.parametrize(("values", "expected"), [(GPT2, 162_302_545), (BERT, 131_968_313)])
def test_mdlm_is_smaller_by_the_conditioning_around_six_per_cent(values: int, expected: int) -> None:
    """7.33M, beside the 125M of GPT-2 small to which the paper compares them; MDLM has constants instead."""
    with torch.device("meta"):
        mdlm = TransformerDenoiser(128, values)
        vadd = TransformerDenoiser(128, values, latent_dim=128)
    assert size(mdlm) == expected
    assert size(vadd, "modulate") == 7_331_328
    assert round(100 * size(vadd, "modulate") / 125e6) == 6
    assert size(mdlm, "constant") == (12 * 6 + 2) * 768
    assert size(mdlm) - size(mdlm, "constant") == size(vadd) - size(vadd, "modulate") - size(vadd, "latent")


def test_the_sizes_of_recipes_are_those_of_the_networks() -> None:
    assert get_args(TransformerNetwork.model_fields["size"].annotation) == tuple(TRANSFORMER_SIZES)
    with torch.device("meta"):
        sizes = [size(TransformerDenoiser(8, 100, **SMALL | numbers)) for numbers in TRANSFORMER_SIZES.values()]
        assert sizes == sorted(sizes)
        assert sizes[1] == size(TransformerDenoiser(8, 100))


def test_a_recipe_may_state_its_own_numbers_beside_a_size() -> None:
    network = TransformerNetwork(size="tiny", width=32, heads=2, recognizer_blocks=1, convolution=3)
    model = build_model(Recipe(name="tiny", data=CopiesData(), network=network), (6,), 4)
    denoiser, recognizer = model.denoiser, model.latent.recognizer
    assert isinstance(denoiser, TransformerDenoiser)
    assert isinstance(recognizer, TransformerRecognizer)
    assert denoiser.readout.in_features == 32
    assert len(denoiser.body.attentions) == TRANSFORMER_SIZES["tiny"]["blocks"]
    assert len(recognizer.body.attentions) == 1
    assert (denoiser.positions, denoiser.vocab_size, denoiser.uses_time) == (6, 4, False)


@pytest.mark.parametrize("option", [{"heads": 3}, {"width": 6, "heads": 2}])
def test_a_width_that_does_not_divide_is_refused(option: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"does not divide into \d heads of even size"):
        small_denoiser(**option)


def test_an_even_convolution_is_refused() -> None:
    with pytest.raises(UserError, match="odd, or 0 for none, not 4"):
        small_recognizer(convolution=4)


# Attention


def rotated_by_hand(vector: Tensor, position: int) -> Tensor:
    """Features 2i and 2i + 1 of a vector (D,) turned by position / 10000^(2i / D)."""
    out = vector.clone()
    for i in range(0, len(vector), 2):
        angle = position / 10_000 ** (i / len(vector))
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).to(vector)
        out[i : i + 2] = turn @ vector[i : i + 2]
    return out


def attention_by_hand(layer: SelfAttention, h: Tensor) -> Tensor:
    """Position by position and head by head; h (B, N, W)."""
    width = h.shape[-1]
    features = width // layer.heads
    query, key, value = layer.queries_keys_values.weight.chunk(3)
    out = torch.zeros_like(h)
    for b in range(len(h)):
        for head in range(layer.heads):
            part = slice(head * features, (head + 1) * features)
            queries = [rotated_by_hand((query @ x)[part], n) for n, x in enumerate(h[b])]
            keys = [rotated_by_hand((key @ x)[part], n) for n, x in enumerate(h[b])]
            for n in range(h.shape[1]):
                scores = torch.stack([queries[n] @ k for k in keys]) / math.sqrt(features)
                weights = scores.exp() / scores.exp().sum()
                out[b, n, part] = sum(
                    (w * (value @ x)[part] for w, x in zip(weights, h[b], strict=True)), out[b, n, part]
                )
    out = out @ layer.out.weight.T
    if layer.neighbours is not None:
        kernel = layer.neighbours.weight[:, 0, 0]
        reach = kernel.shape[1] // 2
        for n in range(h.shape[1]):
            for step in range(-reach, reach + 1):
                if 0 <= n + step < h.shape[1]:
                    out[:, n] += kernel[:, step + reach] * h[:, n + step]
    return out


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("convolution", [0, 1, 3, 7])
def test_attention_is_a_softmax_of_rotated_queries_and_keys_beside_a_convolution(heads: int, convolution: int) -> None:
    layer = SelfAttention(12, heads, convolution).double()
    h = torch.randn(2, 5, 12, dtype=torch.float64)
    rotation = rotation_table(5, 12 // heads).double()
    with torch.no_grad():
        assert_close(layer(h, rotation), attention_by_hand(layer, h), rtol=1e-5, atol=1e-6)  # a float32 table


def test_scores_depend_on_relative_positions_only() -> None:
    """The same query and the same key at all positions: the score at (n, m) is a function of n - m, not a constant."""
    positions, features = 9, 8
    query, key = torch.randn(2, features, dtype=torch.float64)
    repeated = torch.stack([query, key]).expand(1, positions, 1, 2, features)
    turned = rotate(repeated, rotation_table(positions, features).double())[0, :, 0]
    scores = turned[:, 0] @ turned[:, 1].T
    for offset in range(1 - positions, positions):
        diagonal = scores.diagonal(offset)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-6, atol=1e-6)
    assert scores[0].std() > 0.1
    assert_close(turned.norm(dim=-1), repeated[0, :, 0].norm(dim=-1), rtol=1e-6, atol=1e-6)


def test_half_precision_is_rotated_in_single() -> None:
    tensor = torch.randn(2, 5, 2, 3, 4)
    rotation = rotation_table(5, 4)
    rounded = tensor.bfloat16()
    assert rotate(rounded, rotation).equal(rotate(rounded.float(), rotation).bfloat16())


# AdaLN


@pytest.mark.parametrize("condition", [None, 6])
def test_told_to_start_at_zero_the_norm_starts_plain_and_its_gate_shut(condition: int | None) -> None:
    h = torch.randn(2, 5, 8)
    layer = AdaptiveNorm(8, condition, gated=True, zero=True)
    normalised, gate = layer(h, None if condition is None else Condition(torch.randn(2, 6)))
    expected = (h - h.mean(-1, keepdim=True)) / (h.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    assert not gate.any()
    assert_close(normalised, expected)


def test_the_norm_is_scaled_and_shifted_by_each_examples_condition_gathered_or_not() -> None:
    h, vectors = torch.randn(2, 5, 8), torch.randn(2, 6)
    layer = AdaptiveNorm(8, 6, gated=True, zero=False)
    assert layer.modulate is not None
    shift, scale, gate = layer.modulate(vectors).split(8, dim=-1)
    adapted, gates = layer(h, Condition(vectors))
    for b in range(2):
        assert_close(adapted[b], layer.norm(h[b]) * (1 + scale[b]) + shift[b])
    assert_close(gates, gate[:, None])
    rows = torch.tensor([0, 0, 1])
    some, some_gates = layer(h[rows, [1, 4, 2]], Condition(vectors, rows=rows))
    assert_close(some, adapted[rows, [1, 4, 2]])
    assert_close(some_gates, gate[rows])


def test_the_recognizers_norm_is_plain_where_nothing_is_masked() -> None:
    h, masked = torch.randn(2, 5, 8), torch.rand(2, 5) < 0.5
    layer, vector = AdaptiveNorm(8, 6, gated=False, zero=False), torch.randn(1, 6)
    adapted, gate = layer(h, Condition(vector, only=masked[..., None].float()))
    everywhere_adapted, _ = layer(h, Condition(vector))
    assert gate is None
    assert adapted[~masked].equal(layer.norm(h)[~masked])
    assert_close(adapted[masked], everywhere_adapted[masked])
    assert (adapted - layer.norm(h))[masked].abs().max() > 0.1


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
    network = TransformerRecognizer(16, VALUES, latent_dim=DIM, blocks=2).eval()
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


def test_the_posterior_scale_is_bounded_however_large_the_weights() -> None:
    network = small_recognizer()
    with torch.no_grad():
        for parameter in network.readout[-1].parameters():
            parameter.mul_(1000)
    _, log_std = network(tokens(values=VALUES), tokens(1), NO_TIME)
    assert log_std.min() == -8
    assert log_std.max() == 3


# Training


@pytest.mark.parametrize("convolution", [0, 3])
def test_gradients_reach_every_parameter(convolution: int) -> None:
    denoiser, recognizer = small_denoiser(convolution=convolution), small_recognizer(convolution=convolution)
    awaken(denoiser)
    x0 = torch.arange(SIZE * POSITIONS).view(SIZE, POSITIONS) % VALUES
    xt = x0.masked_fill(tokens(1) > 2, VALUES)
    mean, log_std = recognizer(x0, xt, NO_TIME)
    logits = denoiser(xt, mean + log_std.exp() * latents(), NO_TIME, everywhere())
    logits.log_softmax(-1)[:, 0].sum().backward()
    for gradient in [*gradients(denoiser), *gradients(recognizer)]:
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


def test_checkpointing_changes_neither_values_nor_gradients() -> None:
    """With dropout: the recomputation must repeat the same draws."""
    networks = [
        (small_denoiser(dropout=0.3, **option), small_recognizer(dropout=0.3, **option))
        for option in ({"checkpointing": False}, {"checkpointing": True})
    ]
    awaken(networks[0][0])
    weights = torch.randn(SIZE * POSITIONS, VALUES, generator=seeded(2))
    outputs: list[Tensor] = []
    visits = [0, 0]
    for run, (denoiser, recognizer) in enumerate(networks):
        denoiser.load_state_dict(networks[0][0].state_dict())
        recognizer.load_state_dict(networks[0][1].state_dict())

        def count(*_: object, run: int = run) -> None:
            visits[run] += 1

        for branch in [*denoiser.body.attentions, *recognizer.body.perceptrons]:
            branch.register_forward_pre_hook(count)
        torch.manual_seed(1)
        mean, log_std = recognizer(tokens(values=VALUES), tokens(1), NO_TIME)
        logits = denoiser(tokens(1), mean + log_std, NO_TIME, everywhere())
        (weights * logits).sum().backward()
        outputs.append(logits)
    assert visits[1] == 2 * visits[0]
    assert_close(outputs[0], outputs[1])
    for plain, recomputed in zip(*networks, strict=True):
        assert_close(gradients(plain), gradients(recomputed), rtol=1e-4, atol=1e-5)


def test_checkpointing_recomputes_nothing_when_nothing_is_trained() -> None:
    network = small_denoiser(checkpointing=True)
    visits: list[nn.Module] = []
    network.body.attentions[0].register_forward_pre_hook(lambda branch, _: visits.append(branch))
    with torch.no_grad():
        network(tokens(), latents(), NO_TIME, everywhere())
    assert len(visits) == 1


def test_dropout_is_drawn_in_training_only() -> None:
    network = small_denoiser(dropout=0.5)
    awaken(network)
    inputs = (tokens(), latents(), NO_TIME, everywhere())
    assert not torch.allclose(network(*inputs), network(*inputs))
    network.eval()
    assert network(*inputs).equal(network(*inputs))


@pytest.mark.parametrize("convolution", [0, 3])
def test_mdlm_learns_a_periodic_pattern(convolution: int) -> None:
    """Each row repeats a cycle of four values from a random start: what is visible tells what is not."""
    denoiser = TransformerDenoiser(8, 4, width=32, blocks=2, heads=2, dropout=0.0, convolution=convolution)
    model = MaskedDiffusion(denoiser, LinearSchedule())
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = seeded(0)
    losses: list[float] = []
    for _ in range(100):
        x0 = (torch.randint(4, (64, 1), generator=generator) + torch.arange(8)) % 4
        batch = MaskedBatch.of(x0, ExactCount()(64, 8, model.schedule, generator), model.mask_value)
        loss = objective(model(batch, 1.0, generator), batch.masking).loss
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(4))
    # No better mean than ln 4 / 8 is possible: one draw in eight hides everything, and the start of the cycle with it.
    assert sum(losses[-10:]) / 10 < 0.35
    x0 = (torch.arange(4)[:, None] + torch.arange(8)) % 4
    for first in (0, 1):
        where = (torch.arange(8) % 2 == first).expand_as(x0)
        guesses = denoiser(x0.masked_fill(where, model.mask_value), None, torch.ones(4), where).argmax(dim=1)
        assert guesses.equal(x0[where])


def test_denoiser_and_recognizer_learn_to_pass_a_coin_through_z() -> None:
    """Sequences of one value, all hidden: without z every position costs ln 2, with it none."""
    small = SMALL | {"blocks": 1, "condition": 16}
    denoiser = TransformerDenoiser(POSITIONS, 2, latent_dim=DIM, **small)
    recognizer = TransformerRecognizer(POSITIONS, 2, latent_dim=DIM, **small)
    optimiser = torch.optim.Adam([*denoiser.parameters(), *recognizer.parameters()], lr=1e-2)
    x0 = torch.tensor([0, 1] * 4)[:, None].repeat(1, POSITIONS)
    xt, t = torch.full_like(x0, 2), torch.ones(len(x0))
    costs: list[float] = []
    for _ in range(80):
        mean, log_std = recognizer(x0, xt, t)
        z = mean + log_std.exp() * torch.randn_like(mean)
        loss: Tensor = F.cross_entropy(denoiser(xt, z, t, xt == 2), x0.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        costs.append(loss.item())
    assert costs[0] == pytest.approx(math.log(2))
    assert sum(costs[-10:]) / 10 < 0.2
