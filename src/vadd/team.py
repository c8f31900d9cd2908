"""Processes that draw samples together: started with ``torchrun``, each with a device of its own.

What they exchange is small and lies on the CPU, so they talk over gloo whatever the device is.
"""

import os
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from vadd.core import Samples


class Team:
    def __init__(self) -> None:
        self._started = not dist.is_initialized()
        if self._started:
            dist.init_process_group("gloo")
        self._group = dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        self.index = dist.get_rank()
        self.count = dist.get_world_size()
        self.is_main = self.index == 0
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        dist.barrier(group=self._group)

    @classmethod
    def join(cls) -> "Team | None":
        """The team of this process, once all have come; None if it is alone."""
        return cls() if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None

    def divide(
        self, chunks: range, draw: Callable[[int], Samples], shape: Callable[[int], tuple[int, int]]
    ) -> Iterator[Samples]:
        """``draw`` of every chunk, each process its own; the main one collects them in order, knowing their shapes."""
        for first in range(0, len(chunks), self.count):
            together = chunks[first : first + self.count]
            mine = draw(together[self.index]) if self.index < len(together) else None
            if not self.is_main:
                if mine is not None:
                    self._send(mine)
                continue
            assert mine is not None
            yield mine
            for owner, chunk in enumerate(together[1:], start=1):
                yield self._receive(owner, shape(chunk))

    def leave(self) -> None:
        if self._started:
            dist.destroy_process_group()

    def _send(self, samples: Samples) -> None:
        for tensor in (torch.tensor([samples.evaluations, samples.sequences]), samples.tokens.contiguous()):
            dist.send(tensor, dst=0, group=self._group)

    def _receive(self, owner: int, shape: tuple[int, int]) -> Samples:
        counts, tokens = torch.zeros(2, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
        for tensor in (counts, tokens):
            dist.recv(tensor, src=owner, group=self._group)
        evaluations, sequences = counts.tolist()
        return Samples(tokens, evaluations, sequences)
