"""Layers that several networks share."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

LEAST = 1 << 21
"""Multiplications of a linear layer from which oneDNN is faster than MKL where MKL is slow: torch computes products in
float32 by MKL, which uses AVX-512 on Intel's CPUs only. Numbers differ in the last bits.
"""


class Linear(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What :func:`torch.nn.functional.linear` computes."""
    # What is compiled or exported must not depend on the number of examples.
    if not by_onednn(inputs, weight) or inputs.numel() * len(weight) < LEAST:
        return F.linear(inputs, weight, bias)
    rows = inputs.reshape(-1, inputs.shape[-1])
    product: Tensor = (
        _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
        if torch.is_grad_enabled()
        else _product(rows, weight, bias)
    )
    return product.view(*inputs.shape[:-1], -1)


def by_onednn(inputs: Tensor, weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and mkl_is_slow()
        and bool(torch.backends.mkldnn.enabled)
        and type(inputs) in (Tensor, nn.Parameter)
        and type(weight) in (Tensor, nn.Parameter)
        and inputs.is_cpu
        and inputs.dtype == weight.dtype == torch.float32
        # Who counts operations, or casts them, is to see the usual ones.
        and not torch._C._is_torch_function_mode_enabled()
        and not torch._C._len_torch_dispatch_stack()
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def mkl_is_slow() -> bool:
    """Decided by the kind of CPU and not by a trial: results must be the same every time."""
    if not (torch._C.has_mkl and torch._C._has_mkldnn):
        return False
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    try:
        return wide and "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows (M, K), weight (N, K) -> (M, N)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = context.saved_tensors
        of_rows, of_weight, of_bias = context.needs_input_grad
        return (
            _product(gradient, weight.t()) if of_rows else None,
            _product(gradient.t(), rows.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


DENSE_ROWS = 17
"""Tables of at most this many rows are summed as a matrix product of one-hot tokens: on a CPU faster than look-ups."""

Layer = TypeVar("Layer", nn.Conv1d, nn.Conv2d, nn.Linear)


def exporting() -> bool:
    """Whether torch.export is tracing: what tensors hold cannot be asked then."""
    return getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()


def zeroed(layer: Layer) -> Layer:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def mean_and_log_std(out: Tensor, low: float = -8.0, high: float = 3.0) -> tuple[Tensor, Tensor]:
    """(..., 2d) -> mean and log standard deviation, (..., d) each: the last step of every recognition model.

    A bounded scale keeps one bad step from ending in infinities; no useful posterior comes near the limits.
    """
    mean, log_std = out.chunk(2, dim=-1)
    return mean, torch.clamp(log_std, low, high)


class DenoiserBase(nn.Module):
    """(xt, z, t, where) -> logits (M, V) at the M true entries of ``where``; see :class:`vadd.core.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser. A denoiser with a latent can start from the weights of one without, see
    :mod:`vadd.networks.warm_start`.
    """

    latent: nn.Module | None
    time: nn.Module | None
    takes_places: ClassVar[bool] = True
    """``where`` may be :class:`~vadd.core.host.Places` as well as a mask."""
    group: int = 1
    """Positions that are read out together."""

    def __init__(self, positions: int, vocab_size: int, *, uses_time: bool) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = positions, vocab_size, uses_time

    def conditioned(self, hidden: Tensor, z: Tensor | None, t: Tensor) -> Tensor:
        """``hidden`` (B, width) with z and t added, where the network reads them."""
        if self.latent is not None:
            hidden = hidden + self.latent(z)
        if self.time is not None:
            hidden = hidden + self.time(t)
        return hidden

    def latent_input_weights(self) -> list[nn.Parameter]:
        """The last linear map on the way from z into the network: where it is zero, z has no effect."""
        maps = [m for name, m in self.named_modules() if "latent" in name.split(".") and isinstance(m, nn.Linear)]
        return list(maps[-1].parameters()) if maps else []

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The weights of the same network without a latent, under the names that this one has for them."""
        return weights


class TokenReader(nn.Module):
    """Tokens (B, N) -> (B, width). One state for all examples, an expanded tensor, is read once."""

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.shape[0] > 1 and tokens.stride(0) == 0:
            return self.read(tokens[:1]).expand(tokens.shape[0], -1)
        return self.read(tokens)

    def read(self, tokens: Tensor) -> Tensor:
        raise NotImplementedError


def smooth_rows(vocab_size: int, width: int, smoothness: float) -> Tensor:
    """(V, width): random sinusoids of the value with about ``smoothness`` periods over the range."""
    value = torch.arange(vocab_size)[:, None] / vocab_size
    frequency, phase = smoothness * torch.randn(width), torch.rand(width)
    return math.sqrt(2) * torch.sin(2 * math.pi * (frequency * value + phase))


def summed_rows(indices: Tensor, table: Tensor) -> Tensor:
    """Indices (B, N) of rows -> the sum of each example's rows, (B, width)."""
    if exporting():  # ONNX has no such operation: its substitute is a loop over the examples
        return F.embedding(indices, table).sum(1)
    return F.embedding_bag(indices, table, mode="sum")


class TokenEmbedding(TokenReader):
    """The sum over positions of each position's own table with V + 1 rows.

    ``smoothness`` > 0 starts neighbouring values alike: a good start where values are ordered (coordinates, grey
    levels).
    """

    offsets: Tensor

    def __init__(self, positions: int, vocab_size: int, width: int, smoothness: float = 0.0) -> None:
        super().__init__()
        self.rows = vocab_size + 1
        self.table = nn.Parameter(torch.randn(positions * self.rows, width))
        self.register_buffer("offsets", torch.arange(positions) * self.rows, persistent=False)
        if smoothness > 0:
            rows = self.table.detach().view(positions, self.rows, width)
            for position in range(positions):
                rows[position, :vocab_size] = smooth_rows(vocab_size, width, smoothness)
        # The sum over positions should not grow with their number: from N = 2 on, keep the variance of two.
        self.table.detach().mul_(math.sqrt(2 / max(positions, 2)))

    def read(self, tokens: Tensor) -> Tensor:
        if self.rows > DENSE_ROWS:
            return summed_rows(tokens + self.offsets, self.table)
        # The sum of all rows 0, and differences to it: a value that does not occur needs no column, which for clean
        # binary images leaves a third of the product. On a GPU reading the largest value would wait for the device.
        known = tokens.is_cpu and not torch.compiler.is_compiling() and tokens.numel()
        last = int(tokens.max()) if known else self.rows - 1
        # unbind, not slices: a slice's gradient is a whole table of zeros with the slice in it.
        base, *above = self.table.view(-1, self.rows, self.table.shape[1]).unbind(1)
        present = [(tokens == value).to(base.dtype) for value in range(1, last + 1)]
        if not present:
            return base.sum(0).expand(len(tokens), -1)
        differences = torch.cat([row - base for row in above[:last]])
        return torch.addmm(base.sum(0), torch.cat(present, dim=1), differences)


class FactorisedEmbedding(TokenReader):
    """Each value as ``features`` numbers, the same at every position, and one linear map of all of an example.

    A table for every position and N x V outputs hold 2 N V width weights, two hundred million for fifty thousand
    values at four positions; this and :class:`FactorisedReadout` hold (V + N width) times ``features``.
    """

    def __init__(self, positions: int, vocab_size: int, width: int, features: int, smoothness: float = 0.0) -> None:
        super().__init__()
        rows = torch.randn(vocab_size + 1, features)
        if smoothness > 0:
            rows[:vocab_size] = smooth_rows(vocab_size, features, smoothness)
        self.table = nn.Parameter(rows)
        # The variance of the output does not depend on the number of positions: 2, as that of the summed tables.
        self.mix = nn.Parameter(torch.randn(width, positions * features) * math.sqrt(2 / (positions * features)))

    def read(self, tokens: Tensor) -> Tensor:
        return linear(F.embedding(tokens, self.table).flatten(1), self.mix)


class FactorisedReadout(nn.Module):
    """A vector (B, width) -> logits (M, V) at the M of the B x N positions that are ``wanted``, by their numbers."""

    def __init__(self, positions: int, vocab_size: int, width: int, features: int) -> None:
        super().__init__()
        self.positions, self.features = positions, features
        self.unmix = Linear(width, positions * features)
        self.table = nn.Parameter(torch.randn(vocab_size, features) / math.sqrt(features))
        # How often a value occurs at a position needs no features.
        self.bias = nn.Parameter(torch.zeros(positions, vocab_size))

    def forward(self, hidden: Tensor, wanted: Tensor) -> Tensor:
        seen = self.unmix(hidden).view(-1, self.features).index_select(0, wanted)
        return linear(seen, self.table) + F.embedding(wanted % self.positions, self.bias)


def token_embedding(
    positions: int, vocab_size: int, width: int, value_embedding: int | None, smoothness: float = 0.0
) -> TokenReader:
    """With a table for each position, or one of ``value_embedding`` numbers a value for all."""
    if value_embedding is None:
        return TokenEmbedding(positions, vocab_size, width, smoothness)
    return FactorisedEmbedding(positions, vocab_size, width, value_embedding, smoothness)


class Sinusoids(nn.Module):
    """Times (B,) -> (B, features): sine and cosine of t at angular frequencies from 10^low to 10^high, evenly spaced in
    the logarithm.
    """

    frequencies: Tensor

    def __init__(self, low: float, high: float, features: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.logspace(low, high, features // 2), persistent=False)

    def forward(self, t: Tensor) -> Tensor:
        angles = t[:, None] * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class TimeEmbedding(nn.Module):
    """Times (B,) -> (B, width): sinusoids of t, then one hidden layer."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.sinusoids = Sinusoids(0, 3, features)  # t is resolved to about a thousandth
        self.layers = nn.Sequential(Linear(features, width), nn.ELU(), Linear(width, width))

    def forward(self, t: Tensor) -> Tensor:
        return self.layers(self.sinusoids(t))


def time_embedding(features: int, width: int) -> TimeEmbedding | None:
    return TimeEmbedding(features, width) if features else None


def latent_embedding(dim: int | None, width: int) -> nn.Sequential | None:
    """Latents (B, d) -> (B, width); None without a latent."""
    if dim is None:
        return None
    return nn.Sequential(Linear(dim, 4 * dim), nn.SiLU(), Linear(4 * dim, width))


def condition_layers(inputs: int, width: int) -> list[nn.Module]:
    """What turns a latent or time features into a vector that conditions blocks."""
    return [Linear(inputs, width), nn.SiLU(), Linear(width, width), nn.SiLU()]


class ResidualBlock(nn.Sequential):
    """h + W2 act(W1 norm(h))."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(
            nn.LayerNorm(width), Linear(width, width), nn.SiLU(), nn.Dropout(dropout), Linear(width, width)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + super().forward(hidden)  # type: ignore[no-untyped-call]


class ResidualBlocks(nn.ModuleList):
    """A list, whose members sharding divides one by one."""

    def __init__(self, blocks: int, width: int, dropout: float) -> None:
        super().__init__(ResidualBlock(width, dropout) for _ in range(blocks))

    def forward(self, hidden: Tensor) -> Tensor:
        for block in self:
            hidden = block(hidden)
        return hidden


class SummedRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d): both are read into one vector, each by
    an embedding of its own that ``reader`` makes, and residual blocks work on that.
    """

    def __init__(self, reader: Callable[[], nn.Module], dim: int, width: int, blocks: int, dropout: float) -> None:
        super().__init__()
        self.clean, self.masked = reader(), reader()
        self.blocks = ResidualBlocks(blocks, width, dropout)
        self.readout = nn.Sequential(nn.LayerNorm(width), Linear(width, 2 * dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return mean_and_log_std(self.readout(self.blocks(self.clean(x0) + self.masked(xt))))


def through(block: Callable[..., Tensor], *inputs: Any, recompute: bool) -> Tensor:
    """What the block makes of the inputs; with ``recompute`` its activations are computed again in a backward pass."""
    again = recompute and torch.is_grad_enabled()
    return checkpoint(block, *inputs, use_reentrant=False) if again else block(*inputs)


Kernel = Callable[..., Tensor]
"""Queries, keys and values -> what is attended to; with keywords for causal attention and for what is added to the
scores.
"""


class _ThisThread(threading.local):
    """A thread may count what attention costs while others train and sample: each has a kernel of its own."""

    kernel: Kernel = staticmethod(F.scaled_dot_product_attention)


_this_thread = _ThisThread()


def attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, bias: Tensor | None = None) -> Tensor:
    """softmax(query key^T / sqrt(D) + bias) value, all (..., N, D); ``causal``: the n-th query sees the first n keys
    only, which a ``bias`` (heads, N, N) says by itself.
    """
    kernel = _this_thread.kernel
    if bias is not None:
        return kernel(query, key, value, attn_mask=bias)
    return kernel(query, key, value, is_causal=True) if causal else kernel(query, key, value)


@contextmanager
def attention_kernel(kernel: Kernel) -> Iterator[None]:
    """In here this thread computes attention by ``kernel``, also where blocks are recomputed in a backward pass on the
    CPU or the meta device; a context variable would be lost there.
    """
    before, _this_thread.kernel = _this_thread.kernel, kernel
    try:
        yield
    finally:
        _this_thread.kernel = before
