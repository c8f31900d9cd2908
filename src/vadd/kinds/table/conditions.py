"""What ``--where`` says of a column: a value, several, or a range."""

import re
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


def parse_condition(text: str) -> Condition:
    found = _PARTS.fullmatch(text)
    if found is None:
        raise UserError(f"--where takes COLUMN=VALUE, COLUMN=FROM-TO, COLUMN>=FROM or COLUMN<=TO, not {text!r}")
    return Condition(text, found[1].strip(), found[2], found[3].strip())
