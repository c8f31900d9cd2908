"""What takes long: comparisons, and trainings in processes of their own."""

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.studio import PATIENCE, Studio, studio
from vadd.cli.studio import SHOWN_FIRST
from vadd.errors import UserError
from vadd.progress import silent
from vadd.run.status import read_status
from vadd.studio.compare import RESULTS, Comparisons, show_results
from vadd.studio.runs import OpenRuns
from vadd.studio.train import Watch, Wish, described_plan
from vadd.studio.trainings import Trainings
from vadd.studio.widgets import OvertakenError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_a_comparison_is_computed_once_and_kept(
    vadd_run: Path, mdlm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = (["vadd", "mdlm"], [1, 2], 200, 20)
    out = Comparisons(OpenRuns([vadd_run, mdlm_run]), tmp_path).make(*wish, silent)
    page = show_results(out)
    assert page.count('<img class="figure"') == 3
    assert page.count("<table") == 3
    # A studio that is started later finds it on disk.
    monkeypatch.delattr("vadd.studio.compare.compare")
    assert Comparisons(OpenRuns([vadd_run, mdlm_run]), tmp_path).make(*wish, silent) == out


def test_a_comparison_that_fails_says_why_and_leaves_nothing(vadd_run: Path, tmp_path: Path) -> None:
    comparisons = Comparisons(OpenRuns([vadd_run]), tmp_path)
    with pytest.raises(UserError, match="at least one run"):
        comparisons.make([], [1], 200, 20, silent)
    with pytest.raises(UserError, match="samples must be at least 2"):
        comparisons.make(["vadd"], [1], 1, 20, silent)
    assert not list(tmp_path.glob("comparisons/*"))


def test_of_a_cancelled_comparison_nothing_is_left(vadd_run: Path, tmp_path: Path) -> None:
    comparisons = Comparisons(OpenRuns([vadd_run]), tmp_path)
    out = comparisons.folder(["vadd"], [1, 2], 200, 20)

    def cancelled_once_something_is_kept(what: str, done: int = 0, total: int | None = None) -> None:
        if (out / RESULTS).is_file():
            raise OvertakenError

    with pytest.raises(OvertakenError):
        comparisons.make(["vadd"], [1, 2], 200, 20, cancelled_once_something_is_kept)
    assert not out.exists()


def test_what_was_not_started_here_cannot_be_stopped_or_resumed(tmp_path: Path) -> None:
    trainings = Trainings(OpenRuns(), tmp_path)
    for name in ("", "../elsewhere", "digits-vadd"):
        with pytest.raises(UserError, match="no training of the name"):
            trainings.stop(name)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a process there")
def test_a_training_stopped_before_its_first_step_leaves_nothing_and_can_be_started_anew(tmp_path: Path) -> None:
    runs = OpenRuns()
    trainings = Trainings(runs, tmp_path)
    watch = Watch(runs, trainings)
    watch.show()  # what it imports takes longer than three steps do
    try:
        name = trainings.start(["digits", "model=mdlm", "training.steps=3", "network.width=8"], name="digits")
        assert "starting" in watch.show()
        trainings.stop(name)
        trainings._processes[name].wait(PATIENCE)
        page = watch.show()
        assert "stopped before its first step" in page
        assert "problem" not in page
        assert (list(tmp_path.glob("*/")), runs.names()) == ([], [])
        trainings.resume(name)
        assert trainings._processes[name].wait(PATIENCE) == 0
        assert "finished: step 3 of 3" in watch.show()
        assert runs.names() == [name]
    finally:
        assert trainings.close() == []


def test_a_run_that_goes_while_somebody_looks_is_offered_no_more(vadd_run: Path, tmp_path: Path) -> None:
    runs = OpenRuns([shutil.copytree(vadd_run, tmp_path / "going")])
    assert runs.names() == ["going"]
    shutil.rmtree(tmp_path / "going" / "checkpoints")
    assert runs.names() == []
    shutil.rmtree(tmp_path / "going")
    assert runs.names() == []


def test_a_plan_names_time_and_memory(tmp_path: Path) -> None:
    plan = described_plan(Wish(tmp_path, "digits", None, "vadd", 40, "").recipe)
    assert "40 steps of batch 128" in plan
    assert "memory about" in plan
    assert Wish(tmp_path, "table", None, "mdlm", None, ' id, "x" ,').arguments[-1] == r'data.skip=["id", "\"x\""]'
    with pytest.raises(UserError, match="choose a recipe"):
        Wish(tmp_path, None, None, "vadd", 40, "")


def test_two_runs_are_compared_on_the_page(page: "Page") -> None:
    for run in ("digits-mdlm", "digits-vadd"):
        page.locator("#runs").get_by_label(run, exact=True).uncheck()
    for run in ("vadd", "mdlm"):
        page.locator("#runs").get_by_label(run, exact=True).check()
    page.get_by_role("tab", name="Compare").click()
    page.locator("#compare-button").click()
    page.locator("#compare-shown .progress-text").first.wait_for()
    page.locator("#compare-cancel").click()
    page.locator("#compare-said", has_text="Cancelled").wait_for()
    page.locator("#compare-button").click()
    page.locator("#compare-shown .note", has_text="kept in").wait_for()
    assert page.locator("#compare-shown table").count() == 3
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("document.documentElement.scrollWidth <= 400")


def test_digits_are_learnt_on_the_page_and_a_bad_file_is_a_message(page: "Page", open_studio: Studio) -> None:
    page.get_by_role("tab", name="Train").click()
    page.get_by_label("Training steps").fill("20")
    assert not page.locator("#train-stop").is_visible()  # nothing is running
    page.locator("#train-start").click()
    page.locator("#train-stop").wait_for()
    page.locator("#train-plan").click()
    planned = "document.querySelector('#train-planned textarea').value"
    page.wait_for_function(f"{planned}.includes('20 steps')")
    bad = {"name": "noise.npy", "mimeType": "application/octet-stream", "buffer": b"no array"}
    page.locator("#train-upload input[type=file]").set_input_files(bad)  # type: ignore[arg-type]
    page.locator("#train-upload", has_text="noise").wait_for()
    page.locator("#train-plan").click()
    page.locator("#train-said .problem", has_text="is not a readable .npy file").wait_for()
    page.wait_for_function(f"{planned} === ''")  # what was planned before is not this
    page.locator("#train-upload").get_by_label("Clear").click()
    ragged = {"name": "ragged.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n3,4,5\n"}
    page.locator("#train-upload input[type=file]").set_input_files(ragged)  # type: ignore[arg-type]
    page.locator("#train-upload", has_text="ragged").wait_for()
    page.locator("#train-plan").click()
    refused = page.locator("#train-said .problem", has_text="row 2 (line 3) has 3 cells").inner_text()
    assert "uploads" not in refused
    page.locator("#train-shown .note", has_text="finished: step 20 of 20").wait_for()
    page.locator("#train-shown img.pixels").wait_for()
    page.locator("#runs label", has_text="digits-vadd").nth(1).wait_for()
    assert open_studio.process.poll() is None


def test_without_a_run_the_models_of_the_package_are_shown_and_a_training_is_one_click_away(
    browser: "Browser", tmp_path: Path
) -> None:
    with studio("--port", 7960, "--out", tmp_path / "place", log=tmp_path / "log") as running:
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(running.url)
        page.locator("#draw-shown img.pixels").nth(1).wait_for()
        captions = page.locator("#draw-shown figcaption").all_inner_texts()
        assert [caption.split(" ")[0] for caption in captions] == list(SHOWN_FIRST)
        page.get_by_role("tab", name="Infill").click()
        # The example whose lower half is to be filled; an empty canvas is 300 wide.
        page.wait_for_function("document.querySelector('#painter canvas')?.width === 320")
        page.locator("#infill-button").click()
        page.locator("#infill-shown .note", has_text="512 of 1024 values filled").nth(1).wait_for()
        page.get_by_role("tab", name="Train").click()
        page.locator("#train-start").click()
        # Beyond step 0: what is stopped before its first step has nothing to save.
        page.locator("#train-shown .note", has_text=re.compile("running: step [1-9]")).wait_for()
        assert running.interrupt() == 0
        page.close()
    assert "saved and stopped: digits-vadd" in running.said()
    status = read_status(tmp_path / "place" / "digits-vadd")
    assert status.state == "stopped"
    assert status.latest is not None
    assert status.latest.step == status.step > 0
