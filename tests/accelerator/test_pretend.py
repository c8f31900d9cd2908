"""The pretend device itself: it computes what the CPU does, refuses what CUDA refuses, and counts."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.accelerator.pretend import NAME, pretend_device


def test_it_computes_what_the_cpu_does_forward_and_backward() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    network(x).square().sum().backward()
    expected = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    network.zero_grad()
    with pretend_device():
        network.to(NAME)
        network(x.to(NAME)).square().sum().backward()
        for parameter, gradient in zip(network.parameters(), expected, strict=True):
            assert parameter.device.type == NAME
            assert parameter.grad is not None
            assert torch.equal(parameter.grad.cpu(), gradient)


def test_tensors_of_two_devices_do_not_meet() -> None:
    with pretend_device():
        x = torch.ones(3, device=NAME)
        assert (x * torch.tensor(2.0)).sum().item() == 6  # a single number may come from the host
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="same device"):
            x[torch.tensor([0])]
        with pytest.raises(RuntimeError, match="generator of the CPU"):
            torch.rand(3, device=NAME, generator=torch.Generator())
        with pytest.raises((TypeError, RuntimeError), match="numpy"):
            x.numpy()
        with pytest.raises(RuntimeError, match="differ"):
            x.index_copy(0, torch.zeros(1, dtype=torch.int64, device=NAME), torch.ones(1, device=NAME).double())
    with pytest.raises(RuntimeError, match="outside"):
        x.sum()


def test_reads_and_uploads_are_counted() -> None:
    with pretend_device() as device:
        x = torch.tensor([1.0, 0.0]).to(NAME)
        assert (device.read_count, device.upload_count) == (0, 1)
        readings: list[Callable[[], object]] = [
            lambda: x.sum().item(),
            x.nonzero,
            lambda: x[x > 0],
            x.cpu,
            x.tolist,
            lambda: bool((x > 0).all()),
        ]
        for number, read in enumerate(readings, start=1):
            read()
            assert device.read_count == number
        device.reset()
        x.masked_fill(x > 0, 3.0).cumsum(0)
        assert not device.reads
        assert not device.uploads


def test_bytes_are_counted_and_a_limit_refuses() -> None:
    with pretend_device(limit=1000) as device:
        x = torch.zeros(100, device=NAME)
        view = x.view(10, 10)
        assert device.live == 400
        y = x + 1
        assert device.live == 800
        with pytest.raises(torch.OutOfMemoryError):
            view + 1
        del y
        gc.collect()
        assert (device.live, device.peak) == (400, 800)
        view + 1
        del x, view
        gc.collect()
        assert device.live == 0


def test_on_request_there_is_no_float64() -> None:
    with pretend_device(float64=False), pytest.raises(TypeError, match="no float64"):
        torch.ones(3, device=NAME).double()


def test_autocast_computes_products_in_half_precision() -> None:
    with pretend_device(), torch.autocast(NAME, torch.bfloat16):
        linear = nn.Linear(4, 4).to(NAME)
        assert linear(torch.ones(2, 4, device=NAME)).dtype == torch.bfloat16
        assert (linear.weight + 1).dtype == torch.float32
