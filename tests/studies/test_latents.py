"""The study of latents from nothing to its page: a row for each way to draw z, each with bounds of its own sampler."""

import json
from pathlib import Path

import pytest

from vadd.recipe import load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.priors import prior_records
from vadd.studies.comparison import Result
from vadd.studies.engine import reproduce
from vadd.studies.study import Request, study_named

TINY = (
    "network.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.blocks=1",
    "latent.dim=4",
    "latent.flow.steps=5",
    "latent.flow.width=8",
    "latent.flow.transforms=2",
    "latent.flow.components=4",
    "training.steps=5",
    "training.batch=32",
)

LITTLE = {"samples": 200, "limit": 8, "particles": 4, "draws": 2}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("latents")


@pytest.fixture(scope="module")
def result(out: Path) -> Result:
    request = Request(out=out, setting="digits", overrides=TINY, measuring=LITTLE, choose=False)
    return reproduce(study_named("latents"), request)


def test_the_study_compares_every_way_to_draw_z(result: Result, out: Path) -> None:
    assert [(r["recipe"], r["model"], r.get("latent_policy"), r.get("prior")) for r in result.numbers] == [
        ("digits-per-state", "mdlm", None, None),
        ("digits-per-state", "vadd", "resample", None),
        ("digits-per-state", "vadd", "fixed", None),
        ("digits-per-state", "vadd", "fixed", "flow"),
        ("digits", "vadd", "fixed", None),
        ("digits", "vadd", "fixed", "flow"),
    ]
    for report in result.numbers:
        bounds, one_latent = report["bounds"], report.get("latent_policy") == "fixed"
        assert [bound["steps"] for bound in bounds] == [1, 2, 5, 10]
        assert [bool(bound.get("one_latent")) for bound in bounds] == [one_latent] * 4
        assert all(bound["valid"] for bound in bounds)
    (table,) = result.tables
    assert len({row[0] for row in table.rows}) == len(table.rows) == 6, "every row has a name of its own"
    assert all(cell is not None for row in table.rows for cell in row)
    assert json.loads((out / "results.json").read_text()) == result.numbers
    assert "flow prior" in result.page.read_text()


@pytest.mark.parametrize("data", ["digits", "mnist", "cifar10", "text8"])
def test_all_rows_have_the_flow_of_the_shared_latent(data: str) -> None:
    *_, per_state, shared = study_named("latents").entries_of(data)
    assert load_recipe(per_state.recipe).latent.flow == load_recipe(shared.recipe).latent.flow


@pytest.mark.usefixtures("result")
def test_the_priors_lie_beside_the_weights(out: Path) -> None:
    for name in ("digits-per-state-vadd", "digits-vadd"):
        (checkpoint,) = RunDirectory(out / name).checkpoints()
        assert set(prior_records(checkpoint)) == {"flow"}
