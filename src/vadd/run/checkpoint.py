"""Checkpoints: directories of safetensors files and one JSON file with their checksums. Nothing is ever unpickled.

A checkpoint is written next to its final place and renamed when it is complete, and renamed before it is removed, so a
directory with the right name is a whole one. A file's checksum is verified when the file is read, and only then.
"""

import errno
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vadd.errors import UserError
from vadd.files import checksum, flush_to_disk, remove, write_json
from vadd.progress import warn
from vadd.run.directory import EMA, MANIFEST, MODEL, OPTIMIZER, CheckpointName, RunDirectory, read_manifest, step_of
from vadd.words import one_line, shortened

Content = TypeVar("Content")

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
    kl_restarts: tuple[int, ...] = ()
    """Steps at which the KL warm-up started again, after posterior collapse."""

    @property
    def files(self) -> dict[str, Mapping[str, Tensor]]:
        return {MODEL: self.model, EMA: self.ema, OPTIMIZER: self.optimizer}


def write_checkpoint(directory: Path, state: TrainingState) -> None:
    """Whole or not at all: whatever goes wrong (OSError), nothing is left behind and nothing older is touched."""
    partial = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}.partial")
    try:
        directory.parent.mkdir(exist_ok=True)  # and not what it is in: a run that was removed stays removed
        partial.mkdir()
        # Asked first: else gigabytes would be written in vain, and the full disk would stop everything else.
        needed = sum(tensor.nbytes for tensors in state.files.values() for tensor in tensors.values())
        if shutil.disk_usage(partial).free < needed + SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
        for name, tensors in state.files.items():
            save_tensors(tensors, partial / name)
        manifest = {
            "step": state.step,
            "test_loss": state.test_loss,
            "unlogged": list(state.unlogged),
            "kl_restarts": list(state.kl_restarts),
            "sha256": {name: checksum(partial / name) for name in state.files},
        }
        write_json(partial / MANIFEST, manifest)
        # The content must be on disk before the name is: after a power cut a renamed directory could hold empty files.
        for file in (*partial.iterdir(), partial):
            flush_to_disk(file)
        if directory.exists():  # a directory cannot be renamed over one that is not empty
            remove_checkpoint(directory)
        partial.rename(directory)
        flush_to_disk(directory.parent)
    except BaseException:
        remove(partial)
        raise


def save_tensors(tensors: Mapping[str, Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file with the mode that new files have here; what the disk refuses is an OSError."""
    file.touch()
    mode = file.stat().st_mode
    try:
        save_file(apart(tensors), file, metadata)
    except SafetensorError as error:  # what the writer makes of a full disk
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code) if number else str(error), str(file)) from error
    file.chmod(mode)


def apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As the format wants them: in memory of their own, also those that a network has under two names."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        place = plain.untyped_storage().data_ptr()
        separate[name] = plain.clone() if place in seen else plain
        seen.add(place)
    return separate


def check_fit(weights: Mapping[str, Tensor], build: Callable[[], nn.Module], problem: str) -> None:
    """Refuse weights of other shapes than those of what ``build`` makes, before that takes any memory."""
    try:
        with torch.device("meta"):  # where tensors have shapes and nothing else
            wanted = build().state_dict()
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes beyond 63 bits
        if "meta tensors" not in str(error):  # a flow looks at its own masks, which takes real ones
            raise UserError(problem) from None
        wanted = build().state_dict()
    check_shapes(weights, wanted, problem)


class Unfilled(TorchFunctionMode):
    """In here networks are built without drawing random weights, which takes longer than reading those that replace
    them.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # torch.nn.init passes the tensor by name.
        if getattr(function, "__name__", "").endswith(("uniform_", "normal_")):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def check_shapes(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], problem: str) -> None:
    """Refuse weights with other names or shapes than those ``wanted``; the error names the first."""
    for name in sorted({*weights, *wanted}):
        has, needs = (tuple(tensors[name].shape) if name in tensors else "missing" for tensors in (weights, wanted))
        if has != needs:
            raise UserError(f"{problem}: {shortened(one_line(name))} is {has} there, {needs} here")


def read_checkpoint(directory: Path) -> TrainingState:
    """The whole state, every file verified."""
    model, ema, optimizer = (read_tensors(directory, name) for name in (MODEL, EMA, OPTIMIZER))
    step, manifest = step_and_manifest(directory)
    unlogged, restarts = tuple(manifest["unlogged"]), tuple(manifest.get("kl_restarts", ()))
    return TrainingState(step, model, ema, optimizer, unlogged, manifest.get("test_loss"), restarts)


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The averaged weights, for everything but training."""
    return finite(read_tensors(directory, EMA), f"the checkpoint {directory}")


def read_tensors(directory: Path, name: str) -> dict[str, Tensor]:
    """One file of a checkpoint, after its checksum has been verified; a damaged one is an error that names it."""
    _, manifest = step_and_manifest(directory)
    return load_verified(directory / name, manifest["sha256"].get(name), f"the checkpoint {directory}")


def load_verified(file: Path, sha256: str | None, what: str) -> dict[str, Tensor]:
    """Tensors of a file with this checksum; errors begin with ``what`` it is a part of."""
    if not file.is_file() or checksum(file) != sha256:
        raise UserError(f"{what} is damaged: {file.name} is missing, truncated or altered")
    try:
        return load_file(file)
    except SafetensorError as error:
        raise UserError(f"{what} is damaged: {file.name}: {one_line(str(error))}") from None


def finite(weights: dict[str, Tensor], what: str) -> dict[str, Tensor]:
    """The weights, unless one of them holds infinities or NaN."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise UserError(f"{what} is damaged: {shortened(one_line(name))} holds numbers that are not finite")
    return weights


def step_and_manifest(directory: Path) -> tuple[int, dict[str, Any]]:
    try:
        manifest = read_manifest(directory)
        unlogged = list(map(float, manifest.get("unlogged", ())))
        if not all(map(math.isfinite, unlogged)):
            raise ValueError
        return int(manifest["step"]), {**manifest, "unlogged": unlogged, "sha256": dict(manifest["sha256"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f"the checkpoint {directory} is damaged: {MANIFEST} is missing or unreadable") from None


def remove_checkpoint(directory: Path) -> None:
    """At no moment is there half of one under its name."""
    removed = directory.with_name(f".{directory.name}.removed")
    remove(removed)
    directory.rename(removed)
    remove(removed)


class Archive:
    """What is read from and written to the checkpoints of a run, by one thread at a time."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        # A thread is enough: the disk and the checksums let others run meanwhile.
        self._writer = ThreadPoolExecutor(1)
        self._written: Future[bool] | None = None

    def newest(self, read: Callable[[Path], Content]) -> tuple[Path, Content] | None:
        """The newest from which ``read`` can read, with what it gave; damaged ones are passed over with a warning.

        None where there is no checkpoint at all.
        """
        problems: list[UserError] = []
        # Newest first; read at once, so that a checkpoint is verified only once.
        for path in reversed(self.directory.checkpoints()):
            try:
                content = read(path)
            except UserError as error:
                problems.append(error)
            else:
                for problem in problems:
                    warn(f"{problem}; taking {path.name}")
                return path, content
        if problems:
            raise problems[0]
        return None

    def chosen(self, which: CheckpointName, read: Callable[[Path], Content]) -> tuple[Path, Content]:
        """ "latest" (the newest that is whole), "best" (the lowest held-out objective) or a step."""
        run = self.directory
        if which == "latest" and (newest := self.newest(read)) is not None:
            return newest
        if which == "best" and (best := run.best()) is not None:
            return best.path, read(best.path)
        if isinstance(which, int) and run.checkpoint(which).is_dir():
            return run.checkpoint(which), read(run.checkpoint(which))
        there = ", ".join(str(step_of(path)) for path in run.checkpoints()) or "none"
        problems = {"latest": "yet", "best": "that was evaluated on held-out examples"}
        other = f"{which!r}; take latest, best or one of the steps {there}"
        raise UserError(f"{run.path} has no checkpoint {problems.get(str(which), other)}")

    def improves(self, step: int, loss: float) -> bool:
        """Whether the held-out objective at ``step`` is the best yet."""
        self.wait()
        best = self.directory.best(step - 1)
        return best is None or best.test_loss is None or loss < best.test_loss

    def check(self) -> None:
        """Raise what went wrong in the background, the disk's refusals apart."""
        if self._written is not None and self._written.done():
            self.wait()

    def wait(self) -> None:
        """Until nothing is being written."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def close(self) -> None:
        """Let go of the directory, whatever happened."""
        self._writer.shutdown()

    def save(self, state: TrainingState, keep: int, *, wait: bool = True) -> bool:
        """Write a checkpoint and remove what is no longer wanted: all but the newest ``keep`` and the best. If not to
        ``wait``, while the caller goes on and changes nothing in the ``state``. The one before is always awaited.

        Where it cannot be written, a warning is given and everything stays as it was.
        """
        self.wait()
        if not wait:
            self._written = self._writer.submit(self._save, state, keep)
            return True
        return self._save(state, keep)

    def _save(self, state: TrainingState, keep: int) -> bool:
        try:
            write_checkpoint(self.directory.checkpoint(state.step), state)
        except OSError as error:
            warn(f"no checkpoint of step {state.step}: {error.strerror or error}; older ones are untouched")
            return False
        # A later one than this is damaged, or the run would have gone on from there; it is replaced in its turn.
        self._keep_only(self.directory.checkpoints(state.step)[-keep:], state.step)
        return True

    def _keep_only(self, newest: list[Path], step: int) -> None:
        best = self.directory.best(step)
        for path in {*self.directory.checkpoints(step)}.difference(newest, [best.path] if best else []):
            remove_checkpoint(path)

    def sweep(self) -> None:
        """Remove what a crash in the middle of writing or removing left behind."""
        root = self.directory.checkpoints_directory
        for path in (*root.glob(".step-*.partial"), *root.glob(".step-*.removed")):
            remove(path)
