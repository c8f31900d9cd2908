"""How the values of revealed positions are drawn from the denoiser's logits."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from vadd.core.randomness import Noise
from vadd.errors import UserError

DrawPrecision = Literal["float64", "float32"]
ELEMENTS_AT_ONCE = 1 << 22
"""Of the logits that are turned to float64 at a time: 32 MB, whatever the size of the vocabulary."""


@dataclass(frozen=True, kw_only=True)
class TokenSampler:
    """One value from each distribution, by inversion in float64.

    ``temperature`` sharpens (below 1; 0 takes the likeliest) or flattens, ``top_k`` keeps the k likeliest values,
    ``top_p`` the fewest whose probabilities reach p. ``precision="float32"`` is the Gumbel draw in single precision of
    the paper's text figure; the tail of a large vocabulary is out of its reach, which silently sharpens the
    distribution.

    Three draws from probabilities 0.09, 0.67, 0.24, with the uniform numbers that they are made from:

    >>> logits = torch.tensor([[0.0, 2.0, 1.0]]).expand(3, -1)
    >>> TokenSampler()(logits, torch.tensor([0.05, 0.5, 0.99]))
    tensor([0, 1, 2])
    >>> TokenSampler(temperature=0)(logits, torch.tensor([0.05, 0.5, 0.99]))
    tensor([1, 1, 1])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    precision: DrawPrecision = "float64"

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"the temperature must be at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top-k keeps at least 1 value, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top-p lies in (0, 1], not {self.top_p}")
        if self.precision not in get_args(DrawPrecision):
            raise UserError(f"unknown precision {self.precision!r}; choose from {', '.join(get_args(DrawPrecision))}")

    @property
    def exact(self) -> bool:
        """Whether the values follow the denoiser's own distribution."""
        kept = self.top_k is None and self.top_p in (None, 1.0)
        return kept and self.temperature == 1 and self.precision == "float64"

    def numbers(self, noise: Noise, positions: int) -> Tensor:
        """What the draws of one step are made from: a uniform number for each position, (rows, N). In float32 a single
        draw takes V of them, and there is a seed for each row instead, (rows,).
        """
        return noise.uniform(positions) if self.precision == "float64" else noise.seeds()

    def uniforms(self, numbers: Tensor, where: Tensor, vocab_size: int) -> Tensor:
        """Of the ``numbers`` of some rows those of the M true entries of ``where`` (rows, N): (M,), float32 (M, V)."""
        where = where.cpu()
        if self.precision == "float64":
            return numbers[where]
        # V numbers for each position are too many to draw for positions that are not predicted: each row has a seed.
        counts = where.sum(dim=1).tolist()
        generator = torch.Generator()
        pairs = zip(numbers.tolist(), counts, strict=True)
        return torch.cat([torch.rand(n, vocab_size, generator=generator.manual_seed(seed)) for seed, n in pairs])

    def __call__(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Logits (M, V) and :meth:`uniforms` -> (M,) integers."""
        if len(logits) == 0:
            return torch.zeros(0, dtype=torch.int64, device=logits.device)
        size = max(1, ELEMENTS_AT_ONCE // logits.shape[1])
        pairs = zip(torch.split(logits, size), torch.split(uniforms, size), strict=True)
        return torch.cat([self._draw(part, uniform) for part, uniform in pairs])

    def _draw(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        if self.temperature < torch.finfo(torch.float32).tiny:  # which float32 cannot divide by
            return logits.argmax(dim=-1)
        if self.precision == "float32":
            scaled = self._scaled(logits.float())
            # Single precision ends at 1 - 2^-24; what would round to 1 must not become an infinite number.
            single = uniforms.to(logits.device, torch.float32).clamp(1e-10, 1 - 2**-24)
            return (scaled - (-single.log()).log()).argmax(dim=-1)
        on_device = logits.cpu() if logits.device.type == "mps" else logits  # Apple's GPUs have no float64
        return inverted(self._scaled(on_device.double()), uniforms).to(logits.device)

    def _scaled(self, logits: Tensor) -> Tensor:
        """At the temperature, 0 where they are largest, minus infinity where a value is not to be drawn."""
        never = float("-inf")
        # Shifted before they are divided: at a low temperature the largest must not overflow.
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[1]:
            # Values that are as likely as the k-th are kept as well.
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, never)
        if self.top_p is not None and self.top_p < 1:
            ordered, places = logits.sort(dim=-1, descending=True)
            # A value stays if the likelier ones do not reach p without it: so at least one always does.
            before = ordered.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
            before[:, 0] = 0
            ordered = ordered.masked_fill(before >= self.top_p, never)
            logits = torch.empty_like(logits).scatter_(1, places, ordered)
        return logits


def inverted(logits: Tensor, uniforms: Tensor) -> Tensor:
    """One value for each row of ``logits`` (M, V) float64, the largest 0: where its distribution function passes
    ``uniforms`` (M,).
    """
    # Unnormalised: scaling the uniform by the last entry also keeps rounding from pushing a draw past the end.
    cumulative = logits.exp().cumsum(dim=-1)
    levels = uniforms.to(cumulative)[:, None] * cumulative[:, -1:]
    # From the right: a value of probability 0 has an empty interval and is never drawn, not even by the uniform 0.
    return torch.searchsorted(cumulative, levels, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
