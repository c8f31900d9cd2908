"""Attention, and the kernel that stands in for it where only its cost is of interest."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from tests.helpers.exact import seeded
from vadd.networks.layers import Kernel, attention, attention_kernel
from vadd.recipe.counting import _fused_attention

SHAPES = [(1, 1, 5, 2), (2, 3, 7, 4), (3, 2, 40, 6)]
"""Examples, heads, positions, features."""
any_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def queries_keys_values(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = torch.randn(3, *shape, generator=seeded(0), dtype=torch.float64)
    return query.requires_grad_(), key.requires_grad_(), value.requires_grad_()


def without_softmax(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query @ key.mT @ value


def flops_of(kernel: Kernel, shape: tuple[int, ...]) -> tuple[int, int]:
    """Forward and backward."""
    inputs = queries_keys_values(shape)
    with FlopCounterMode(display=False) as forward:
        out = kernel(*inputs)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()  # type: ignore[no-untyped-call]
    return forward.get_total_flops(), backward.get_total_flops()


def largest_saved(kernel: Kernel, shape: tuple[int, ...]) -> int:
    """Of the tensors that the backward pass needs, the numbers in the largest."""
    saved = [0]

    def save(tensor: Tensor) -> Tensor:
        saved.append(tensor.untyped_storage().nbytes() // tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        kernel(*(tensor.detach().clone().requires_grad_() for tensor in queries_keys_values(shape)))
    return max(saved)


@any_shape
def test_attention_is_a_softmax_over_all_positions(shape: tuple[int, ...]) -> None:
    query, key, value = queries_keys_values(shape)
    weights = torch.einsum("bhid,bhjd->bhij", query, key).div(math.sqrt(shape[-1])).softmax(-1)
    assert_close(attention(query, key, value), torch.einsum("bhij,bhjd->bhid", weights, value))


@any_shape
def test_counting_costs_what_torch_says_of_its_fused_kernels(shape: tuple[int, ...]) -> None:
    """Two products of matrices forward; five backward, since the scores are computed once more."""
    forward, backward = flops_of(_fused_attention, shape)
    examples, heads, positions, features = shape
    assert forward == 2 * 2 * examples * heads * positions**2 * features
    assert forward == sdpa_flop_count(shape, shape, shape)  # type: ignore[no-untyped-call]
    assert backward == sdpa_backward_flop_count(shape, shape, shape, shape)  # type: ignore[no-untyped-call]
    assert 2 * backward == 5 * forward


@any_shape
def test_values_and_gradients_are_those_of_attention_without_its_softmax(shape: tuple[int, ...]) -> None:
    ours, plain = queries_keys_values(shape), queries_keys_values(shape)
    found, expected = _fused_attention(*ours), without_softmax(*plain)
    assert_close(found, expected)
    weights = torch.randn(shape, generator=seeded(1), dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(found, ours, weights), torch.autograd.grad(expected, plain, weights), strict=True
    ):
        assert_close(one, other)


def test_nothing_of_the_size_of_all_pairs_is_remembered() -> None:
    """Which the plain form does."""
    shape = examples, heads, positions, features = 2, 3, 40, 6
    assert largest_saved(_fused_attention, shape) <= 3 * examples * heads * positions * features
    assert largest_saved(without_softmax, shape) >= examples * heads * positions**2


def test_another_kernel_holds_inside_the_block_and_nowhere_else_whatever_happens() -> None:
    inputs = queries_keys_values((1, 2, 5, 4))
    before = attention(*inputs)

    def zero(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.zeros_like(value)

    with attention_kernel(zero):
        assert not attention(*inputs).any()
        with attention_kernel(without_softmax):
            assert_close(attention(*inputs), without_softmax(*inputs))
        assert not attention(*inputs).any()
    with pytest.raises(ZeroDivisionError), attention_kernel(zero):
        1 / 0  # noqa: B018
    assert attention(*inputs).equal(before)


def test_another_kernel_holds_in_its_own_thread_alone() -> None:
    """Also where two threads replace it and end in the order in which they began: the others keep the softmax."""
    inputs = queries_keys_values((1, 2, 5, 4))
    before = attention(*inputs)
    blocks = [attention_kernel(without_softmax) for _ in range(2)]
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        threads = list(zip((first, second), blocks, strict=True))
        for thread, block in threads:
            thread.submit(block.__enter__).result()
        for thread, _ in threads:
            assert_close(thread.submit(attention, *inputs).result(), without_softmax(*inputs))
        assert attention(*inputs).equal(before)
        for thread, block in threads:
            thread.submit(block.__exit__, None, None, None).result()
            assert thread.submit(attention, *inputs).result().equal(before)
    assert attention(*inputs).equal(before)
