"""All models side by side at equal processor time; the paper's numbers stand apart."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.pictures import cifar_files, mnist_files
from tests.helpers.text_runs import BOOK, TINY_NETWORK
from vadd.progress import silent
from vadd.recipe import MODELS, load_recipe
from vadd.report.tables import model_label
from vadd.studies import equal_time
from vadd.studies.baseline_page import Row, baselines_table, verdict
from vadd.studies.baselines import SETTINGS, TRAINED, BaselineData, Baselines, reproduce_baselines
from vadd.studies.equal_time import steps_in

SMALL = ("data.vocab_size=8", "data.train_size=200", "data.test_size=50", "training.batch=8", "training.log_every=10")


@pytest.fixture(autouse=True)
def _short_pilots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "TIMED", 2)
    monkeypatch.setattr(equal_time, "SECONDS_TIMED", 0.0)


def test_runs_are_made_once_and_stand_side_by_side(tmp_path: Path) -> None:
    def compared(*models: str) -> Baselines:
        return reproduce_baselines("toys", tmp_path, silent, models=models, minutes=0.001, overrides=SMALL, samples=50)

    found = compared("mdlm", "ar")
    assert {row.name for row in found.rows} == {"MDLM", "AR", "EDLM on MDLM, k = 8"}
    by_name = {(row.name, row.steps): row for row in found.rows}
    weighed = by_name["EDLM on MDLM, k = 8", 1]
    assert by_name["AR", 2].sequences == 2
    assert by_name["MDLM", 1].evaluations == 1
    assert weighed.sequences == 9  # the proposal, and its candidates as the energy sees them
    assert by_name["AR", 2].bound_valid
    assert not weighed.bound_valid
    assert not weighed.exact_sampler
    assert len(json.loads((tmp_path / "results.json").read_text())) == len(found.rows)
    table = baselines_table(found.rows)
    assert [row[-1] for row in table.rows if row[0] == "AR"] == ["exact"]
    page = found.page.read_text()
    assert "The paper, checkerboard" in page
    assert "VADD, the paper" in page
    assert page.count("data:image/png;base64,") == 1
    again = compared("ar")
    assert again.rows[0].training_steps == by_name["AR", 2].training_steps


def test_what_is_said_of_the_best_is_true() -> None:
    def row(model: str, steps: int, distance: float, nats: float) -> Row:
        return Row(
            model=model,
            name=model_label(model),
            steps=steps,
            evaluations=steps,
            sequences=steps,
            seconds=1.0,
            metrics={"frechet": distance, "frechet_floor": 0.1},
            measure="frechet",
            nats=nats,
            nats_stderr=0.1,
            bound_valid=model != "edlm",
            training_steps=1,
            parameters=1,
            exact_sampler=True,
        )

    rows = [row("mdlm", 1, 9.0, 20.0), row("mdlm", 5, 1.0, 10.0), row("vadd", 1, 2.0, 12.0), row("vadd", 5, 1.5, 11.0)]
    said = verdict([*rows, row("edlm", 5, 3.0, 5.0)])
    assert "T = 1: VADD 2. T = 5: MDLM 1, VADD 1.5." in said
    assert "The best likelihood: MDLM, 10.00 nats at T = 5; VADD's is 11.00 at T = 5." in said
    assert "behind" not in verdict(rows[2:])


TINY_IMAGES = ("network.width=16", "network.denoiser.blocks=1", "latent.dim=3", "training.batch=8")
TINY_TEXT = (*TINY_NETWORK, "data.corpus=files", "data.length=12", "training.batch=8")


@pytest.mark.parametrize("kind", ["mnist", "cifar10", "text"])
def test_every_data_set_from_nothing_to_the_report(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: BaselineData
) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "kept"))
    monkeypatch.setitem(SETTINGS, kind, replace(SETTINGS[kind], limit=3, particles=2))
    changes: tuple[str, ...]
    if kind == "text":
        (tmp_path / "book.txt").write_text(BOOK)
        changes = (*TINY_TEXT, f"data.path={tmp_path / 'book.txt'}")
    else:
        place = (mnist_files if kind == "mnist" else cifar_files)(tmp_path / kind)
        changes = (*TINY_IMAGES, f"data.directory={place}")
    out, file = tmp_path / "out", tmp_path / "numbers.json"
    options = ("--models", "mdlm,vadd", "--minutes", 0.001, "--steps", "1,3", "--samples", 8, "--json", file)
    done = vadd_command("reproduce", "baselines", "--data", kind, *options, "--out", out, *changes)
    assert done.code == 0, done.err
    rows = json.loads(file.read_text())
    assert rows == json.loads((out / "results.json").read_text())
    assert [(row["model"], row["steps"]) for row in rows] == [("mdlm", 1), ("mdlm", 3), ("vadd", 1), ("vadd", 3)]
    assert all(row["nats"] > 0 and row["bound_valid"] and row["sequences"] > 0 for row in rows)
    measures = {"mnist": "frechet", "cifar10": "pair_jsd", "text": None}
    assert {row["measure"] for row in rows} == {measures[kind]}
    assert (out / "figures" / "quality.png").stat().st_size > 10_000
    page = (out / "report.html").read_text()
    assert f"vadd reproduce baselines --data {kind} --models mdlm,vadd --minutes 0.001 --steps 1,3 --samples 8" in page
    assert str(tmp_path) not in page


def test_every_data_set_has_a_recipe_and_every_model_but_edlm_is_trained() -> None:
    assert {*TRAINED, "edlm"} == set(MODELS)
    for setting in SETTINGS.values():
        for name in TRAINED:
            assert load_recipe(setting.recipe).with_overrides([f"model={name}"]).model == name


def test_twice_the_time_is_about_twice_the_steps() -> None:
    recipe = load_recipe("checkerboard").with_overrides(["model=mdlm", *SMALL])
    assert steps_in(recipe, 100.0) > steps_in(recipe, 1.0) > 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--models", "mdlm,edlm"), "unknown model 'edlm'"),
        (("--models", "sed"), "did you mean 'sedd'"),
        (("--data", "digits", "--judge", "x"), "--judge reads texts"),
        (("--data", "text", "--inception", "."), "--inception judges images"),
        (("--steps", "0"), "at least 1, not 0"),
        (("training.steps=5",), "sets training.steps for each row itself"),
        (("model=mdlm",), "sets model for each row itself"),
        (("network.widht=5",), "network.widht"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    vadd_command: Command, tmp_path: Path, options: tuple[str, ...], line: str
) -> None:
    done = vadd_command("reproduce", "baselines", *options, "--out", tmp_path / "new")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert line in done.err
    assert not (tmp_path / "new").exists()
