"""Arrays of integers: their type, the value of what is missing, and how they are read from files."""

import math
import mmap
import time
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.parsing import regular_file
from vadd.progress import note

Array = np.ndarray[Any, np.dtype[Any]]

TO_FILL = -1
"""Stands in unfinished examples where a value is missing."""
MAGIC = b"\x93NUMPY"
LARGE = 1 << 26
"""Bytes from which a file is mapped into memory instead of read."""
SCANNED = 1 << 24
"""Bytes at a time: between them an interrupt is answered."""
TAKEN = 64
"""Rows of a mapped file at a time."""


class MappedFile(np.memmap[Any, Any]):
    """Mapped here and never changed, so that pages read may be dropped: they count as memory of the process."""

    def forget(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def read_npy(path: Path) -> Array:
    """The array in an ``.npy`` file, a large one mapped. FileNotFoundError where there is no file; nothing is
    unpickled.
    """
    try:
        with regular_file(path).open("rb") as file:
            begins_as_array = file.read(len(MAGIC)) == MAGIC
            file.seek(0)
            if not begins_as_array and zipfile.is_zipfile(file):
                raise UserError(f"{path} holds several arrays, as .npz files do; save the one to read as .npy")
            if not begins_as_array:
                raise ValueError("it does not begin like one")
            large = path.stat().st_size >= LARGE
            # Copy-on-write: torch wants arrays it may write to, and the file stays as it is.
            array: Array = np.load(path if large else file, "c" if large else None, allow_pickle=False)
    except (FileNotFoundError, UserError):
        raise
    except (OSError, ValueError, EOFError, SyntaxError, TokenError, TypeError, OverflowError, MemoryError) as error:
        said = error.strerror if isinstance(error, OSError) else next(iter(str(error).splitlines()), "it is cut off")
        reason = "it holds Python objects, which are not read" if "Object arrays" in str(error) else said
        raise UserError(f"{path} is not a readable .npy file: {reason}") from None
    return array.view(MappedFile) if large else array


def read_integers(path: Path) -> Array:
    """Any array of integers, as it is."""
    try:
        array = read_npy(path)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    if array.dtype.kind not in "iub":
        raise UserError(f"{path} holds {array.dtype} values; integers are needed")
    return array


def read_examples(path: Path, shape: tuple[int, ...]) -> Array:
    """One or several examples of this shape in an .npy file, flat or not, grey images with or without their last axis:
    (n, N).
    """
    array, shapes = read_integers(path), (shape, (math.prod(shape),), shape[: -1 if shape[-1] == 1 else None])
    several = array[None] if array.shape in shapes else array
    if several.shape[1:] not in shapes or not len(several):
        wanted = f"(n, {', '.join(map(str, shape))})"
        raise UserError(f"{path} has the shape {array.shape}; the model's examples need {wanted}")
    return several.reshape(len(several), -1)


def take(array: Array, rows: Array) -> Array:
    """These rows of an array, (n, ...). Of a mapped file a few at a time: to read one may map 2 MB around it."""
    if not isinstance(array, MappedFile):
        return np.asarray(array[rows])
    taken = np.empty((len(rows), *array.shape[1:]), array.dtype)
    for first in range(0, len(rows), TAKEN):
        some = slice(first, first + TAKEN)
        taken[some] = array[rows[some]]
        array.forget()
    return taken


def value_type(values: int) -> np.dtype[np.generic]:
    """The smallest integers that hold them and that torch can index and compare."""
    return np.dtype(np.uint8 if values <= 1 << 8 else np.int16 if values <= 1 << 15 else np.int32)


def extremes(array: Array, source: str) -> tuple[int, int]:
    """The smallest and the largest value; what takes seconds says how far it is."""
    rows = max(1, SCANNED * len(array) // max(1, array.nbytes))
    low, high, due = int(array[0].min()), int(array[0].max()), time.monotonic() + 1
    for first in range(0, len(array), rows):
        part = array[first : first + rows]
        low, high = min(low, int(part.min())), max(high, int(part.max()))
        if isinstance(array, MappedFile):
            array.forget()
        if time.monotonic() > due:
            note(f"reading {source}: {first / len(array):.0%}")
            due = time.monotonic() + 10
    return low, high


def quantize(pixels: Array, levels: int, *, of: int = 256) -> Array:
    """Integers in 0..of-1 cut evenly into 0..levels-1: floor(pixel * levels / of), uint8.

    Two levels split at half of the largest value, ``of`` levels change nothing.
    """
    if not 2 <= levels <= of:
        raise UserError(f"levels must be in 2..{of}, not {levels}")
    table = (np.arange(of) * levels // of).astype(np.uint8)
    return table[pixels]
