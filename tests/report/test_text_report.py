"""Tables and figures about texts, from reports made by hand."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.reports import run_report, toy_distance, toy_report
from vadd.evaluation.reports import AtEntropy, AtTemperature, JudgeReport, RealText, RunReport, StepResult, TextMetrics
from vadd.report.figures import save_figure, text_by_steps
from vadd.report.table import Table
from vadd.report.tables import SHOWN_CHARACTERS, matched_table, quality_table, side_by_side, text_table

JUDGE = JudgeReport(name="gpt", convention="corpus: all together", first_token="context only", max_length=9)
STATISTICS = TextMetrics(sample_entropy=2.5, distinct_1=0.5, distinct_2=0.75, distinct_3=None)
JUDGED = STATISTICS.changed(judge_bits=3.5, judged_tokens=100)


def report(model: str, *perplexities: float | None, **more: Any) -> RunReport:
    found = tuple(
        StepResult(steps=2**n, metrics=JUDGED.changed(gen_ppl=value, gen_ppl_stderr=1.25, sample_entropy=2.0 + n))
        for n, value in enumerate(perplexities)
    )
    real = RealText(texts=7, metrics=JUDGED.changed(gen_ppl=20.0, gen_ppl_stderr=2.0))
    return run_report(model, "book", **{"samples": 8, "judge": JUDGE, "real_text": real, "results": found, **more})


def unjudged(model: str) -> RunReport:
    found = (StepResult(steps=1, metrics=STATISTICS), StepResult(steps=2, metrics=STATISTICS))
    return run_report(model, "book", samples=8, real_text=RealText(texts=7, metrics=STATISTICS), results=found)


def test_every_number_stands_beside_those_of_real_text() -> None:
    table = text_table([report("mdlm", 300.0, 100.0), report("vadd", 200.0, None, latent_policy="fixed")])
    assert table.columns == ["run", "steps", "gen. PPL", "bits/char", "entropy", "distinct-2"]
    assert [list(row) for row in table.rows] == [
        ["book MDLM", 1, "300.0 ± 1.2", "3.500", "2.000", "0.750"],
        ["book MDLM", 2, "100.0 ± 1.2", "3.500", "3.000", "0.750"],
        ["book VADD, one z", 1, "200.0 ± 1.2", "3.500", "2.000", "0.750"],
        ["book VADD, one z", 2, None, "3.500", "3.000", "0.750"],
        ["7 real texts", None, "20.0 ± 2.0", "3.500", "2.500", "0.750"],
    ]
    for told in ("under gpt", "corpus: all together", "context only", "after 9 of its tokens", "8 samples"):
        assert told in table.note
    assert "no token to score" not in table.note


def test_empty_and_cut_texts_are_told() -> None:
    odd = StepResult(steps=1, metrics=JUDGED.changed(gen_ppl=300.0, empty_texts=3, cut_texts=2))
    made = report("mdlm", results=(odd,))
    assert "3 had no token to score" in text_table([made]).note
    assert "2 were longer and cut" in text_table([made]).note


def test_without_a_judge_there_is_no_perplexity_and_it_is_said_why() -> None:
    table = text_table([unjudged("mdlm")])
    assert table.columns == ["run", "steps", "entropy", "distinct-2"]
    assert "needs a judge" in table.note


def test_text_and_other_data_have_tables_of_their_own() -> None:
    assert quality_table([unjudged("vadd")]).columns[2] == "entropy"
    assert quality_table([toy_report("vadd", toy_distance())]).columns[2] == "jsd"


def at(temperature: float, entropy: float, gen_ppl: float | None, bits: float | None = None) -> AtTemperature:
    metrics = JUDGED.changed(gen_ppl=gen_ppl, judge_bits=bits, sample_entropy=entropy)
    return AtTemperature(temperature=temperature, steps=4, metrics=metrics)


def test_between_temperatures_the_logarithm_of_the_perplexity_is_linear() -> None:
    """A power law of the entropy in nats is met exactly; where no point was measured nothing is guessed."""
    curve = (at(1, 3.0, math.exp(6), 5.0), at(0.5, 1.0, math.exp(2), 1.0), at(0.7, 2.0, math.exp(4)), at(2, 4.0, None))
    made = report("mdlm", 1.0, temperatures=curve)
    middle, least, beyond, other = (JUDGED.changed(sample_entropy=entropy) for entropy in (2.5, 1.0, 0.9, 3.5))
    assert made.at_entropy(4, middle).gen_ppl == pytest.approx(math.exp(5))
    assert made.at_entropy(4, middle).judge_bits == pytest.approx(4.0), "between those that are known"
    assert made.at_entropy(4, least).gen_ppl == pytest.approx(math.exp(2))
    for steps, target in ((4, beyond), (4, other), (2, middle)):
        assert made.at_entropy(steps, target).gen_ppl is None


def test_runs_are_compared_at_the_entropy_of_real_text_and_of_each_other() -> None:
    first, second = (
        report(
            model,
            temperatures=(at(0.5, 1.0, 10.0 * scale, 1.0), at(1, 3.0, 1000.0 * scale, 3.0)),
            results=(StepResult(steps=4, metrics=at(1, 3.0, 1000.0 * scale, 3.0).metrics),),
            at_real_entropy=(
                AtEntropy(steps=4, entropy=2.0, gen_ppl=100.0 * scale, gen_ppl_stderr=3.0, judge_bits=2.0),
            ),
        )
        for model, scale in (("mdlm", 1), ("vadd", 2))
    )
    assert [list(row) for row in matched_table([first, second]).rows] == [
        ["book MDLM", 4, "real text", "2.000", "100.0 ± 3.0", "2.000"],
        ["book MDLM", 4, "book VADD", "3.000", "1000.0", "3.000"],
        ["book VADD", 4, "real text", "2.000", "200.0 ± 3.0", "2.000"],
        ["book VADD", 4, "book MDLM", "3.000", "2000", "3.000"],
    ]
    assert len(matched_table([first]).rows) == 1


def test_samples_stand_side_by_side_on_a_line_each() -> None:
    table = side_by_side({"MDLM": {1: ["a |\n b", "other"], 4: ["c" * 400]}, "VADD": {1: ["d"]}})
    assert table.columns == ["", "MDLM", "VADD"]
    assert [list(row) for row in table.rows] == [
        ["T = 1", "a | b", "d"],
        ["T = 4", "c" * SHOWN_CHARACTERS + " ...", None],
    ]
    assert "| T = 1 | a \\| b | d |" in table.to_markdown()


def test_a_bar_in_a_cell_does_not_break_a_markdown_table() -> None:
    assert "| x \\| y | 1.0000 |" in Table("t", ["a", "b"], [["x | y", 1.0]]).to_markdown()


def test_the_figure_has_a_line_for_each_run_and_real_text_dashed(tmp_path: Path) -> None:
    reports = [report("mdlm", 300.0, 100.0), report("vadd", 200.0, 90.0)]
    reports.append(report("vadd", 200.0, 80.0, latent_policy="fixed"))
    figure = text_by_steps(reports, ["MDLM", "VADD", "VADD, one z"])
    perplexity, bits, entropy = figure.axes
    assert [list(line.get_ydata()) for line in bits.lines[:3]] == [[3.5, 3.5]] * 3  # type: ignore[arg-type]
    assert (perplexity.get_xscale(), perplexity.get_yscale()) == ("log", "log")
    assert [line.get_label() for line in perplexity.lines] == ["MDLM", "VADD", "VADD, one z", "real text"]
    assert [list(line.get_ydata()) for line in perplexity.lines[:3]] == [[300, 100], [200, 90], [200, 80]]  # type: ignore[arg-type]
    assert perplexity.lines[-1].get_linestyle() == "--"
    assert perplexity.lines[1].get_color() == perplexity.lines[2].get_color() != perplexity.lines[0].get_color()
    assert perplexity.lines[1].get_linestyle() != perplexity.lines[2].get_linestyle()
    assert list(entropy.lines[0].get_ydata()) == [2.0, 3.0]  # type: ignore[arg-type]
    assert save_figure(figure, tmp_path / "texts.png").stat().st_size > 1000


def test_without_a_judge_the_figure_shows_diversity_only() -> None:
    figure = text_by_steps([unjudged("mdlm"), unjudged("mdlm")], ["a", "b"])
    assert [axis.get_ylabel() for axis in figure.axes] == ["entropy of a sample's tokens, nats", "distinct-2"]
    assert figure.axes[0].lines[0].get_color() != figure.axes[0].lines[1].get_color()


@pytest.mark.parametrize("value", [None, 50.0])
def test_a_perplexity_that_is_no_number_leaves_a_gap(value: float | None) -> None:
    figure = text_by_steps([report("mdlm", 300.0, value)], ["MDLM"])
    assert list(figure.axes[0].lines[0].get_xdata()) == ([1] if value is None else [1, 2])  # type: ignore[arg-type]
