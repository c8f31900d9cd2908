"""Attention and AdaLN beside plain forms."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from vadd.errors import UserError
from vadd.networks.transformer_blocks import (
    AdaptiveNorm,
    Condition,
    Past,
    SelfAttention,
    TransformerBody,
    TransformerSize,
    rotate,
    rotation_table,
)


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


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
    assert layer.queries_keys_values is not None
    query, key, value = layer.queries_keys_values.weight.chunk(3)
    out = torch.zeros_like(h)
    for b in range(len(h)):
        for head in range(layer.heads):
            part = slice(head * features, (head + 1) * features)
            queries = [rotated_by_hand((query @ x)[part], n) for n, x in enumerate(h[b])]
            keys = [rotated_by_hand((key @ x)[part], n) for n, x in enumerate(h[b])]
            for n in range(h.shape[1]):
                scores = torch.stack([queries[n] @ k for k in keys]) / math.sqrt(features)
                if layer.pairs is not None:
                    scores = scores + 10 * layer.pairs[head, n]
                scores[n + 1 if layer.causal else len(scores) :] = -math.inf
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


@pytest.mark.parametrize("causal", [False, True])
def test_a_learnt_number_for_each_pair_of_positions_is_added_to_their_score(causal: bool) -> None:
    """Shown one new position after another the result is the same."""
    layer = SelfAttention(12, 3, 0, causal=causal, pairs=5).double()
    assert layer.pairs is not None
    torch.nn.init.normal_(layer.pairs, std=0.2)
    h, rotation = torch.randn(2, 5, 12, dtype=torch.float64), rotation_table(5, 4).double()
    with torch.no_grad():
        whole, past = layer(h, rotation), Past()
        assert_close(whole, attention_by_hand(layer, h), rtol=1e-5, atol=1e-6)
        if causal:
            each = [layer(h[:, n : n + 1], rotation[n : n + 1], past) for n in range(5)]
            assert_close(torch.cat(each, dim=1), whole)


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


@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_pairs_alone_weighs_values_alike_in_all_examples(causal: bool) -> None:
    layer = SelfAttention(12, 3, 0, causal=causal, pairs=5, pairs_alone=True).double()
    assert layer.pairs is not None
    assert layer.values is not None
    torch.nn.init.normal_(layer.pairs, std=0.1)
    h, rotation = torch.randn(2, 5, 12, dtype=torch.float64), rotation_table(5, 4)
    seen = torch.zeros_like(h)
    for head in range(3):
        for n in range(5):
            end, part = n + 1 if causal else 5, slice(4 * head, 4 * head + 4)
            weights = (10 * layer.pairs[head, n, :end]).exp()
            for m in range(end):
                seen[:, n, part] += weights[m] / weights.sum() * (h[:, m] @ layer.values.weight.T)[:, part]
    whole = layer(h, rotation)
    assert_close(whole, seen @ layer.out.weight.T)
    if causal:
        past = Past()
        assert_close(torch.cat([layer(h[:, n : n + 1], rotation[n : n + 1], past) for n in range(5)], dim=1), whole)


# Rounds


@pytest.mark.parametrize("rounds", [1, 3])
def test_each_round_applies_the_same_blocks_and_later_ones_read_the_embedding_again(rounds: int) -> None:
    """With one round it is as if there were no rounds, bit for bit."""
    body = body_of(rounds=rounds)
    tokens, added, wanted = torch.tensor([[0, 3, 1], [2, 2, 3]]), torch.randn(3, 8), torch.tensor([1, 5])
    h = embedded = body.embedding(tokens) + added
    for number in range(rounds):
        h = h if number == 0 else h + embedded
        for attend, reflect in zip(body.attentions, body.perceptrons, strict=True):
            h = reflect(attend(h, None, body.rotation), None)
    expected = body.norm(h, None)[0]
    assert torch.equal(body(tokens, None, added=added), expected)
    assert_close(body(tokens, None, wanted, added), expected.flatten(0, 1)[wanted])
    assert body.state_dict().keys() == body_of(rounds=1).state_dict().keys()


def test_with_rounds_tokens_may_come_one_after_another_too() -> None:
    body, tokens = body_of(rounds=2, causal=True), torch.tensor([[0, 3, 1], [2, 2, 3]])
    past = body.no_past()
    assert len(past) == 4
    each = [body(tokens[:, n : n + 1], None, past=past) for n in range(3)]
    assert_close(torch.cat(each, dim=1), body(tokens, None))


def test_the_last_rounds_are_learnt_from_after_a_random_number_of_others() -> None:
    """Gradients are those of the last two rounds, applied to what one to four rounds in all have made before."""
    body, tokens = body_of(rounds=5, learnt_rounds=2), torch.tensor([[0, 3, 1], [2, 2, 3]])
    assert torch.equal(body(tokens, None), body_of(rounds=5)(tokens, None))
    body.train()
    expected = {}
    for rounds in range(2, 6):
        reference = body_of(rounds=rounds)
        h = embedded = reference.embedding(tokens)
        for number in range(rounds):
            h = h if number == 0 else h + embedded
            h = h.detach() if number == rounds - 2 and number > 0 else h
            for attend, reflect in zip(reference.attentions, reference.perceptrons, strict=True):
                h = reflect(attend(h, None, reference.rotation), None)
        out = reference.norm(h, None)[0]
        out.square().sum().backward()
        expected[rounds] = out, first_weight(reference).grad
    found = set()
    for seed in range(40):
        torch.manual_seed(seed)
        out = body(tokens, None)
        rounds = next(rounds for rounds, (other, _) in expected.items() if torch.equal(other, out))
        body.zero_grad()
        out.square().sum().backward()
        assert_close(first_weight(body).grad, expected[rounds][1])
        found.add(rounds)
    assert found == {2, 3, 4, 5}  # misses one of four in 40 draws once in 25,000 times


def first_weight(body: TransformerBody) -> Tensor:
    return body.get_parameter("perceptrons.0.inner.0.weight")


def test_no_more_rounds_are_learnt_from_than_there_are() -> None:
    with pytest.raises(UserError, match="learnt_rounds is at most rounds, 3, not 4"):
        body_of(rounds=3, learnt_rounds=4)


def body_of(*, rounds: int, learnt_rounds: int = 0, causal: bool = False) -> TransformerBody:
    torch.manual_seed(0)
    size = TransformerSize(
        width=8, blocks=2, heads=2, convolution=3, pairs=True, rounds=rounds, learnt_rounds=learnt_rounds
    )
    body = TransformerBody(3, 3, size, condition=None, zero=False, causal=causal).eval()
    for parameter in body.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return body
