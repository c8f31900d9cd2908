"""What ``run.bound`` and ``vadd eval --bound`` say of every sampler: exact, a bound, or why there is none."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import vadd
from tests.helpers.commands import Command
from vadd.core import Particles, step_bound
from vadd.core.host import BOUNDS, step_generator
from vadd.errors import UserError
from vadd.evaluation.reports import RunReport

KINDS = {
    "ancestral": "bound",
    "parallel": "bound",
    "first-hitting": "bound",
    "left-to-right": "exact",
    "confidence": "bound",
    "margin": "exact",
    "entropy": "exact",
    "entropy-bounded": "exact",
    "remask": "bound",
    "remask-rescaled": "bound",
}


def test_every_sampler_of_a_model_without_a_latent_is_exact_or_bounded(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    assert set(KINDS) == set(run.model.samplers)
    for sampler, kind in KINDS.items():
        found = run.bound(2, limit=30, particles=4, sampler=sampler).bounds[2]
        assert (found.kind, found.valid) == (kind, True)
        assert run.likelihood_kind(steps=2, sampler=sampler).kind == kind
        assert found.sampler == (None if sampler == "ancestral" else sampler)
        if sampler != "first-hitting":
            assert run.bound(1, limit=30, sampler=sampler).bounds[1].kind == "exact"


@pytest.mark.parametrize("policy", ["resample", "fixed"])
def test_with_a_latent_every_sampler_is_bounded(vadd_run: Path, policy: Any) -> None:
    run = vadd.load(vadd_run)
    for sampler in KINDS:
        found = run.bound(2, limit=20, particles=4, sampler=sampler, latent_policy=policy).bounds[2]
        assert found.kind == "bound"
        assert found.nats > 0


def test_the_number_is_the_mean_of_the_likelihood_over_examples(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    found = run.bound(2, sampler="margin", temperature=0.7).bounds[2]
    sampler, law = run.model.samplers["margin"], run.options(temperature=0.7).drawing.token_sampler
    each = step_bound(run.model, run.data.test, 2, Particles(1), step_generator(0, BOUNDS, 0), sampler=sampler)
    assert found.nats != pytest.approx(-float(each.mean()))
    each = step_bound(run.model, run.data.test, 2, 1, sampler=sampler, token_sampler=law)
    assert found.nats == pytest.approx(-float(each.mean()))


def test_examples_of_probability_zero_are_counted(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    results = run.bound(2, sampler="margin", top_k=2)
    found = results.bounds[2]
    law = run.options(top_k=2).drawing.token_sampler
    each = step_bound(run.model, run.data.test, 2, 1, sampler=run.model.samplers["margin"], token_sampler=law)
    assert found.impossible == int((each == -torch.inf).sum()) > 0
    assert found.nats == float("inf")
    assert found.nats_of_possible == pytest.approx(-float(each[each.isfinite()].mean()))
    assert f"{found.impossible:,} of {found.examples:,} examples have probability 0" in " ".join(repr(results).split())
    written = json.loads(json.dumps(results.to_json(), allow_nan=False))
    assert written["bounds"][0]["nats"] is None
    assert RunReport.model_validate(written).likelihood == results.report.likelihood


def test_the_command_takes_a_sampler_and_says_what_its_number_is(
    mdlm_run: Path, tmp_path: Path, vadd_command: Command
) -> None:
    out = tmp_path / "numbers.json"
    options = ("--bound", "2", "--limit", "30", "--sampler", "margin", "--temperature", "0.8", "--json", str(out))
    said = vadd_command("eval", mdlm_run, *options)
    assert said.code == 0
    assert "exact" in said.out
    written = json.loads(out.read_text())
    assert (written["sampler"], written["draws"]) == ("margin", "temperature 0.8")
    assert (written["bounds"][0]["kind"], written["bounds"][0]["sampler"]) == ("exact", "margin")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--sampler", "surest"), "surest"),
        (("--top-p", "1.5"), "top_p must be at most 1, not 1.5"),
        (("--temperature", "-1"), "temperature must be at least 0"),
    ],
)
def test_what_is_no_sampler_is_refused_in_one_line(
    mdlm_run: Path, options: tuple[str, ...], told: str, vadd_command: Command
) -> None:
    said = vadd_command("eval", mdlm_run, "--bound", "2", *options)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert told in said.err


def test_draws_without_a_law_have_none(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    assert run.likelihood_kind(precision="float32").kind == "none"
    with pytest.raises(UserError, match="for the sampler Ordered: draws in float32 have no law"):
        run.bound(2, limit=5, sampler="margin", precision="float32")
    with pytest.raises(UserError, match="unknown option 'smapler' of sampling, did you mean 'sampler'"):
        run.bound(2, smapler="margin")
