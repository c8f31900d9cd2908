"""One checkpoint: a directory of safetensors files and one JSON file with their checksums. Nothing is ever unpickled.

A checkpoint is written beside its final place and renamed when it is complete, and renamed before it is removed, so a
directory with the right name is a whole one.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from vadd.errors import UserError

MODEL, EMA, OPTIMIZER, MANIFEST = "model.safetensors", "ema.safetensors", "optimizer.safetensors", "checkpoint.json"

SPARE_BYTES = 2**20
"""Besides the tensors a checkpoint takes at most this much: headers, the manifest, directory entries."""


@dataclass(frozen=True)
class TrainingState:
    """Everything a training needs to go on. Random numbers and the learning rate are functions of ``step``."""

    step: int
    model: Mapping[str, Tensor]
    ema: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    unlogged: tuple[float, ...] = ()
    """What the next line of metrics has summed up so far."""
    test_loss: float | None = None
    """The held-out objective of the averaged weights, if it was measured at this step."""

    def bytes(self) -> int:
        return sum(
            t.numel() * t.element_size() for part in (self.model, self.ema, self.optimizer) for t in part.values()
        )


def write_checkpoint(directory: Path, state: TrainingState) -> None:
    """Whole or not at all: whatever goes wrong (OSError), nothing is left behind and nothing older is touched."""
    partial = directory.with_name(f".{directory.name}.partial")
    remove_tree(partial)
    try:
        partial.mkdir(parents=True)
        if shutil.disk_usage(partial).free < state.bytes() + SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
        for name, tensors in ((MODEL, state.model), (EMA, state.ema), (OPTIMIZER, state.optimizer)):
            save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, partial / name)
        checksums = {name: _checksum(partial / name) for name in (MODEL, EMA, OPTIMIZER)}
        manifest = {
            "step": state.step,
            "test_loss": state.test_loss,
            "unlogged": list(state.unlogged),
            "sha256": checksums,
        }
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2))
        for file in (*partial.iterdir(), partial):
            _flush_to_disk(file)
        remove_checkpoint(directory)
        partial.rename(directory)
        _flush_to_disk(directory.parent)
    except SafetensorError as error:  # what the writer makes of a full disk
        remove_tree(partial)
        raise OSError(errno.EIO, str(error), str(directory)) from error
    except BaseException:
        remove_tree(partial)
        raise


def read_checkpoint(directory: Path) -> TrainingState:
    """The whole state, after its checksums have been verified."""
    step = verify_checkpoint(directory)
    model, ema, optimizer = (load_file(directory / name) for name in (MODEL, EMA, OPTIMIZER))
    manifest = _manifest(directory)
    return TrainingState(step, model, ema, optimizer, tuple(manifest.get("unlogged", ())), manifest.get("test_loss"))


def verify_checkpoint(directory: Path) -> int:
    """The step of a checkpoint that is whole; a damaged one is an error that names the file."""
    try:
        manifest = _manifest(directory)
        step, checksums = int(manifest["step"]), dict(manifest["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"the checkpoint {directory} is damaged: {MANIFEST} is missing or unreadable") from None
    for name in (MODEL, EMA, OPTIMIZER):
        file = directory / name
        if not file.is_file() or _checksum(file) != checksums.get(name):
            raise UserError(f"the checkpoint {directory} is damaged: {name} is missing, truncated or altered")
    return step


def held_out_loss(directory: Path) -> float | None:
    """The held-out objective of a checkpoint, if it was measured at its step."""
    try:
        loss = _manifest(directory)["test_loss"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if loss is None else float(loss)


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The averaged weights, for everything but training."""
    verify_checkpoint(directory)
    try:
        return load_file(directory / EMA)
    except SafetensorError as error:
        raise UserError(f"the checkpoint {directory} is damaged: {EMA}: {error}") from None


def remove_checkpoint(directory: Path) -> None:
    """At no moment is there half of one under its name."""
    if directory.exists():
        removed = directory.with_name(f".{directory.name}.removed")
        remove_tree(removed)
        directory.rename(removed)
        remove_tree(removed)


def remove_tree(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _manifest(directory: Path) -> dict[str, Any]:
    content = json.loads((directory / MANIFEST).read_text())
    if not isinstance(content, dict):
        raise ValueError
    return content


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
