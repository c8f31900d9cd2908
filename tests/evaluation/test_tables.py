"""Rows beside rows: total variation by hand, floors, classifiers, distances; imputation beside the usual imputers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.people import train_people
from vadd.core import Particles
from vadd.data import DiscreteDataset
from vadd.evaluation import evaluate
from vadd.evaluation.evaluators import Reference
from vadd.evaluation.likelihood import BoundSettings, some_of
from vadd.evaluation.reports import RunReport, StepResult, TableDistance
from vadd.evaluation.tables import HALVINGS, RowComparison, column_tv, mean_over_pairs, pair_tv, to_codes, to_numbers
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.columns import CategoryColumn
from vadd.report.tables import quality_table, worst_table
from vadd.run.loading import load
from vadd.studies.comparison import Measurements, Page, compare


def test_total_variation_by_hand() -> None:
    a, b = np.array([[0, 0], [1, 1], [0, 0], [1, 1]]), np.array([[0, 1], [1, 0], [0, 0], [1, 2]])
    assert column_tv(a, b, (2, 3)).tolist() == [0.0, 0.25]
    # Pairs of a: (0, 0) and (1, 1), half each; of b four that come once, of which (0, 0) is one of them.
    assert pair_tv(a, b, (2, 3))[0, 1] == pytest.approx(0.75)
    assert mean_over_pairs(pair_tv(a, a, (2, 3))) == 0
    unknown = np.array([[2, 0], [1, 1]])  # 2 is no value of the first column: nobody knows it
    assert column_tv(unknown, a, (2, 3)).tolist() == [0.5, 0.0]


def copies(rows: int, seed: int, independent: bool = False) -> np.ndarray:
    """Two columns of three values: the second repeats the first in nine rows of ten, or has nothing to do with it."""
    rng = np.random.default_rng(seed)
    first, other = rng.integers(0, 3, rows), rng.integers(0, 3, rows)
    return np.stack([first, np.where((rng.random(rows) < 0.9) & (not independent), first, other)], axis=1)


def dataset(rows: int = 2000) -> DiscreteDataset:
    columns = tuple(CategoryColumn(name, "category", "never", ("x", "y", "z")) for name in "ab")
    train, test = (torch.from_numpy(copies(count, seed)) for count, seed in ((rows, 0), (500, 1)))
    return DiscreteDataset("t", 3, (2,), train, test, table=TableCodec(columns))


def test_good_samples_score_as_rows_do_and_independent_columns_are_seen() -> None:
    comparison = RowComparison(Reference(dataset(), 100_000))
    assert comparison.samples == 1000
    good, bad = comparison(copies(1000, 5), 1), comparison(copies(1000, 6, independent=True), 1)
    assert good.pair_tv < 2 * good.pair_tv_floor
    halves = [comparison.halves[number] for number in range(HALVINGS)]
    floors = [mean_over_pairs(pair_tv(other, one, comparison.sizes)) for one, other in halves]
    assert good.pair_tv_floor == pytest.approx(np.mean(floors))
    assert len(set(floors)) > 1
    assert all(len(one) == len(other) == 1000 for one, other in halves)
    assert good.trained_on_rows == pytest.approx(0.93, abs=0.03)
    assert good.trained_on_samples == pytest.approx(good.trained_on_rows, abs=0.03)
    assert bad.column_tv < 3 * bad.column_tv_floor + 0.03
    assert bad.pair_tv > 0.5  # 0.6 without noise: 0.9 (1 - 1/3)
    assert bad.trained_on_samples is not None
    assert bad.trained_on_samples < 0.6
    assert good.row_distance == good.row_distance_floor == 0  # all nine rows are in the training set


def test_codes_go_to_scikit_learn_and_back() -> None:
    table = dataset().table
    assert table is not None
    rows = copies(20, 0)
    gaps = np.where(np.arange(40).reshape(20, 2) % 7 == 0, -1, rows)
    numbers = to_numbers(table, gaps)
    assert numbers.shape == (20, 6)
    assert np.isnan(numbers).sum() == 3 * (gaps == -1).sum()
    assert (to_codes(table, to_numbers(table, rows)) == rows).all()


def test_a_run_on_a_table_is_judged_and_reported(tmp_path: Path) -> None:
    run = load(train_people(tmp_path))
    bounds = BoundSettings(Particles(4), steps=[1], limit=10)
    (report,), page = compare([run], tmp_path / "report", Measurements([1, 2], 60, bounds), Page("t", "i"))
    assert [result.steps for result in report.results] == [1, 2]
    metrics = report.results[0].metrics
    assert isinstance(metrics, TableDistance)
    assert 0 < metrics.pair_tv_floor < 1
    assert report.imputation is not None
    assert 0 <= report.imputation.model <= 1
    assert report.imputation.cells > 0
    assert RunReport.model_validate(report.to_json()) == report
    assert {path.name for path in (tmp_path / "report" / "figures").iterdir()} >= {"marginals.png", "pairs.png"}
    text = page.read_text()
    assert "Samples beside rows of the table" in text
    assert "Filled cells that are right" in text
    assert quality_table([report]).columns[-1] == "nearest"
    assert "What samples get wrong most" in text


def test_the_worst_columns_and_pairs_are_named(tmp_path: Path) -> None:
    run = load(train_people(tmp_path))
    evaluator = RowComparison(Reference(run.data, 200))
    rows = run.data.train.numpy()[: evaluator.samples].copy()
    wrong = 2
    rows[:, wrong] = 0
    metrics = evaluator(rows, 1)
    name = evaluator.names[wrong]
    assert metrics.worst_columns[0].columns == (name,)
    assert metrics.worst_columns[0].tv > 2 * metrics.worst_columns[0].floor
    assert all(name in pair.columns and len(pair.columns) == 2 for pair in metrics.worst_pairs)
    assert len(metrics.worst_pairs) == 3
    report = RunReport(recipe="people", model="vadd", results=(StepResult(steps=1, metrics=metrics),))
    table = worst_table([report])
    assert table is not None
    assert str(table.rows[0][2]).startswith(f"{name} {metrics.worst_columns[0].tv:.3f}")


def test_bounds_of_rows_with_unknown_cells_say_so(tmp_path: Path) -> None:
    run = load(train_people(tmp_path, "data.missing=unknown"))
    assert run.model.unknowns
    assert run.table is not None
    bound = evaluate(run, [], bounds=BoundSettings(Particles(2), steps=[2], limit=30)).report.likelihood
    assert bound is not None
    assert not bound.bounds[0].valid
    assert bound.bounds[0].convention == "unknown cells left out"
    chosen = run.data.test[some_of(len(run.data.test), 30, 0)]
    assert bound.bounds[0].scored == int((chosen != run.kind.vocab_size).sum()) < 30 * 6
    whole = chosen[(chosen != run.kind.vocab_size).all(1)]
    assert run.bound(2, whole, particles=2).bounds[2].valid, "nothing is unknown in these"
    assert int(run.sample(200).max()) < run.kind.vocab_size
