"""Weights of public masked diffusion transformers, as the network of this package with the same logits.

The MDLM and SEDD code bases name the tensors of their diffusion transformer alike. It differs from
:class:`~vadd.networks.transformer.TransformerDenoiser` without a latent in three things: rotary positions turn the
features i and i + D/2 of a head together instead of neighbours, so the rows of queries and keys are put in another
order; scales, shifts and gates are a linear map of an embedded noise level, which is 0 always for a network without
time input, so they are constants; and the mask has a logit of its own, which is never used.
"""

import re
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.errors import UserError


def transformer_weights(foreign: Mapping[str, Tensor], *, vocab_size: int, heads: int) -> dict[str, Tensor]:
    """The state of a ``TransformerDenoiser`` without a latent, from tensors named as the MDLM code writes them.

    The mask must be the last of the embedding's rows, number ``vocab_size``.
    """
    state = {name.removeprefix("backbone."): tensor.float() for name, tensor in foreign.items()}
    state = {name: tensor for name, tensor in state.items() if not name.startswith(("rotary_emb", "noise."))}
    blocks = 1 + max((int(match[1]) for name in state if (match := re.match(r"blocks\.(\d+)\.", name))), default=-1)
    expected = _expected(max(blocks, 1))
    missing, extra = sorted(expected - state.keys()), sorted(state.keys() - expected)
    if missing or extra:
        problems = [f"missing {', '.join(missing[:3])}"] if missing else []
        problems += [f"unknown {', '.join(extra[:3])}"] if extra else []
        raise UserError(f"not a masked diffusion transformer as the MDLM code writes it: {'; '.join(problems)}")
    embedding = state["vocab_embed.embedding"]
    if len(embedding) != vocab_size + 1:
        raise UserError(f"the checkpoint's vocabulary has {len(embedding)} entries with the mask, not {vocab_size + 1}")
    if embedding.shape[1] % (2 * heads):
        raise UserError(
            f"the checkpoint's width of {embedding.shape[1]} does not divide into {heads} heads of even size"
        )
    condition = _condition_at_no_noise(state)

    def constant(prefix: str) -> Tensor:
        return F.linear(condition, state[f"{prefix}.weight"], state[f"{prefix}.bias"])

    own = {
        "body.embedding.weight": embedding,
        "body.norm.norm.weight": state["output_layer.norm_final.weight"],
        "body.norm.constant": constant("output_layer.adaLN_modulation"),
        "readout.weight": state["output_layer.linear.weight"][:vocab_size],
        "readout.bias": state["output_layer.linear.bias"][:vocab_size],
    }
    for number in range(blocks):
        block = f"blocks.{number}"
        attention, perceptron = constant(f"{block}.adaLN_modulation").chunk(2)
        own |= {
            f"body.attentions.{number}.norm.norm.weight": state[f"{block}.norm1.weight"],
            f"body.attentions.{number}.norm.constant": attention,
            f"body.attentions.{number}.inner.queries_keys_values.weight": _interleaved(
                state[f"{block}.attn_qkv.weight"], heads
            ),
            f"body.attentions.{number}.inner.out.weight": state[f"{block}.attn_out.weight"],
            f"body.perceptrons.{number}.norm.norm.weight": state[f"{block}.norm2.weight"],
            f"body.perceptrons.{number}.norm.constant": perceptron,
        }
        for layer in (0, 2):
            for kind in ("weight", "bias"):
                own[f"body.perceptrons.{number}.inner.{layer}.{kind}"] = state[f"{block}.mlp.{layer}.{kind}"]
    return own


def _expected(blocks: int) -> set[str]:
    of_a_block = ["norm1.weight", "norm2.weight", "attn_qkv.weight", "attn_out.weight"]
    of_a_block += [f"{part}.{kind}" for part in ("mlp.0", "mlp.2", "adaLN_modulation") for kind in ("weight", "bias")]
    ends = ["vocab_embed.embedding", "output_layer.norm_final.weight"]
    ends += [
        f"{part}.{kind}"
        for part in ("sigma_map.mlp.0", "sigma_map.mlp.2", "output_layer.linear", "output_layer.adaLN_modulation")
        for kind in ("weight", "bias")
    ]
    return {*ends, *(f"blocks.{number}.{name}" for number in range(blocks) for name in of_a_block)}


def _condition_at_no_noise(state: Mapping[str, Tensor]) -> Tensor:
    """silu(MLP(sinusoids of 0)), (c,)."""
    first = state["sigma_map.mlp.0.weight"]
    level = torch.zeros(first.shape[1])  # cosines first, then sines
    level[: first.shape[1] // 2] = 1.0
    hidden = F.silu(F.linear(level, first, state["sigma_map.mlp.0.bias"]))
    return F.silu(F.linear(hidden, state["sigma_map.mlp.2.weight"], state["sigma_map.mlp.2.bias"]))


def _interleaved(weight: Tensor, heads: int) -> Tensor:
    """Rows (3 heads D, W) of queries, keys and values, with the features that rotary positions turn together side by
    side in queries and keys.
    """
    queries, keys, values = weight.view(3, heads, -1, weight.shape[1])

    def paired(rows: Tensor) -> Tensor:
        halves = rows.view(heads, 2, -1, rows.shape[-1])
        return halves.transpose(1, 2).reshape(rows.shape)

    return torch.stack([paired(queries), paired(keys), values]).reshape(weight.shape)
