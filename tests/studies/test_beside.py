"""Tables never mix conventions: every number says what it is, and with how many latents, masks and examples."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.reports import bits, run_report
from vadd.evaluation.reports import LikelihoodReport, RunReport
from vadd.report.tables import Table
from vadd.studies.beside import kinship_notes
from vadd.studies.images import bits_table
from vadd.studies.text import text_likelihoods
from vadd.studies.toys import toy_tables

COUNTS = st.integers(1, 5000)


@st.composite
def reports(draw: st.DrawFn, /, model: str, **more: Any) -> RunReport:
    pads = {"convention": "pads not scored"} if draw(st.booleans()) else {}
    examples: dict[str, Any] = {"examples": draw(COUNTS), **pads}
    values = st.floats(0.01, 10)
    bounds = tuple(
        bits(draw(values), steps=steps, valid=not pads, particles=draw(COUNTS), **examples)
        for steps in draw(st.lists(COUNTS, min_size=1, max_size=3, unique=True))
    )
    if model == "mdlm":
        found = LikelihoodReport(bounds, elbo=bits(draw(values), valid=not pads, draws=draw(COUNTS), **examples))
    else:
        counts = draw(st.lists(COUNTS, min_size=1, max_size=3, unique=True))
        drawn: dict[str, Any] = {"valid": False, "draws": draw(COUNTS), **examples}
        found = LikelihoodReport(bounds, delbos=tuple(bits(draw(values), particles=k, **drawn) for k in counts))
    return run_report(model, likelihood=found, parameters=1000, **more)


def tables(mdlm: RunReport, vadd: RunReport, kind: str) -> list[Table]:
    if kind in ("mnist", "cifar10"):
        return [bits_table(kind, [mdlm, vadd])]
    return [text_likelihoods([mdlm, vadd])] if kind != "toys" else toy_tables([mdlm, vadd])[1:]


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
            assert (row[particles], row[masks], row[examples]) == (found.particles, found.draws, found.examples)
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
    first, second = kinship_notes(found)
    assert first.startswith("Unlike the paper's recipe mnist, MDLM: key0=1 instead of 2")
    assert first.endswith("and 2 keys more.")
    assert second == "VADD computed with training.precision=bfloat16."
