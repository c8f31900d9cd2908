"""What ``--where`` says of a column: a value, several, or a range."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vadd.errors import UserError

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*-\s*({_NUMBER})")
_PARTS = re.compile(r"(.+?)(>=|<=|=)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """``sex=F``, ``city=Ulm|Bonn``, ``age=40-49``, ``born=1990-01-01..1999-12-31``, ``age>=40``; ``city=`` is a missing
    cell.
    """

    text: str
    column: str
    operator: str
    value: str

    @property
    def missing(self) -> bool:
        return self.operator == "=" and not self.value

    @property
    def words(self) -> list[str] | None:
        """The values of a column of categories; None where this can only be a range."""
        return self.value.split("|") if self.operator == "=" else None

    def limits(self) -> tuple[str | None, str | None]:
        """The first and the last number, as they are written; None where there is no end."""
        if self.operator == ">=":
            return self.value, None
        if self.operator == "<=":
            return None, self.value
        if ".." in self.value:
            low, _, high = self.value.partition("..")
            return low.strip() or None, high.strip() or None
        found = _RANGE.fullmatch(self.value.strip())
        return (found[1], found[2]) if found else (self.value, self.value)


def parse_condition(text: str, names: Sequence[str] = ()) -> Condition:
    """Column ``names`` may hold = themselves: the longest name that fits is meant."""
    for name in sorted((name for name in names if text.startswith(name)), key=len, reverse=True):
        rest = text[len(name) :].lstrip()
        if rest.startswith(("=", ">=", "<=")):
            operator = rest[:2] if rest[:2] in (">=", "<=") else "="
            return Condition(text, name, operator, rest[len(operator) :].strip())
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise UserError(f"--where takes COLUMN=VALUE, COLUMN=FROM-TO, COLUMN>=FROM or COLUMN<=TO, not {text!r}")
    return Condition(text, parts[1].strip(), parts[2], parts[3].strip())
