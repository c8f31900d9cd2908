"""Several processes judge as one: the same report to the last bit in each, and one of them writes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.children import together
from vadd.core import Model, Particles
from vadd.evaluation import BoundSettings, likelihood
from vadd.evaluation.reports import LikelihoodReport
from vadd.parallel import Processes, process_count
from vadd.run.loading import load
from vadd.studies.comparison import Measurements, Page, compare

SETTINGS = BoundSettings(Particles(3), (1, 3), delbo_draws=2, delbo_particles=(1, 2))
SMALL_BATCH = 37
"""Of 200 held-out examples: six batches, the last one short."""


def bounds_of(path: Path) -> LikelihoodReport:
    run = load(path)
    return likelihood.measure_bounds(run, run.data.test, SETTINGS)


def judge_and_compare(expected: dict[Path, LikelihoodReport]) -> None:
    """In each process; each does half of the batches."""
    patched: Any = likelihood
    patched.BATCH = SMALL_BATCH
    undisturbed, calls = Model.bound, []

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(named["steps"])
        return undisturbed(*arguments, **named)

    Model.bound = counted  # type: ignore[method-assign]
    assert process_count() == 2
    for path, report in expected.items():
        assert bounds_of(path) == report
    assert len(calls) == 2 * 2 * 3, "of two runs two bounds, each with three of six batches"


def test_two_processes_have_the_report_of_one(vadd_run: Path, mdlm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "BATCH", SMALL_BATCH)
    together(2, judge_and_compare, {path: bounds_of(path) for path in (vadd_run, mdlm_run)})


def shares() -> None:
    processes = Processes()
    for sizes in ([1], [3, 1], [2, 2, 2, 2, 1]):
        pieces = [torch.full((size,), number + 0.1) for number, size in enumerate(sizes)]
        found = processes.in_shares(sizes, pieces.__getitem__)
        assert found.dtype == torch.float64
        assert torch.equal(found, torch.cat(pieces).double())


def test_every_process_gets_all_numbers_in_order() -> None:
    shares()
    together(2, shares)


def in_order() -> None:
    """Piece number n is n pairs of sevens and n itself; each is made in one process only."""
    processes = Processes()
    for piece in range(5):
        owner = piece % processes.count
        mine = [torch.full((piece, 2), 7), torch.tensor(piece)] if owner == processes.index else None
        found = processes.to_main(owner, mine, [(piece, 2), ()])
        assert (found is not None) == processes.is_main
        if found is not None:
            assert (found[0].tolist(), int(found[1])) == ([[7, 7]] * piece, piece)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_main_process_gets_all_pieces_in_order(processes: int) -> None:
    together(processes, in_order)


def write_report(path: Path, out: Path) -> None:
    measurements = Measurements([1], 50, BoundSettings(Particles(2), (1,), limit=20))
    compare([load(path)], out, measurements, Page("both", ""))


def test_a_comparison_is_written_once(vadd_run: Path, tmp_path: Path) -> None:
    together(2, write_report, vadd_run, tmp_path / "report")
    write_report(vadd_run, tmp_path / "alone")
    written, alone = (
        {str(file.relative_to(place)) for file in place.rglob("*")}
        for place in (tmp_path / "report", tmp_path / "alone")
    )
    assert written == alone
    numbers = [(tmp_path / name / "results.json").read_text() for name in ("report", "alone")]
    assert numbers[0] == numbers[1]
