"""Files of samples that grow chunk by chunk.

A file is written beside its place, under another name, and takes its place when it is whole: what an interruption
leaves behind never looks finished.
"""

import csv
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from vadd.errors import UserError
from vadd.files import writing
from vadd.kinds.table.writing import arrow_table, check_arrow, parquet_writer
from vadd.words import size_in_memory

if TYPE_CHECKING:
    from vadd.data.dataset import Array
    from vadd.kinds.table.codec import Columns, TableCodec
    from vadd.kinds.table.conditions import Condition
    from vadd.run.run import Run

PLAIN_FORMATS = (".npy", ".csv", ".png")
TEXT_FORMATS = (".npy", ".csv", ".txt", ".jsonl")
TABLE_FORMATS = (".csv", ".parquet", ".npy")
MOST_PICTURED = 1024
"""Images in one picture."""


class SampleFile(ABC):
    """``with`` it, :meth:`write` samples (m, N); the file is in its place after the block unless that has failed."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.beside = out.with_name(f".partial-{out.name}")  # keeps the suffix, which names the format

    def __enter__(self) -> Self:
        self.beside.unlink(missing_ok=True)
        return self

    @abstractmethod
    def write(self, tokens: "Array") -> None: ...

    def finish(self) -> None:
        """All samples have been written."""
        self.beside.replace(self.out)

    def append(self, content: bytes) -> None:
        with writing(self.out), self.beside.open("ab") as file:
            file.write(content)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with writing(self.out):
                    self.finish()
        finally:
            self.beside.unlink(missing_ok=True)


class NpyFile(SampleFile):
    """The header tells the final shape from the start."""

    def __init__(self, out: Path, shape: tuple[int, ...]) -> None:
        super().__init__(out)
        self.shape = shape

    def __enter__(self) -> Self:
        super().__enter__()
        header, kind = BytesIO(), np.lib.format.dtype_to_descr(np.dtype(np.int64))
        np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": self.shape})
        self.append(header.getvalue())
        return self

    def write(self, tokens: "Array") -> None:
        self.append(np.ascontiguousarray(tokens, dtype=np.int64).tobytes())


class CsvFile(SampleFile):
    def write(self, tokens: "Array") -> None:
        lines = StringIO()
        np.savetxt(lines, tokens, fmt="%d", delimiter=",")
        self.append(lines.getvalue().encode())


class TableCsv(SampleFile):
    """Rows of a table under the names of its columns, spelled as they were."""

    def __init__(self, out: Path, table: "TableCodec", seed: int, conditions: "Mapping[int, Condition]") -> None:
        super().__init__(out)
        self.table, self.seed, self.conditions = table, seed, conditions
        self.count = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self.append(csv_lines([self.table.names]).encode())
        return self

    def write(self, tokens: "Array") -> None:
        cells = self.table.decode(tokens, self.seed, self.count, self.conditions)
        self.count += len(tokens)
        self.write_cells(cells)

    def write_cells(self, cells: "Columns") -> None:
        self.append(csv_lines(self.table.spelled(cells)).encode())


class TableParquet(TableCsv):
    """The same with the types of the columns; needs pyarrow."""

    def __enter__(self) -> Self:
        SampleFile.__enter__(self)
        self.writer = parquet_writer(self.table, self.beside)
        return self

    def write_cells(self, cells: "Columns") -> None:
        self.writer.write_table(arrow_table(self.table, cells))

    def finish(self) -> None:
        self.writer.close()
        super().finish()


def csv_lines(rows: "Sequence[Sequence[str]]") -> str:
    """As CSV: quoted where needed, nothing interpreted."""
    lines = StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


class NumberedTexts(SampleFile):
    def __init__(self, out: Path, run: "Run") -> None:
        super().__init__(out)
        self.run = run
        self.count = 0

    def write(self, tokens: "Array") -> None:
        texts = numbered(self.run.texts(tokens), first=self.count + 1)
        self.append(("\n" * (self.count > 0) + "\n".join(texts)).encode())
        self.count += len(tokens)


class JsonLines(SampleFile):
    """For programs: one JSON object a line, with the ids that the tokenizer is known by."""

    def __init__(self, out: Path, run: "Run", labels: "Sequence[str]", each: int) -> None:
        super().__init__(out)
        self.run, self.labels, self.each = run, labels, each
        self.count = 0

    def write(self, tokens: "Array") -> None:
        assert self.run.tokenizer is not None
        ids = self.run.tokenizer.to_ids(tokens).tolist()
        pairs = zip(self.run.texts(tokens), ids, strict=True)
        rows = [
            {"text": text, "ids": row, **self._label(number)} for number, (text, row) in enumerate(pairs, self.count)
        ]
        self.count += len(rows)
        self.append("".join(f"{dumps(row, ensure_ascii=False)}\n" for row in rows).encode())

    def _label(self, number: int) -> dict[str, str]:
        return {"label": self.labels[number // self.each]} if self.labels else {}


class ImageGrid(SampleFile):
    """All images in one picture; of several labels a row for each."""

    def __init__(self, out: Path, shape: tuple[int, ...], values: int, labels: "Sequence[str]" = ()) -> None:
        super().__init__(out)
        self.shape, self.values, self.labels = shape, values, labels
        self.kept: list[Array] = []

    def write(self, tokens: "Array") -> None:
        self.kept.append(tokens)

    def finish(self) -> None:
        from vadd.report.images import grid_with_names, save_image, square_grid, tokens_to_images

        images = tokens_to_images(np.concatenate(self.kept), self.shape, self.values)
        scale = max(1, 64 // self.shape[0])
        if len(self.labels) > 1:
            save_image(grid_with_names(images, self.labels, scale=scale), self.beside)
        else:
            save_image(square_grid(images), self.beside, scale=scale)
        super().finish()


class HistogramPicture(SampleFile):
    """How often each pair of values comes."""

    def __init__(self, out: Path, values: int) -> None:
        super().__init__(out)
        self.counts = np.zeros((values, values), dtype=np.int64)

    def write(self, tokens: "Array") -> None:
        np.add.at(self.counts, (tokens[:, 0], tokens[:, 1]), 1)

    def finish(self) -> None:
        from vadd.report.figures import histogram_panels, save_figure

        total = self.counts.sum()
        save_figure(histogram_panels({"": [(f"{total} samples", self.counts / total)]}), self.beside)
        super().finish()


def numbered(texts: list[str], first: int = 1) -> list[str]:
    return [f"--- {number} ---\n{text}\n" for number, text in enumerate(texts, start=first)]


def check_format(run: "Run", out: Path, n: int) -> None:
    """Refuse, before anything is drawn, what the samples of this run cannot be written as."""
    check_disk(out, n, run.model.positions)
    is_text = run.tokenizer is not None
    shape = run.shape
    if run.table is not None:
        if out.suffix not in TABLE_FORMATS:
            raise UserError(f"rows of a table can be written as .csv, .parquet or .npy, not to {out}")
        if out.suffix == ".parquet":
            check_arrow(out)
        return
    if out.suffix not in (TEXT_FORMATS if is_text else PLAIN_FORMATS):
        kinds = ".npy, .csv, .txt or .jsonl" if is_text else ".npy, .csv or .png"
        raise UserError(f"the samples of this run can be written as {kinds}, not to {out}")
    if out.suffix == ".png" and len(shape) != 3 and run.model.positions != 2:
        raise UserError(
            f"a picture is drawn of images and of examples with 2 positions; these have {run.model.positions}: "
            "write them as .npy"
        )
    if out.suffix == ".png" and len(shape) == 3 and n > MOST_PICTURED:
        raise UserError(f"a picture holds at most {MOST_PICTURED} images, not {n}: write them as .npy")


def check_disk(out: Path, n: int, positions: int) -> None:
    """Refuse what the disk has no room for."""
    least = {".npy": 8 * n * positions, ".csv": 2 * n * positions, ".txt": 10 * n, ".jsonl": 20 * n}.get(out.suffix, 0)
    free = shutil.disk_usage(out.absolute().parent).free
    if least > free:
        raise UserError(
            f"{n:,} samples take at least {size_in_memory(least)} in {out}, and {size_in_memory(free)} are free"
        )


def sample_file(
    run: "Run",
    out: Path,
    n: int,
    seed: int = 0,
    conditions: "Mapping[int, Condition] | None" = None,
    labels: "Sequence[str]" = (),
) -> SampleFile:
    """Of ``n`` samples, in the format that the name ends in; with ``labels`` equally many of each, one after the other.
    Rows of a table are drawn back by the ``seed`` so that the ``conditions`` hold.
    """
    check_format(run, out, n)
    if run.table is not None and out.suffix != ".npy":
        kind = TableCsv if out.suffix == ".csv" else TableParquet
        return kind(out, run.table, seed, conditions or {})
    match out.suffix:
        case ".npy":
            return NpyFile(out, (n, *run.shape))
        case ".csv":
            return CsvFile(out)
        case ".txt":
            return NumberedTexts(out, run)
        case ".jsonl":
            return JsonLines(out, run, labels, n // max(1, len(labels)))
    if len(run.shape) == 3:
        return ImageGrid(out, run.shape, run.model.vocab_size, labels)
    return HistogramPicture(out, run.model.vocab_size)
