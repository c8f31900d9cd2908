"""What a model costs, counted without allocating it: arithmetic and what a backward pass has to remember.

The model lives on torch's ``meta`` device, where tensors have shapes and no content. Masks are real, because they
decide how many logits are computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from vadd.build import build_mask_draw, build_model
from vadd.core import MaskedBatch, MaskedDiffusion, Masking, Noise
from vadd.recipe import Recipe

META = torch.device("meta")
EXAMPLES = 256
"""Counted at most; a larger batch costs in proportion."""


@dataclass(frozen=True)
class TrainingCost:
    """Per example, averaged over masks; both networks and all particles together."""

    flops: float
    """Forward and backward: two for every multiplication with an addition, in matrix products, convolutions and
    attention; everything else is a small part of that.
    """
    remembered: float
    """Bytes that the backward pass needs of the forward pass, in float32."""


def model_on_meta(recipe: Recipe, shape: tuple[int, ...], values: int) -> MaskedDiffusion:
    with META:
        return build_model(recipe, shape, values)


def training_cost(model: MaskedDiffusion, recipe: Recipe) -> TrainingCost:
    """Of a model on the meta device."""
    examples = min(EXAMPLES, recipe.training.batch)
    generator = torch.Generator().manual_seed(0)
    drawn = build_mask_draw(recipe.diffusion)(examples, model.positions, model.schedule, generator)
    tokens = torch.zeros(examples, model.positions, dtype=torch.int64, device=META)
    masking = Masking(drawn.masked, drawn.t.to(META), drawn.weight.to(META))
    with _counting() as counter:
        with _remembering(model) as remembered:
            evidence = model(MaskedBatch(tokens, tokens, masking), 1.0, generator)
        evidence.bound.sum().backward()
    return TrainingCost(counter.get_total_flops() / examples, sum(remembered.values()) / examples)


def sampling_flops(model: MaskedDiffusion) -> int:
    """One evaluation of the denoiser for one sample, with the logits of all positions.

    Gradients stay on: without them the counter fails at modules that return a part of their parameters.
    """
    tokens = torch.zeros(1, model.positions, dtype=torch.int64, device=META)
    t = torch.zeros(1, device=META)
    z = model.latent.draw(tokens, t, Noise.of(torch.Generator(), 1))
    with _counting() as counter:
        model.denoiser(tokens, z, t, torch.ones(1, model.positions, dtype=torch.bool))
    return int(counter.get_total_flops())


@contextmanager
def _counting() -> Iterator[FlopCounterMode]:
    # A function mode would do as well, but autograd leaves it aside where blocks are recomputed in the backward pass.
    fused_attention = patch.object(F, "scaled_dot_product_attention", _fused_attention)
    with fused_attention, _MixedDevices(), FlopCounterMode(display=False) as counter:  # type: ignore[no-untyped-call]
        yield counter


class _MixedDevices(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets real indices, found in real masks, point into tensors on the meta device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in tensors) and not all(tensor.is_meta for tensor in tensors):
            args, kwargs = tree_map(_as_shape, (args, kwargs))
        return func(*args, **(kwargs or {}))


def _as_shape(leaf: Any) -> Any:
    return leaf.to(META) if isinstance(leaf, Tensor) and leaf.dtype == torch.int64 else leaf


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object) -> Tensor:
    """As devices do it, without ever holding the scores of all pairs; the meta device by itself would hold them.

    Masks and dropout do not change the arithmetic.
    """
    with_backward = torch.is_grad_enabled()
    fused: Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, None, with_backward)[0]
    return fused


@contextmanager
def _remembering(model: nn.Module) -> Iterator[dict[int, int]]:
    """Bytes by storage of what autograd saves in here, parameters left out."""
    parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    alive: list[Tensor] = []  # a storage that is gone would leave its number to another one
    found: dict[int, int] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_meta and storage._cdata not in parameters:
            found[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        yield found
