"""How values are drawn from predictions: by inversion, with temperature, top-k and top-p."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from vadd.core.places import has_float64, precise
from vadd.settings import Count, checked_fields

DrawPrecision = Literal["float64", "float32"]
ELEMENTS_AT_ONCE = 1 << 22
"""Of the logits that are turned to float64 at a time: 32 MB, whatever the size of the vocabulary."""


@checked_fields
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

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    precision: Annotated[DrawPrecision, Field()] = "float64"

    @property
    def exact(self) -> bool:
        """Whether the values follow the denoiser's own distribution."""
        kept = self.top_k is None and self.top_p in (None, 1.0)
        return kept and self.temperature == 1 and self.precision == "float64"

    def __call__(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Logits (M, V) and uniform numbers, (M,) or in float32 (M, V) -> (M,) integers."""
        if len(logits) == 0:
            return torch.zeros(0, dtype=torch.int64, device=logits.device)
        size = max(1, ELEMENTS_AT_ONCE // logits.shape[1])
        pairs = zip(torch.split(logits, size), torch.split(uniforms, size), strict=True)
        return torch.cat([self.draw(part, uniform) for part, uniform in pairs])

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Of the values that are drawn, in float64, for logits (M, V): (M, V), minus infinity for those that never are.

        >>> TokenSampler(top_k=2).log_probabilities(torch.tensor([[0.0, 2.0, 1.0]])).exp()
        tensor([[0.0000, 0.7311, 0.2689]], dtype=torch.float64)
        """
        if self.temperature < torch.finfo(torch.float32).tiny:
            likeliest = logits.argmax(dim=-1, keepdim=True)
            return torch.full_like(precise(logits), float("-inf")).scatter_(1, likeliest, 0.0)
        return self._scaled(precise(logits)).log_softmax(dim=-1)

    def draw(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """The same of all at once."""
        if self.temperature < torch.finfo(torch.float32).tiny:  # which float32 cannot divide by
            return logits.argmax(dim=-1)
        if self.precision == "float32":
            scaled = self._scaled(logits.float())
            # Single precision ends at 1 - 2^-24; what would round to 1 must not become an infinite number.
            single = uniforms.to(logits.device, torch.float32).clamp(1e-10, 1 - 2**-24)
            return (scaled - (-single.log()).log()).argmax(dim=-1)
        on_device = logits if has_float64(logits.device) else logits.cpu()
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
            before = F.pad(ordered.softmax(dim=-1).cumsum(dim=-1)[:, :-1], (1, 0))
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
