"""Examples that are text, and texts with gaps."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.files import SampleFile, encoded_file
from vadd.kinds.gaps import Draw as DrawRows
from vadd.kinds.gaps import Gaps, Line
from vadd.kinds.kind import TOKENIZER, How, Kind
from vadd.kinds.text.subwords import load_tokenizer
from vadd.kinds.text.templates import Template, Templates, Wrap, marked_text, pieces
from vadd.kinds.text.tokenizers import ByteTokenizer, CharacterTokenizer, Tokenizer, refuse_other

PAD = "·"


@dataclass(frozen=True)
class TextKind(Kind):
    tokenizer: Tokenizer = field(kw_only=True, compare=False)
    wrap: Wrap | None = field(default=None, kw_only=True, compare=False)
    """How documents became sequences; None where that is not known, of data sets made in Python."""

    name, noun = "text", "text"
    suffixes = (".npy", ".csv", ".txt", ".jsonl")
    file = "FILE.txt"
    try_out = ("-n 8", "--steps 32", "")

    def decode(self, tokens: Array, how: How = How(), first: int = 0) -> list[str]:  # noqa: B008  # frozen
        """Where an example is one padded document it ends at its first EOS; else several documents may follow each
        other, and blank lines part them.
        """
        return [self.tokenizer.text(row, padded=self.pad is not None) for row in np.asarray(tokens)]

    def texts(self, tokens: Array) -> list[str]:
        return self.decode(tokens)

    @property
    def unit(self) -> str:  # type: ignore[override]
        return {CharacterTokenizer.name: "character", ByteTokenizer.name: "byte"}.get(self.tokenizer.name, "token")

    def characters(self, tokens: Array) -> int | None:
        """How many characters text (n, N) has, where a token is not a character; BOS, EOS and pads have none."""
        if self.unit == "character":
            return None
        if self.pad is not None:
            return sum(map(len, self.texts(tokens)))
        return sum(len(text) for row in tokens for text in self.tokenizer.documents(row))

    def own_tokens(self, tokens: Array) -> list[Array]:
        """The values of each of the texts (n, N): all of them, or up to the first EOS if they are padded."""
        return list(tokens) if self.pad is None else [self.tokenizer.padded_document(row) for row in tokens]

    def pieces(self, row: Array) -> list[str]:
        ids, pad = self.tokenizer.to_ids(np.asarray(row)).tolist(), self.tokenizer.specials.pad
        return [PAD if number == pad else piece for number, piece in zip(ids, pieces(self.tokenizer, ids), strict=True)]

    def piece(self, value: int) -> str:
        number = int(self.tokenizer.to_ids(np.array([value]))[0])
        return PAD if number == self.tokenizer.specials.pad else self.tokenizer.decode([number])

    def lines(self, tokens: Array, how: How = How(), first: int = 0) -> list[str]:  # noqa: B008  # frozen
        return numbered(self.decode(tokens), first + 1)

    def default_count(self, out: Path | None, labels: int) -> int:
        return max(8, 2 * labels)

    def text_file(self, out: Path, n: int, how: How) -> SampleFile:
        def as_text(tokens: Array, first: int) -> bytes:
            return ("\n" * (first > 0) + "\n".join(numbered(self.decode(tokens), first + 1))).encode()

        def as_json(tokens: Array, first: int) -> bytes:
            lines = []
            texts = zip(self.decode(tokens), self.tokenizer.to_ids(tokens).tolist(), strict=True)
            for number, (text, ids) in enumerate(texts, start=first):
                label = {"label": how.labels[number // (n // len(how.labels))]} if how.labels else {}
                lines.append(json.dumps({"text": text, "ids": ids, **label}, ensure_ascii=False) + "\n")
            return "".join(lines).encode()

        if out.suffix == ".csv":
            return super().text_file(out, n, how)
        return encoded_file(out, as_text if out.suffix == ".txt" else as_json)

    @property
    def templates(self) -> Templates:
        if self.wrap is None:
            raise UserError("this run does not know how its texts became sequences; give it an --array")
        return Templates(self.tokenizer, self.wrap, self.positions)

    def fill_text(self, text: str, gap: int | None = None) -> "TextGaps":
        return TextGaps.of(self, [self.templates.from_text(text, gap)])

    def fill_between(self, prefix: str, suffix: str, length: int | None = None) -> "TextGaps":
        return TextGaps.of(self, [self.templates.from_ends(prefix, suffix, length)])

    def fill_lines(self, file: Path, gap: int | None = None) -> "TextGaps":
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise UserError(f"{file} is not text in UTF-8") from None
        made = []
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    made.append(self.templates.from_text(line, gap))
                except UserError as error:
                    raise UserError(f"{file}, line {number}: {error}") from None
        if not made:
            raise UserError(f"{file} holds no text")
        return TextGaps.of(self, made)

    def check_same_coding(self, other: Kind, source: str) -> None:
        if isinstance(other, TextKind):
            refuse_other(self.tokenizer, other.tokenizer, source)

    def save(self, folder: Path, fingerprint: str) -> None:
        place = folder / TOKENIZER
        if place.exists():
            refuse_other(load_tokenizer(place), self.tokenizer, str(folder))
        else:
            self.tokenizer.save(place)
        super().save(folder, fingerprint)

    def copy_files(self, folder: Path, target: Path) -> None:
        shutil.copytree(folder / TOKENIZER, target / TOKENIZER)


@dataclass(frozen=True)
class TextGaps(Gaps):
    kind: TextKind
    templates: Sequence[Template]
    suffixes = (".txt", ".jsonl")

    @classmethod
    def of(cls, kind: TextKind, templates: Sequence[Template]) -> "TextGaps":
        return cls(kind, np.stack([template.values for template in templates]), templates)

    @property
    def extents(self) -> list[slice]:
        return [template.extent for template in self.templates]

    def marked(self, template: Template, row: Array) -> Line:
        """The text of a completion (N,) in parts, with whether each was filled."""
        extent, padded = template.extent, self.kind.pad is not None
        return marked_text(self.kind.tokenizer, row[extent], template.values[extent] == TO_FILL, padded=padded)

    def lines(self, filled: Array) -> Iterator[Line]:
        for name, template, row in self._completions(filled):
            yield [(f"--- {name} ---", False)]
            yield self.marked(template, row)
            yield []

    def write(self, filled: Array, out: Path, draw: DrawRows | None = None) -> None:
        records = [(name, self._record(template, row)) for name, template, row in self._completions(filled)]
        texts = "\n".join(f"--- {name} ---\n{record['text']}\n" for name, record in records)
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for _, record in records)
        out.write_text(texts if out.suffix == ".txt" else lines, encoding="utf-8")

    def _record(self, template: Template, row: Array) -> dict[str, Any]:
        tokenizer, values = self.kind.tokenizer, row[template.extent]
        text, ids = tokenizer.text(values, padded=self.kind.pad is not None), tokenizer.to_ids(values).tolist()
        known = (template.values[template.extent] != TO_FILL).tolist()
        return {"prompt": template.prompt, "text": text, "ids": ids, "known": known}

    def _completions(self, filled: Array) -> Iterator[tuple[str, Template, Array]]:
        for prompt, (template, rows) in enumerate(zip(self.templates, filled, strict=True), start=1):
            for number, row in enumerate(rows, start=1):
                yield str(number) if len(self.templates) == 1 else f"{prompt}.{number}", template, row


def numbered(texts: list[str], first: int = 1) -> list[str]:
    return [f"--- {number} ---\n{text}\n" for number, text in enumerate(texts, start=first)]
