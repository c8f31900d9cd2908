"""Examples of which a part is missing, and how their completions are shown and written."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.files import numbers_as_csv

if TYPE_CHECKING:
    from vadd.kinds.kind import Kind

MOST_SHOWN = 20
Line = list[tuple[str, bool]]
"""Parts of a line for the terminal, with whether each was filled."""
Draw = Callable[["Kind", Array, Path], None]
"""Draws rows (n, columns, N) of examples to a file, V where a position is masked."""


@dataclass(frozen=True)
class Gaps:
    """Any numbers, -1 where one is missing; subclasses know texts, pictures and rows of a table."""

    kind: "Kind"
    x: Array
    """(n, N), -1 where there is something to fill."""
    suffixes: ClassVar[tuple[str, ...]] = (".npy", ".csv")
    needs_file: ClassVar[bool] = False

    @property
    def extents(self) -> list[slice]:
        """The part of each example that was asked for."""
        return [slice(None)] * len(self.x)

    @property
    def allowed(self) -> tuple[int, ...] | None:
        """How many values of each position a gap may be filled with; None: all."""
        return None

    def check_file(self, out: Path | None) -> None:
        """Refuse, before anything is drawn, what the completions cannot be written to."""
        if out is not None and out.suffix not in self.suffixes:
            raise UserError(f"these completions can be written as {' or '.join(self.suffixes)}, not to {out}")
        if out is None and self.needs_file:
            raise UserError(f"these completions need a file: --out FILE{' or '.join(self.suffixes)}")

    def lines(self, filled: Array) -> Iterator[Line]:
        """Completions (n, count, N) for the terminal."""
        rows = [(row, start) for completions, start in zip(filled, self.x, strict=True) for row in completions]
        for row, start in rows[:MOST_SHOWN]:
            parts = zip(row.tolist(), start == TO_FILL, strict=True)
            line = [part for value, gap in parts for part in ((str(value), bool(gap)), (" ", False))]
            yield line[:-1]
        if len(rows) > MOST_SHOWN:
            yield [(f"... {len(rows) - MOST_SHOWN} more; write them all with --out FILE.npy", False)]

    def write(self, filled: Array, out: Path, draw: Draw | None = None) -> None:
        if out.suffix == ".npy":
            np.save(out, filled.reshape(*filled.shape[:2], *self.kind.shape))
        else:
            out.write_bytes(numbers_as_csv(filled.reshape(-1, filled.shape[-1])))

    def probability_rows(self, filled: Array, chance: Array) -> Sequence[Sequence[str]]:
        raise UserError("--probabilities is for --table")


class PictureGaps(Gaps):
    suffixes = (".png", ".npy")
    needs_file = True

    def write(self, filled: Array, out: Path, draw: Draw | None = None) -> None:
        """As a picture a row for each image: what was given, then its completions."""
        if out.suffix == ".npy" or draw is None:
            super().write(filled, out)
            return
        masked = np.where(self.x == TO_FILL, self.kind.vocab_size, self.x)
        draw(self.kind, np.concatenate([masked[:, None], filled], axis=1), out)
