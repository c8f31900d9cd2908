"""Files of samples that grow chunk by chunk: whole or not there at all."""

import csv
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from io import BytesIO, StringIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from vadd.errors import UserError
from vadd.files import whole_path, writing
from vadd.kinds.arrays import Array
from vadd.words import size_in_memory

LEAST_BYTES = {".npy": (8, 0), ".csv": (2, 0), ".txt": (0, 10), ".jsonl": (0, 20)}
"""Of each value and of each sample, by format."""


class SampleFile:
    """``with`` it, :meth:`write` samples (m, N); the file is in its place after the block unless that has failed."""

    def __init__(self, out: Path, encode: Callable[[Array], bytes], header: bytes = b"") -> None:
        self.out, self.encode, self.header = out, encode, header

    def __enter__(self) -> Self:
        with writing(self.out), ExitStack() as stack:
            self.part = stack.enter_context(whole_path(self.out))
            self.begin()
            self._stack = stack.pop_all()
        return self

    def begin(self) -> None:
        self.part.write_bytes(self.header)

    def write(self, tokens: Array) -> None:
        with writing(self.out), self.part.open("ab") as file:
            file.write(self.encode(tokens))

    def finish(self) -> None:
        """All samples have been written."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with writing(self.out):
                    self.finish()
        except BaseException as failed:
            self._stack.__exit__(type(failed), failed, None)
            raise
        with writing(self.out):
            self._stack.__exit__(kind, error, trace)


class CollectedFile(SampleFile):
    """What can be written only when all samples are there: ``collect`` sees each chunk, ``save`` makes the file."""

    def __init__(self, out: Path, collect: Callable[[Array], None], save: Callable[[Path], None]) -> None:
        self.out, self.collect, self.save = out, collect, save

    def begin(self) -> None: ...

    def write(self, tokens: Array) -> None:
        self.collect(tokens)

    def finish(self) -> None:
        self.save(self.part)


def npy_file(out: Path, shape: tuple[int, ...]) -> SampleFile:
    """The header has the final shape from the start."""
    header, kind = BytesIO(), np.lib.format.dtype_to_descr(np.dtype(np.int64))
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    return SampleFile(out, lambda tokens: np.ascontiguousarray(tokens, dtype=np.int64).tobytes(), header.getvalue())


def numbers_as_csv(tokens: Array) -> bytes:
    lines = StringIO()
    np.savetxt(lines, tokens, fmt="%d", delimiter=",")
    return lines.getvalue().encode()


def csv_lines(rows: Sequence[Sequence[str]]) -> str:
    """As CSV: quoted where needed, nothing interpreted."""
    lines = StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def check_disk(out: Path, n: int, positions: int) -> None:
    """Refuse what the disk has no space for."""
    value, sample = LEAST_BYTES.get(out.suffix, (0, 0))
    least, free = n * (value * positions + sample), shutil.disk_usage(out.absolute().parent).free
    if least > free:
        raise UserError(
            f"{n:,} samples take at least {size_in_memory(least)} in {out}, and {size_in_memory(free)} are free"
        )
