"""The body of the diffusion transformer, without its ends: see :mod:`vadd.networks.transformer`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.layers import Linear, attention, through, zeroed


def rotation_table(positions: int, features: int) -> Tensor:
    """Cosine and sine of position times frequency, (N, features / 2, 2), frequencies from 1 down to about 1/10,000."""
    frequencies = 10_000.0 ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()], dim=-1).float()


def rotate(tensor: Tensor, rotation: Tensor) -> Tensor:
    """Turn each pair of neighbouring features of (B, N, 2, heads, D) by its position's angles, (N, D / 2, 2).

    The pairs are multiplied as complex numbers: one pass over memory, half the time of any form in real ones. Half
    precision has no complex form and is widened for it.
    """
    if torch.compiler.is_compiling():  # neither ONNX nor torch.compile's own kernels have complex numbers
        (first, second), (cos, sin) = (
            tensor.view(*tensor.shape[:-1], -1, 2).unbind(-1),
            rotation[:, None, None].unbind(-1),
        )
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
    pairs = torch.view_as_complex(tensor.to(rotation.dtype).view(*tensor.shape[:-1], tensor.shape[-1] // 2, 2))
    turned = pairs * torch.view_as_complex(rotation)[:, None, None]
    return torch.view_as_real(turned).flatten(-2).to(tensor.dtype)


class Past:
    """What an attention that reads from left to right keeps of the positions that it has read: a key/value cache."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.inputs: Tensor | None = None
        """The last inputs, as many as the convolution looks back."""

    def joined(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, (B, heads, n, D), the new ones last."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Go on with these rows."""
        self.keys, self.values, self.inputs = (
            None if kept is None else kept.index_select(0, rows) for kept in (self.keys, self.values, self.inputs)
        )

    @property
    def read(self) -> int:
        """The number of positions that it holds."""
        return 0 if self.keys is None else self.keys.shape[2]

    def widened(self, h: Tensor, back: int) -> Tensor:
        """(B, n, W) after the last ``back`` inputs, zeros where there were none: (B, back + n, W)."""
        before = h.new_zeros(h.shape[0], back, h.shape[2]) if self.inputs is None else self.inputs
        wide = torch.cat([before, h], dim=1)
        self.inputs = wide[:, wide.shape[1] - back :]
        return wide


PAIR_SCALE = 10.0
"""Steps of Adam are as large for a number that is added to scores as for any weight; here they should be larger."""


class SelfAttention(nn.Module):
    """Every position attends to every other, queries and keys turned by their positions (rotary embedding).

    ``convolution`` > 0 adds a convolution of that odd width over the neighbours, each feature with a kernel of its own:
    a small model trains long before attention finds the neighbours by itself. If ``causal`` a position sees itself and
    what is to its left; with a ``past`` it may be shown new positions only.

    With ``pairs``, the number of positions, each head learns a number for every pair of positions, which is added to
    their score. Where the same positions depend on each other in all examples, as the cells of a grid do, that is
    learnt at once; queries and keys would have to find it in what they know of where they are. With ``pairs_alone``
    there are no queries and keys: the scores are these numbers, the same in every example, and one product of matrices
    serves the whole batch.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        convolution: int,
        *,
        causal: bool = False,
        pairs: int = 0,
        pairs_alone: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.back = max(0, convolution - 1)
        self.queries_keys_values = None if pairs_alone else Linear(width, 3 * width, bias=False)
        self.values = Linear(width, width, bias=False) if pairs_alone else None
        padding = 0 if causal else convolution // 2
        self.neighbours = (
            nn.Conv2d(width, width, (1, convolution), padding=(0, padding), groups=width, bias=False)
            if convolution
            else None
        )
        self.out = Linear(width, width, bias=False)
        self.pairs = nn.Parameter(torch.zeros(heads, pairs, pairs)) if pairs else None

    def forward(self, h: Tensor, rotation: Tensor, past: Past | None = None) -> Tensor:
        seen = self._seen(h, rotation, past) if self.values is None else self._seen_by_pairs(self.values(h), past)
        out: Tensor = self.out(seen.flatten(2))
        if self.neighbours is not None:
            if self.causal:
                h = (past or Past()).widened(h, self.back)
            # An image of height one with its planes side by side, which is how h lies in memory: on a CPU three times
            # as fast as a one-dimensional convolution.
            image = h[:, None].permute(0, 3, 1, 2)
            out = out + self.neighbours(image).permute(0, 2, 3, 1)[:, 0]
        return out

    def _seen(self, h: Tensor, rotation: Tensor, past: Past | None) -> Tensor:
        """(B, n, heads, D)"""
        assert self.queries_keys_values is not None
        tensors = self.queries_keys_values(h).unflatten(-1, (3, self.heads, -1))
        queries, keys = rotate(tensors[:, :, :2], rotation).permute(2, 0, 3, 1, 4)
        values = tensors[:, :, 2].transpose(1, 2)
        read = 0 if past is None else past.read
        if past is not None:
            keys, values = past.joined(keys, values)
        if self.pairs is None:
            # A single new position sees all that there is.
            seen = attention(queries, keys, values, causal=self.causal and h.shape[1] > 1)
        else:
            seen = attention(queries, keys, values, bias=self._bias(self.pairs, read, keys.shape[2]).to(queries.dtype))
        return seen.transpose(1, 2)

    def _seen_by_pairs(self, values: Tensor, past: Past | None) -> Tensor:
        """Values (B, n, W) -> (B, n, heads, D)"""
        assert self.pairs is not None
        values = values.view(*values.shape[:2], self.heads, -1)
        read = 0 if past is None else past.read
        if past is not None:
            values = past.joined(*2 * (values.transpose(1, 2),))[1].transpose(1, 2)
        weights = self._bias(self.pairs, read, values.shape[1]).softmax(dim=-1).to(values.dtype)
        return torch.einsum("hnm,bmhd->bnhd", weights, values)

    def _bias(self, pairs: Tensor, first: int, end: int) -> Tensor:
        """What is added to the scores of the positions from ``first`` on with all before ``end``."""
        bias = PAIR_SCALE * pairs[:, first:end, :end]
        if not self.causal:
            return bias
        later = torch.ones(end - first, end, dtype=torch.bool, device=bias.device).triu(first + 1)
        return bias.masked_fill(later, -math.inf)


Activation = Literal["gelu", "relu"]


class Condition(NamedTuple):
    """What adapts the normalisations."""

    vectors: Tensor
    """One for each example (B, d_c), or one for all (1, d_c)."""
    only: Tensor | None = None
    """(B, N, 1) of zeros and ones: the positions it is meant for; None: all."""
    rows: Tensor | None = None
    """(M,): the example each of M positions belongs to, once positions have been gathered from the batch."""


class AdaptiveNorm(nn.Module):
    """(1 + a) norm(h) + b and, if ``gated``, a gate beside it; a, b and the gate are linear in the condition.

    Without a condition they are parameters that start at zero; ``zero`` starts them there with one too.
    """

    def __init__(self, width: int, condition: int | None, *, gated: bool, zero: bool) -> None:
        super().__init__()
        self.parts = 3 if gated else 2
        self.norm = nn.LayerNorm(width, bias=False)
        self.modulate = None if condition is None else Linear(condition, self.parts * width)
        self.constant = nn.Parameter(torch.zeros(self.parts * width)) if condition is None else None
        if self.modulate is not None and zero:
            zeroed(self.modulate)

    def forward(self, h: Tensor, condition: Condition | None) -> tuple[Tensor, Tensor | None]:
        """h (B, N, W), or (M, W) of gathered positions, normalised, and the gate."""
        normalised = self.norm(h)
        shift, scale, *gate = self._modulation(condition).chunk(self.parts, dim=-1)
        if condition is None or condition.only is None:
            adapted = torch.addcmul(shift, normalised, 1 + scale)
        else:
            adapted = torch.addcmul(normalised, condition.only, torch.addcmul(shift, normalised, scale))
        return adapted, gate[0] if gate else None

    def _modulation(self, condition: Condition | None) -> Tensor:
        """Shift, scale and gate side by side, in a shape that broadcasts with h."""
        if self.modulate is None or condition is None:
            assert self.constant is not None, "a norm built for a condition is given one"
            return self.constant
        each: Tensor = self.modulate(condition.vectors)
        return each[:, None] if condition.rows is None else each.index_select(0, condition.rows)


class Branch(nn.Module):
    """h + g f(norm(h)), the norm adaptive; f is attention or a perceptron at each position.

    ``zero`` is AdaLN-zero: a gate g, and all that adapts the norm starts at zero; the branch starts shut. Else g = 1.
    """

    def __init__(self, inner: nn.Module, width: int, condition: int | None, *, zero: bool, dropout: float) -> None:
        super().__init__()
        self.norm = AdaptiveNorm(width, condition, gated=zero, zero=zero)
        self.inner = inner
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, condition: Condition | None, *more: Tensor | Past | None) -> Tensor:
        adapted, gate = self.norm(h, condition)
        change: Tensor = self.dropout(self.inner(adapted, *more))
        return h + change if gate is None else torch.addcmul(h, gate, change)


def perceptron(width: int, activation: Activation = "gelu") -> nn.Sequential:
    between = nn.ReLU() if activation == "relu" else nn.GELU(approximate="tanh")
    return nn.Sequential(Linear(width, 4 * width), between, Linear(4 * width, width))


CONVOLUTION = "odd width of a convolution beside each attention; 0: none"
PAIRS = "learn a number for each pair of positions in each attention: for arrays, where places have a meaning"
PAIRS_ALONE = "attend by these numbers only, without queries and keys: less work, where the same places always matter"
ACTIVATION = "of the perceptrons; on a CPU relu takes a tenth of the time of gelu, in bfloat16 above all"
ROUNDS = "times that the blocks are applied one after another, with the same weights: for what takes many inferences"
LEARNT_ROUNDS = (
    "train through so many of the last rounds, after a random number of others; 0: always through all of them"
)


@dataclass(frozen=True, kw_only=True)
class TransformerSize:
    width: int
    blocks: int
    heads: int
    dropout: float = 0.0
    convolution: int = 0
    pairs: bool = False
    pairs_alone: bool = False
    activation: Activation = "gelu"
    rounds: int = 1
    learnt_rounds: int = 0
    checkpointing: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "TransformerSize":
        """Those of the ``values`` that belong to a size."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width // self.heads % 2:
            raise UserError(f"a width of {self.width} does not divide into {self.heads} heads of even size")
        if self.convolution and self.convolution % 2 == 0:
            raise UserError(f"the width of a convolution is odd, or 0 for none, not {self.convolution}")
        if self.pairs_alone and not self.pairs:
            raise UserError("network.pairs_alone needs network.pairs=true")
        if self.learnt_rounds > self.rounds:
            raise UserError(f"learnt_rounds is at most rounds, {self.rounds}, not {self.learnt_rounds}")


class TransformerBody(nn.Module):
    """Tokens (B, N) in 0..V -> features: an embedding, blocks of attention and perceptron in turn, and a norm.

    With ``rounds`` the blocks are applied several times; each round after the first reads the embedding again. What one
    round infers the next can use, and a rule that is learnt once is known in all of them. If ``causal`` the features of
    a position depend on its own token and those to its left.
    """

    rotation: Tensor

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        size: TransformerSize,
        *,
        condition: int | None,
        zero: bool,
        causal: bool = False,
    ) -> None:
        super().__init__()
        width, heads = size.width, size.heads

        def branch(inner: nn.Module) -> Branch:
            return Branch(inner, width, condition, zero=zero, dropout=size.dropout)

        self.checkpointing, self.rounds, self.learnt_rounds = size.checkpointing, size.rounds, size.learnt_rounds
        by_pairs: dict[str, Any] = {"pairs": size.pairs * positions, "pairs_alone": size.pairs_alone}
        self.embedding = nn.Embedding(vocab_size + 1, width)
        nn.init.uniform_(self.embedding.weight, -(width**-0.5), width**-0.5)
        self.register_buffer("rotation", rotation_table(positions, width // heads), persistent=False)
        self.attentions = nn.ModuleList(
            branch(SelfAttention(width, heads, size.convolution, causal=causal, **by_pairs)) for _ in range(size.blocks)
        )
        self.perceptrons = nn.ModuleList(branch(perceptron(width, size.activation)) for _ in range(size.blocks))
        self.norm = AdaptiveNorm(width, condition, gated=False, zero=zero)

    def forward(
        self,
        tokens: Tensor,
        condition: Condition | None,
        wanted: Tensor | None = None,
        added: Tensor | None = None,
        past: Sequence[Past] | None = None,
    ) -> Tensor:
        """Features (B, N, W), or (M, W) at the M positions ``wanted``, numbered b * N + n.

        ``added``, (N, W) or (B, N, W), joins the embeddings of the tokens. From the last attention on each position is
        by itself, and the others are left out. The tokens of a causal body may be new ones, (B, n), after those that
        the ``past`` of each attention holds.
        """
        embedded: Tensor = self.embedding(tokens)
        if added is not None:
            embedded = embedded + added
        read = past[0].read if past else 0
        rotation = self.rotation[read : read + tokens.shape[1]]
        blocks = len(self.attentions)
        rounds, learnt_from = self._rounds_now()
        kept: Sequence[Past | None] = past or [None] * (rounds * blocks)
        h, learns = embedded, torch.is_grad_enabled()
        for number, held in enumerate(kept):
            attend, reflect = self.attentions[number % blocks], self.perceptrons[number % blocks]
            with torch.set_grad_enabled(learns and number >= learnt_from * blocks):
                if number and number % blocks == 0:
                    h = h + embedded
                h = through(attend, h, condition, rotation, held, recompute=self.checkpointing)
                if number == len(kept) - 1 and wanted is not None:
                    h = h.flatten(0, 1).index_select(0, wanted)
                    if condition is not None:
                        condition = condition._replace(rows=wanted // tokens.shape[1])
                h = through(reflect, h, condition, recompute=self.checkpointing)
        return self.norm(h, condition)[0]

    def _rounds_now(self) -> tuple[int, int]:
        """How many rounds, and after how many of them gradients begin. In training with ``learnt_rounds`` the number
        before these is random, so that further rounds improve what earlier ones have inferred; what a step costs no
        longer grows with all of them.
        """
        if not (self.learnt_rounds and self.training and torch.is_grad_enabled()):
            return self.rounds, 0
        before = self.rounds - self.learnt_rounds
        if not torch.compiler.is_compiling():
            before = int(torch.randint(before + 1, (), generator=torch.default_generator))
        return before + self.learnt_rounds, before

    def no_past(self) -> list[Past]:
        """For each time that an attention is applied, before anything was read."""
        return [Past() for _ in range(self.rounds * len(self.attentions))]
