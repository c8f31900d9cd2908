"""Scores of tables: the training rows themselves score best, independent columns are told apart."""

import numpy as np
import pytest

from vadd.studies.published_scores import PublishedTable

pytest.importorskip("sdmetrics")
pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")


def table(rows: int = 1000) -> PublishedTable:
    """A number, a category that follows its sign, and a label that follows it in nine rows of ten."""
    rng = np.random.default_rng(0)
    number = rng.standard_normal(rows)
    sign = np.where(number > 0, "above", "below")
    label = np.where((number > 0) ^ (rng.random(rows) < 0.1), "yes", "no")
    return PublishedTable.divided(pandas.DataFrame({"number": number, "sign": sign, "label": label}), ["sign"])


@pytest.mark.filterwarnings("ignore")  # of sdmetrics, about pandas
def test_rows_of_the_law_score_high_and_shuffled_columns_low() -> None:
    known = table()
    assert (len(known.train), len(known.test)) == (900, 100)
    same = known.scores({name: known.train[name].tolist() for name in known.train})
    assert same["Shape"] == same["Trend"] == 1
    # Nine rows of ten can be predicted at most: the AUC is about 0.9.
    assert 0.8 < same["AUC"] <= 1
    assert same["C2ST"] > 0.9
    assert known.scores_of_rows() == {"AUC": same["AUC"]}
    rng = np.random.default_rng(1)
    apart = known.scores({name: rng.permutation(known.train[name]).tolist() for name in known.train})
    assert apart["Shape"] == 1, "every column is as it was"
    assert apart["Trend"] < 0.9
    assert apart["AUC"] < 0.7
    assert apart["C2ST"] < 0.7
