"""The paper's zero-shot table: corpora that models of OpenWebText have not learnt from, several runs at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vadd.data.text.corpora import HUB_CORPORA
from vadd.errors import UserError
from vadd.evaluation import RunReport
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.zero_shot import corpora_in, recognise, zero_shot
from vadd.progress import named
from vadd.report.likelihood_tables import perplexity_cell, scored_corpora, zero_shot_notes
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, report_names
from vadd.run.loading import load
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.study import Published, Request, Study
from vadd.studies.tables import difference_notes
from vadd.studies.trainings import bound_settings, finished_runs, measuring_of, trainings_of


def evaluate_corpora(study: Study, request: Request) -> Result:
    """The runs of ``vadd reproduce text`` in the same directory, or those that the user names."""
    assert request.corpora is not None
    if request.runs and request.overrides:
        raise UserError("changes to a recipe are for runs that the study trains, not for --run")
    names = study.published.columns if request.only is None else request.only
    paths = copies_of(request.corpora, names, study.published.columns)
    settings = bound_settings(measuring_of(study, request))
    if request.runs:
        runs = [load(path) for path in request.runs]
    else:
        runs = finished_runs(trainings_of(study, request), fit=request.fit)
    reports = [report_of(run) for run in runs]
    for number, (name, run) in enumerate(zip(report_names(reports), runs, strict=True)):
        corpora = zero_shot(run, paths, settings, named(request.progress, name))
        reports[number] = reports[number].changed(zero_shot=corpora, step=run.step)
    tables = zero_shot_tables(reports, study.published)
    section = PageSection("Perplexity by corpus", tables=tables)
    return publish(request.out / "zero-shot", Page.of(study), section, [report.to_json() for report in reports])


def copies_of(folder: Path, names: Sequence[str], known: Sequence[str]) -> list[Path]:
    """The files of the corpora; missing ones are named, with how to get them, before anything is trained."""
    for name in names:
        if name not in known:
            raise UserError(f"unknown corpus {name!r}; the paper's are {', '.join(known)}")
    copies: Mapping[str | None, Path] = {recognise(path): path for path in reversed(corpora_in(folder))}
    missing = [name for name in names if name not in copies]
    if missing:
        places = ", ".join(f"{name} ({HUB_CORPORA[name].repository} on the hub)" for name in missing)
        raise UserError(
            f"there is no copy of {places} in {folder}: put each there as a .txt with a document a line, a .jsonl or a "
            f".csv whose name begins like {missing[0]}, or name those that you have with --only"
        )
    return [copies[name] for name in names]


def zero_shot_tables(reports: Sequence[RunReport], published: Published) -> list[Table]:
    """Ours, and the paper's: in one table where they read the same text in the same tokens, in several else."""
    groups: dict[tuple[object, ...], list[tuple[str, RunReport]]] = {}
    for name, report in zip(report_names(reports), reports, strict=True):
        groups.setdefault(_reading(report), []).append((name, report))
    corpora = [corpus.read_as for corpus in scored_corpora(reports[0])]
    quoted = {name: dict(zip(published.columns, values, strict=True)) for name, values in published.rows.items()}

    def table(title: str, rows: Mapping[str, Mapping[str, Cell]], note: str) -> Table:
        cells = [[name, *(row.get(corpus) for corpus in corpora)] for name, row in rows.items()]
        return Table(title, ["", *corpora], cells, note)

    tables, quoted_apart = [], True
    for members in groups.values():
        rows: dict[str, Mapping[str, Cell]] = {}
        for name, report in members:
            rows |= _rows(name, report)
        evaluated = scored_corpora(members[0][1])
        rows["sequences evaluated"] = {one.read_as: one.likelihood.bounds[-1].examples for one in evaluated}
        unit = " or ".join({str(corpus.likelihood.unit) for corpus in evaluated})
        if all(report.published_recipe == published.recipe for _, report in members):
            quoted_apart, rows, unit = False, rows | quoted, "token of GPT-2"
        note = _note([report for _, report in members], published.columns)
        tables.append(table(f"Zero-shot perplexity per {unit}", rows, note))
    if quoted_apart:
        tables.append(table("The paper's zero-shot perplexities", quoted, NOTES["papers_zero_shot"]))
    return tables


def _reading(report: RunReport) -> tuple[object, ...]:
    """What two runs must share for their perplexities to compare: the text as they read it, and what they score."""
    corpora = scored_corpora(report)
    readings = {(one.likelihood.unit, one.spelled_like, one.likelihood.scores_pads) for one in corpora}
    return (report.values, *sorted(readings, key=str))


def _rows(name: str, report: RunReport) -> dict[str, dict[str, Cell]]:
    """Perplexities by what the number is and by corpus."""
    rows: dict[str, dict[str, Cell]] = {}
    for corpus in scored_corpora(report):
        for what, number in corpus.likelihood.named:
            facts = [name + ": " + what.removeprefix("the paper's ")]
            facts += [] if number.proposals is None or "K = " in what else [f"K = {number.particles}"]
            facts += [] if number.draws is None else [f"{number.draws} masks"]
            facts += ["not a bound"] if "DELBO" in what else []
            rows.setdefault(", ".join(facts), {})[corpus.read_as] = perplexity_cell(number)
    return rows


def _note(reports: Sequence[RunReport], known: Sequence[str]) -> str:
    files = ", ".join(f"{corpus.read_as} from {corpus.corpus}" for corpus in scored_corpora(reports[0]))
    splits = ", ".join(f"{name} {HUB_CORPORA[name].test}" for name in known)
    note = NOTES["zero_shot"].format(files=files, splits=splits)
    return " ".join([note, *zero_shot_notes(reports[0]), *difference_notes(reports)])
