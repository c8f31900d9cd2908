"""The table of corpora that a run on text has not learnt from."""

from collections.abc import Sequence

from vadd.evaluation.reports import (
    CorpusReport,
    JudgedCorpus,
    LikelihoodReport,
    NegativeLogLikelihood,
    RunReport,
    SkippedCorpus,
)
from vadd.report.tables import PADS_NOTE, Cell, Table, perplexity_cell, report_names

SPELLED_NOTE = "Spelled like text8, which has 27 letters: lower case, digits as words, blanks for everything else."


def skipped_notes(corpora: Sequence[CorpusReport]) -> list[str]:
    return [f"Skipped {corpus.corpus}: {corpus.skipped}." for corpus in corpora if isinstance(corpus, SkippedCorpus)]


def zero_shot_table(report: RunReport) -> Table:
    """One row per corpus: perplexity by each step bound, and by the ELBO or the paper's DELBO under its own name."""
    corpora = report.zero_shot or ()
    judged = [corpus for corpus in corpora if isinstance(corpus, JudgedCorpus)]
    first = judged[0].likelihood
    last = first.bounds[-1]
    in_characters = last.bits_per_character is not None
    known = [corpus.read_as for corpus in judged]
    rows: list[list[Cell]] = []
    for corpus in judged:
        name, bound = corpus.read_as, corpus.likelihood.bounds[-1]
        rows.append(
            [
                corpus.corpus if name == "plain text" or known.count(name) > 1 else name,
                bound.examples,
                bound.scored,
                *map(perplexity_cell, _numbers(corpus.likelihood).values()),
                *([bound.bits_per_character] if in_characters else []),
            ]
        )
    columns = ["corpus", "sequences", f"{first.unit}s", *_numbers(first)]
    notes = [f"Perplexity per {first.unit} ± standard error, over all sequences judged."]
    if in_characters:
        columns.append("bits per character")
        notes.append(f"Bits per character of the text by the bound at T = {last.steps}.")
    notes += [] if first.scores_pads else [PADS_NOTE]
    notes += [SPELLED_NOTE] if any(corpus.spelled_like for corpus in judged) else []
    notes += skipped_notes(corpora)
    return Table(f"Zero-shot perplexity of {report_names([report])[0]}", columns, rows, " ".join(notes))


def _numbers(likelihood: LikelihoodReport) -> dict[str, NegativeLogLikelihood]:
    """Every number under the title of its column."""
    numbers = {f"step bound, T = {bound.steps}": bound for bound in likelihood.bounds}
    if likelihood.elbo is not None:
        numbers["ELBO"] = likelihood.elbo
    for found in likelihood.delbos:
        numbers[f"the paper's DELBO, K = {found.particles}: not a likelihood bound"] = found
    return numbers
