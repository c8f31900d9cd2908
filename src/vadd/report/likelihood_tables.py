"""Tables of likelihood bounds, of zero-shot corpora and of the latent."""

import math
from collections.abc import Iterable, Sequence

from vadd.evaluation.reports import (
    NOT_A_BOUND,
    Bracket,
    NegativeLogLikelihood,
    RunReport,
    ScoredCorpus,
    SkippedCorpus,
    kind_of_sampler,
)
from vadd.report.notes import NOTES
from vadd.report.table import Cell, Table, named_reports, report_names


def perplexity_cell(number: NegativeLogLikelihood) -> Cell:
    """Four digits, and the error to as many places."""
    perplexity, error = number.perplexity, number.perplexity_stderr
    if perplexity is None:
        return None
    places = max(0, 3 - math.floor(math.log10(perplexity)))
    return f"{perplexity:.{places}f}" + ("" if error is None else f" ± {error:.{places}f}")


def with_error(number: NegativeLogLikelihood | Bracket, value: str, error: str) -> Cell:
    parts = [f"{each:.4f}" for name in (value, error) if (each := getattr(number, name)) is not None]
    return " ± ".join(parts) or None


def bound_table(reports: Sequence[RunReport]) -> Table:
    """One row per number: the step bounds, the ELBO, the paper's DELBO. Each says whether it is valid."""
    measured = [(name, report.likelihood) for name, report in named_reports(reports) if report.likelihood is not None]
    units = {likelihood.unit or "position" for _, likelihood in measured}
    each = units.pop() if len(units) == 1 else "position"
    numbers = [(name, what, number) for name, likelihood in measured for what, number in likelihood.named]
    optional = ["bits per character", "excess ± std. error"]

    def cells(number: NegativeLogLikelihood) -> dict[str, Cell]:
        if each != "position":
            cells = {f"bits per {each}": number.bpd, f"perplexity per {each}": perplexity_cell(number)}
            return cells | {optional[0]: cells.get(optional[0], number.bits_per_character)}
        cells = {"nats ± std. error": with_error(number, "nats", "stderr"), "bits/dim": number.bpd}
        return cells | {"perplexity": number.perplexity, optional[1]: with_error(number, "excess", "excess_stderr")}

    rows = [{"run": name, "": what, "valid": _validity(number), **cells(number)} for name, what, number in numbers]
    notes = [f"Negative log-likelihood in bits and as perplexity, exp(nats per {each}), ± standard errors."]
    if each == "position":
        notes = ["Negative log-likelihood per example, in nats, as bits per position and as exp(nats per position)."]
    notes += _how_measured([number for _, _, number in numbers])
    entropies = {report.recipe: report.entropy for report in reports if report.entropy is not None}
    if entropies:
        known = "; ".join(f"entropy of {recipe}: {value:.4f} nats" for recipe, value in entropies.items())
        notes.append(f"Excess: above what the true distribution itself scores on the same examples; {known}.")
    notes += [] if all(likelihood.scores_pads for _, likelihood in measured) else [NOTES["pads"]]
    return Table.of("Likelihood of held-out examples", rows, " ".join(notes), optional)


def bracket_table(reports: Sequence[RunReport]) -> Table:
    """One row for each interval that holds the negative log-likelihood."""
    rows: list[dict[str, Cell]] = []
    for name, found in ((name, found) for name, report in named_reports(reports) for found in _brackets(report)):
        bits = found.examples / (found.scored * math.log(2))
        row: dict[str, Cell] = {"run": name, "": f"T = {found.steps}{kind_of_sampler(found)}"}
        row |= {"valid": _validity(found), "at least": with_error(found, "low", "low_stderr")}
        row |= {"at most": with_error(found, "high", "high_stderr")}
        rows.append({**row, "bits/dim": f"{bits * found.low:.4f} to {bits * found.high:.4f}"})
    drawn = {(found.paths, found.particles) for report in reports for found in _brackets(report) if found.paths > 1}
    paths = "; ".join(f"{paths} paths of {particles} latents" for paths, particles in sorted(drawn))
    notes = ["The negative log-likelihood of the sampler, nats per example, from both sides, ± standard errors over"]
    notes += ["examples; more --paths close the interval." + (f" {paths} for each example." if paths else "")]
    return Table.of("The likelihood of held-out examples from both sides", rows, " ".join(notes))


def convention_table(reports: Sequence[RunReport]) -> Table:
    """One row for each number that the field calls a likelihood, with what it is."""
    rows: list[dict[str, Cell]] = []
    for name, report in named_reports(reports):
        for each in () if report.likelihood is None else report.likelihood.conventions:
            nats, excess = (with_error(each.number, *of) for of in (("nats", "stderr"), ("excess", "excess_stderr")))
            about: dict[str, Cell] = {"run": name, "": each.name, "valid": _validity(each.number)}
            rows.append({**about, "nats ± std. error": nats, "above the truth": excess})
    notes = "Negative log-likelihood per example by what people report as one. Above the truth: than the data's own "
    notes += "distribution on the same examples; what lies below it is no likelihood."
    return Table.of("The field's conventions", rows, notes, ["above the truth"])


def _brackets(report: RunReport) -> Sequence[Bracket]:
    return () if report.likelihood is None else report.likelihood.brackets


def _validity(number: NegativeLogLikelihood | Bracket) -> str:
    if not number.valid:
        return f"no: {number.convention if isinstance(number, Bracket) else number.problem}"
    return "exact" if number.kind == "exact" else "yes"


def _how_measured(numbers: Sequence[NegativeLogLikelihood]) -> list[str]:
    """K, masks and examples of the numbers of a table, each value once."""

    def values(counts: Iterable[int | None]) -> str:
        return " and ".join(f"{count:,}" for count in sorted({count for count in counts if count is not None}))

    latents = values(each.particles for each in numbers if each.proposals is not None or each.warning is not None)
    masks, examples = values(each.draws for each in numbers), values(each.examples for each in numbers)
    parts = [f"K = {latents} latents for each estimate"] if latents else []
    parts += [f"{masks} masks (t, x_t) for each example in the ELBO and DELBO"] if masks else []
    notes = [f"{'; '.join([*parts, f'{examples} examples'])}."] if examples else []
    for each in numbers:
        if each.impossible:
            of = "" if each.nats_of_possible is None else f", {each.nats_of_possible:.4f} nats without them"
            notes.append(f"T = {each.steps}: {each.impossible:,} of {each.examples:,} examples have probability 0{of}.")
    return notes


def scored_corpora(report: RunReport) -> list[ScoredCorpus]:
    return [corpus for corpus in report.zero_shot or () if isinstance(corpus, ScoredCorpus)]


def zero_shot_notes(report: RunReport) -> list[str]:
    """How its corpora were read, and which were not."""
    scored = scored_corpora(report)
    notes = [] if all(corpus.likelihood.scores_pads for corpus in scored) else [NOTES["pads"]]
    notes += [NOTES["spelled"]] if any(corpus.spelled_like for corpus in scored) else []
    skipped = [corpus for corpus in report.zero_shot or () if isinstance(corpus, SkippedCorpus)]
    return [*notes, *(f"Skipped {corpus.corpus}: {corpus.skipped}." for corpus in skipped)]


def zero_shot_table(report: RunReport) -> Table:
    """One row per corpus: perplexity by each step bound, and by the ELBO or the paper's DELBO under its own name."""
    scored = scored_corpora(report)
    unit, last = scored[0].likelihood.unit, scored[0].likelihood.bounds[-1]
    kinds = [corpus.read_as for corpus in scored]
    rows: list[dict[str, Cell]] = []
    for corpus in scored:
        bound, plain = corpus.likelihood.bounds[-1], corpus.read_as == "plain text" or kinds.count(corpus.read_as) > 1
        row: dict[str, Cell] = {"corpus": corpus.corpus if plain else corpus.read_as, "sequences": bound.examples}
        row[f"{unit}s"] = bound.scored
        for name, number in corpus.likelihood.named:
            row[name + f": {NOT_A_BOUND}" * ("DELBO" in name)] = perplexity_cell(number)
        rows.append(row | ({} if last.bits_per_character is None else {"bits per character": bound.bits_per_character}))
    notes = [f"Perplexity per {unit} ± standard error, over all sequences judged."]
    if last.bits_per_character is not None:
        notes.append(f"Bits per character of the text by the bound at T = {last.steps}.")
    title = f"Zero-shot perplexity of {report_names([report])[0]}"
    return Table.of(title, rows, " ".join([*notes, *zero_shot_notes(report)]))


def latent_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = []
    for name, report in named_reports(reports):
        if (latent := report.latent) is not None:
            per_dimension = " ".join(f"{value:.2f}" for value in sorted(latent.kl_per_dimension, reverse=True)[:8])
            rows.append([name, latent.verdict, latent.kl_all_masked, latent.kl_average, per_dimension])
    columns = ["run", "verdict", "KL at t = 1", "KL on average", "largest KL by dimension"]
    return Table("Health of the latent", columns, rows, NOTES["latent"])
