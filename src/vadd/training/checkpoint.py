"""Checkpoints: a directory of safetensors files and one JSON file with their checksums. Nothing is ever unpickled.

A checkpoint is written beside its final place and renamed when it is complete, so a directory with the right name is
a whole one.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vadd.errors import UserError

MODEL, EMA, OPTIMIZER, MANIFEST = "model.safetensors", "ema.safetensors", "optimizer.safetensors", "checkpoint.json"


@dataclass(frozen=True)
class TrainingState:
    """Everything a training needs to go on. Random numbers and the learning rate are functions of ``step``."""

    step: int
    model: dict[str, Tensor]
    ema: dict[str, Tensor]
    optimizer: dict[str, Tensor]


def write_checkpoint(directory: Path, state: TrainingState) -> None:
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, tensors in ((MODEL, state.model), (EMA, state.ema), (OPTIMIZER, state.optimizer)):
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, partial / name)
    checksums = {name: _checksum(partial / name) for name in (MODEL, EMA, OPTIMIZER)}
    (partial / MANIFEST).write_text(json.dumps({"step": state.step, "sha256": checksums}, indent=2))
    for file in partial.iterdir():
        _flush_to_disk(file)
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)
    _flush_to_disk(directory.parent)


def read_checkpoint(directory: Path) -> TrainingState:
    """The whole state, after its checksums have been verified."""
    step = verify_checkpoint(directory)
    model, ema, optimizer = (load_file(directory / name) for name in (MODEL, EMA, OPTIMIZER))
    return TrainingState(step, model, ema, optimizer)


def verify_checkpoint(directory: Path) -> int:
    """The step of a checkpoint that is whole; a damaged one is an error that names the file."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        step, checksums = int(manifest["step"]), dict(manifest["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"the checkpoint {directory} is damaged: {MANIFEST} is missing or unreadable") from None
    for name, expected in checksums.items():
        file = directory / name
        if not file.is_file() or _checksum(file) != expected:
            raise UserError(f"the checkpoint {directory} is damaged: {name} is missing, truncated or altered")
    return step


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The averaged weights, for everything but training."""
    verify_checkpoint(directory)
    try:
        return load_file(directory / EMA)
    except SafetensorError as error:
        raise UserError(f"the checkpoint {directory} is damaged: {EMA}: {error}") from None


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state under the names of the parameters it belongs to, ``exp_avg/denoiser.tokens.table``
    and so on.
    """
    return {
        f"{key}/{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for full_name, value in tensors.items():
        key, _, name = full_name.partition("/")
        parameter = parameters[name]
        # A fused optimiser wants its moments on the parameter's device; ``step`` too.
        optimizer.state[parameter][key] = value.to(parameter.device)


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
