"""How close samples come to training examples: against comparing every pair of sequences."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import vadd
from tests.helpers.exact import properties
from vadd.evaluation import EvaluationOptions, evaluate
from vadd.evaluation import divergence as module
from vadd.evaluation.divergence import MOST_ONE_HOT, distances_to_nearest, nearest_report
from vadd.evaluation.reports import NearestReport, NearestSamples, RunReport
from vadd.report.tables import nearest_table


def seeded_values(rows: int, positions: int, vocab_size: int, seed: int) -> Tensor:
    return torch.randint(vocab_size, (rows, positions), generator=torch.Generator().manual_seed(seed))


@given(
    st.integers(1, 6), st.integers(1, 9), st.integers(1, 5), st.sampled_from([2, 3, MOST_ONE_HOT, 300]), st.integers(0)
)
@properties
def test_the_distance_is_the_smallest_over_all_pairs(
    rows: int, known: int, positions: int, vocab_size: int, seed: int
) -> None:
    x, training = (seeded_values(n, positions, vocab_size, seed % 2**31 + n) for n in (rows, known))
    expected = (x[:, None] != training[None]).sum(-1).min(1).values
    assert torch.equal(distances_to_nearest(x, training, vocab_size), expected)


@pytest.mark.parametrize("vocab_size", [2, 300])
def test_the_parts_in_which_the_training_set_is_read_do_not_matter(
    vocab_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, training = seeded_values(5, 12, vocab_size, 1), seeded_values(40, 12, vocab_size, 2)
    whole = distances_to_nearest(x, training, vocab_size)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 7 * 12 * (2 if vocab_size == 2 else 1))
    seen: list[int] = []

    def progress(what: str, done: int = 0, total: int | None = None) -> None:
        seen.append(done)

    assert torch.equal(distances_to_nearest(x, training, vocab_size, progress), whole)
    assert len(seen) > 3
    assert seen[-1] == 40


def test_medians_are_those_of_samples_and_held_out_examples() -> None:
    training = torch.zeros(1, 4, dtype=torch.int64)
    held_out = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    copies, noise = torch.zeros(3, 4, dtype=torch.uint8), torch.ones(3, 4, dtype=torch.uint8)
    assert nearest_report({1: noise, 5: copies}, held_out, training, 2) == NearestReport(
        samples=(
            NearestSamples(steps=1, median=4.0, copies=0.0, closer=0.0),
            NearestSamples(steps=5, median=0.0, copies=1.0, closer=1.0),
        ),
        held_out=2.0,
        held_out_copies=0.0,
        held_out_closer=0.0,
        compared=1000,
    )


def test_copies_show_where_the_median_hides_them() -> None:
    """45% of the samples are training examples; the rest are as far away as held-out examples."""
    training, held_out = seeded_values(300, 40, 3, 1), seeded_values(200, 40, 3, 2)
    mixed = torch.cat([training[:90], seeded_values(110, 40, 3, 3)])
    report = nearest_report({4: mixed}, held_out, training, 3)
    (samples,) = report.samples
    assert samples.median > 0.8 * report.held_out
    assert samples.copies == 0.45
    assert samples.closer is not None
    assert samples.closer >= 0.45
    assert report.held_out_copies == 0
    assert report.held_out_closer is not None
    assert report.held_out_closer <= 0.05
    row = nearest_table([RunReport(recipe="r", model="vadd", results=(), nearest=report)]).rows[0]
    assert row[3] == "45.0% (0.0%)"


def test_the_report_has_them_when_asked_and_gives_them_back(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    assert evaluate(run, [1], 100).report.nearest is None
    report = evaluate(run, [1, 2], 100, options=EvaluationOptions(nearest=True)).report
    found = report.nearest
    assert found is not None
    drawn = run.sample(100, steps=2, seed=0)
    expected = (drawn[:, None] != run.data.train[None].long()).sum(-1).min(1).values.double().median()
    assert found.samples[1].median == float(expected)
    assert RunReport.model_validate(report.to_json()).nearest == found
    assert [row[1:3] for row in nearest_table([report]).rows] == [
        [1, f"{found.samples[0].median:g} ({found.held_out:g})"],
        [2, f"{expected:g} ({found.held_out:g})"],
    ]
