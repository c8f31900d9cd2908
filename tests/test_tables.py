"""SDGym's two functions for custom synthesizers, as its documentation has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.tiny import TINY_TABLE
from vadd.errors import UserError
from vadd.recipe.recipe import parse_value
from vadd.tables import columns_of, get_trained_synthesizer, sample_from_synthesizer

SETTINGS = {key: parse_value(text) for key, _, text in (change.partition("=") for change in TINY_TABLE)}
METADATA = {
    "primary_key": "key",
    "columns": {
        "key": {"sdtype": "id"},
        "colour": {"sdtype": "categorical"},
        "size": {"sdtype": "numerical"},
        "mail": {"sdtype": "email", "pii": True},
    },
}


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(0).integers(0, 3, 120)
    return pandas.DataFrame(
        {
            "key": np.arange(120) + 1000,
            "colour": np.array(["red", "green", "blue"])[numbers],
            "mail": [f"someone{number}@example.org" for number in range(120)],
            "size": numbers * 10,
        }
    )


def test_a_synthesizer_is_trained_and_sampled_as_sdgym_does(tmp_path: Path) -> None:
    real = frame()
    synthesizer = get_trained_synthesizer(real, METADATA, **SETTINGS)
    synthetic = sample_from_synthesizer(synthesizer, 30)
    assert list(synthetic.columns) == list(real.columns)
    assert len(synthetic) == 30
    assert synthetic["key"].is_unique
    assert synthetic["mail"].is_unique
    assert not set(synthetic["mail"]) & set(real["mail"]), "names of people are not repeated"
    assert set(synthetic["colour"]) <= {"red", "green", "blue"}
    assert set(synthetic["size"]) <= {0, 10, 20}
    assert sample_from_synthesizer(synthesizer, 30, seed=1).equals(sample_from_synthesizer(synthesizer, 30, seed=1))


def test_metadata_are_read_in_all_their_forms() -> None:
    class Metadata:
        def to_dict(self) -> dict[str, Any]:
            return {"tables": {"people": METADATA}}

    expected = {"key": "id", "colour": "categorical", "size": "numerical", "mail": "email"}
    assert columns_of(METADATA) == columns_of(Metadata()) == expected
    assert columns_of(None) == {}
    assert columns_of({"columns": {"a": {"sdtype": "numerical"}}, "primary_key": "a"}) == {"a": "id"}


def test_mistakes_are_one_line() -> None:
    real = frame()
    mistakes: tuple[tuple[Any, Any, str], ...] = (
        ([[1, 2]], METADATA, "learns from a DataFrame"),
        (real[:0], METADATA, "at least one row"),
        (real, {"columns": {"weight": {"sdtype": "numerical"}}}, "the column 'weight', which the table does not have"),
        (real[["key"]], {"columns": {"key": {"sdtype": "id"}}}, "nothing is left to learn"),
        (real, {"tables": {"a": {}, "b": {}}}, "describe 2 tables"),
        (real, "people.json", "not str"),
    )
    for data, metadata, said in mistakes:
        with pytest.raises(UserError, match=said):
            get_trained_synthesizer(data, metadata)
