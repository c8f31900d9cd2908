"""The study of latents from nothing to its page: a row for each way to draw z, each with bounds of its own sampler."""

import json
from pathlib import Path

import pytest

from vadd.progress import silent
from vadd.run.directory import RunDirectory
from vadd.run.priors import prior_records
from vadd.studies.latents import latents_table, reproduce_latents

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


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("latents")


def test_the_study_compares_every_way_to_draw_z(out: Path) -> None:
    comparison = reproduce_latents("digits", out, silent, overrides=TINY, samples=200, limit=20)
    reports = comparison.reports
    assert [(r.recipe, r.model, r.latent_policy, r.prior) for r in reports] == [
        ("digits-per-state", "mdlm", None, None),
        ("digits-per-state", "vadd", "resample", None),
        ("digits-per-state", "vadd", "fixed", None),
        ("digits-per-state", "vadd", "fixed", "flow"),
        ("digits", "vadd", "fixed", None),
        ("digits", "vadd", "fixed", "flow"),
    ]
    for report in reports:
        assert report.likelihood is not None
        assert [bound.steps for bound in report.likelihood.bounds] == [1, 2, 5, 10]
        assert [bool(bound.one_latent) for bound in report.likelihood.bounds] == [report.one_latent] * 4
        assert all(bound.valid for bound in report.likelihood.bounds)
    table = latents_table(reports)
    assert len({row[0] for row in table.rows}) == len(table.rows) == 6, "every row has a name of its own"
    assert all(cell is not None for row in table.rows for cell in row)
    assert len(json.loads((out / "results.json").read_text())) == 6
    assert "flow prior" in comparison.page.read_text()


def test_the_priors_lie_beside_the_weights(out: Path) -> None:
    for name in ("digits-per-state-vadd", "digits-vadd"):
        (checkpoint,) = RunDirectory(out / name).checkpoints()
        assert set(prior_records(checkpoint)) == {"flow"}
