"""Tables of pandas as arrays of integers."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vadd.data.dataset import Array
from vadd.errors import UserError

MOST_VALUES = 1000


def is_frame(data: Any) -> bool:
    """Without importing pandas: who gives a DataFrame has done that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def frame_to_array(frame: Any) -> Array:
    """A row is an example and a column a position; what a column holds is numbered in its order, from 0."""
    if frame.empty:
        raise UserError("the DataFrame is empty")
    columns = []
    for name in frame.columns:
        column = frame[name]
        if column.isna().any():
            raise UserError(f"the column {name!r} has missing values; fill them or leave these rows out")
        codes, values = column.factorize(sort=True)
        if len(values) > MOST_VALUES:
            raise UserError(f"the column {name!r} has {len(values):,} values; cut it into at most {MOST_VALUES:,}")
        columns.append(codes)
    return np.stack(columns, axis=1).astype(np.int64)


def frame_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A DataFrame with a row for each of these."""
    try:
        import pandas
    except ImportError:
        raise UserError("a DataFrame needs pandas: pip install 'vadd[pandas]'") from None
    return pandas.DataFrame.from_records(list(rows))
