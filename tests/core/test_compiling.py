"""Compiled networks: what they say, how often they are compiled, and that each is one graph."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.utils import counters

from tests.helpers.networks import SMALL, awaken, small_model
from vadd.core import Model, Noise
from vadd.core.compiling import PARTS, compiled_to_sample, padded_size, power_of_two
from vadd.errors import UserError


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Traced but not translated to machine code, which would take long; a break of the graph is an error."""
    compiled = nn.Module.compile

    def whole(self: nn.Module, **named: Any) -> None:
        compiled(self, backend="eager", fullgraph=True, **named)

    monkeypatch.setattr(nn.Module, "compile", whole)
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def awake(kind: str) -> tuple[Model, nn.Module]:
    """A model and its denoiser."""
    model = small_model(kind).eval()
    awaken(model)
    assert isinstance(model.denoiser, nn.Module)
    return model, model.denoiser


@given(most=st.integers(1, 10**9), share=st.floats(0, 1))
def test_sizes_are_few_and_large_enough(most: int, share: float) -> None:
    count = max(1, round(share * most))
    size, part = padded_size(count, most), -(-most // PARTS)
    assert count <= size <= most
    assert size - count < max(part, 1)
    assert padded_size(size, most) == size
    assert size in {most, *(multiple * part for multiple in range(1, PARTS)), power_of_two(size)}


@pytest.mark.parametrize("kind", SMALL)
def test_samples_are_the_same_and_a_size_is_compiled_once(kind: str, traced: None) -> None:
    (model, denoiser), sizes = awake(kind), set()

    def note(network: nn.Module, given: tuple[Any, ...]) -> None:
        rows, asked = power_of_two(len(given[0])), len(given[3].numbers)
        sizes.add((rows, padded_size(asked, rows * model.positions)))

    for steps, count in ((1, 40), (2, 37), (2, 40)):
        hook = denoiser.register_forward_pre_hook(note)
        expected = model.sample(count, steps, torch.Generator().manual_seed(count)).tokens
        hook.remove()
        with compiled_to_sample(denoiser):
            found = model.sample(count, steps, torch.Generator().manual_seed(count)).tokens
        assert torch.equal(found, expected)
    assert counters["stats"]["unique_graphs"] == len(sizes)


def test_predictions_are_the_same_up_to_rounding(traced: None) -> None:
    """Also where nothing is asked."""
    (model, denoiser), generator = awake("unet"), torch.Generator().manual_seed(0)
    x0 = torch.randint(model.vocab_size, (11, model.positions), generator=generator)
    where = torch.rand(x0.shape, generator=generator) < 0.4
    xt, t = x0.masked_fill(where, model.mask_value), torch.rand(11, generator=generator)
    z = model.latent.draw(xt, t, Noise.of(generator, 11))
    for asked in (where, torch.zeros_like(where)):
        expected = model.predict(xt, z, t, asked)
        with compiled_to_sample(denoiser):
            torch.testing.assert_close(model.predict(xt, z, t, asked), expected, rtol=1e-5, atol=1e-5)


def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = nn.Module.compile

    def broken(*_: Any) -> None:
        raise RuntimeError("no compiler here\nand a long story")

    monkeypatch.setattr(nn.Module, "compile", lambda self, **named: compiled(self, backend=broken, **named))
    model, denoiser = awake("mlp")
    told = r"torch\.compile failed: RuntimeError: no compiler here; leave compile out"
    with pytest.raises(UserError, match=told), compiled_to_sample(denoiser):
        model.sample(3, 1, torch.Generator())
    assert model.sample(3, 1, torch.Generator()).tokens.shape == (3, model.positions)
