"""The paper's zero-shot table: corpora that models of OpenWebText have not learnt from, several runs at once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vadd.data.text.known import HUB_CORPORA
from vadd.errors import UserError
from vadd.evaluation import RunReport
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.reading import recognise
from vadd.evaluation.reports import JudgedCorpus, LikelihoodReport, NegativeLogLikelihood
from vadd.evaluation.zero_shot import corpora_in, judge_corpora
from vadd.progress import Progress, named
from vadd.report.page import PageSection
from vadd.report.tables import PADS_NOTE, Cell, Table, perplexity_cell, report_names
from vadd.report.zero_shot import SPELLED_NOTE, skipped_notes
from vadd.run.run import load
from vadd.studies.beside import kinship_notes
from vadd.studies.comparison import Comparison
from vadd.studies.ensure import ensure_all_trained
from vadd.studies.measuring import Changes, Measuring, Scale, as_the_paper, check_changes, command_line
from vadd.studies.paper import CORPORA, ZERO_SHOT
from vadd.studies.publishing import publish
from vadd.studies.text import RECIPES, in_folders, text_recipes

PUBLISHED = "openwebtext"
MEASURING: dict[Scale, Measuring] = {
    "small": Measuring(steps=(), samples=0, bound_steps=(32,), particles=8, draws=20, limit=100),
    "paper": as_the_paper((), 0, (32,)),
}


def reproduce_zero_shot(
    out: Path,
    scale: Scale,
    folder: Path,
    progress: Progress,
    *,
    only: Sequence[str] | None = None,
    given: Sequence[Path] = (),
    data: Path | None = None,
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """The runs of ``vadd reproduce text`` in ``out``, or those ``given``, on the corpora in ``folder``."""
    check_changes(changes or {}, "bound_steps", "particles", "delbo_particles", "draws", "limit")
    paths = copies_of(folder, CORPORA if only is None else only)
    settings = MEASURING[scale].changed(changes or {}).bounds()
    if given:
        runs = [load(path) for path in given]
    else:
        recipes = text_recipes(RECIPES["text"][scale], data, overrides)
        runs = ensure_all_trained(in_folders(recipes, out), fit=fit)
    reports = [report_of(run) for run in runs]
    for number, (name, run) in enumerate(zip(report_names(reports), runs, strict=True)):
        found = judge_corpora(run, paths, settings, named(progress, name))
        reports[number] = replace(reports[number], zero_shot=found, step=run.step)
    page = publish(
        out / "zero-shot",
        "Zero-shot perplexities",
        "Text that the models have not learnt from, read as they read their own.",
        [
            PageSection(
                "Perplexity by corpus",
                tables=zero_shot_tables(reports),
                commands=[command_line("zero-shot", scale, overrides, changes, corpora="DIR", only=only)],
            )
        ],
        [report.to_json() for report in reports],
    )
    return Comparison(reports, page)


def copies_of(folder: Path, names: Sequence[str]) -> list[Path]:
    """Where the corpora lie; those that do not are named, with how to get them, before anything is trained."""
    for name in names:
        if name not in CORPORA:
            raise UserError(f"unknown corpus {name!r}; the paper's are {', '.join(CORPORA)}")
    found = {recognise(path): path for path in reversed(corpora_in(folder))}
    missing = [name for name in names if name not in found]
    if missing:
        places = ", ".join(f"{name} ({HUB_CORPORA[name].repository} on the hub)" for name in missing)
        raise UserError(
            f"there is no copy of {places} in {folder}: put each there as a .txt with a document a line, a .jsonl or a "
            f".csv whose name begins like {missing[0]}, or name those that you have with --only"
        )
    return [found[name] for name in names]  # type: ignore[index]  # a name of the paper's is one of a corpus


def zero_shot_tables(reports: Sequence[RunReport]) -> list[Table]:
    """Ours, and the paper's: in one table where they read the same text in the same tokens, in several else."""
    groups: dict[tuple[object, ...], list[tuple[str, RunReport]]] = {}
    for name, report in zip(report_names(reports), reports, strict=True):
        groups.setdefault(_reading(report), []).append((name, report))
    corpora = [found.read_as for found in _judged(reports[0])]
    quoted: list[list[Cell]] = [
        [name, *(values[CORPORA.index(corpus)] for corpus in corpora)] for name, values in ZERO_SHOT.items()
    ]
    tables, beside = [], False
    for members in groups.values():
        rows = _rows(members, corpora)
        if all(report.published_recipe == PUBLISHED for _, report in members):
            beside, rows = True, [*rows, *quoted]
        judged = _judged(members[0][1])
        unit = "token of GPT-2" if rows[-1] is quoted[-1] else " or ".join({str(one.likelihood.unit) for one in judged})
        note = _note([report for _, report in members], judged)
        tables.append(Table(f"Zero-shot perplexity per {unit}", ["", *corpora], rows, note))
    theirs = (
        "Of models trained on OpenWebText, per token of GPT-2, on test splits: not to be compared with models of other "
        "text or tokens. The DELBO is not a likelihood bound."
    )
    return tables if beside else [*tables, Table("The paper's zero-shot perplexities", ["", *corpora], quoted, theirs)]


def _judged(report: RunReport) -> list[JudgedCorpus]:
    return [corpus for corpus in report.zero_shot or () if isinstance(corpus, JudgedCorpus)]


def _reading(report: RunReport) -> tuple[object, ...]:
    """What two runs must share for their perplexities to compare: the text as they read it, and what they score."""
    judged = _judged(report)
    told = {(one.likelihood.unit, one.spelled_like, one.likelihood.scores_pads) for one in judged}
    return (report.vocab_size, *sorted(told, key=str))


def _rows(members: Sequence[tuple[str, RunReport]], corpora: Sequence[str]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for name, report in members:
        by_name = {found.read_as: found for found in _judged(report)}
        numbers = [_numbers(by_name[corpus].likelihood) if corpus in by_name else {} for corpus in corpora]
        rows += [
            [f"{name}: {what}", *(perplexity_cell(found[what]) if what in found else None for found in numbers)]
            for what in dict.fromkeys(what for found in numbers for what in found)
        ]
    judged = {found.read_as: found.likelihood.bounds[-1].examples for found in _judged(members[0][1])}
    return [*rows, ["sequences judged", *(judged.get(corpus) for corpus in corpora)]]


def _numbers(likelihood: LikelihoodReport) -> dict[str, NegativeLogLikelihood]:
    numbers = {f"step bound, T = {bound.steps}{_latents(bound)}": bound for bound in likelihood.bounds}
    if likelihood.elbo is not None:
        numbers[f"ELBO, {likelihood.elbo.draws} masks"] = likelihood.elbo
    for found in likelihood.delbos:
        numbers[f"DELBO, K = {found.particles}, {found.draws} masks, not a bound"] = found
    return numbers


def _latents(bound: NegativeLogLikelihood) -> str:
    return "" if bound.proposals is None else f", K = {bound.particles}"


def _note(reports: Sequence[RunReport], judged: Sequence[JudgedCorpus]) -> str:
    files = ", ".join(f"{corpus.read_as} from {corpus.corpus}" for corpus in judged)
    splits = ", ".join(f"{name} {HUB_CORPORA[name].test}" for name in CORPORA)
    notes = [
        f"Perplexity ± standard error, over the sequences judged. Read: {files}. The paper judges test splits; the "
        f"splits that this package takes from the hub are {splits}."
    ]
    notes += [PADS_NOTE] if any(not corpus.likelihood.scores_pads for corpus in judged) else []
    notes += [SPELLED_NOTE] if any(corpus.spelled_like for corpus in judged) else []
    return " ".join([*notes, *skipped_notes(reports[0].zero_shot or ()), *kinship_notes(reports)])
