"""Checkpoints as the MDLM code writes them, against its forward pass; see :mod:`tests.helpers.foreign`."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.helpers.exact import seeded
from tests.helpers.foreign import (
    BLOCKS,
    POSITIONS,
    VALUES,
    WIDTH,
    State,
    radd_logits,
    random_radd_state,
    random_smdm_state,
    random_state,
    reference_logits,
    smdm_logits,
)
from tests.helpers.networks import flat_settings
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.networks import TransformersSettings
from vadd.networks.transformer import TransformerDenoiser
from vadd.networks.transformer_blocks import TransformerSize
from vadd.networks.warm_start import llama_weights, take_over, transformer_weights


def denoiser(heads: int, latent_dim: int | None = None) -> TransformerDenoiser:
    size = TransformerSize(width=WIDTH, blocks=BLOCKS, heads=heads, dropout=0.0)
    return TransformerDenoiser(
        POSITIONS, VALUES, flat_settings("transformer", size, condition=8), latent_dim=latent_dim
    )


def states() -> Tensor:
    return torch.randint(VALUES + 1, (5, POSITIONS), generator=seeded(9))


def logits_of(network: nn.Module, z: Tensor | None = None) -> Tensor:
    xt = states()
    with torch.no_grad():
        found: Tensor = network(xt, z, torch.ones(5), torch.ones_like(xt, dtype=torch.bool))
    return found.view(5, POSITIONS, VALUES).double()


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("prefix", ["", "backbone."])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_logits_are_those_of_the_foreign_network(seed: int, prefix: str, heads: int) -> None:
    """To 1e-5, without the column of the mask; they spread over more than one nat."""
    network = denoiser(heads)
    network.load_state_dict(transformer_weights(random_state(seed, prefix), vocab_size=VALUES, heads=heads))
    expected = reference_logits(random_state(seed), states(), heads)[..., :VALUES]
    torch.testing.assert_close(logits_of(network), expected, rtol=0, atol=1e-5)
    assert float(expected.std()) > 1


def test_the_number_of_heads_and_the_order_of_rotary_features_matter() -> None:
    """The comparison above would notice either."""
    weights = transformer_weights(random_state(0), vocab_size=VALUES, heads=2)
    expected = reference_logits(random_state(0), states(), 2)[..., :VALUES]
    for_four = transformer_weights(random_state(0), vocab_size=VALUES, heads=4)
    name = "body.attentions.0.inner.queries_keys_values.weight"
    for spoiled in (for_four, weights | {name: random_state(0)["blocks.0.attn_qkv.weight"]}):
        network = denoiser(2)
        network.load_state_dict(spoiled)
        assert float((logits_of(network) - expected).abs().max()) > 1e-3


def test_a_denoiser_with_a_latent_begins_as_the_foreign_network() -> None:
    network = denoiser(2, latent_dim=3)
    take_over(network, transformer_weights(random_state(0, "backbone."), vocab_size=VALUES, heads=2))
    expected = reference_logits(random_state(0), states(), 2)[..., :VALUES]
    torch.testing.assert_close(
        logits_of(network, 5 * torch.randn(5, 3, generator=seeded(1))), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("latent_dim", [None, 3])
def test_the_logits_are_those_of_radd(latent_dim: int | None, heads: int) -> None:
    """To 1e-5, with z and without; they spread over more than half a nat."""
    state, network = random_radd_state(3), denoiser(heads, latent_dim)
    weights = transformer_weights(state, vocab_size=VALUES, heads=heads)
    take_over(network, weights)
    z = None if latent_dim is None else 5 * torch.randn(5, latent_dim, generator=seeded(1))
    expected = radd_logits(state, states(), heads)[..., :VALUES]
    torch.testing.assert_close(logits_of(network, z), expected, rtol=0, atol=1e-5)
    assert float(expected.std()) > 0.5
    del state["blocks.1.norm2.bias"]
    assert refusal(state) == f"{NOT_ONE.replace('MDLM', 'RADD')}missing: blocks.1.norm2.bias"


@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2), (2, 1)])
@pytest.mark.parametrize("latent_dim", [None, 3])
def test_the_logits_are_those_of_smdm(latent_dim: int | None, heads: int, groups: int) -> None:
    """To 1e-5, with z and without, by the library's Llama; they spread over more than half a nat. The mask is the last
    entry of the vocabulary.
    """
    pytest.importorskip("transformers")
    config = {
        "model_type": "llama",
        "vocab_size": VALUES + 1,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "rms_norm_eps": 1e-5,
        "_name_or_path": "smdm",
    }
    settings = TransformersSettings(model="smdm", config=json.dumps(config))
    network = settings.build_denoiser(kind_of((POSITIONS,), VALUES), latent_dim).eval()
    state = random_smdm_state(5, heads, groups)
    take_over(network, llama_weights(state, **settings.groups()))
    z = None if latent_dim is None else 5 * torch.randn(5, latent_dim, generator=seeded(1))
    expected = smdm_logits(state, states(), heads, groups)
    torch.testing.assert_close(logits_of(network, z), expected, rtol=0, atol=1e-5)
    assert float(expected.std()) > 0.5
    for change, said in (
        ({"lm_head.weight": None}, "as the SMDM code writes it: missing: lm_head.weight"),
        ({"lm_head.bias": torch.zeros(2)}, "unknown: lm_head.bias"),
    ):
        changed = {name: tensor for name, tensor in (state | change).items() if tensor is not None}
        with pytest.raises(UserError, match=said):
            llama_weights(changed, **settings.groups())
    with pytest.raises(UserError, match="does not have 5 groups of heads of size 8"):
        llama_weights(state, groups=5, head_size=8)


def test_half_precision_and_other_buffers_do_not_matter() -> None:
    state = {name: tensor.half() for name, tensor in random_state(2).items()}
    state["noise.sigma"] = torch.zeros(1)
    weights = transformer_weights(state, vocab_size=VALUES, heads=2)
    assert all(tensor.dtype == torch.float32 for tensor in weights.values())
    network = denoiser(2)
    network.load_state_dict(weights)
    expected = reference_logits({n: tensor.float() for n, tensor in state.items()}, states(), 2)[..., :VALUES]
    torch.testing.assert_close(logits_of(network), expected, rtol=0, atol=1e-5)


def refusal(state: State, vocab_size: int = VALUES) -> str:
    with pytest.raises(UserError) as refused:
        transformer_weights(state, vocab_size=vocab_size, heads=2)
    assert "\n" not in str(refused.value)
    return str(refused.value)


NOT_ONE = "not a masked diffusion transformer as the MDLM code writes it: "


def test_missing_and_unknown_tensors_are_named_in_one_line() -> None:
    missing = random_state(0)
    del missing["blocks.1.norm2.weight"]
    assert refusal(missing) == f"{NOT_ONE}missing: blocks.1.norm2.weight"
    unknown = random_state(0) | {"backbone.head.weight": torch.zeros(2)}
    assert refusal(unknown) == f"{NOT_ONE}unknown: head.weight"
    both = {name: tensor for name, tensor in unknown.items() if name != "sigma_map.mlp.0.bias"}
    assert refusal(both) == f"{NOT_ONE}missing: sigma_map.mlp.0.bias; unknown: head.weight"
    assert refusal({}).startswith(f"{NOT_ONE}missing: ")
    no_blocks = {name: tensor for name, tensor in random_state(0).items() if not name.startswith("blocks.")}
    assert refusal(no_blocks).startswith(f"{NOT_ONE}missing: blocks.0.")


@pytest.mark.parametrize("vocab_size", [VALUES - 1, VALUES + 1])
def test_another_vocabulary_is_refused(vocab_size: int) -> None:
    line = refusal(random_state(0), vocab_size)
    assert line == f"the checkpoint's vocabulary has {VALUES + 1} entries with the mask, not {vocab_size + 1}"


def test_a_number_of_heads_that_does_not_divide_the_width_is_refused() -> None:
    with pytest.raises(UserError, match=r"^the checkpoint's width of 16 does not divide into 3 heads of even size$"):
        transformer_weights(random_state(0), vocab_size=VALUES, heads=3)


def test_misshapen_tensors_are_named() -> None:
    state = random_state(0)
    state["blocks.0.mlp.0.weight"] = F.pad(state["blocks.0.mlp.0.weight"], (0, 1))
    with pytest.raises(UserError, match=r"of another shape: body\.perceptrons\.0\.inner\.0\.weight$"):
        take_over(denoiser(2, latent_dim=3), transformer_weights(state, vocab_size=VALUES, heads=2))
