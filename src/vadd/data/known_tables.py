"""Tables that ship with a package: real data without a download."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from vadd.errors import UserError
from vadd.kinds.table.reading import RawTable, read_table


@dataclass(frozen=True)
class KnownTable:
    about: str
    file: str
    """Inside statsmodels."""


TABLES = {
    "fair": KnownTable("6,366 answers to a survey about marriages, 9 columns", "datasets/fair/fair.csv"),
    "randhie": KnownTable(
        "20,190 people of the RAND health insurance experiment, 10 columns", "datasets/randhie/randhie.csv"
    ),
}


def table_file(name: str) -> Path | None:
    """Where it lies; None where statsmodels is not installed."""
    package = find_spec("statsmodels")  # not imported, which takes seconds
    if package is None or not package.submodule_search_locations:
        return None
    file = Path(package.submodule_search_locations[0]) / TABLES[name].file
    return file if file.is_file() else None


def known_table(name: str) -> RawTable:
    file = table_file(name)
    if file is None:
        raise UserError(f"the table {name} ships with statsmodels: pip install 'vadd[tables]'")
    return replace(read_table(file), source=name)
