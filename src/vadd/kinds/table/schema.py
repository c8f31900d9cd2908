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
from vadd.words import suggestion

Kind = Literal["category", "boolean", "integer", "real", "date", "datetime", "skip"]
LONGEST_EXAMPLE = 20
Missing = Literal["value", "unknown"]

CATEGORIES, BINS = 100, 50
"""Most values of a column, by default: categories, and numbers or dates."""
MOST_CATEGORIES = 10_000
FEWEST_NAMES = 20
"""From so many rows on, a text that is different in each of them is taken for the name of the row."""
DATE_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
TIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f")

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class ColumnSpec(BaseModel):
    """How one column is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Kind
    values: int = Field(BINS, ge=1, le=MOST_CATEGORIES, description="most values; rarer categories go together")
    draw: Literal["values", "uniform"] = Field(
        "values", description="numbers come back from the training values of their bin, or uniformly within it"
    )
    missing: Missing = Field("value", description="a value of its own, or unknown: never scored and never drawn")
    format: str | None = Field(None, description="of dates in a CSV, as strptime has it")


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
        shown = self.problem or ", ".join(_short(example) for example in self.examples)
        return [self.name, "left out" if skipped else self.spec.kind, values, missing, shown]


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= LONGEST_EXAMPLE else f"{one_line[: LONGEST_EXAMPLE - 3]}..."


Schema = dict[str, ColumnSpec]


def infer(table: RawTable, missing: Missing = "value") -> Schema:
    """A spec for each column, from its cells."""
    return {name: _infer_column(cells, table.spelled, missing) for name, cells in table.columns.items()}


def _infer_column(cells: Sequence[Any], spelled: bool, missing: Missing) -> ColumnSpec:
    known = {cell for cell in cells if cell is not None}
    kind: Kind = "category"
    format = None
    if known and spelled:
        kind, format = _kind_of_words(known)
    elif known:
        kind = _kind_of_cells(known)
        # pandas leaves the dates of a CSV as text. Numbers that are text are codes, for all that is known.
        if all(isinstance(cell, str) for cell in known) and _kind_of_words(known)[0] in ("date", "datetime"):
            kind, format = _kind_of_words(known)
    return ColumnSpec(
        kind=kind, values=CATEGORIES if kind in ("category", "boolean") else BINS, missing=missing, format=format
    )


def _kind_of_words(words: set[str]) -> tuple[Kind, str | None]:
    if {word.lower() for word in words} == {"true", "false"} and len(words) == 2:
        return "boolean", None
    if all(_INTEGER.fullmatch(word) for word in words) and "-0" not in words:
        return "integer", None
    if all(_REAL.fullmatch(word) and math.isfinite(float(word)) for word in words) and not _has_leading_zeros(words):
        return "real", None
    for kind, formats in (("date", DATE_FORMATS), ("datetime", TIME_FORMATS)):
        fitting = [format for format in formats if all(_parses(word, format) for word in words)]
        # Where both orders of day and month fit, the order is unknown: it stays text, unless a schema says which.
        if len(fitting) == 1 or (fitting and kind == "datetime"):
            return kind, fitting[0]  # type: ignore[return-value]
    return "category", None


def _has_leading_zeros(words: set[str]) -> bool:
    """Codes like 007 are not numbers: they would come back without their zeros."""
    return any(re.match(r"[+-]?0\d", word) for word in words)


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
    return [_report(name, spec, table.columns[name]) for name, spec in schema.items()]


def _report(name: str, spec: ColumnSpec, cells: Sequence[Any]) -> ColumnReport:
    counts = Counter(cell for cell in cells if cell is not None)
    examples = tuple(str(value) for value, _ in counts.most_common(3))
    return ColumnReport(name, spec, len(counts), len(cells) - counts.total(), examples, problem_of(name, spec, counts))


def problem_of(name: str, spec: ColumnSpec, counts: "Counter[Any]") -> str | None:
    """Why a column cannot be learnt, if it cannot."""
    if spec.kind == "skip":
        return None
    if not counts:
        return "holds nothing but missing values"
    if spec.kind != "category":
        return None
    if len(counts) > MOST_CATEGORIES:
        return f"has {len(counts):,} different texts, more than {MOST_CATEGORIES:,}"
    if len(counts) == counts.total() >= FEWEST_NAMES:
        return "has another text in every row: it names the rows"
    return None


def refuse_problems(reports: Sequence[ColumnReport], source: str) -> None:
    for report in reports:
        if report.problem is not None:
            # No kind helps where there is nothing to read.
            otherwise = ", or give it another kind in a schema" if report.distinct else ""
            raise UserError(
                f"{source}: the column {report.name!r} {report.problem}; leave it out with "
                f"data.skip=[{report.name}]{otherwise}"
            )


def with_skipped(schema: Schema, names: Sequence[str], source: str) -> Schema:
    """The columns ``names`` are left out."""
    for name in names:
        if name not in schema:
            raise UserError(f"{source} has no column {name!r}{suggestion(name, schema)}")
    return {name: spec.model_copy(update={"kind": "skip"}) if name in names else spec for name, spec in schema.items()}


def to_yaml(schema: Schema) -> str:
    """For people to edit: what says nothing is left out."""

    def entry(spec: ColumnSpec) -> dict[str, Any]:
        defaults = {"draw": "values", "format": None}
        numbers = spec.kind in ("integer", "real", "date", "datetime")
        useless = set() if numbers else {"draw", "format"}
        useless |= {"values", "missing"} if spec.kind == "skip" else set()
        content = spec.model_dump(exclude=useless)
        return {key: value for key, value in content.items() if defaults.get(key, ...) != value}

    return yaml.safe_dump({"columns": {name: entry(spec) for name, spec in schema.items()}}, sort_keys=False, width=120)


def read_schema(path: Path, table: RawTable) -> Schema:
    """An edited schema. It may say less than all, and the rest is inferred; what it says must be about columns that
    the table has.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UserError(f"cannot read the schema {path}: {reason}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    stated = content.get("columns") if isinstance(content, dict) else None
    if not isinstance(stated, dict):
        raise UserError(f"{path} is not a schema: it should have a mapping 'columns'")
    schema = infer(table)
    for name, entry in stated.items():
        if name not in schema:
            raise UserError(f"{path}: {table.source} has no column {name!r}{suggestion(str(name), schema)}")
        if not isinstance(entry, dict):
            raise UserError(f"{path}: the column {name!r} should have settings, like kind: category")
        inferred = schema[name].model_dump()
        if entry.get("kind", inferred["kind"]) != inferred["kind"]:
            inferred.pop("values")  # the default of another kind
            inferred.pop("format")
        try:
            schema[name] = ColumnSpec.model_validate(inferred | entry)
        except ValidationError as error:
            problems = "; ".join(_explain(each) for each in error.errors())
            raise UserError(f"{path}: the column {name!r}: {problems}") from None
    return schema


def _explain(error: Any) -> str:
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}{suggestion(key, ColumnSpec.model_fields)}"
    return f"{key}: {error['msg'].lower()}, not {error['input']!r}"
