"""What the columns of a table are: inferred from the cells, shown, and editable as YAML."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vadd.errors import UserError
from vadd.kinds.table.reading import RawTable
from vadd.settings import explained, unknown_option
from vadd.words import check_known

Kind = Literal["category", "boolean", "integer", "real", "date", "datetime", "skip"]
LONGEST_EXAMPLE = 20
Missing = Literal["value", "unknown"]

Draw = Literal["values", "tails", "uniform"]

CATEGORIES, BINS = 100, 50
"""Most values of a column, by default: categories, and numbers or dates."""
MOST_BINS, ROWS_OF_A_BIN = 200, 100
"""Of recipes for own tables: so many bins, or fewer that have so many rows each."""
MOST_CATEGORIES = 10_000
FEWEST_NAMES = 20
"""From so many rows on, a text that is different in each of them is taken for the name of the row."""
SURE = 20.0
"""Independent integers within the range of an identifier would all differ with a probability below exp(-20)."""
DATE_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
TIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f")

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")
_REAL = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class ColumnSpec(BaseModel):
    """How one column is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Kind
    values: int = Field(BINS, ge=1, le=MOST_CATEGORIES)
    """Most values; rarer categories go together."""
    draw: Draw = "values"
    """Numbers come back from the training values of their bin, in the first and last bin from between them, or
    uniformly within it.
    """
    missing: Missing = "value"
    """A value of its own, or unknown: never scored and never drawn."""
    format: str | None = None
    """Of dates in a CSV, as strptime has it."""


@dataclass(frozen=True)
class ColumnReport:
    """A column as ``vadd data inspect`` shows it."""

    name: str
    spec: ColumnSpec
    distinct: int
    missing: int
    examples: tuple[str, ...]
    problem: str | None = None

    @property
    def cells(self) -> list[str]:
        """Name, kind, number of values, missing cells, the most frequent values."""
        skipped = self.spec.kind == "skip"
        grouped = self.distinct > self.spec.values and not skipped
        values = f"{self.distinct:,}" + (f" in {self.spec.values}" if grouped else "")
        missing = f"{self.missing:,}" if self.missing else "-"
        shown = self.problem or ", ".join(" ".join(text.split())[:LONGEST_EXAMPLE] for text in self.examples)
        return [self.name, "left out" if skipped else self.spec.kind, values, missing, shown]


Schema = dict[str, ColumnSpec]


def usual_bins(rows: int) -> int:
    """For recipes of own tables: bins share weights, so that many are learnt."""
    return max(BINS, min(MOST_BINS, rows // ROWS_OF_A_BIN))


def infer(table: RawTable, missing: Missing = "value", bins: int = BINS, draw: Draw = "values") -> Schema:
    """A spec for each column, from its cells; numbers get ``bins`` and ``draw``."""
    drawn = {"values": bins} | ({"draw": draw} if draw != "values" else {})
    return {name: _infer_column(cells, table.spelled, missing, drawn) for name, cells in table.columns.items()}


def identifiers(table: RawTable, schema: Schema) -> list[str]:
    """Columns of integers that are different in every row, and so dense that by chance some would be alike."""
    found = []
    for name in (name for name, spec in schema.items() if spec.kind == "integer"):
        numbers = {int(cell) for cell in table.columns[name] if cell is not None}
        span = max(numbers) - min(numbers) + 1
        if len(numbers) == table.rows and table.rows**2 / (2 * span) > SURE:
            found.append(name)
    return found if len(found) < len(schema) else []


def _infer_column(cells: Sequence[Any], spelled: bool, missing: Missing, of_numbers: dict[str, Any]) -> ColumnSpec:
    known = {cell for cell in cells if cell is not None}
    kind: Kind = "category" if spelled or not known else _kind_of_cells(known)
    format = None
    if known and all(isinstance(cell, str) for cell in known):
        of_words, format = _kind_of_words(known)
        # pandas leaves the dates of a CSV as text. Its numbers that are text are codes, for all that is known.
        kind = of_words if spelled or format is not None else kind
    values = {"values": CATEGORIES} if kind in ("category", "boolean") else of_numbers
    return ColumnSpec(kind=kind, missing=missing, format=format, **values)


def _kind_of_words(words: set[str]) -> tuple[Kind, str | None]:
    if {word.lower() for word in words} == {"true", "false"} and len(words) == 2:
        return "boolean", None
    if all(_INTEGER.fullmatch(word) for word in words) and "-0" not in words:
        return "integer", None
    # Codes like 007 are not numbers: they would come back without their zeros.
    if all(_REAL.fullmatch(word) and math.isfinite(float(word)) for word in words):
        return "real", None
    for kind, formats in (("date", DATE_FORMATS), ("datetime", TIME_FORMATS)):
        fitting = [format for format in formats if all(_parses(word, format) for word in words)]
        # Where both orders of day and month fit, the order is unknown: it stays text, unless a schema says which.
        if len(fitting) == 1 or (fitting and kind == "datetime"):
            return kind, fitting[0]  # type: ignore[return-value]
    return "category", None


def _parses(word: str, format: str) -> bool:
    try:
        # Back again too: else 2020-1-5 would come back as 2020-01-05.
        return datetime.strptime(word, format).strftime(format) == word
    except ValueError:
        return False


def _kind_of_cells(cells: set[Any]) -> Kind:
    def all_are(*types: type) -> bool:
        return all(isinstance(cell, types) for cell in cells)

    if all_are(bool):
        return "boolean"
    if any(isinstance(cell, bool | str) for cell in cells):
        return "category"
    if all_are(int) and max(abs(cell) for cell in cells) < 2**63:
        return "integer"
    if all_are(int, float) and all(math.isfinite(cell) for cell in cells):
        return "real"
    if all_are(datetime) and all(cell.tzinfo is None for cell in cells):
        return "datetime"
    return "date" if all_are(date) and not any(isinstance(cell, datetime) for cell in cells) else "category"


def inspect(table: RawTable, schema: Schema) -> list[ColumnReport]:
    reports = []
    for name, spec in schema.items():
        counts = Counter(cell for cell in table.columns[name] if cell is not None)
        examples = tuple(str(value) for value, _ in counts.most_common(3))
        problem = None if spec.kind == "skip" else _problem(spec, counts)
        reports.append(ColumnReport(name, spec, len(counts), table.rows - counts.total(), examples, problem))
    return reports


def _problem(spec: ColumnSpec, counts: "Counter[Any]") -> str | None:
    """Why a column cannot be learnt, if it cannot."""
    if not counts:
        return "holds nothing but missing values"
    if spec.kind == "category" and len(counts) > MOST_CATEGORIES:
        return f"has {len(counts):,} different texts, more than {MOST_CATEGORIES:,}"
    if spec.kind == "category" and len(counts) == counts.total() >= FEWEST_NAMES:
        return "has another text in every row: it names the rows"
    return None


def refuse_problems(table: RawTable, schema: Schema) -> None:
    for report in (report for report in inspect(table, schema) if report.problem is not None):
        what = f"{table.source}: the column {report.name!r} {report.problem}"
        raise UserError(f"{what}; leave it out with data.skip=[{report.name}]")


def with_skipped(schema: Schema, names: Sequence[str], source: str) -> Schema:
    """The columns ``names`` are left out."""
    check_known(f"{source} has no column", names, schema)
    return {name: spec.model_copy(update={"kind": "skip"}) if name in names else spec for name, spec in schema.items()}


def to_yaml(schema: Schema) -> str:
    """For people to edit: what was inferred."""
    entries = {name: spec.model_dump(exclude_unset=True, exclude_none=True) for name, spec in schema.items()}
    return yaml.safe_dump({"columns": entries}, sort_keys=False, width=120)


def read_schema(path: Path, table: RawTable, bins: int = BINS, draw: Draw = "values") -> Schema:
    """An edited schema. It may say less than all, and the rest is inferred; what it says must be about columns that
    the table has.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the schema {path}: {' '.join(str(error).split())}") from None
    stated = content.get("columns") if isinstance(content, dict) else None
    if not isinstance(stated, dict):
        raise UserError(f"{path} is not a schema: it should have a mapping 'columns'")
    schema = infer(table, bins=bins, draw=draw)
    check_known(f"{path}: {table.source} has no column", map(str, stated), schema)
    for name, entry in stated.items():
        what = f"{path}: the column {name!r}"
        if not isinstance(entry, dict):
            raise UserError(f"{what} should have settings, like kind: category")
        for key in entry.keys() - ColumnSpec.model_fields.keys():
            raise UserError(f"{what}: {unknown_option(str(key), 'a column', ColumnSpec.model_fields)}")
        inferred = schema[name].model_dump()
        if entry.get("kind", inferred["kind"]) != inferred["kind"]:
            inferred.pop("values")  # the default of another kind
            inferred.pop("format")
        try:
            schema[name] = ColumnSpec.model_validate(inferred | entry)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{what}: {explained(first, '.'.join(map(str, first['loc'])), first['input'])}") from None
    return schema
