"""Networks compiled by torch.compile for a few sizes.

Every new shape is compiled anew, which takes seconds to minutes, and the number of positions asked for differs from
batch to batch. So it is padded: the last position is asked for again until the number is one of a few, and what the
network says of these is thrown away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from vadd.core.host import Places
from vadd.errors import UserError

PARTS = 8
MOST_COMPILATIONS = 64
"""Of a network, where torch.compile would give up after 8."""


def padded_size(count: int, most: int) -> int:
    """What ``count`` of ``most`` is padded to: a multiple of an eighth or, below it, a power of two.

    >>> [padded_size(count, 800) for count in (1, 3, 65, 101, 799)]
    [1, 4, 100, 200, 800]
    """
    part = -(-most // PARTS)
    if count <= part:
        return min(part, power_of_two(count))
    return min(most, -(-count // part) * part)


def power_of_two(count: int) -> int:
    """The next one."""
    return 1 << max(0, count - 1).bit_length()


def padded(tensor: Tensor, size: int) -> Tensor:
    """With the last row repeated."""
    missing = size - len(tensor)
    return torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])]) if missing and len(tensor) else tensor


def compile_network(network: nn.Module, *, rows: bool = False) -> None:
    """In place; names and values of the weights do not change. ``rows``: their number differs too, and is padded to a
    power of two.
    """
    torch._dynamo.config.cache_size_limit = max(MOST_COMPILATIONS, torch._dynamo.config.cache_size_limit)
    if not getattr(network, "takes_places", False):
        network.compile()  # where sizes change nevertheless they become symbols
        return
    network.compile(dynamic=False)
    compiled = network._compiled_call_impl
    assert compiled is not None

    def of_few_sizes(xt: Tensor, z: Tensor | None, t: Tensor, where: Places) -> Tensor:
        asked, places = len(where.numbers), where
        if rows:
            batch = power_of_two(len(xt))
            xt, t, z = padded(xt, batch), padded(t, batch), None if z is None else padded(z, batch)
            places = replace(places, batch=batch)
        most = places.batch * places.positions
        numbers, groups = padded(places.numbers, padded_size(asked, most)), places.groups
        if groups is not None:
            groups = padded(groups, padded_size(len(groups), most // places.group))
        logits: Tensor = compiled(xt, z, t, replace(places, numbers=numbers, groups=groups))
        return logits[:asked]

    network._compiled_call_impl = of_few_sizes


@contextmanager
def compiled_to_sample(network: nn.Module) -> Iterator[None]:
    """In here the network is compiled; what was compiled before is kept."""
    before = network._compiled_call_impl
    compile_network(network, rows=True)
    try:
        yield
    except torch._dynamo.exc.TorchDynamoException as error:
        raise UserError(f"torch.compile failed: {in_one_line(error)}; leave compile out") from error
    finally:
        network._compiled_call_impl = before


def in_one_line(error: Exception) -> str:
    """What went wrong in a compiler, without the story around it."""
    inner = getattr(error, "inner_exception", error)
    return f"{type(inner).__name__}: {next(iter(str(inner).strip().splitlines()), '')}"
