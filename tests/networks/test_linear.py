"""Linear layers by oneDNN are those of torch: values, gradients, and where they are not to be used."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from tests.helpers.exact import seeded
from vadd.networks import layers
from vadd.networks.layers import Linear, by_onednn, linear

pytestmark = pytest.mark.skipif(not torch._C._has_mkldnn, reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def large_on_any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LEAST", 1)
    monkeypatch.setattr(layers, "mkl_is_slow", lambda: True)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "in a row": lambda x: x.contiguous(),
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "a part": lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
    "one for all": lambda x: x[:1].expand_as(x),
}


def results(compute: Callable[..., Tensor], layout: str, *, bias: bool, expanded: bool) -> list[Tensor]:
    """The product, and the gradients of its sum or of a weighted sum."""
    x, weight, shift, weights = (
        torch.randn(*size, generator=seeded(number)).requires_grad_()
        for number, size in enumerate([(3, 5, 7), (11, 7), (11,), (3, 5, 11)])
    )
    product = compute(LAYOUTS[layout](x), weight, shift if bias else None)
    total = product.sum() if expanded else (product * weights.detach()).sum()
    return [product, *torch.autograd.grad(total, [x, weight, shift][: 2 + bias])]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("expanded", [False, True])
def test_products_and_gradients_are_those_of_torch(layout: str, bias: bool, expanded: bool) -> None:
    found = results(linear, layout, bias=bias, expanded=expanded)
    for one, other in zip(found, results(F.linear, layout, bias=bias, expanded=expanded), strict=True):
        assert_close(one, other)


def test_weights_that_are_frozen_or_computed_are_taken_too() -> None:
    x, layer = torch.randn(4, 6, requires_grad=True), Linear(6, 5).requires_grad_(False)
    assert_close(*(torch.autograd.grad(f(x, layer.weight, layer.bias).sum(), x)[0] for f in (linear, F.linear)))
    weight = torch.randn(6, 5, requires_grad=True)
    assert_close(*(torch.autograd.grad(f(x, 2 * weight.t()).square().sum(), weight)[0] for f in (linear, F.linear)))
    with torch.no_grad():
        assert_close(layer(x[:, None]), F.linear(x[:, None], layer.weight, layer.bias))


def test_blocks_that_are_computed_again_have_the_same_gradients() -> None:
    layer, x = Linear(6, 5), torch.randn(4, 6, requires_grad=True)
    again = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    for one, other in zip(
        *(torch.autograd.grad(y.sum(), tuple(layer.parameters())) for y in (again, layer(x))), strict=True
    ):
        assert torch.equal(one, other)


def test_who_counts_or_casts_sees_the_usual_product() -> None:
    x, weight = torch.randn(4, 6), torch.randn(5, 6)
    assert by_onednn(x, weight)
    assert not by_onednn(x.double(), weight.double())
    assert not by_onednn(x.to("meta"), weight.to("meta"))
    with FlopCounterMode(display=False) as counter:
        linear(x, weight)
    assert counter.get_total_flops() == 2 * 4 * 6 * 5
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    with torch.backends.mkldnn.flags(enabled=False):
        assert not by_onednn(x, weight)
