"""What an example is, and everything that depends on it.

A data set and a run have a :class:`Kind`. Points, arrays and images are here, text is in
:mod:`vadd.kinds.text.kind`, rows of a table are in :mod:`vadd.kinds.table.kind`.
Packages above ask it, or have a registry by its ``name``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vadd.errors import UserError
from vadd.files import write_json
from vadd.kinds.arrays import TO_FILL, Array, read_examples
from vadd.kinds.files import SampleFile, Write, check_target, collected_file, encoded_file, npy_file, numbers_as_csv
from vadd.kinds.gaps import Gaps, PictureGaps, half_mask, picture_shape, read_mask, read_pictures
from vadd.words import check_known, listed

if TYPE_CHECKING:
    from vadd.kinds.table.columns import Condition

DATA, TOKENIZER, TABLE = "data.json", "tokenizer", "table.json"
"""What a run keeps of its data."""
Draw = Callable[["Kind", Array, Sequence[str], Path], None]
"""Draws what the samples of a kind come to, with their labels, to a file."""


MOST_PICTURED = 1024
"""Images in one picture."""


@dataclass(frozen=True)
class How:
    """How samples are decoded: rows of a table are drawn by ``seed`` so that the ``conditions`` hold; ``labels`` have
    equally many samples each, one label after the other."""

    seed: int = 0
    conditions: "Mapping[int, Condition]" = field(default_factory=dict)
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Kind:
    """N integers in 0..V-1; what it does here holds for plain arrays."""

    shape: tuple[int, ...]
    """Of one example, before it is flattened."""
    vocab_size: int
    """V: values are 0..V-1, and V is the mask."""
    pad: int | None = None
    """The value that fills examples up, where one does; it is not scored."""
    sizes: tuple[int, ...] | None = None
    """Where positions have different numbers of values: position i has 0..sizes[i]-1, and V is the largest size."""
    labels: tuple[str, ...] | None = None
    """The names of the labels, for data that a model learns from with their labels."""
    unknowns: bool = False
    """Whether examples may hold V, the mask, where a value is unknown: it stays hidden and is not scored."""
    label_shares: tuple[float, ...] | None = field(default=None, compare=False)
    """How frequent each label is among the training examples; not known of runs made before it was kept."""

    name: ClassVar[str] = "array"
    noun: ClassVar[str] = "arrays"
    unit: ClassVar[str | None] = None
    """What a position of text holds: character, byte or token; a perplexity per character is not one per token."""
    suffixes: ClassVar[tuple[str, ...]] = (".npy", ".csv", ".png")
    """Of files of samples; the first is the one to recommend."""
    file: ClassVar[str] = "FILE.npy"
    try_out: ClassVar[tuple[str, str, str]] = ("-n 1000", "--steps 1", "")
    """Options of a first ``vadd sample``: how many, in how many steps, and where to."""

    @property
    def parts(self) -> list[str]:
        """A line for each part of an example, where they differ."""
        return []

    @property
    def ordered(self) -> tuple[int, ...] | None:
        """How many values of each position, the first ones, are bins of numbers in their order, for rows of a table."""
        return None

    @property
    def positions(self) -> int:
        """N, the values of an example."""
        return math.prod(self.shape)

    # Showing and writing samples

    def decode(self, tokens: Array, how: How = How(), first: int = 0) -> Any:  # noqa: B008  # frozen
        """Samples (n, N) as what they are: arrays, texts, columns of a table; ``first`` is the number of the first."""
        return np.asarray(tokens).reshape(len(tokens), *self.shape)

    def texts(self, tokens: Array) -> list[str]:
        raise UserError(f"the samples of this run are {self.noun}, not text")

    def pieces(self, row: Array) -> list[str]:
        """What each position of an example (N,) writes."""
        return [self.piece(value) for value in np.asarray(row).tolist()]

    def piece(self, value: int) -> str:
        """What a value writes by itself."""
        return f"{value} "

    def lines(self, tokens: Array, how: How = How(), first: int = 0) -> list[str]:  # noqa: B008  # frozen
        """Samples for the terminal."""
        return [" ".join(map(str, row)) for row in np.asarray(tokens).tolist()]

    def default_count(self, out: Path | None, labels: int) -> int:
        """How many samples to draw where no number is given, equally many of each label."""
        return 1000 - 1000 % max(1, labels) or labels

    def check_file(self, out: Path, n: int) -> None:
        """Refuse, before anything is drawn, a file that n samples cannot be written to."""
        if out.suffix == ".png" and self.name == "array":
            raise UserError(f"a picture needs images or 2 positions, not {self.positions} positions: write .npy")
        if out.suffix not in self.suffixes:
            raise UserError(f"the samples of this run can be written as {listed(self.suffixes)}, not to {out}")
        if out.suffix == ".png" and self.name == "image" and n > MOST_PICTURED:
            raise UserError(f"a picture holds at most {MOST_PICTURED} images, not {n}: write them as .npy")
        check_target(out, n, self.positions)

    def sample_file(self, out: Path, n: int, how: How = How(), draw: Draw | None = None) -> SampleFile:  # noqa: B008
        """For n samples, in the format of the suffix; pictures are drawn by ``draw``."""
        self.check_file(out, n)
        if out.suffix == ".npy":
            return npy_file(out, (n, *self.shape))
        if out.suffix == ".png" and draw is not None:
            collect, collected = self.collector()
            return collected_file(out, collect, lambda part: draw(self, collected(), how.labels, part))
        return self.text_file(out, n, how)

    def collector(self) -> tuple[Write, Callable[[], Array]]:
        """What takes samples for a picture, and what gives back all that the picture needs."""
        kept: list[Array] = []
        return kept.append, lambda: np.concatenate(kept)

    def text_file(self, out: Path, n: int, how: How) -> SampleFile:
        """The formats beside .npy and .png."""
        return encoded_file(out, lambda tokens, _: numbers_as_csv(tokens))

    # What is to be filled

    def read_examples(self, file: Path) -> Array:
        """One or several examples in an .npy file, flat or not: (n, N)."""
        return read_examples(file, self.shape)

    def fill_array(self, file: Path) -> Gaps:
        flat = self.read_examples(file).astype(np.int64)
        if not (flat == TO_FILL).any():
            raise UserError(f"there is nothing to fill in {file}: mark it with {TO_FILL}")
        return Gaps(self, flat)

    def fill_text(self, text: str, gap: int | None = None) -> Gaps:
        raise self._refusal("text; give it an --image or an --array")

    def fill_between(self, prefix: str, suffix: str, length: int | None = None) -> Gaps:
        return self.fill_text("")

    def fill_lines(self, file: Path, gap: int | None = None) -> Gaps:
        return self.fill_text("")

    def fill_table(self, file: Path, seed: int = 0) -> Gaps:
        raise self._refusal("a table")

    def check_images(self) -> None:
        """Refuse examples that cannot be filled like images."""
        picture_shape(self.shape)

    def read_images(self, file: Path) -> Array:
        """(n, N) from a picture or an .npy file; arrays with two axes count as images too."""
        return read_pictures(file, self.shape, self.vocab_size)

    def fill_images(self, images: Array, mask: Path | None = None, keep: str | None = None) -> Gaps:
        """Images (n, N) of which the white part of a mask is filled, or all but one half."""
        if mask is None and keep is None:
            raise UserError("nothing says what to fill in the image; give --mask FILE (white is filled) or --keep HALF")
        fill = half_mask(str(keep), self.shape) if mask is None else read_mask(mask, self.shape)
        return PictureGaps(self, np.where(fill, TO_FILL, images))

    def _refusal(self, wanted: str) -> UserError:
        return UserError(f"the examples of this run are {self.noun} of shape {self.shape}, not {wanted}")

    def where(self, conditions: Sequence[str] | Mapping[str, object]) -> "dict[int, Condition]":
        """What ``--where`` says of which column of a table."""
        raise self._refusal("a table")

    def label_number(self, label: str | int | None) -> int | None:
        """Of a label by its name; None for none, and for models without labels."""
        if label is None or not self.labels:
            return None
        check_known("unknown label", [str(label)], self.labels)
        return self.labels.index(str(label))

    def check_same_coding(self, other: "Kind", source: str) -> None:
        """Refuse another kind whose values mean something else."""

    # In a run's folder

    def to_json(self) -> dict[str, Any]:
        """What data.json of a run and config.json of an export say of it; of most kinds only the first three."""
        about: dict[str, Any] = {"shape": list(self.shape), "vocab_size": self.vocab_size, "pad": self.pad}
        optional = {"sizes": self.sizes, "labels": self.labels, "label_shares": self.label_shares}
        about |= {key: list(value) for key, value in optional.items() if value is not None}
        return about | ({"unknowns": True} if self.unknowns else {})

    def save(self, folder: Path, fingerprint: str) -> None:
        """Into a run's folder, with the ``fingerprint`` of its data; a run that has another kind already refuses it."""
        write_json(folder / DATA, self.to_json() | {"sha256": fingerprint})

    def copy_files(self, folder: Path, target: Path) -> None:
        """What lies in a run's folder beside data.json, into another folder."""


class PointKind(Kind):
    """Two positions: pictures show how often each pair of values comes."""

    name, noun = "points", "points"

    def collector(self) -> tuple[Write, Callable[[], Array]]:
        counts = np.zeros((self.vocab_size, self.vocab_size), dtype=np.int64)
        return lambda tokens: np.add.at(counts, (tokens[:, 0], tokens[:, 1]), 1), lambda: counts


class ImageKind(Kind):
    """Height, width and 1 or 3 channels; pictures show all images, of several labels a row for each."""

    name, noun = "image", "images"
    try_out = ("-n 64", "--steps 1", "--out samples.png")

    def default_count(self, out: Path | None, labels: int) -> int:
        if out is None or out.suffix != ".png":
            return super().default_count(out, labels)
        return 8 * labels if labels > 1 else 64
