"""Arrays of integers: their type, the value of what is missing, and how they are read from files."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.parsing import regular_file

Array = np.ndarray[Any, np.dtype[Any]]

TO_FILL = -1
"""Stands in unfinished examples where a value is missing."""
MAGIC = b"\x93NUMPY"


def read_npy(path: Path) -> Array:
    """The array in an ``.npy`` file. FileNotFoundError where there is no file; nothing is unpickled."""
    try:
        with regular_file(path).open("rb") as file:
            begins_as_array = file.read(len(MAGIC)) == MAGIC
            file.seek(0)
            if not begins_as_array and zipfile.is_zipfile(file):
                raise UserError(f"{path} holds several arrays, as .npz files do; save the one to read as .npy")
            if not begins_as_array:
                raise ValueError("it does not begin like one")
            array: Array = np.load(file, allow_pickle=False)
    except (FileNotFoundError, UserError):
        raise
    except (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        said = error.strerror if isinstance(error, OSError) else next(iter(str(error).splitlines()), "it is cut off")
        reason = "it holds Python objects, which are not read" if "Object arrays" in str(error) else said
        raise UserError(f"{path} is not a readable .npy file: {reason}") from None
    return array


def read_integers(path: Path) -> Array:
    """Any array of integers, as it is."""
    try:
        array = read_npy(path)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    if array.dtype.kind not in "iub":
        raise UserError(f"{path} holds {array.dtype} values; integers are needed")
    return array


def quantize(pixels: Array, levels: int, *, of: int = 256) -> Array:
    """Integers in 0..of-1 cut evenly into 0..levels-1: floor(pixel * levels / of), uint8.

    Two levels split at half of the largest value, ``of`` levels change nothing.
    """
    if not 2 <= levels <= of:
        raise UserError(f"levels must be in 2..{of}, not {levels}")
    table = (np.arange(of) * levels // of).astype(np.uint8)
    return table[pixels]
