"""Tensors that take long to compute are kept on disk, under a name that says what they were computed from."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from vadd.errors import UserError
from vadd.files import whole_file
from vadd.progress import warn

READ_AT_ONCE = 500


def kept_tensors(file: Path, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """What ``compute`` gives, from ``file`` if it is there and whole, else computed and kept there.

    The file begins with the sha256 of what follows: a damaged one is made again.
    """
    try:
        content = file.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return load(content[32:])
    except (OSError, SafetensorError):
        pass
    computed = compute()
    content = save({name: tensor.contiguous() for name, tensor in computed.items()})
    try:
        with whole_file(file) as target:
            target.write(hashlib.sha256(content).digest() + content)
    except UserError as error:  # a home that may not be written: what was computed is not lost
        warn(f"{error}; the next time it is computed again")
    return computed


def data_checksum(*tensors: Tensor) -> str:
    """A checksum of the integers and their shapes, whatever type holds them."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        for part in torch.split(tensor.cpu(), READ_AT_ONCE):
            digest.update(part.numpy().astype("<i4").tobytes())
    return digest.hexdigest()
