"""What a model costs, counted without allocating it: arithmetic and what a backward pass has to remember.

The model lives on torch's ``meta`` device, where tensors have shapes and no content. Masks are real, because they
decide how many logits are computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from vadd.core import MaskedBatch, Model, Noise
from vadd.kinds import Kind
from vadd.networks.attention import attention_kernel
from vadd.recipe import Recipe
from vadd.recipe.models import build_model

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


def model_on_meta(recipe: Recipe, format: Kind) -> Model:
    with META:
        return build_model(recipe, format)


def training_cost(model: Model, recipe: Recipe, most_examples: int = EXAMPLES) -> TrainingCost:
    """Of a model on the meta device."""
    examples = min(most_examples, recipe.training.batch)
    generator = torch.Generator().manual_seed(0)
    drawn = recipe.build_mask_draw()(examples, model.positions, model.schedule, generator)
    tokens = torch.zeros(examples, model.positions, dtype=torch.int64, device=META)
    masking = replace(drawn, t=drawn.t.to(META), weight=drawn.weight.to(META))
    with _counting() as counter:
        with _remembering(model) as remembered:
            evidence = model(MaskedBatch(tokens, tokens, masking), 1.0, generator)
        evidence.bound.sum().backward()
    return TrainingCost(counter.get_total_flops() / examples, sum(remembered.values()) / examples)


def sampling_flops(model: Model) -> int:
    """One evaluation of the denoiser for one sample, with the logits of all positions.

    Gradients stay on: without them the counter fails at modules that return a part of their parameters.
    """
    tokens = torch.zeros(1, model.positions, dtype=torch.int64, device=META)
    t = torch.zeros(1, device=META)
    z = model.latent.draw(tokens, t, Noise.of(torch.Generator(), 1))
    with _counting() as counter:
        everywhere = torch.ones(1, model.positions, dtype=torch.bool)
        model.predict(tokens, z, t, everywhere)
    return int(counter.get_total_flops())


@contextmanager
def _counting() -> Iterator[FlopCounterMode]:
    with attention_kernel(_fused_attention), _MixedDevices(), FlopCounterMode(display=False) as counter:  # type: ignore[no-untyped-call]
        yield counter


class _MixedDevices(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets real masks, and indices found in them, meet tensors on the meta device.

    Where a mask selects, it stays real, since its content decides the shape; elsewhere its own shape is enough.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in tensors) and not all(tensor.is_meta for tensor in tensors):
            content_matters = torch.bool if func is torch.ops.aten.index.Tensor else None
            args, kwargs = tree_map(
                lambda leaf: leaf.to(META) if isinstance(leaf, Tensor) and leaf.dtype != content_matters else leaf,
                (args, kwargs),
            )
        return func(*args, **(kwargs or {}))


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """What a causal one could leave out is counted: not every kernel does."""
    attended: Tensor = _FusedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return attended


class _FusedAttention(torch.autograd.Function):
    """Attention as devices do it: the scores of all pairs are computed, and once more in the backward pass, but never
    kept. The meta device by itself would keep them.
    """

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        attended = query @ key.mT @ value
        context.save_for_backward(query, key, value, attended)
        return attended

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, _ = context.saved_tensors
        (gradient,) = gradients
        scores, of_scores = query @ key.mT, gradient @ value.mT
        return of_scores @ key, of_scores.mT @ query, scores.mT @ gradient


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


def checkpoint_bytes(model: nn.Module) -> int:
    """Weights, averaged weights, two moments and a step count for every tensor, in float32; headers are left out."""
    sizes = [parameter.numel() for parameter in model.parameters()]
    return 4 * (4 * sum(sizes) + len(sizes))
