"""Figures: PNG files that show what they are given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from vadd.data.dataset import Array
from vadd.report.figures import divergence_by_steps, histogram_panels, label, save_figure, training_curves


def report(model: str, *values: float, metric: str = "paper_js", floor: float = 0.01) -> dict[str, Any]:
    results = [{"steps": 2**k, metric: value, f"{metric}_floor": floor} for k, value in enumerate(values)]
    return {"recipe": "checkerboard", "model": model, "results": results}


def logged(step: int, split: str) -> dict[str, Any]:
    return {"step": step, "split": split, "reconstruction": 5 - step / 100, "kl": step / 100}


RECORDS = [logged(step, split) for step in (10, 20, 30) for split in ("train", "test", "latent")]


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
        divergence_by_steps([report("mdlm", 1.4, 0.5, 0.2), report("vadd", 0.1, 0.08)], ["a", "b"], "paper_js"),
        divergence_by_steps([report("vadd", 0.3, metric="pair_jsd")], ["a"], "pair_jsd"),
    ],
    ids=["panels", "curves", "no-curves", "divergence", "pairs"],
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


def test_the_curves_show_the_test_lines_only() -> None:
    total, kl = training_curves({"run": RECORDS}).axes[:2]
    assert total.lines[0].get_xydata() == pytest.approx(np.array([(10, 5), (20, 5), (30, 5)]))
    assert kl.lines[0].get_xydata() == pytest.approx(np.array([(10, 0.1), (20, 0.2), (30, 0.3)]))


def test_the_divergence_figure_has_a_line_per_run_and_one_per_floor() -> None:
    axis = divergence_by_steps([report("mdlm", 1.4, 0.5), report("vadd", 0.1, 0.08)], ["a", "b"], "paper_js").axes[0]
    mdlm, vadd, floor = axis.lines
    assert mdlm.get_xydata() == pytest.approx(np.array([(1, 1.4), (2, 0.5)]))
    assert vadd.get_xydata() == pytest.approx(np.array([(1, 0.1), (2, 0.08)]))
    assert np.asarray(floor.get_ydata()) == pytest.approx(0.01)
    assert mdlm.get_color() != vadd.get_color()


def test_models_have_their_names_and_others_keep_their_own() -> None:
    assert [label(model) for model in ("mdlm", "vadd", "other")] == ["MDLM", "VADD", "other"]
