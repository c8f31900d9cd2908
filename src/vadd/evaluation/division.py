"""Work divided among the processes that ``torchrun`` started, and put together again in every one of them."""

import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# What trains together is imported only where there is more than one process: it takes a second.


def process_count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process is the one that writes."""
    return os.environ.get("RANK", "0") == "0"


def meet() -> None:
    """At the beginning of a command: each process takes its device."""
    if process_count() > 1:
        from vadd.training.processes import Processes

        Processes()


def part() -> None:
    """At the end of a command."""
    if process_count() > 1:
        from vadd.training.processes import leave

        leave()


def in_shares(sizes: Sequence[int], work: Callable[[int], Tensor]) -> Tensor:
    """The numbers that pieces of work give, one after the other: (sum of ``sizes``,) float64.

    ``work(number)`` gives the ``sizes[number]`` numbers of a piece and must not depend on the others. Of n processes
    each does every n-th; all get all numbers, the very bits that a single process computes.
    """
    if process_count() == 1:
        return torch.cat([work(number) for number in range(len(sizes))]).double()
    from vadd.training.processes import Processes

    processes = Processes()
    pieces = [
        work(number).double() if number % processes.count == processes.index else torch.zeros(size).double()
        for number, size in enumerate(sizes)
    ]
    return processes.sum(torch.cat(pieces).to(processes.device)).cpu()
