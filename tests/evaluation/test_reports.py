"""The JSON of a report is an interface: reports recorded before they had types come out as they went in."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.files import write
from tests.helpers.judges import save_judge
from tests.helpers.text_runs import BOOK, PADDED, SENTENCES, train_on_text
from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, EvaluationOptions, RunReport, evaluate
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import DistributionDistance, NegativeLogLikelihood, PairDistance
from vadd.evaluation.zero_shot import zero_shot
from vadd.report.results import card_results
from vadd.run.loading import load
from vadd.run.run import Run

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded_reports.json").read_text())
"""By version 0.1.0: toys (VADD, MDLM, VADD with one latent), an array, padded text, text with a judge, digits by both
Frechet distances, zero-shot corpora, and a toy after its first number of steps.
"""
BOUNDS = BoundSettings(Particles(4), (1, 3), 2, 20)
SEVERAL = BoundSettings(Particles(2), (2,), delbo_draws=1, delbo_particles=(3, 1), limit=5, choose_proposals=True)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_report_is_read_and_written_as_it_was(name: str) -> None:
    """Every key, every value, and in the same order."""
    assert json.dumps(RunReport.model_validate(RECORDED[name]).to_json()) == json.dumps(RECORDED[name])


JOINED = ("parameters", "data")
"""Keys that reports have had since."""


def known_then(report: RunReport) -> dict[str, Any]:
    """The JSON of a report of today, without the keys that have joined."""
    written = report.to_json()
    assert set(JOINED) <= set(written)
    return {key: value for key, value in written.items() if key not in JOINED}


def without_dimensions(written: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """Take the KL of each dimension out of a report that was written, and give back the recorded one without it."""
    assert all(isinstance(nats, float) for nats in written["latent"].pop("kl_per_dimension"))
    latent = {key: value for key, value in recorded["latent"].items() if key != "kl_per_dimension"}
    return {**recorded, "latent": latent}


def outline(json: Any) -> Any:
    """The keys in their order, how long lists are, and what is a number or null, a word, yes or no; without those that
    have joined inside.
    """
    if isinstance(json, dict):
        return [(key, outline(value)) for key, value in json.items() if key not in ("proposals", "kind", "covariance")]
    if isinstance(json, list):
        return [outline(value) for value in json]
    return type(json) if isinstance(json, str | bool) else float


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Run:
    options = ("data.length=12", "data.tokenizer=bytes", "data.documents=line")
    return train_on_text(tmp_path_factory.mktemp("book"), BOOK, *options)


def evaluate_fixed(run: Run) -> RunReport:
    fixed = run.with_sampling(latent_policy="fixed")
    return evaluate(fixed, (1, 2), 500, bounds=replace(BOUNDS, delbo_draws=0)).report


MEASUREMENTS: dict[str, tuple[str, Callable[[Run], RunReport]]] = {
    "vadd": ("vadd_run", lambda run: evaluate(run, (1, 2), 500, bounds=BOUNDS).report),
    "mdlm": ("mdlm_run", lambda run: evaluate(run, (1, 2), 500, bounds=BOUNDS).report),
    "fixed": ("vadd_run", evaluate_fixed),
    "codes": ("array_run", lambda run: evaluate(run, (1, 2), 500).report),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_what_is_measured_today_has_the_recorded_keys(name: str, request: pytest.FixtureRequest) -> None:
    fixture, measure = MEASUREMENTS[name]
    found = measure(load(request.getfixturevalue(fixture)))
    written = known_then(found)
    if name == "fixed":  # version 0.1.0 had no bound for one z beyond one step
        (recorded,), (one, two) = RECORDED[name]["bounds"], written["bounds"]
        assert (one.pop("one_latent"), two["one_latent"]) == (True, True)
        assert outline(one) == outline(recorded)
        written["bounds"] = [one]
    recorded = RECORDED[name]
    if name == "codes":  # whose prior was N(0, I), is trained with the model today, and z had another size
        assert written.pop("prior") == "autoregressive"
        recorded = without_dimensions(written, recorded)
    assert outline(written) == outline(recorded)
    assert RunReport.model_validate(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_what_is_measured_in_text_today_has_the_recorded_keys(book: Run, tmp_path: Path) -> None:
    judge = LanguageJudge.open(str(save_judge(tmp_path / "judge")))
    found = evaluate(book, (1, 4), 5, bounds=SEVERAL, options=EvaluationOptions(language=judge)).report
    written = known_then(found)
    recorded = without_dimensions(written, RECORDED["judged"])  # z had another size
    assert outline(written) == outline(recorded)
    assert RunReport.model_validate(found.to_json()) == found


@pytest.mark.parametrize(("name", "model"), [("padded", "vadd"), ("padded-mdlm", "mdlm")])
def test_what_is_measured_in_padded_text_today_has_the_recorded_keys(tmp_path: Path, name: str, model: str) -> None:
    run = train_on_text(tmp_path, SENTENCES, *PADDED, f"model={model}")
    found = evaluate(run, (1, 2) if model == "vadd" else (), 6, bounds=SEVERAL).report
    written, recorded = known_then(found), RECORDED[name]
    if model == "vadd":  # a z of another size
        recorded = without_dimensions(written, recorded)
    assert outline(written) == outline(recorded)
    assert RunReport.model_validate(found.to_json()) == found


def test_corpora_judged_today_have_the_recorded_keys(book: Run, tmp_path: Path) -> None:
    write(tmp_path / "LAMBADA_test.txt", "“ the dog ” sat on\nthe cat sat on the mat\n")
    write(tmp_path / "tale.txt", "once upon a time\n\nthere was a cat\n")
    write(tmp_path / "tiny.txt", "cat")
    found = report_of(book).changed(zero_shot=zero_shot(book, tmp_path, SEVERAL), step=10)
    assert outline(known_then(found)) == outline(RECORDED["zero-shot"])
    assert RunReport.model_validate(found.to_json()) == found


def test_what_was_not_measured_is_missing_and_what_does_not_exist_is_null(mdlm_run: Path) -> None:
    grown: list[dict[str, Any]] = []
    evaluate(load(mdlm_run), (1,), 100, grown=lambda report: grown.append(report.to_json()))
    assert "latent" not in grown[0]
    assert grown[-1]["latent"] is None
    optional = {"latent_policy", "judge", "real_text", "bounds", "unit", "delbo", "delbo_by_particles", "elbo"}
    assert not grown[-1].keys() & (optional | {"zero_shot", "step"})
    assert not report_of(load(mdlm_run)).to_json().keys() & (optional | {"samples", "entropy", "latent"})


def test_metrics_are_told_apart_by_their_kind() -> None:
    toy, array = RunReport.model_validate(RECORDED["vadd"]), RunReport.model_validate(RECORDED["codes"])
    found = toy.by_steps(DistributionDistance)
    assert list(found) == [1, 2]
    assert found[2].paper_js == found[2].value == RECORDED["vadd"]["results"][1]["paper_js"]
    assert found[2].floor == RECORDED["vadd"]["results"][1]["paper_js_floor"]
    assert array.by_steps(DistributionDistance) == {}
    assert array.by_steps(PairDistance)[1].value == RECORDED["codes"]["results"][0]["pair_jsd"]


def test_the_delbo_is_the_one_with_most_particles() -> None:
    vadd, mdlm = (RunReport.model_validate(RECORDED[name]).likelihood for name in ("padded", "padded-mdlm"))
    assert vadd is not None
    assert mdlm is not None
    assert [found.particles for found in vadd.delbos] == [1, 3]
    assert vadd.delbo == vadd.delbos[1]
    assert mdlm.delbo is None
    assert not vadd.scores_pads


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"valid": True}, None),
        ({"valid": False}, "not a likelihood bound"),
        ({"valid": False, "convention": "pads not scored"}, "pads not scored"),
        ({"valid": False, "convention": "pads not scored", "warning": "not at all"}, "not at all"),
    ],
)
def test_what_is_no_bound_says_why(more: dict[str, Any], problem: str | None) -> None:
    found = NegativeLogLikelihood(nats=1.0, stderr=None, bpd=1.0, perplexity=2.0, examples=1, **more)
    assert found.problem == problem


def test_a_report_with_few_keys_is_read() -> None:
    """As version 0.1.0 wrote them, or somebody by hand."""
    bound = {"steps": 1, "nats": 4.0, "stderr": 0.1, "bpd": 3.0, "perplexity": 8.0, "examples": 5, "valid": True}
    few = {"recipe": "circles", "model": "vadd", "results": [], "bounds": [bound], "delbo": {**bound, "valid": False}}
    report = RunReport.model_validate(few)
    assert (report.values, "latent" in report.to_json()) == (None, False)
    assert report.likelihood is not None
    assert report.likelihood.delbo is not None
    assert (report.likelihood.bounds[0].nats, report.likelihood.delbo.valid) == (4.0, False)


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_report_has_tables_for_a_model_card(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    results = card_results(write(tmp_path / "numbers.json", json.dumps(recorded)))
    assert (results.recipe, results.model) == (recorded["recipe"], recorded["model"])
    assert results.step == recorded.get("step")
    expected = {
        "### Distance of the samples from the data": bool(recorded["results"]) and "real_text" not in recorded,
        "### Texts by number of steps": "real_text" in recorded,
        "### Likelihood of held-out examples": "bounds" in recorded,
        "### Zero-shot perplexity of book VADD": "zero_shot" in recorded,
        "### Health of the latent": recorded.get("latent") is not None,
    }
    titles = [line for line in results.tables.splitlines() if line.startswith("### ")]
    assert titles == [title for title, there in expected.items() if there]


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        '{"recipe": "circles", "model": "vadd"}',
        '{"recipe": "circles", "model": "vadd", "results": [{"jsd": 1}]}',
        '{"recipe": "circles", "model": "vadd", "results": [{"steps": 1, "jsd": 1}]}',
        '{"recipe": "circles", "model": "vadd", "results": [{"steps": 1, "paper_js": 1}]}',
        '{"recipe": "circles", "model": "vadd", "results": [], "bounds": [{"steps": 1}]}',
        '{"recipe": "circles", "model": "vadd", "results": [], "zero_shot": []}',
        '{"recipe": "circles", "model": "vadd", "results": [], "latent": {"kl_average": 1}}',
    ],
)
def test_what_is_no_report_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a report of `vadd eval --json`"):
        card_results(write(tmp_path / "numbers.json", content))
