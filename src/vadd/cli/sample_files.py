"""Files of samples that grow chunk by chunk.

A file is written beside its place, under another name, and takes its place when it is whole: what an interruption
leaves behind never looks finished.
"""

from abc import ABC, abstractmethod
from io import BytesIO, StringIO
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.data.dataset import Array
    from vadd.runs.run import Run

PLAIN_FORMATS = (".npy", ".csv", ".png")
TEXT_FORMATS = (".npy", ".csv", ".txt", ".jsonl")
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
        with self.beside.open("ab") as file:
            file.write(content)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
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

    def __init__(self, out: Path, run: "Run") -> None:
        super().__init__(out)
        self.run = run

    def write(self, tokens: "Array") -> None:
        assert self.run.tokenizer is not None
        ids = self.run.tokenizer.to_ids(tokens).tolist()
        rows = ({"text": text, "ids": row} for text, row in zip(self.run.texts(tokens), ids, strict=True))
        self.append("".join(f"{dumps(row, ensure_ascii=False)}\n" for row in rows).encode())


class ImageGrid(SampleFile):
    """All images in one picture."""

    def __init__(self, out: Path, shape: tuple[int, ...], values: int) -> None:
        super().__init__(out)
        self.shape, self.values = shape, values
        self.kept: list[Array] = []

    def write(self, tokens: "Array") -> None:
        self.kept.append(tokens)

    def finish(self) -> None:
        from vadd.report.images import save_image, square_grid, tokens_to_images

        images = tokens_to_images(np.concatenate(self.kept), self.shape, self.values)
        save_image(square_grid(images), self.beside, scale=max(1, 64 // self.shape[0]))
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
    is_text = run.tokenizer is not None
    shape = run.shape
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


def sample_file(run: "Run", out: Path, n: int) -> SampleFile:
    """Of ``n`` samples, in the format that the name ends in."""
    check_format(run, out, n)
    match out.suffix:
        case ".npy":
            return NpyFile(out, (n, *run.shape))
        case ".csv":
            return CsvFile(out)
        case ".txt":
            return NumberedTexts(out, run)
        case ".jsonl":
            return JsonLines(out, run)
    if len(run.shape) == 3:
        return ImageGrid(out, run.shape, run.model.vocab_size)
    return HistogramPicture(out, run.model.vocab_size)
