"""Tables never mix conventions: every number says what it is, and with how many latents, masks and examples."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.reports import bits, run_report
from vadd.core.health import LatentHealth
from vadd.evaluation.reports import (
    InceptionDistance,
    JudgeReport,
    LikelihoodReport,
    RunReport,
    ScoredCorpus,
    StepResult,
    TextMetrics,
)
from vadd.report.table import Table
from vadd.studies.engine import zero_shot_tables
from vadd.studies.study import Published, study_named
from vadd.studies.tables import (
    bits_table,
    difference_notes,
    fid_table,
    ratio_tables,
    recognition_tables,
    text_likelihood_tables,
    toy_tables,
)

COUNTS = st.integers(1, 5000)
PAPER = {name: study_named(name).published for name in ("toys", "mnist", "cifar10", "text", "lm1b", "zero-shot")}
ZERO_SHOT, FID = PAPER["zero-shot"], PAPER["cifar10"]
CORPORA, FID_IMAGES = ZERO_SHOT.columns, FID.samples
LATENT = LatentHealth(kl_all_masked=1.0, kl_average=0.5, kl_per_dimension=(1.0,), active_units=1)


@st.composite
def reports(draw: st.DrawFn, /, model: str, **more: Any) -> RunReport:
    pads = {"convention": "pads not scored"} if draw(st.booleans()) else {}
    examples: dict[str, Any] = {"examples": draw(COUNTS), **pads}
    values = st.floats(0.01, 10)
    latents = {} if model == "mdlm" else {"proposals": ("recognition",)}
    bounds = tuple(
        bits(draw(values), steps=steps, valid=not pads, particles=draw(COUNTS), **latents, **examples)
        for steps in draw(st.lists(COUNTS, min_size=1, max_size=3, unique=True))
    )
    if model == "mdlm":
        found = LikelihoodReport(bounds=bounds, elbo=bits(draw(values), valid=not pads, draws=draw(COUNTS), **examples))
    else:
        counts = draw(st.lists(COUNTS, min_size=1, max_size=3, unique=True))
        drawn: dict[str, Any] = {"valid": False, "draws": draw(COUNTS), **examples}
        delbos = tuple(bits(draw(values), particles=k, **drawn) for k in counts)
        found = LikelihoodReport(bounds=bounds, delbo=delbos[-1], delbo_by_particles=delbos)
    return run_report(model, likelihood=found, parameters=1000, **more)


def tables(mdlm: RunReport, vadd: RunReport, kind: str) -> list[Table]:
    both = [mdlm, vadd]
    if kind in ("mnist", "cifar10"):
        return bits_table(both, PAPER[kind])
    if kind == "toys":
        return toy_tables(both, PAPER["toys"])[1:]
    return text_likelihood_tables(both, PAPER["lm1b" if kind == "lm1b" else "text"])[:1]


@pytest.mark.parametrize("kind", ["mnist", "cifar10", "lm1b", "openwebtext", "other", "toys"])
@given(data=st.data())
def test_every_number_says_what_it_is(kind: str, data: st.DataObject) -> None:
    recipe = "circles" if kind == "toys" else "mine"
    more = {"recipe": recipe, "published_recipe": kind if kind in ("lm1b", "openwebtext") else None, "samples": 7}
    mdlm, vadd = (data.draw(reports(model, **more)) for model in ("mdlm", "vadd"))
    for table in tables(mdlm, vadd, kind):
        which, particles, masks, examples = (
            table.columns.index(name) for name in ("which is", "K", "masks", table.columns[-1])
        )
        ours = [row for row in table.rows if "the paper" not in str(row[0])]
        theirs = [row for row in table.rows if "the paper" in str(row[0])]
        numbers = [
            found
            for report in (mdlm, vadd)
            if report.likelihood is not None
            for found in (*report.likelihood.bounds, report.likelihood.elbo, *report.likelihood.delbos)
            if found is not None
        ]
        assert len(ours) == len(numbers), "no number of ours is left out"
        for row, found in zip(ours, numbers, strict=True):
            without = found.proposals is None and "DELBO" not in str(row[which])
            expected = (None if without else found.particles, found.draws, found.examples)
            assert (row[particles], row[masks], row[examples]) == expected
            assert str(row[which]).endswith(", a bound") is found.valid
            assert ("pads" in str(row[which])) is (found.convention is not None)
        for row in theirs:
            invalid = "DELBO" in str(row[which])
            assert ("not a likelihood bound" in str(row[which])) is invalid
            assert (row[particles] is not None) is invalid, "only the DELBO has latents"
        assert bool(theirs) is (kind != "other"), "the paper's rows are there where it has this data"
        assert vadd.likelihood is not None
        other = 1000 not in {found.particles for found in vadd.likelihood.delbos}
        assert ("the paper's K = 1000" in table.note) is (other and kind != "other")


def test_what_was_computed_otherwise_or_learnt_otherwise_is_noted() -> None:
    keys = tuple(f"key{number}=1 instead of 2" for number in range(7))
    found = [
        run_report("mdlm", published_recipe="mnist", unlike_it=keys),
        run_report("vadd", published_recipe="mnist", how_computed=("training.precision=bfloat16",)),
    ]
    first, second = difference_notes(found)
    assert first.startswith("Unlike the paper's recipe mnist, MDLM: key0=1 instead of 2")
    assert first.endswith("and 2 keys more.")
    assert second == "VADD computed with training.precision=bfloat16."


@st.composite
def images(draw: st.DrawFn, /, model: str) -> RunReport:
    steps = draw(st.lists(st.sampled_from([1, 10, 20, 50, 100]), min_size=1, unique=True))
    found = tuple(
        StepResult(
            steps=count, metrics=InceptionDistance(fid=draw(st.floats(1, 500)), fid_floor=1.5, fid_reference=500)
        )
        for count in steps
    )
    return run_report(model, results=found, samples=draw(COUNTS))


@given(data=st.data())
def test_every_row_of_fid_says_of_how_many_images(data: st.DataObject) -> None:
    found = [data.draw(images(model)) for model in ("mdlm", "vadd")]
    for row in fid_table(found, FID)[0].rows:
        assert str(row[0]).endswith(" images")
        assert str(row[0]).endswith(f" {FID_IMAGES} images") is ("the paper" in str(row[0])) or FID_IMAGES in (
            report.samples for report in found
        )


def likelihood_of(report: RunReport) -> LikelihoodReport:
    """Of its first corpus."""
    first = (report.zero_shot or ())[0]
    assert isinstance(first, ScoredCorpus)
    return first.likelihood


@given(data=st.data())
def test_every_zero_shot_number_says_what_it_is(data: st.DataObject) -> None:
    papers = data.draw(st.booleans())
    found = []
    for model in ("mdlm", "vadd"):
        judged = data.draw(reports(model)).likelihood
        assert judged is not None
        corpora = tuple(
            ScoredCorpus(corpus=f"{name}.txt", read_as=name, sequences=9, likelihood=judged.changed(unit="token"))
            for name in CORPORA[:2]
        )
        more = {"published_recipe": "openwebtext"} if papers else {}
        found.append(run_report(model, zero_shot=corpora, **more))
    tables = zero_shot_tables(found, ZERO_SHOT)
    groups = len({likelihood_of(report).scores_pads for report in found})
    assert len(tables) == groups + (not papers), "the paper's numbers are of GPT-2's tokens"
    for table in tables:
        for row in table.rows:
            name = str(row[0])
            assert ("DELBO" in name) is ("not a bound" in name)
            assert ("DELBO" in name or "VADD: step bound" in name) <= ("K = " in name)
    assert any(str(row[0]) == "sequences evaluated" for row in tables[0].rows)


@given(
    kinds=st.lists(
        st.tuples(st.sampled_from(["token", "character"]), st.sampled_from([27, 2048]), st.booleans()), min_size=2
    )
)
def test_zero_shot_numbers_of_other_tokens_never_share_a_table(kinds: list[tuple[str, int, bool]]) -> None:
    found = []
    for number, (unit, values, scored) in enumerate(kinds):
        pads: dict[str, Any] = {} if scored else {"convention": "pads not scored", "valid": False}
        judged = LikelihoodReport(bounds=(bits(2.0, steps=32, **pads),), unit=unit)
        corpora = (ScoredCorpus(corpus="lambada.txt", read_as="lambada", sequences=9, likelihood=judged),)
        found.append(run_report("mdlm", f"r{number}", values=values, zero_shot=corpora))
    *ours, theirs = zero_shot_tables(found, ZERO_SHOT)
    assert len(ours) == len(set(kinds))
    shown = [{kinds[int(str(row[0])[1:].partition(" ")[0])] for row in table.rows[:-1]} for table in ours]
    assert all(len(members) == 1 for members in shown)
    assert not any("the paper" in str(row[0]) for table in ours for row in table.rows)
    assert len(theirs.rows) == 5


@given(data=st.data())
def test_both_recognition_models_say_how_their_bits_were_found(data: st.DataObject) -> None:
    policies = ("resample", "fixed")
    found = [data.draw(reports("vadd", latent_policy=policy, latent=LATENT)) for policy in policies]
    health, bits_found = recognition_tables(found, Published())
    assert [row[0] for row in health.rows] == ["with x_t", "without x_t, one z"]
    numbers = [
        number
        for report in found
        if report.likelihood is not None
        for number in (*report.likelihood.bounds, *report.likelihood.delbos)
    ]
    assert [(row[3], row[4], row[5]) for row in bits_found.rows] == [
        (number.particles, number.draws, number.examples) for number in numbers
    ]
    assert {row[0] for row in bits_found.rows} == {"with x_t", "without x_t, one z"}
    assert all(("DELBO" in str(row[2])) <= ("not a likelihood bound" in str(row[2])) for row in bits_found.rows)


@given(convention=st.sampled_from(["corpus: ...", "sedd: ..."]), judge=st.sampled_from(["gpt2-large", "gpt2"]))
def test_the_papers_generative_perplexities_stand_beside_the_same_judge_and_convention_only(
    convention: str, judge: str
) -> None:
    metrics = TextMetrics(gen_ppl=9.0, sample_entropy=1.0, distinct_1=0.5, distinct_2=0.5, distinct_3=0.5)
    more: dict[str, Any] = {
        "judge": JudgeReport(name=judge, convention=convention, first_token="...", max_length=1024),
        "published_recipe": "openwebtext",
        "results": (StepResult(steps=16, metrics=metrics),),
        "samples": 12,
    }
    (table,) = ratio_tables([run_report(model, **more) for model in ("mdlm", "vadd")], PAPER["text"])
    beside = any("the paper" in str(row[0]) for row in table.rows)
    assert beside is (convention.startswith("corpus") and judge == "gpt2-large")
    assert table.note.startswith("12 samples for each number of steps.")
