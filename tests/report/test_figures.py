"""Figures: PNG files that show what they are given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from tests.helpers.reports import bits, likelihood, run_report, toy_distance, toy_report
from vadd.evaluation.reports import DistributionDistance, LikelihoodReport, PairDistance, RunReport, StepResult
from vadd.kinds.arrays import Array
from vadd.report.figures import (
    bound_by_steps,
    divergence_by_steps,
    histogram_panels,
    quality_by_cost,
    save_figure,
    training_curves,
)
from vadd.report.line_style import apart
from vadd.report.table import mean_and_spread, model_label


def report(model: str, *values: float) -> RunReport:
    return toy_report(model, *(toy_distance(value, floor=0.01) for value in values))


def logged(step: int, split: str) -> dict[str, Any]:
    """The loss is of several particles: less than reconstruction and KL together, over 10 positions."""
    return {"step": step, "split": split, "loss": 0.4 - step / 1000, "reconstruction": 5 - step / 100, "kl": step / 100}


RECORDS = [logged(step, split) for step in (10, 20, 30) for split in ("train", "test", "latent")]


PAIRS = run_report("vadd", results=(StepResult(steps=1, metrics=PairDistance(pair_jsd=0.3, pair_jsd_floor=0.1)),))
BOUNDED = {
    model: run_report(model, entropy=3.5, likelihood=likelihood(model, 0.5, (1, 0.6), (4, 0.55)))
    for model in ("mdlm", "vadd")
}


def panels() -> dict[str, list[tuple[str, Array]]]:
    rng = np.random.default_rng(0)
    truth, smear = np.kron(np.eye(4), np.ones((5, 5))), rng.random((20, 20))
    return {"checkers": [("data", truth / truth.sum()), ("MDLM", smear / smear.sum())], "b": [("data", smear)]}


@pytest.mark.parametrize(
    "figure",
    [
        histogram_panels(panels()),
        training_curves({"a VADD": RECORDS, "a MDLM": RECORDS[:5]}),
        training_curves({"nothing yet": []}),
        divergence_by_steps(
            [report("mdlm", 1.4, 0.5, 0.2), report("vadd", 0.1, 0.08)], ["a", "b"], DistributionDistance
        ),
        divergence_by_steps([PAIRS], ["a"], PairDistance),
        bound_by_steps([BOUNDED["mdlm"], BOUNDED["vadd"]], ["a", "b"]),
    ],
    ids=["panels", "curves", "no-curves", "divergence", "pairs", "bounds"],
)
def test_a_figure_becomes_a_png_with_something_on_it(tmp_path: Path, figure: Figure) -> None:
    path = save_figure(figure, tmp_path / "figures" / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path)
    assert pixels.shape[0] > 200
    assert pixels.shape[1] > 200
    assert len(np.unique(pixels[..., 0])) > 20
    assert 0.02 < (pixels[..., :3] < 1).any(axis=2).mean() < 0.95


def test_a_panel_shows_the_first_coordinate_across_and_the_second_upwards() -> None:
    density = np.zeros((4, 4))
    density[3, 0] = 1
    image = histogram_panels({"": [("one point", density)]}).axes[0].images[0]
    shown = np.asarray(image.get_array())
    assert image.origin == "lower"
    assert shown[0, 3] == 1  # lowest row, last column


def test_a_row_has_the_colours_of_its_data_and_its_titles() -> None:
    rows = panels()
    axes = histogram_panels(rows).axes
    assert [axis.get_title() for axis in axes if axis.get_title()] == ["data", "MDLM", "data"]
    assert [axis.get_ylabel() for axis in axes if axis.get_ylabel()] == ["checkers", "b"]
    scales = {axis.images[0].get_clim() for axis in axes[:2]}
    assert scales == {(0, float(rows["checkers"][0][1].max()))}


def test_the_curves_show_the_held_out_objective_and_its_kl() -> None:
    """The objective itself: with several particles it is not the sum of reconstruction and KL."""
    objective, kl = training_curves({"run": RECORDS}).axes[:2]
    assert objective.lines[0].get_xydata() == pytest.approx(np.array([(10, 0.39), (20, 0.38), (30, 0.37)]))
    assert (objective.get_ylabel(), kl.get_ylabel()) == ("nats per position", "nats per example")
    assert kl.lines[0].get_xydata() == pytest.approx(np.array([(10, 0.1), (20, 0.2), (30, 0.3)]))
    training = [(record["step"], record["loss"]) for record in RECORDS if record["split"] == "train"]
    assert objective.lines[1].get_xydata() == pytest.approx(np.array(training).reshape(-1, 2))
    assert [line.get_label() for line in objective.lines] == ["run, held out", "run, training"]


def test_the_divergence_figure_has_a_line_per_run_and_one_per_floor() -> None:
    reports = [report("mdlm", 1.4, 0.5), report("vadd", 0.1, 0.08)]
    axis = divergence_by_steps(reports, ["a", "b"], DistributionDistance).axes[0]
    assert axis.get_ylabel() == "paper_js"
    mdlm, vadd, floor = axis.lines
    assert mdlm.get_xydata() == pytest.approx(np.array([(1, 1.4), (2, 0.5)]))
    assert vadd.get_xydata() == pytest.approx(np.array([(1, 0.1), (2, 0.08)]))
    assert np.asarray(floor.get_ydata()) == pytest.approx(0.01)
    assert mdlm.get_color() != vadd.get_color()


def test_runs_of_one_data_set_share_a_panel_whatever_their_recipes_are_called() -> None:
    two = [report("mdlm", 1.4, 0.5).changed(data="digits"), report("vadd", 0.1, 0.08).changed(data="digits")]
    renamed = [two[0], two[1].changed(recipe="another")]
    assert len(divergence_by_steps(renamed, ["a", "b"], DistributionDistance).axes) == 1
    elsewhere = [two[0], two[1].changed(data="mnist")]
    assert len(divergence_by_steps(elsewhere, ["a", "b"], DistributionDistance).axes) == 2


def test_models_have_their_names_and_others_keep_their_own() -> None:
    assert [model_label(model) for model in ("mdlm", "vadd", "other")] == ["MDLM", "VADD", "other"]


def test_the_bounds_have_a_line_per_run_the_delbo_is_dotted_and_named_for_what_it_is() -> None:
    axis = bound_by_steps([BOUNDED["mdlm"], BOUNDED["vadd"]], ["MDLM", "VADD"]).axes[0]
    lines = {str(line.get_label()): line for line in axis.lines}
    assert list(lines) == ["MDLM", "VADD", "VADD, DELBO (not a bound)", "entropy of the data"]
    assert lines["MDLM"].get_xydata() == pytest.approx(np.array([(1, 6), (4, 5.5)]))
    assert np.asarray(lines["VADD, DELBO (not a bound)"].get_ydata()) == pytest.approx(5)
    assert np.asarray(lines["entropy of the data"].get_ydata()) == pytest.approx(3.5)
    assert axis.get_ylabel() == "negative log-likelihood bound, nats"


def test_where_pads_are_not_scored_the_axis_does_not_speak_of_a_bound() -> None:
    bound = bits(0.6, valid=False, steps=1, convention="pads not scored")
    axis = bound_by_steps([run_report("mdlm", likelihood=LikelihoodReport(bounds=(bound,)))], ["MDLM"]).axes[0]
    assert axis.get_ylabel() == "negative log-likelihood, not a bound, nats"


def test_names_stand_beside_the_ends_of_their_lines_apart_from_each_other() -> None:
    assert apart([0.1, 0.1, 0.12, 0.9], 0.1) == pytest.approx([0.1, 0.2, 0.3, 0.9])
    assert apart([0.95, 0.96, 0.97], 0.1) == pytest.approx([0.8, 0.9, 1.0])
    assert apart([], 0.1) == []
    points = {"A": [(1.0, 2.0, 0.1), (4.0, 1.0, 0.0)], "B": [(1.0, 3.0, 0.0), (4.0, 1.0, 0.0)]}
    axis = quality_by_cost(points, "distance", [0.5]).axes[0]
    ends = {text.get_text(): text for text in axis.texts}
    assert list(ends) == ["held-out data", "A", "B"]
    assert [text.get_color() for text in ends.values()] == ["grey", *(line.get_color() for line in axis.lines[:2])]
    assert axis.get_ylim()[0] < 0.5


def test_spreads_have_the_unit_of_their_means() -> None:
    assert mean_and_spread([0.98, 0.99], "{:.1%}") == "98.5% ± 0.5%"
    assert mean_and_spread([0.98, 0.99], "{:.3f}") == "0.985 ± 0.005"
    assert mean_and_spread([0.98, None], "{:.3f}") == "0.980"
    assert mean_and_spread([900, 1060], "{:.0f}") == "980 ± 80"
    assert mean_and_spread([1.0, 1.00001], "{:.3f}") == "1.000 ± 0.000005"
