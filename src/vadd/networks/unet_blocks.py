"""The body of the UNet of Variational Diffusion Models, without its ends: see :mod:`vadd.networks.unet`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vadd.errors import UserError
from vadd.networks.attention import attention

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


def zeroed(layer: Layer) -> Layer:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def normalised(planes: int, groups: int) -> nn.Sequential:
    return nn.Sequential(nn.GroupNorm(groups, planes), nn.SiLU())


class TimeFeatures(nn.Module):
    """Times (B,) in [0, 1] -> (B, features): sine and cosine of t at angular frequencies from 1000 down to 0.1."""

    frequencies: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.logspace(3, -1, features // 2), persistent=False)

    def forward(self, t: Tensor) -> Tensor:
        angles = t[:, None] * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResnetBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, the conditioning vector added between them.

    The conditioning and the second convolution start at zero, so that the block starts as its shortcut: the identity
    or, where the number of planes changes, a 1x1 convolution.
    """

    def __init__(self, planes_in: int, planes: int, condition: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Sequential(*normalised(planes_in, groups), nn.Conv2d(planes_in, planes, 3, padding=1))
        self.condition = zeroed(nn.Linear(condition, planes, bias=False))
        last = zeroed(nn.Conv2d(planes, planes, 3, padding=1))
        self.second = nn.Sequential(*normalised(planes, groups), nn.Dropout(dropout), last)
        self.shortcut = nn.Identity() if planes_in == planes else nn.Conv2d(planes_in, planes, 1)

    def forward(self, h: Tensor, condition: Tensor) -> Tensor:
        changed = self.first(h) + self.condition(condition)[:, :, None, None]
        out: Tensor = self.shortcut(h) + self.second(changed)
        return out


class AttentionBlock(nn.Module):
    """Every pixel attends to every other, beside a shortcut; the last convolution starts at zero."""

    def __init__(self, planes: int, groups: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, planes)
        self.queries_keys_values = nn.Conv2d(planes, 3 * planes, 1)
        self.out = zeroed(nn.Conv2d(planes, planes, 1))

    def forward(self, h: Tensor) -> Tensor:
        size, planes, height, width = h.shape
        rows = self.queries_keys_values(self.norm(h)).permute(0, 2, 3, 1)
        split = rows.reshape(size, height * width, 3, self.heads, planes // self.heads)
        seen = attention(*split.permute(2, 0, 3, 1, 4))
        image = seen.transpose(1, 2).reshape(size, height, width, planes).permute(0, 3, 1, 2)
        out: Tensor = h + self.out(image)
        return out


@dataclass(frozen=True, kw_only=True)
class UnetSize:
    embedding: int = 64
    """Planes C of every block."""
    blocks: int = 8
    """On the way down, and as many on the way up."""
    groups: int = 16
    heads: int = 1
    pixel_embedding: int = 32
    dropout: float = 0.1
    checkpointing: bool = False
    """Recompute each block in the backward pass instead of storing what is inside it."""

    def __post_init__(self) -> None:
        if self.embedding % 2 or self.embedding % self.groups or self.embedding % self.heads:
            raise UserError(
                f"an embedding of {self.embedding} must be even and divide into {self.groups} groups, "
                f"{self.heads} heads"
            )


class UnetBody(nn.Module):
    """Planes (B, P, H, W) and a conditioning vector (B, 4C) -> features (B, C, H, W).

    One more block goes up than down: the input of every down block and the output of the last one are taken back in.
    """

    def __init__(self, planes_in: int, size: UnetSize) -> None:
        super().__init__()
        embedding, groups = size.embedding, size.groups
        self.checkpointing = size.checkpointing

        def block(planes: int) -> ResnetBlock:
            return ResnetBlock(planes, embedding, 4 * embedding, groups, size.dropout)

        self.enter = nn.Conv2d(planes_in, embedding, 3, padding=1)
        self.down = nn.ModuleList(block(embedding) for _ in range(size.blocks))
        self.middle_in = block(embedding)
        self.attention = AttentionBlock(embedding, groups, size.heads)
        self.middle_out = block(embedding)
        self.up = nn.ModuleList(block(2 * embedding) for _ in range(size.blocks + 1))
        self.leave = normalised(embedding, groups)

    def forward(self, planes: Tensor, condition: Tensor) -> Tensor:
        recompute = self.checkpointing and torch.is_grad_enabled()

        def through(block: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
            out: Tensor = checkpoint(block, *inputs, use_reentrant=False) if recompute else block(*inputs)
            return out

        def joined(block: nn.Module, h: Tensor, stored: Tensor, condition: Tensor) -> Tensor:
            # Inside what is recomputed, so that the two halves are not stored a second time side by side.
            out: Tensor = block(torch.cat([h, stored], dim=1), condition)
            return out

        h = self.enter(planes)
        stored = [h]
        for block in self.down:
            h = through(block, h, condition)
            stored.append(h)
        h = through(self.middle_in, h, condition)
        h = through(self.attention, h)
        h = through(self.middle_out, h, condition)
        for block in self.up:
            h = through(partial(joined, block), h, stored.pop(), condition)
        return through(self.leave, h)
