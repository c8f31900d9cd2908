"""What a model costs, counted without allocating it: parameters, arithmetic, memory.

The model lives on torch's ``meta`` device, where tensors have shapes and no content. Masks are real, because they
decide how many logits are computed.
"""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from vadd.core import MaskedBatch, Model, Noise
from vadd.kinds import Kind
from vadd.networks.layers import attention_kernel
from vadd.recipe.models import build_model
from vadd.recipe.recipe import Recipe

META = torch.device("meta")
EXAMPLES = 256
"""Counted at most; a larger batch costs in proportion."""
FLOAT32, BFLOAT16 = 4, 2

Precision = Literal["float32", "bfloat16"]
Layout = Literal["one device", "DDP", "full sharding"]


def model_on_meta(recipe: Recipe, kind: Kind) -> Model:
    """All positions are scored, also pads and unknown cells: whether they are depends on the content of examples."""
    with META:
        return build_model(recipe, replace(kind, pad=None, unknowns=False))


# Parameters and memory


@dataclass(frozen=True)
class Parameters:
    denoiser: int
    """All that sampling uses."""
    recognition: int
    trained: int


def count_parameters(model: Model) -> Parameters:
    assert isinstance(model.denoiser, nn.Module)
    denoiser, trained = _count(model.denoiser.parameters()), _count(model.parameters())
    return Parameters(denoiser, trained - denoiser, trained)


def checkpoint_bytes(model: nn.Module) -> int:
    """Weights, averaged weights, two moments and a step count for every tensor, in float32; headers are left out."""
    sizes = [parameter.numel() for parameter in model.parameters()]
    return FLOAT32 * (4 * sum(sizes) + len(sizes))


@dataclass(frozen=True)
class Memory:
    """Bytes on one device during training, by what they hold."""

    layout: Layout
    precision: Precision
    weights: int
    gradients: int
    """With one device and no parts those that are there at the worst moment: mostly few."""
    moments: int
    """The two running means of Adam."""
    averaged: int
    gathered: int
    """Full sharding: the weights outside the blocks and of two blocks, with the gradients of one and of those
    outside.
    """
    copies: int
    """Weights in bfloat16, which autocast makes and the backward pass needs."""
    activations: int
    """All other tensors that are alive at the worst moment; allocators need more."""

    @property
    def total(self) -> int:
        parts = (self.weights, self.gradients, self.moments, self.averaged)
        return sum(parts) + self.gathered + self.copies + self.activations


def training_memory(model: Model, activations: int, devices: int, layout: Layout, precision: Precision) -> Memory:
    """An estimate from below: ``activations`` are what autograd saves on one device in float32."""
    total = _count(model.parameters())
    share = -(-total // devices) if layout == "full sharding" else total
    half = precision == "bfloat16"
    return Memory(
        layout=layout,
        precision=precision,
        weights=FLOAT32 * share,
        gradients=FLOAT32 * share,
        moments=2 * FLOAT32 * share,
        averaged=FLOAT32 * share,
        gathered=FLOAT32 * _gathered(model) if layout == "full sharding" else 0,
        # Autocast keeps whole copies, also of weights that are divided among devices.
        copies=BFLOAT16 * total if half else 0,
        activations=activations // (2 if half else 1),
    )


def planned_memory(
    model: Model, recipe: Recipe, rows: int, devices: int, layout: Layout, precision: Precision
) -> Memory:
    """With what is alive at the worst moment of a step with so many ``rows``, which takes a step to count."""
    memory = training_memory(model, 0, devices, layout, precision)
    kept = devices * recipe.training.accumulate > 1  # from part to part, or to be sent
    held, gradients = worst_moment(model, recipe, rows, precision, kept=kept)
    copies = min(memory.copies, held - gradients)
    found = replace(memory, copies=copies, activations=held - gradients - copies)
    return found if kept else replace(found, gradients=gradients)


def _gathered(model: Model) -> int:
    """Numbers that full sharding holds whole for a moment; blocks are the members of lists, as in training."""
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    blocks = [_count(block.parameters()) for members in lists for block in members]
    outside = _count(model.parameters()) - sum(blocks)
    return 2 * outside + 3 * max(blocks, default=0)


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


# Arithmetic, and what a backward pass needs


@dataclass(frozen=True)
class TrainingCost:
    """Per example, averaged over masks; both networks and all particles together."""

    flops: float
    """Forward and backward: two for every multiplication with an addition, in matrix products, convolutions and
    attention; everything else is a small part of that.
    """
    remembered: float
    """Bytes that the backward pass needs of the forward pass, in float32."""


def training_cost(model: Model, recipe: Recipe, most_examples: int = EXAMPLES) -> TrainingCost:
    """Of a model on the meta device."""
    examples = min(most_examples, recipe.training.batch)
    remembered: dict[int, int] = {}
    with attention_kernel(_fused_attention), FlopCounterMode(display=False) as counter:
        _step(model, recipe, examples, _remembering(model, remembered))
    return TrainingCost(counter.get_total_flops() / examples, sum(remembered.values()) / examples)


def _step(model: Model, recipe: Recipe, examples: int, forward: AbstractContextManager[object]) -> None:
    """A pass ``forward``, in that context, and one back."""
    generator = torch.Generator().manual_seed(0)
    drawn = recipe.build_mask_draw()(examples, model.positions, model.schedule, generator)
    tokens = torch.zeros(examples, model.positions, dtype=torch.int64, device=META)
    masking = replace(drawn, t=drawn.t.to(META), weight=drawn.weight.to(META))
    # Uniform noise shows no mask: every position is predicted.
    with _MixedDevices(drawn.masked if recipe.diffusion.noise == "mask" else None):
        with forward:
            evidence = model(MaskedBatch(tokens, tokens, masking), 1.0, generator)
        loss = evidence.bound.sum()
        # As its method, which would leave the modes of functions: blocks are recomputed in there.
        torch.autograd.graph._engine_run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, True)


def worst_moment(model: Model, recipe: Recipe, rows: int, precision: Precision, *, kept: bool) -> tuple[int, int]:
    """Bytes that a step of a model on the meta device holds beside its weights when it holds most, and those of the
    gradients among them. ``kept`` gradients are there from the start.
    """
    alive = _Alive()
    learnt = [each for each in model.parameters() if each.requires_grad]
    hooks = [
        each.register_post_accumulate_grad_hook(alive.add_gradient)  # type: ignore[no-untyped-call]
        for each in learnt
        if not kept
    ]
    half = _Autocast() if precision == "bfloat16" else nullcontext()
    with alive, half, attention_kernel(_shaped_attention):
        for parameter in learnt if kept else ():
            parameter.grad = torch.zeros_like(parameter)
            alive.add_gradient(parameter)
        _step(model, recipe, rows, half.caching() if isinstance(half, _Autocast) else half)
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    return alive.worst


class _Alive(TorchDispatchMode):
    """Follows the memory of all tensors on the meta device that are made in here, storage by storage."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.worst, self._gradients, self._now = (0, 0), 0, 0
        self._sizes: dict[int, int] = {}

    def add_gradient(self, parameter: Tensor) -> None:
        self._gradients += parameter.nbytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.is_meta:
                storage = tensor.untyped_storage()
                if storage._cdata not in self._sizes:
                    self._sizes[storage._cdata] = storage.nbytes()
                    self._now += storage.nbytes()
                    self.worst = max(self.worst, (self._now, self._gradients))
                    weakref.finalize(storage, self._forget, storage._cdata)
        return made

    def _forget(self, number: int) -> None:
        self._now -= self._sizes.pop(number, 0)


class _Autocast(TorchFunctionMode):
    """What torch.autocast does, which knows no meta device: products and convolutions in bfloat16."""

    PRODUCTS = ("linear", "conv1d", "conv2d", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm")

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[int, Tensor] | None = None

    @contextmanager
    def caching(self) -> Iterator[None]:
        """In here a weight is cast once."""
        self._weights = {}
        yield
        self._weights = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in self.PRODUCTS:
            args, kwargs = tree_map(self._lower, (args, kwargs))
        return func(*args, **(kwargs or {}))

    def _lower(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.dtype != torch.float32:
            return leaf
        if self._weights is None or not isinstance(leaf, nn.Parameter):
            return leaf.to(torch.bfloat16)
        if id(leaf) not in self._weights:
            self._weights[id(leaf)] = leaf.to(torch.bfloat16)
        return self._weights[id(leaf)]


def sampling_flops(model: Model) -> int:
    """One evaluation of the denoiser for one sample, with the logits of all positions.

    Gradients stay on: without them the counter fails at modules that return a part of their parameters.
    """
    tokens = torch.zeros(1, model.positions, dtype=torch.int64, device=META)
    t = torch.zeros(1, device=META)
    z = model.latent.draw(tokens, t, Noise.of(torch.Generator(), 1))
    with attention_kernel(_fused_attention), _MixedDevices(None), FlopCounterMode(display=False) as counter:
        everywhere = torch.ones(1, model.positions, dtype=torch.bool)
        model.predict(tokens, z, t, everywhere)
    return int(counter.get_total_flops())


class _MixedDevices(TorchDispatchMode):
    """Lets real masks, and indices read off them, meet tensors on the meta device.

    Where a mask selects, it must be real, since its content decides the shape; elsewhere its shape is enough. A mask
    that was computed from examples, and so has no content, selects as the ``drawn`` one does, or everything.
    """

    def __init__(self, drawn: Tensor | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drawn = drawn

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        selects = func in (torch.ops.aten.index.Tensor, torch.ops.aten.nonzero.default)
        if selects:
            args, kwargs = tree_map(self._with_content, (args, kwargs))
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in tensors) and not all(tensor.is_meta for tensor in tensors):
            content_matters = torch.bool if selects else None
            args, kwargs = tree_map(
                lambda leaf: leaf.to(META) if isinstance(leaf, Tensor) and leaf.dtype != content_matters else leaf,
                (args, kwargs),
            )
        return func(*args, **(kwargs or {}))

    def _with_content(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.is_meta or leaf.dtype != torch.bool:
            return leaf
        if self.drawn is not None and self.drawn.numel() == leaf.numel():
            return self.drawn.reshape(leaf.shape)
        return torch.ones(leaf.shape, dtype=torch.bool, device="cpu")


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, attn_mask: Tensor | None = None
) -> Tensor:
    """What a causal one could leave out is counted: not every kernel does. Where numbers that are learnt are added to
    the scores, no kernel for training does without keeping the scores.
    """
    if attn_mask is not None:
        return (query @ key.mT + attn_mask).softmax(-1) @ value
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


def _shaped_attention(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """The shapes of it only, which a fused kernel keeps."""
    attended: Tensor = _ShapedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return attended


class _ShapedAttention(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        attended = query.new_empty(query.shape)
        context.save_for_backward(query, key, value, attended)
        return attended

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.new_empty(tensor.shape) for tensor in context.saved_tensors[:3])


@contextmanager
def _remembering(model: nn.Module, saved: dict[int, int]) -> Iterator[None]:
    """Bytes by storage of what autograd saves in here, parameters left out."""
    parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    alive: list[Tensor] = []  # a freed storage would leave its number to another one

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_meta and storage._cdata not in parameters:
            saved[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        yield
