"""What Python can ask of a run beside samples: metrics, measurements, pictures."""

import base64
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from vadd.evaluation.reports import RunReport


def test_metrics_are_a_data_frame_of_the_log(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    frame = run.metrics
    assert list(frame["step"]) == [line["step"] for line in run.directory.metrics()]
    test = frame[frame.split == "test"]
    assert list(test["step"]) == [10, 20, 30]
    assert test["loss"].notna().all()


def test_without_pandas_it_says_what_to_install(vadd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(vadd.UserError, match=re.escape("pip install 'vadd[pandas]'")):
        _ = vadd.load(vadd_run).metrics


def test_measurements_are_those_of_the_command_and_show_themselves(array_run: Path) -> None:
    run = vadd.load(array_run)
    results = run.evaluate((1, 2), samples=50, bound=(1,), particles=4)
    assert [result.steps for result in results.report.results] == [1, 2]
    assert RunReport.model_validate(results.to_json()).to_json() == results.to_json()
    alone = run.bound(1, particles=4)
    assert alone.bounds[1] == results.bounds[1]
    assert run.bound(1, run.data.test.numpy().reshape(-1, 2, 3), particles=4).bounds == alone.bounds
    frame = results.frame
    assert list(frame["steps"]) == [1, 2]
    assert frame["bound_nats"][0] == alone.bounds[1].nats
    assert "step bound, T = 1" in repr(results)
    assert results._repr_html_().count("<table>") == 3


@pytest.mark.parametrize(("steps", "examples"), [(0, None), ((), None), (1, np.zeros((3, 5), int))])
def test_a_bound_of_nothing_is_refused(steps: int, examples: np.ndarray | None, array_run: Path) -> None:
    with pytest.raises(vadd.UserError, match=r"steps takes at least|steps must be at least|examples have the shape"):
        vadd.load(array_run).bound(steps, examples)


@pytest.mark.parametrize("run", ["vadd_run", "array_run"])
def test_a_run_shows_itself(run: str, request: pytest.FixtureRequest) -> None:
    loaded = vadd.load(request.getfixturevalue(run))
    assert "step 30 of 30" in repr(loaded)
    page = loaded._repr_html_()
    picture = re.search(r"base64,([^\"]+)\"", page)
    assert picture is not None
    assert base64.b64decode(picture[1]).startswith(b"\x89PNG")
    figure = loaded.plot(steps=1)
    assert [axis.get_title() for axis in figure.axes] == ["objective, as a loss", "samples in 1 step"]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_pictures_of_images_and_of_texts_with_odd_letters(tmp_path: Path) -> None:
    flow = {"latent.flow.steps": 2, "latent.flow.transforms": 2, "latent.flow.components": 2}
    small: dict[str, Any] = {"steps": 1, "batch": 4, "progress": False, **flow}
    network = {"kind": "residual", "width": 8, "denoiser": {"blocks": 1}, "recognizer": {"blocks": 1}}
    images = vadd.train("digits", tmp_path / "digits", network=network, **small)
    assert images.plot()._repr_png_()
    texts = vadd.train(["$x^2$ \\frac{", "a\x1b[31m<b>", "ok"] * 4, tmp_path / "texts", **small)
    assert "<b>" not in texts._repr_html_()


def test_other_settings_of_sampling_keep_the_class(vadd_run: Path) -> None:
    assert type(vadd.load(vadd_run).with_sampling(latent_policy="fixed")) is vadd.Run
    assert isinstance(vadd.load(vadd_run).sample(2), torch.Tensor)
