"""Files of samples that grow chunk by chunk: whole or not there at all."""

import csv
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from glob import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np

from vadd.errors import UserError, optional
from vadd.files import PARTIAL, whole_file, whole_path, writing
from vadd.kinds.arrays import Array
from vadd.progress import warn
from vadd.words import size_in_memory

LEAST_BYTES = {".npy": (8, 0), ".csv": (2, 0), ".txt": (0, 10), ".jsonl": (0, 20)}
"""Of each value and of each sample, by format."""
Write = Callable[[Array], object]
"""Takes the next samples, (m, N)."""
SampleFile = AbstractContextManager[Write]
"""The file is in its place after the block unless that has failed."""


def name_parts_of(out: Path) -> None:
    """Warn of what a command that was killed could not remove; another that is writing the same file looks alike."""
    for part in out.absolute().parent.glob(f".{escape(out.stem)}.????????{PARTIAL}{escape(out.suffix)}"):
        warn(f"{part} is not finished: delete it, unless another command is writing {out.name} now")


def counted(write: Callable[[Array, int], object]) -> Write:
    """Gives ``write`` samples and the number of the first of them."""
    count = 0

    def write_next(tokens: Array) -> None:
        nonlocal count
        write(tokens, count)
        count += len(tokens)

    return write_next


@contextmanager
def encoded_file(out: Path, encode: Callable[[Array, int], bytes], header: bytes = b"") -> Iterator[Write]:
    """``encode`` gets samples and the number of the first of them."""
    name_parts_of(out)
    with whole_file(out) as file:
        file.write(header)
        yield counted(lambda tokens, first: file.write(encode(tokens, first)))


@contextmanager
def collected_file(out: Path, collect: Write, save: Callable[[Path], None]) -> Iterator[Write]:
    """What can be written only when all samples are there: ``collect`` sees each chunk, ``save`` makes the file."""
    with writing(out), whole_path(out) as part:
        yield collect
        save(part)


def npy_file(out: Path, shape: tuple[int, ...]) -> SampleFile:
    """The header has the final shape from the start."""
    header, kind = BytesIO(), np.lib.format.dtype_to_descr(np.dtype(np.int64))
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    return encoded_file(out, lambda tokens, _: np.asarray(tokens, dtype=np.int64).tobytes(), header.getvalue())


def numbers_as_csv(tokens: Array) -> bytes:
    return csv_lines(np.asarray(tokens).tolist()).encode()


def csv_lines(rows: Sequence[Sequence[object]]) -> str:
    """As CSV: quoted where needed, nothing interpreted."""
    lines = StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def check_target(out: Path, n: int, positions: int) -> None:
    """Refuse what the disk has no space for, or a package is missing for."""
    if out.suffix == ".parquet":
        parquet_library(out)
    value, sample = LEAST_BYTES.get(out.suffix, (0, 0))
    least, free = n * (value * positions + sample), shutil.disk_usage(out.absolute().parent).free
    if least > free:
        raise UserError(f"{out} would take at least {size_in_memory(least)}, and {size_in_memory(free)} are free")


def parquet_library(file: Path) -> Any:
    """What reads and writes such a file."""
    return optional("pyarrow.parquet", f"for {file.name} pyarrow is needed", "tables")
