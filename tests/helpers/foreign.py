"""The diffusion transformer of the MDLM code: its tensors, and its forward pass written down from them.

It is written from the published architecture, in functions and float64, and shares nothing with the package.
"""

import math

import torch
from torch import Tensor

from tests.helpers.exact import seeded

POSITIONS, VALUES, WIDTH, BLOCKS, CONDITION, FREQUENCIES = 6, 7, 16, 2, 12, 10
State = dict[str, Tensor]


def random_state(seed: int, prefix: str = "") -> State:
    """All tensors of such a checkpoint; the mask is the last of ``VALUES + 1`` entries."""
    generator = seeded(seed)

    def normal(*shape: int, scale: float = 0.3) -> Tensor:
        return scale * torch.randn(*shape, generator=generator)

    def linear(name: str, rows: int, columns: int) -> State:
        return {f"{name}.weight": normal(rows, columns), f"{name}.bias": normal(rows)}

    state = {
        "vocab_embed.embedding": normal(VALUES + 1, WIDTH, scale=1.0),
        "output_layer.norm_final.weight": 1 + normal(WIDTH),
        **linear("sigma_map.mlp.0", CONDITION, FREQUENCIES),
        **linear("sigma_map.mlp.2", CONDITION, CONDITION),
        **linear("output_layer.linear", VALUES + 1, WIDTH),
        **linear("output_layer.adaLN_modulation", 2 * WIDTH, CONDITION),
    }
    for block in range(BLOCKS):
        name = f"blocks.{block}"
        state |= {
            f"{name}.norm1.weight": 1 + normal(WIDTH),
            f"{name}.norm2.weight": 1 + normal(WIDTH),
            f"{name}.attn_qkv.weight": normal(3 * WIDTH, WIDTH),
            f"{name}.attn_out.weight": normal(WIDTH, WIDTH),
            **linear(f"{name}.mlp.0", 4 * WIDTH, WIDTH),
            **linear(f"{name}.mlp.2", WIDTH, 4 * WIDTH),
            **linear(f"{name}.adaLN_modulation", 6 * WIDTH, CONDITION),
        }
    state["rotary_emb.inv_freq"] = torch.zeros(3)  # a buffer, which says nothing that is not known
    return {prefix + key: tensor for key, tensor in state.items()}


def random_radd_state(seed: int) -> State:
    """The same of the RADD code: no noise level, and norms with biases."""
    state, generator = random_state(seed), seeded(seed + 1)
    kept = {name: tensor for name, tensor in state.items() if "adaLN" not in name and "sigma_map" not in name}
    norms = [name for name in kept if "norm" in name]
    return kept | {name.replace("weight", "bias"): torch.randn(WIDTH, generator=generator) for name in norms}


def radd_logits(state: State, tokens: Tensor, heads: int) -> Tensor:
    """RADD's transformer, (B, N, VALUES + 1): h + attention(norm(h)), then h + perceptron(norm(h))."""
    s = {name: tensor.double() for name, tensor in state.items()}
    h = s["vocab_embed.embedding"][tokens]
    size = WIDTH // heads
    for name in (f"blocks.{block}" for block in range(BLOCKS)):
        inner = layer_norm(h, s[f"{name}.norm1.weight"]) + s[f"{name}.norm1.bias"]
        three = (inner @ s[f"{name}.attn_qkv.weight"].T).reshape(*tokens.shape, 3, heads, size)
        queries, keys = rotated(three[:, :, 0]), rotated(three[:, :, 1])
        scores = torch.einsum("bnhd,bmhd->bhnm", queries, keys) / math.sqrt(size)
        seen = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), three[:, :, 2])
        h = h + seen.flatten(2) @ s[f"{name}.attn_out.weight"].T
        inner = layer_norm(h, s[f"{name}.norm2.weight"]) + s[f"{name}.norm2.bias"]
        hidden = tanh_gelu(inner @ s[f"{name}.mlp.0.weight"].T + s[f"{name}.mlp.0.bias"])
        h = h + hidden @ s[f"{name}.mlp.2.weight"].T + s[f"{name}.mlp.2.bias"]
    last = layer_norm(h, s["output_layer.norm_final.weight"]) + s["output_layer.norm_final.bias"]
    return last @ s["output_layer.linear.weight"].T + s["output_layer.linear.bias"]


def random_smdm_state(seed: int, heads: int, groups: int) -> State:
    """As the SMDM code names them, after lit-GPT: a row more of embeddings than of outputs, for the mask."""
    generator, size = seeded(seed), WIDTH // heads

    def normal(*shape: int, scale: float = 0.3) -> Tensor:
        return scale * torch.randn(*shape, generator=generator)

    state = {"transformer.wte": normal(VALUES + 1, WIDTH, scale=1.0), "lm_head": normal(VALUES, WIDTH)}
    for name in ("ln_f", *(f"h.{block}.norm_{number}" for block in range(BLOCKS) for number in (1, 2))):
        state[f"transformer.{name}"] = 1 + normal(WIDTH)
    for block in (f"transformer.h.{block}" for block in range(BLOCKS)):
        state[f"{block}.attn.attn"] = normal((heads + 2 * groups) * size, WIDTH)
        state[f"{block}.attn.proj"] = normal(WIDTH, WIDTH)
        state |= {f"{block}.mlp.swiglu.w{number}": normal(2 * WIDTH, WIDTH) for number in (1, 2)}
        state[f"{block}.mlp.swiglu.w3"] = normal(WIDTH, 2 * WIDTH)
    return {f"{name}.weight": tensor for name, tensor in state.items()}


def smdm_logits(state: State, tokens: Tensor, heads: int, groups: int) -> Tensor:
    """SMDM's transformer, (B, N, VALUES): each group of heads has queries, then one key and one value."""
    s = {name.removesuffix(".weight"): tensor.double() for name, tensor in state.items()}
    size, each = WIDTH // heads, heads // groups

    def norm(h: Tensor, name: str) -> Tensor:
        return h / (h.square().mean(-1, keepdim=True) + 1e-5).sqrt() * s[name]

    h = s["transformer.wte"][tokens]
    for block in (f"transformer.h.{block}" for block in range(BLOCKS)):
        joined = norm(h, f"{block}.norm_1") @ s[f"{block}.attn.attn"].T
        parts = joined.view(*tokens.shape, groups, each + 2, size)
        queries = rotated(parts[:, :, :, :each].flatten(2, 3))
        keys = rotated(parts[:, :, :, -2]).repeat_interleave(each, dim=2)
        values = parts[:, :, :, -1].repeat_interleave(each, dim=2)
        scores = torch.einsum("bnhd,bmhd->bhnm", queries, keys) / math.sqrt(size)
        h = h + torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), values).flatten(2) @ s[f"{block}.attn.proj"].T
        one, two, three = (s[f"{block}.mlp.swiglu.w{number}"] for number in (1, 2, 3))
        inner = norm(h, f"{block}.norm_2")
        h = h + (silu(inner @ one.T) * (inner @ two.T)) @ three.T
    return norm(h, "transformer.ln_f") @ s["lm_head"].T


def layer_norm(h: Tensor, weight: Tensor) -> Tensor:
    """Without a bias."""
    centred = h - h.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def tanh_gelu(h: Tensor) -> Tensor:
    return 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))


def rotated(h: Tensor) -> Tensor:
    """(B, N, heads, D): h cos + rotate_half(h) sin, with the angles n 10000^(-2i/D) twice side by side."""
    size = h.shape[-1]
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(h.shape[1], dtype=torch.float64)[:, None] * frequencies
    angles = torch.cat([angles, angles], dim=-1)[None, :, None]
    first, second = h.chunk(2, dim=-1)
    return h * angles.cos() + torch.cat([-second, first], dim=-1) * angles.sin()


def silu(h: Tensor) -> Tensor:
    return h / (1 + torch.exp(-h))


def reference_logits(state: State, tokens: Tensor, heads: int) -> Tensor:
    """The diffusion transformer at sigma = 0, (B, N, VALUES + 1)."""
    s = {name: tensor.double() for name, tensor in state.items()}

    def linear(h: Tensor, name: str) -> Tensor:
        out = h @ s[f"{name}.weight"].T
        return out + s[f"{name}.bias"] if f"{name}.bias" in s else out

    sigma = torch.zeros(1, dtype=torch.float64)
    half = FREQUENCIES // 2
    angles = sigma[:, None] * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    embedded = torch.cat([angles.cos(), angles.sin()], dim=-1)
    condition = silu(linear(silu(linear(embedded, "sigma_map.mlp.0")), "sigma_map.mlp.2"))

    h = s["vocab_embed.embedding"][tokens]
    batch, positions, width = h.shape
    for block in range(BLOCKS):
        name = f"blocks.{block}"
        modulation = linear(condition, f"{name}.adaLN_modulation")[:, None]
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = modulation.chunk(6, dim=2)
        inner = layer_norm(h, s[f"{name}.norm1.weight"]) * (1 + scale_1) + shift_1
        three = linear(inner, f"{name}.attn_qkv").view(batch, positions, 3, heads, width // heads)
        queries, keys, values = rotated(three[:, :, 0]), rotated(three[:, :, 1]), three[:, :, 2]
        scores = torch.einsum("bnhd,bmhd->bhnm", queries, keys) / math.sqrt(width // heads)
        seen = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), values).reshape(batch, positions, width)
        h = h + gate_1 * linear(seen, f"{name}.attn_out")
        inner = layer_norm(h, s[f"{name}.norm2.weight"]) * (1 + scale_2) + shift_2
        h = h + gate_2 * linear(tanh_gelu(linear(inner, f"{name}.mlp.0")), f"{name}.mlp.2")
    shift, scale = linear(condition, "output_layer.adaLN_modulation")[:, None].chunk(2, dim=2)
    return linear(layer_norm(h, s["output_layer.norm_final.weight"]) * (1 + scale) + shift, "output_layer.linear")
