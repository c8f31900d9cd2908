"""A denoiser with a latent that begins as a trained one without: the same function, whatever z is.

Every weight that both have is taken over; the latent's input layer, the last map on the way from z into the network,
starts at zero. Its gradient is not zero, so the latent is learnt from there.
"""

import re
from collections.abc import Mapping, Set

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.layers import DenoiserBase


def take_over(denoiser: nn.Module, weights: Mapping[str, Tensor]) -> list[str]:
    """Begin as the denoiser without a latent that has these ``weights``. Returns the names that were taken over."""
    if not isinstance(denoiser, DenoiserBase):
        raise UserError(f"{type(denoiser).__name__} cannot begin as a network without a latent")
    given = dict(denoiser.translated(weights))
    own = dict(denoiser.named_parameters())
    shapes = {name for name in given.keys() & own.keys() if given[name].shape != own[name].shape}
    missing, unknown = own.keys() - given.keys() - latents_own(denoiser), given.keys() - own.keys()
    _refuse(
        "the weights to start from do not fit", {"missing": missing, "unknown": unknown, "of another shape": shapes}
    )
    with torch.no_grad():
        for parameter in denoiser.latent_input_weights():
            parameter.zero_()
        for name, tensor in given.items():
            own[name].copy_(tensor)
    return sorted(given)


def latents_own(denoiser: nn.Module) -> set[str]:
    """The names of the parameters that the same network without a latent does not have."""
    inputs = {id(p) for p in denoiser.latent_input_weights()} if isinstance(denoiser, DenoiserBase) else set()
    return {
        name
        for name, parameter in denoiser.named_parameters()
        if id(parameter) in inputs or name.split(".")[0] == "latent" or ".latent." in name
    }


def _refuse(why: str, problems: Mapping[str, Set[str]]) -> None:
    """If there are any: what is wrong, and the names of the tensors."""
    shown = []
    for what, names in problems.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        shown += [f"{what}: {', '.join(sorted(names)[:3])}{more}"] if names else []
    if shown:
        raise UserError(f"{why}: {'; '.join(shown)}")


def transformer_weights(foreign: Mapping[str, Tensor], *, vocab_size: int, heads: int) -> dict[str, Tensor]:
    """The state of a ``TransformerDenoiser`` without a latent, from tensors named as the MDLM or the RADD code writes
    them. RADD's has no noise level, so no adaptive norms; its norms have biases.

    The mask must be the last of the embedding's rows, number ``vocab_size``.
    """
    state = {name.removeprefix("backbone."): tensor.float() for name, tensor in foreign.items()}
    state = {name: tensor for name, tensor in state.items() if not name.startswith(("rotary_emb", "noise."))}
    blocks = _blocks(state, r"blocks\.(\d+)\.")
    adaptive = "output_layer.norm_final.bias" not in state
    expected = _expected(blocks, adaptive=adaptive)
    problems = {"missing": expected - state.keys(), "unknown": state.keys() - expected}
    code = "MDLM" if adaptive else "RADD"
    _refuse(f"not a masked diffusion transformer as the {code} code writes it", problems)
    embedding = state["vocab_embed.embedding"]
    if len(embedding) != vocab_size + 1:
        raise UserError(f"the checkpoint's vocabulary has {len(embedding)} entries with the mask, not {vocab_size + 1}")
    if embedding.shape[1] % (2 * heads):
        raise UserError(
            f"the checkpoint's width of {embedding.shape[1]} does not divide into {heads} heads of even size"
        )
    condition = _condition_at_no_noise(state) if adaptive else None
    own = {
        "body.embedding.weight": embedding,
        "body.norm.norm.weight": state["output_layer.norm_final.weight"],
        "body.norm.constant": _constant(state, "output_layer", condition),
        "readout.weight": state["output_layer.linear.weight"][:vocab_size],
        "readout.bias": state["output_layer.linear.bias"][:vocab_size],
    }
    for number in range(blocks):
        block, attend, reflect = f"blocks.{number}", f"body.attentions.{number}", f"body.perceptrons.{number}"
        attention, perceptron = _constant(state, block, condition).chunk(2)
        own |= {
            f"{attend}.norm.norm.weight": state[f"{block}.norm1.weight"],
            f"{attend}.norm.constant": attention,
            f"{attend}.inner.queries_keys_values.weight": _interleaved(state[f"{block}.attn_qkv.weight"], heads),
            f"{attend}.inner.out.weight": state[f"{block}.attn_out.weight"],
            f"{reflect}.norm.norm.weight": state[f"{block}.norm2.weight"],
            f"{reflect}.norm.constant": perceptron,
        }
        for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
            own[f"{reflect}.inner.{name}"] = state[f"{block}.mlp.{name}"]
    return own


LIT = {
    "norm_1": "input_layernorm",
    "norm_2": "post_attention_layernorm",
    "attn.proj": "self_attn.o_proj",
    "mlp.swiglu.w1": "mlp.gate_proj",
    "mlp.swiglu.w2": "mlp.up_proj",
    "mlp.swiglu.w3": "mlp.down_proj",
}
"""Names within a block: those of lit-GPT, which the SMDM code uses, and of Llama in the library transformers."""


def llama_weights(foreign: Mapping[str, Tensor], *, groups: int, head_size: int) -> dict[str, Tensor]:
    """The state of a Llama-shaped ``PretrainedDenoiser`` without a latent, from tensors as the SMDM code names them.

    Queries, keys and values lie there group by group; the output layer has no row for the mask.
    """
    state = {name: tensor.float() for name, tensor in foreign.items()}
    numbers = range(_blocks(state, r"transformer\.h\.(\d+)\."))
    names = {"transformer.wte": "model.embed_tokens", "transformer.ln_f": "model.norm", "lm_head": "lm_head"}
    for n in numbers:
        names |= {f"transformer.h.{n}.{theirs}": f"model.layers.{n}.{ours}" for theirs, ours in LIT.items()}
    expected = {f"{name}.weight" for name in (*names, *(f"transformer.h.{n}.attn.attn" for n in numbers))}
    problems = {"missing": expected - state.keys(), "unknown": state.keys() - expected}
    _refuse("not a masked diffusion transformer as the SMDM code writes it", problems)
    own = {f"body.{ours}.weight": state[f"{theirs}.weight"] for theirs, ours in names.items()}
    rows = len(own["body.model.embed_tokens.weight"]) - len(own["body.lm_head.weight"])
    own["body.lm_head.weight"] = F.pad(own["body.lm_head.weight"], (0, 0, 0, max(rows, 0)))
    for n in numbers:
        joined = state[f"transformer.h.{n}.attn.attn.weight"]
        if len(joined) % (groups * head_size) or len(joined) < 3 * groups * head_size:
            raise UserError(f"the checkpoint does not have {groups} groups of heads of size {head_size}")
        grouped = joined.view(groups, -1, head_size, joined.shape[1])
        for kind, part in {"q": grouped[:, :-2], "k": grouped[:, -2], "v": grouped[:, -1]}.items():
            own[f"body.model.layers.{n}.self_attn.{kind}_proj.weight"] = part.reshape(-1, joined.shape[1])
    return own


def _blocks(state: Mapping[str, Tensor], pattern: str) -> int:
    """How many there are, at least one: that of which all is missing can be named."""
    return 1 + max((int(match[1]) for name in state if (match := re.match(pattern, name))), default=0)


def _constant(state: Mapping[str, Tensor], place: str, condition: Tensor | None) -> Tensor:
    """Shifts, scales and gates: in the MDLM code a map of the ``condition``. Where norms have biases the bias is the
    shift, nothing is scaled, and gates are open.
    """
    if condition is not None:
        return F.linear(condition, *(state[f"{place}.adaLN_modulation.{kind}"] for kind in ("weight", "bias")))
    if place == "output_layer":
        bias = state[f"{place}.norm_final.bias"]
        return torch.cat([bias, torch.zeros_like(bias)])
    biases = (state[f"{place}.{norm}.bias"] for norm in ("norm1", "norm2"))
    return torch.cat([part for bias in biases for part in (bias, torch.zeros_like(bias), torch.ones_like(bias))])


def _expected(blocks: int, *, adaptive: bool) -> set[str]:
    inner = [f"blocks.{number}" for number in range(blocks)]
    weights = ["norm1.weight", "norm2.weight", "attn_qkv.weight", "attn_out.weight"]
    linear = [f"{block}.{part}" for block in inner for part in ("mlp.0", "mlp.2")] + ["output_layer.linear"]
    if adaptive:
        linear += [f"{place}.adaLN_modulation" for place in (*inner, "output_layer")]
        linear += ["sigma_map.mlp.0", "sigma_map.mlp.2"]
    else:
        linear += [f"{block}.{norm}" for block in inner for norm in ("norm1", "norm2")] + ["output_layer.norm_final"]
    names = {f"{block}.{name}" for block in inner for name in weights}
    names |= {f"{part}.{kind}" for part in linear for kind in ("weight", "bias")}
    return names | {"vocab_embed.embedding", "output_layer.norm_final.weight"}


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
