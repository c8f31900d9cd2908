"""``run.bracket`` and ``vadd eval --bracket``: an interval around what a run of enumerable size really gives."""

import json
from pathlib import Path

import pytest
import torch

import vadd
from tests.helpers.commands import Command
from vadd.evaluation.divergence import ExactDistributions
from vadd.evaluation.reports import Bracket, RunReport
from vadd.report.results import Results
from vadd.run.run import Run


def interval(results: Results) -> Bracket:
    assert results.report.likelihood is not None
    (found,) = results.report.likelihood.brackets
    return found


def exact_nats(run: Run, steps: int) -> float:
    """Of the held-out examples, on the grid of all values."""
    exact = ExactDistributions.of(run.model)
    assert exact is not None
    law, x = exact.after(steps, "uniform"), run.data.test
    return -float(law[x[:, 0], x[:, 1]].log().mean())


@pytest.mark.parametrize("steps", [1, 2])
def test_the_likelihood_of_a_run_lies_inside(vadd_run: Path, steps: int) -> None:
    """The enumeration integrates z by quadrature; both sides of the same examples differ from it by the randomness of
    paths alone, a small part of the standard errors over examples that are allowed here.
    """
    run = vadd.load(vadd_run)
    found = interval(run.bracket(steps, particles=16, paths=32))
    truth = exact_nats(run, steps)
    assert found.low_stderr is not None
    assert found.high_stderr is not None
    assert found.low - 0.2 * found.low_stderr < truth < found.high + 0.2 * found.high_stderr
    wider = interval(run.bracket(steps, particles=4, paths=2))
    assert 0 < found.high - found.low < wider.high - wider.low
    assert (found.kind, found.paths, found.particles, found.valid) == ("bound", 32, 16, True)


def test_where_the_likelihood_is_exact_the_interval_has_no_width(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    found = interval(run.bracket(2, sampler="margin"))
    assert found.kind == "exact"
    assert found.low == found.high == run.bound(2, sampler="margin").bounds[2].nats
    assert interval(run.bracket(1)).low == interval(run.bracket(1)).high


def test_the_command_prints_and_writes_both_sides(mdlm_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    out = tmp_path / "numbers.json"
    said = vadd_command("eval", mdlm_run, "--bracket", "1,2", "--paths", "4", "--limit", "50", "--json", out)
    assert said.code == 0
    assert "from both sides" in said.out
    assert "step bound" not in said.out
    written = json.loads(out.read_text())
    assert [found["steps"] for found in written["brackets"]] == [1, 2]
    report = RunReport.model_validate(written)
    assert report.likelihood is not None
    low, high = report.likelihood.brackets[1].low, report.likelihood.brackets[1].high
    assert low < high
    assert f"{low:.4f}" in said.out
    assert f"{high:.4f}" in said.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--bracket", "two"), "--bracket takes whole numbers separated by commas, like 1,2,5; not 'two'"),
        (("--bracket", "2", "--paths", "1"), "paths must be at least 2, not 1"),
        (("--bracket", "0"), "--bracket takes numbers of at least 1, not 0"),
    ],
)
def test_what_is_no_interval_is_refused(
    mdlm_run: Path, options: tuple[str, ...], told: str, vadd_command: Command
) -> None:
    said = vadd_command("eval", mdlm_run, *options)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert told in said.err


def test_an_interval_of_other_examples_needs_no_training_data(vadd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = vadd.load(vadd_run)
    examples = run.data.test[:20]

    def gone(_: Run) -> None:
        raise vadd.UserError("the data are gone")

    monkeypatch.setattr(Run, "data", property(gone))
    found = interval(run.bracket(2, examples, particles=4, paths=8))
    assert found.low < found.high
    assert found.examples == len(examples)
    assert torch.isfinite(torch.tensor([found.low, found.high])).all()
