"""All models side by side at equal processor time; the paper's numbers stand apart."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import Command
from tests.helpers.judges import save_judge
from tests.helpers.pictures import cifar_files
from tests.helpers.text_runs import BOOK, TINY_NETWORK
from vadd.errors import UserError
from vadd.evaluation.reports import CONTROLS
from vadd.progress import Progress
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, load_recipe
from vadd.report.table import model_label
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies import baselines, equal_time, trainings
from vadd.studies.baselines import ModelRow, labels_of, recipes_of
from vadd.studies.comparison import Result
from vadd.studies.engine import reproduce
from vadd.studies.equal_time import FIT_SHARE, lengths_in, trained_for
from vadd.studies.study import Request, study_named

STUDY = study_named("baselines").model_copy(update={"choose": None})
"""Recipes as they are: what is chosen is tested in test_choosing."""
SMALL = ("data.vocab_size=8", "data.train_size=200", "data.test_size=50", "training.batch=8", "training.log_every=10")


@pytest.fixture(autouse=True)
def _short_pilots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "TIMED", 2)
    monkeypatch.setattr(equal_time, "SECONDS_TIMED", 0.0)
    monkeypatch.setattr(baselines, "MOST_DRAWS", 1)


def rows_of(result: Result) -> list[ModelRow]:
    return [ModelRow(**row) for row in result.numbers if "absent" not in row]


def test_runs_are_made_once_and_stand_side_by_side(tmp_path: Path) -> None:
    def compared(*models: str) -> Result:
        request = Request(
            out=tmp_path, setting="toys", models=models, minutes=0.001, overrides=SMALL, measuring={"samples": 50}
        )
        return reproduce(STUDY, request)

    result = compared("mdlm", "ar")
    rows = rows_of(result)
    assert {row.name for row in rows} == {"MDLM", "AR", "EDLM on MDLM, k = 8"}
    by_name = {(row.name, row.steps): row for row in rows}
    weighed = by_name["EDLM on MDLM, k = 8", 1]
    assert by_name["AR", 2].sequences == 2
    assert by_name["MDLM", 1].evaluations == 1
    assert weighed.sequences == 9  # the proposal, and its candidates as the energy sees them
    assert by_name["AR", 2].bound_valid
    assert not weighed.bound_valid
    assert not weighed.exact_sampler
    assert json.loads((tmp_path / "results.json").read_text()) == result.numbers
    _, likelihoods, costs = result.tables
    assert [row[-1] for row in costs.rows if row[0] == "AR"] == ["exact"]
    assert weighed.nats == by_name["MDLM", 1].nats
    assert [row[0] for row in likelihoods.rows] == ["MDLM", "AR"]
    page = result.page.read_text()
    assert "The zoo on toys" in page
    assert page.count("data:image/png;base64,") == 1
    assert rows_of(compared("ar"))[0] == by_name["AR", 2]


TINY_IMAGES = ("network.width=16", "network.denoiser.blocks=1", "latent.dim=3", "training.batch=8")
TINY_TEXT = (*TINY_NETWORK, "data.corpus=files", "data.length=12", "training.batch=8")


@pytest.mark.parametrize("kind", ["cifar10", "text"])
def test_every_data_set_from_nothing_to_the_report(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "kept"))
    setting = STUDY.settings[kind]
    measuring = setting.measuring.model_copy(update={"limit": 3, "particles": 2})
    monkeypatch.setitem(STUDY.settings, kind, setting.model_copy(update={"measuring": measuring}))
    changes: tuple[str, ...]
    if kind == "text":
        (tmp_path / "book.txt").write_text(BOOK)
        changes = (*TINY_TEXT, f"data.path={tmp_path / 'book.txt'}")
    else:
        changes = (*TINY_IMAGES, f"data.directory={cifar_files(tmp_path / kind)}")
    out, file = tmp_path / "out", tmp_path / "numbers.json"
    options = ("--models", "mdlm,vadd", "--minutes", 0.001, "--steps", "1,3", "--samples", 8, "--json", file)
    done = vadd_command("reproduce", "baselines", "--no-choose", "--data", kind, *options, "--out", out, *changes)
    assert done.code == 0, done.err
    rows = json.loads(file.read_text())
    assert rows == json.loads((out / "results.json").read_text())
    assert [(row["model"], row["steps"]) for row in rows] == [("mdlm", 1), ("mdlm", 3), ("vadd", 1), ("vadd", 3)]
    assert all(row["nats"] > 0 and row["bound_valid"] and row["sequences"] > 0 for row in rows)
    assert {row["measure"] for row in rows} == {"frechet" if kind == "cifar10" else None}
    assert (out / "figures" / "quality.png").stat().st_size > 10_000
    page = (out / "report.html").read_text()
    words = f"--no-choose --data {kind} --models mdlm,vadd --minutes 0.001 --steps 1,3 --samples 8"
    assert f"vadd reproduce baselines {words}" in page
    if kind == "text":
        judge = ("--judge", save_judge(tmp_path / "judge"), "--overwrite")
        read = vadd_command(
            "reproduce", "baselines", "--no-choose", "--data", kind, *options, *judge, "--out", out, *changes
        )
        assert read.code == 0, read.err
        assert all(set(row["controls"]) == set(CONTROLS) for row in json.loads(file.read_text()))
        assert all(f"| {control} |" in (out / "tables.md").read_text() for control in CONTROLS)


ONE_Z = "vadd-one-z"


def on_toys(
    out: Path,
    *models: str,
    samples: int = 50,
    steps: Sequence[int] = (1,),
    minutes: float = 0.001,
    more: Sequence[str] = (),
) -> Result:
    """In seconds."""
    measuring = {"limit": 5, "particles": 2, "samples": samples, "steps": tuple(steps)}
    request = Request(
        out=out, setting="toys", models=models, minutes=minutes, overrides=(*SMALL, *more), measuring=measuring
    )
    return reproduce(STUDY, request)


def chosen(
    data: str, models: Sequence[str] = (), overrides: Sequence[str] = ()
) -> tuple[dict[str, Recipe], dict[str, str]]:
    return recipes_of(STUDY, Request(out=Path("out"), setting=data, models=models, overrides=overrides))


@pytest.mark.parametrize("data", STUDY.settings)
def test_every_data_set_has_a_recipe_and_every_model_but_edlm_is_trained(data: str) -> None:
    labels = labels_of(STUDY, data)
    variants = [key for key in labels if key.startswith("vadd-") and key not in MODELS]
    assert {*labels} - {*variants} - {*COMPARED_ONLY} == {*MODELS} - {"edlm"}
    recipes, absent = chosen(data, [key for key in labels if key not in COMPARED_ONLY])
    named = {labels[key] for key in recipes} | {*absent}
    assert named == {*labels.values()} - {model_label(key) for key in COMPARED_ONLY}
    assert list(labels)[:3] == ["mdlm", "vadd", ONE_Z]
    latents = {key: (recipes[key].latent, recipes[key].sampling.latent_policy) for key in ("vadd", ONE_Z)}
    latent, policy = latents[ONE_Z]
    prior = "autoregressive" if data == "text" else "flow"
    assert (labels[ONE_Z], latent.kind, latent.prior, policy) == ("VADD, one z", "shared", prior, "fixed")
    latent, policy = latents["vadd"]
    assert (latent.kind, latent.prior, policy) == ("per-state", "normal", "resample")


def test_models_that_are_one_training_share_it_and_the_table_says_so() -> None:
    def absent(data: str) -> dict[str, str]:
        return chosen(data, ["mdlm", "radd", "sedd"])[1]

    assert absent("digits") == {"RADD": "under this recipe the same training as MDLM, whose rows stand for both"}
    assert absent("text") == {}  # MDLM's masks count by the root of their weights there


def test_a_model_that_does_not_suit_is_named_unless_the_user_asked_for_it() -> None:
    wider = ["network.width=32"]  # of a perceptron; AR is a transformer
    recipes, absent = chosen("digits", (), wider)
    assert {*recipes} >= {"mdlm", "vadd", ONE_Z}
    assert "network.width" in absent["AR"]
    with pytest.raises(UserError, match=r"network\.width"):
        chosen("digits", ("mdlm", "ar"), wider)
    _, absent = chosen("toys")
    assert [name for name, why in absent.items() if "is for images" in why] == [model_label(k) for k in COMPARED_ONLY]


def test_a_model_that_fails_is_named_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(recipe: Recipe, *arguments: Any) -> Run:
        if recipe.model == "sedd":
            raise RuntimeError("no memory left\nand more")
        return trained_for(recipe, *arguments)

    monkeypatch.setattr(baselines, "trained_for", failing)
    result = on_toys(tmp_path, "sedd", "mdlm")
    assert {row.name for row in rows_of(result)} == {"MDLM"}
    assert result.numbers[-1] == {"name": "SEDD", "absent": "failed: no memory left"}
    assert "SEDD: failed: no memory left." in (tmp_path / "tables.md").read_text()
    assert ["SEDD", None, None, None, None] in result.tables[0].rows
    assert json.loads((tmp_path / "results.json").read_text()) == result.numbers
    with pytest.raises(UserError, match="no memory left"):
        on_toys(tmp_path / "none", "sedd")


def test_rows_are_measured_once_and_again_where_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compared(samples: int, *models: str) -> list[ModelRow]:
        return rows_of(on_toys(tmp_path, *models, samples=samples, steps=(1, 2)))

    timed_draw = baselines.timed_draw
    drawn: list[str] = []

    def counting(run: Run, count: int, steps: int, progress: Progress) -> Any:
        if len(drawn) == 1:
            drawn.append("stopped")
            raise KeyboardInterrupt
        drawn.append(f"{run.recipe.model} {count} {steps}")
        return timed_draw(run, count, steps, progress)

    monkeypatch.setattr(baselines, "timed_draw", counting)
    with pytest.raises(KeyboardInterrupt):
        compared(50, "mdlm", "vadd")
    assert len(json.loads((tmp_path / "results.json").read_text())) == 1
    first = compared(50, "mdlm", "vadd")
    assert drawn == ["mdlm 50 1", "stopped", "mdlm 50 2", "vadd 50 1", "vadd 50 2"]
    assert compared(50, "mdlm", "vadd") == first
    assert len(drawn) == 5
    more = compared(60, "vadd")
    assert drawn[5:] == ["vadd 60 1", "vadd 60 2"]
    assert [row.training_steps for row in more] == [row.training_steps for row in first[2:]]


def test_models_whose_samples_take_long_show_fewer_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = STUDY.settings["toys"].model_copy(update={"costly_samples": 20})
    monkeypatch.setitem(STUDY.settings, "toys", fewer)
    result = on_toys(tmp_path, "mdlm", "ar")
    assert {row.name: row.samples for row in rows_of(result)} == {"MDLM": 50, "AR": 20, "EDLM on MDLM, k = 8": 20}
    table = result.tables[0]
    assert "of 50 samples, 20 of AR, EDLM on MDLM, k = 8." in table.note
    assert [row[0] for row in table.rows[-2:]] == ["held-out data, up to 50", "held-out data, up to 20"]


def test_the_fit_of_a_learned_prior_has_its_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("latent.flow.transforms=2", "latent.flow.width=8", "latent.flow.components=4", "latent.flow.batch=16")
    row = rows_of(on_toys(tmp_path, ONE_Z, minutes=0.02, more=few))[0]
    assert (row.name, row.model) == ("VADD, one z", "vadd")
    run = load(tmp_path / "checkerboard-vadd-one-z", prior="flow")
    assert run.prior_seconds is not None
    assert row.training_seconds == trainings.processor_seconds(run.directory.path)
    assert row.training_seconds is not None
    assert row.training_seconds > run.prior_seconds > 0
    assert run.recipe.latent.flow.steps >= equal_time.FEWEST_FIT_STEPS
    plain = load_recipe("checkerboard").with_overrides(["model=vadd", *SMALL])
    assert "latent.flow.steps" not in lengths_in(plain, 10.0)
    flow = plain.with_overrides(["latent.kind=shared", "latent.particles=1", "latent.prior=flow", *few])
    monkeypatch.setattr(equal_time, "seconds_each", lambda step, seconds: 0.01)  # the machine may be busy with others
    once, twice = (lengths_in(flow, seconds)["latent.flow.steps"] for seconds in (60.0, 120.0))
    assert twice > once > equal_time.FEWEST_FIT_STEPS
    assert 0 < FIT_SHARE < 0.5


def test_twice_the_time_is_twice_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "seconds_each", lambda step, seconds: 0.01)
    recipe = load_recipe("checkerboard").with_overrides(["model=mdlm", *SMALL])
    assert (lengths_in(recipe, 1.0)["training.steps"], lengths_in(recipe, 2.0)["training.steps"]) == (100, 200)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--models", "mdlm,edlm"), "unknown model 'edlm'"),
        (("--models", "sed"), "did you mean 'sedd'"),
        (("--data", "digits", "--judge", "x"), "--judge reads texts"),
        (("--data", "text", "--inception", "."), "--inception evaluates images"),
        (("--steps", "0"), "at least 1, not 0"),
        (("training.steps=5",), "sets training.steps for each row itself"),
        (("latent.flow.steps=5",), "sets latent.flow.steps for each row itself"),
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
