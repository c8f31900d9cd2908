"""Rows as DataFrames of pandas."""

from collections.abc import Mapping, Sequence
from typing import Any

from vadd.errors import UserError


def frame_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A DataFrame with a row for each of these."""
    try:
        import pandas
    except ImportError:
        raise UserError("a DataFrame needs pandas: pip install 'vadd[pandas]'") from None
    return pandas.DataFrame.from_records(list(rows))
