"""``vadd eval`` and ``vadd compare`` on tiny runs."""

import json
from pathlib import Path

import pytest

import vadd
from tests.helpers.commands import Command
from vadd.core import Particles
from vadd.evaluation import BoundSettings, evaluate
from vadd.run.directory import RunDirectory


def test_eval_writes_the_numbers_it_shows(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    done = vadd_command("eval", vadd_run, "--steps", "2,1,2", "--samples", 2000, "--json", file)
    assert (done.code, done.err) == (0, "")
    report = json.loads(file.read_text())
    assert {"run", "recipe", "model", "results"} <= report.keys()
    assert (report["run"], report["recipe"], report["model"]) == (str(vadd_run), "checkerboard", "vadd")
    assert [result["steps"] for result in report["results"]] == [1, 2]
    for result in report["results"]:
        assert result.keys() == {"steps", "jsd", "paper_js", "jsd_floor", "paper_js_floor", "jsd_exact"}
        assert f"{result['paper_js']:.4f}" in done.out


def test_eval_judges_the_checkpoint_that_is_asked_for(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    directory = RunDirectory(vadd_run)
    steps = [saved.step for saved in directory.saved_steps()]
    best = directory.best()
    assert best is not None
    wanted = {"latest": steps[-1], "best": best.step, str(steps[0]): steps[0]}
    measured = {}
    for which, step in wanted.items():
        file = tmp_path / f"{which}.json"
        done = vadd_command(
            "eval", vadd_run, "--checkpoint", which, "--bound", 1, "--particles", 2, "--limit", 20, "--json", file
        )
        assert (done.code, done.err) == (0, "")
        report = json.loads(file.read_text())
        assert report["step"] == step
        expected = evaluate(
            vadd.load(vadd_run, checkpoint=step), [], bounds=BoundSettings(Particles(2), steps=[1], limit=20)
        ).report.to_json()
        assert report["bounds"] == expected["bounds"]
        measured[step] = report["bounds"][0]["nats"]
    assert len(set(measured.values())) == len(measured) > 1


def test_compare_writes_a_page_and_a_list(
    vadd_command: Command, vadd_run: Path, mdlm_run: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "report", tmp_path / "numbers.json"
    done = vadd_command(
        "compare", mdlm_run, vadd_run, "--out", out, "--steps", "1,2", "--samples", 1000, "--limit", 50, "--json", file
    )
    assert done.code == 0
    assert str(out / "report.html") in done.out
    reports = json.loads(file.read_text())
    assert [report["model"] for report in reports] == ["mdlm", "vadd"]
    assert [report["run"] for report in reports] == [str(mdlm_run), str(vadd_run)]
    assert reports == json.loads((out / "results.json").read_text())
    assert "checkerboard VADD" in (out / "report.html").read_text()


def test_where_no_numbers_are_asked_for_no_file_is_written(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert vadd_command("eval", vadd_run, "--steps", 1, "--samples", 100).code == 0
    assert list(tmp_path.iterdir()) == []
