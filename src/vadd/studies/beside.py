"""Tables that put our numbers beside the paper's: every row says what its number is, with how many latents, masks and
examples it was found, and whether it bounds a likelihood.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vadd.evaluation import RunReport
from vadd.evaluation.reports import NOT_A_BOUND, LikelihoodReport, NegativeLogLikelihood
from vadd.report.tables import PADS_NOTE, Cell, Table, model_label
from vadd.studies.paper import PARTICLES, Quoted

MOST_KEYS = 5
Detail = tuple[str, Callable[[RunReport], Cell]]
"""A column and what stands there of a run; of a quoted number its ``detail``."""


@dataclass(frozen=True)
class Unit:
    name: str
    """Of the column with the numbers."""
    of: Callable[[NegativeLogLikelihood], float | None]
    examples: str
    digits: int = 3


BITS = Unit("bits/dim", lambda found: found.bpd, "images")
NATS = Unit("nats", lambda found: found.nats, "points")
BITS_PER_TOKEN = Unit("bits/token", lambda found: found.bpd, "sequences")
PERPLEXITIES = Unit("perplexity", lambda found: found.perplexity, "sequences", digits=2)


def row_name(report: RunReport) -> str:
    return model_label(report.model) + (", one z" if report.one_latent else "")


def likelihood_table(
    title: str,
    reports: Sequence[RunReport],
    unit: Unit,
    quoted: Sequence[Quoted] = (),
    detail: Detail | None = None,
    name_of: Callable[[RunReport], str] = row_name,
) -> Table:
    """Ours, a row for each number, and then the paper's."""
    rows: list[list[Cell]] = []
    for report in reports:
        if report.likelihood is not None:
            shown = [] if detail is None else [detail[1](report)]
            name = name_of(report)
            rows += [
                [name, *shown, _rounded(unit.of(found), unit), which, latents, found.draws, found.examples]
                for which, found, latents in _numbers(report.likelihood)
            ]
    rows += [
        [
            f"{number.name}, {number.source}",
            *([] if detail is None else [number.detail]),
            _rounded(number.value, unit),
            quoted_as(number),
            number.particles,
            number.draws,
            number.examples,
        ]
        for number in quoted
    ]
    columns = ["", *([] if detail is None else [detail[0]]), unit.name, "which is", "K", "masks", unit.examples]
    return Table(title, columns, rows, _note(reports, quoted))


def _numbers(likelihood: LikelihoodReport) -> list[tuple[str, NegativeLogLikelihood, int | None]]:
    """What each number is, whether it bounds the likelihood, and K; a model without a latent draws none."""
    named = [(f"step bound, T = {bound.steps}", bound) for bound in likelihood.bounds]
    named += [] if likelihood.elbo is None else [("ELBO", likelihood.elbo)]
    plain = [
        (f"{name}, {'a bound' if found.valid else found.problem}", found, found.particles if found.proposals else None)
        for name, found in named
    ]
    # Whatever else is to be said of a DELBO, it is no bound.
    delbos = [
        (", ".join(filter(None, ["DELBO", NOT_A_BOUND, found.convention])), found, found.particles)
        for found in likelihood.delbos
    ]
    return [*plain, *delbos]


def quoted_as(number: Quoted) -> str:
    """The paper calls its DELBO a bound; it is none."""
    return f"{number.which}, {NOT_A_BOUND}" if number.which == "DELBO" else number.which


def _rounded(value: float | None, unit: Unit) -> str | None:
    return None if value is None else f"{value:.{unit.digits}f}"


def _note(reports: Sequence[RunReport], quoted: Sequence[Quoted]) -> str:
    notes = [
        "K: latents for each estimate; masks: pairs (t, x_t) for each example. Step bounds are for the sampler that "
        "takes T steps; the DELBO is what the paper reports of VADD, and does not compare with the ELBO of MDLM."
    ]
    found = {delbo.particles for report in reports if report.likelihood for delbo in report.likelihood.delbos}
    if quoted and found and PARTICLES not in found:
        listed = " and ".join(str(count) for count in sorted(count for count in found if count is not None))
        notes.append(f"Our DELBO has K = {listed}, the paper's K = {PARTICLES}: more latents make it lower.")
    padded = [report.likelihood for report in reports if report.likelihood and not report.likelihood.scores_pads]
    notes += [PADS_NOTE] if padded else []
    return " ".join([*notes, *kinship_notes(reports)])


def other_data_notes(reports: Sequence[RunReport]) -> list[str]:
    """Where somebody has changed the data, the paper's numbers are of others."""
    others = [report for report in reports if report.published_recipe is None]
    return ["These data are not the paper's: its numbers do not compare with ours."] if others else []


def kinship_notes(reports: Sequence[RunReport]) -> list[str]:
    """How these runs differ from the paper's recipe, and what was chosen so that they fit."""
    unlike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    computed: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        label = model_label(report.model)
        if report.published_recipe is not None and report.unlike_it:
            unlike.setdefault((report.published_recipe, report.unlike_it), []).append(label)
        if report.how_computed:
            computed.setdefault(report.how_computed, []).append(label)
    notes = []
    for (name, keys), labels in unlike.items():
        more = f" and {len(keys) - MOST_KEYS} keys more" if len(keys) > MOST_KEYS else ""
        notes.append(f"Unlike the paper's recipe {name}, {_listed(labels)}: {', '.join(keys[:MOST_KEYS])}{more}.")
    notes += [f"{_listed(labels)} computed with {', '.join(keys)}." for keys, labels in computed.items()]
    return notes


def _listed(labels: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(labels))
