"""Samples in memory that does not grow with their number: how much a row takes, and how many come at once."""

import copy
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.children import CONTEXT, writing_samples
from vadd.core import LinearSchedule, MaskedDiffusion
from vadd.core.host import BLOCK
from vadd.errors import UserError
from vadd.recipe import load_recipe
from vadd.run import run as memory
from vadd.run.run import Run
from vadd.run.sampling import bytes_per_row


@pytest.fixture(scope="module")
def trained(vadd_run: Path) -> Run:
    return vadd.load(vadd_run)


class Kilobytes(nn.Module):
    """Makes tensors of known sizes: two of a kilobyte alive at once, then a view and a small one."""

    positions, vocab_size, uses_time = 4, 2, False

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(10_000))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        h = torch.zeros(len(xt), 256)
        for _ in range(10):
            h = h + 1
        return h.view(len(xt), -1)[:, :2] + self.weight[:2]


def test_the_memory_of_a_row_is_measured() -> None:
    model = MaskedDiffusion(Kilobytes(), LinearSchedule())
    assert 2048 <= bytes_per_row(model) <= 2048 + 64


@pytest.fixture
def first_chunk(trained: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """How many rows the first chunk of many samples has, where a row takes so many bytes; nothing is drawn."""
    monkeypatch.setattr(memory, "draw", lambda model, options, start, rows, **more: len(rows))

    def first(row: int, model: object, steps: int, given: int | None = None) -> int:
        run = copy.copy(trained)
        run.model = model  # type: ignore[assignment]
        run.__dict__["_bytes_per_row"] = row
        size: int = next(iter(run.stream(1 << 20, steps=steps, memory=given)))  # type: ignore[assignment]
        return size

    return first


@pytest.mark.parametrize("given", [None, 10 << 20, 1 << 32])
def test_chunks_are_whole_blocks_that_fit_into_memory(given: int | None, first_chunk: Callable[..., int]) -> None:
    model, room = MaskedDiffusion(Kilobytes(), LinearSchedule()), given or memory.CPU_MEMORY
    assert first_chunk(1, model, 1, given) == memory.CPU_ROWS
    assert first_chunk(room, model, 1, given) == 1
    assert first_chunk(4 * room, model, 1, given) == 1
    for row in (10_000, 100_000, 1_000_000, 10_000_000):
        size = first_chunk(row, model, 20, given)
        assert size * row <= room or size == 1
        assert size % BLOCK == 0 or size < BLOCK
        assert (size + BLOCK) * (row + 8 * (12 * 4 + 2 * 21)) > room or size == memory.CPU_ROWS
    # What the steps take counts as well.
    assert first_chunk(1, model, 10_000, given) * 8 * 2 * 10_000 <= room


class OnGpu:
    """All that the size of a chunk asks of a model."""

    positions, samplers = 16, MaskedDiffusion.samplers
    device = torch.device("cuda")


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_on_a_gpu_a_chunk_takes_a_part_of_what_is_free(
    free: int, first_chunk: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows that are; at least what a CPU would give."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1 << 41))
    row, room = 1_000_000, max(memory.CPU_MEMORY, int(memory.GPU_SHARE * free))
    size = first_chunk(row, OnGpu(), 20)
    assert 0.99 * room < (size + BLOCK) * row
    assert size * row <= room
    assert (size > memory.CPU_ROWS) == (free > 0)


def test_the_memory_for_a_chunk_can_be_given(trained: Run) -> None:
    whole, (first, *others) = trained.sample(100, steps=2), list(trained.stream(100, steps=2, memory=1))
    assert (len(first.tokens), len(others)) == (1, 99)
    assert torch.cat([first.tokens, *(part.tokens for part in others)]).equal(whole)
    with pytest.raises(UserError, match="memory must be at least 1, not 0"):
        trained.sample(2, memory=0)


def test_a_stream_holds_one_chunk_at_a_time(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CPU_ROWS", BLOCK)
    seen: list[weakref.ref[Tensor]] = []
    for part in trained.stream(10 * BLOCK):
        seen.append(weakref.ref(part.tokens))
        assert sum(reference() is not None for reference in seen) <= 2, "this one and the one before"
    assert len(seen) == 10


def test_many_times_the_samples_take_the_same_memory(tmp_path: Path) -> None:
    """Written to files: 1,000 digits, or 10,000 and then 400,000 that cost nothing to draw, of 205 MB."""

    small = ["network.width=16", "network.denoiser.blocks=1", "network.recognizer.blocks=1"]
    digits = load_recipe("digits").with_overrides(small)

    def peak(n: int, undrawn: int = 0) -> int:
        ours, theirs = CONTEXT.Pipe()
        child = CONTEXT.Process(target=writing_samples, args=(digits, tmp_path / f"{n}.npy", n, undrawn, theirs))
        child.start()
        assert ours.poll(300)
        found: int = ours.recv()
        child.join()
        return found

    few, many = peak(1_000), peak(10_000, 400_000)
    assert np.load(tmp_path / "10000.npy", mmap_mode="r").shape == (400_000, 64)
    assert many <= 1.2 * few
