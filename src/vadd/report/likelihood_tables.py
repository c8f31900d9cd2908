"""Tables of likelihood bounds, of zero-shot corpora and of the latent."""

import math
from collections.abc import Callable, Iterable, Sequence

from vadd.evaluation.reports import LikelihoodReport, NegativeLogLikelihood, RunReport, ScoredCorpus, SkippedCorpus
from vadd.report.table import Cell, Column, Table, field, named_reports, report_names

PADS_NOTE = (
    "Pads are not scored: the numbers are those of the text given its pads, the custom of the field, and do not bound "
    "the likelihood of the padded sequence; --score-pads gives one that does."
)
SPELLED_NOTE = "Spelled like text8, which has 27 letters: lower case, digits as words, blanks for everything else."


def perplexity_cell(number: NegativeLogLikelihood) -> Cell:
    """Four digits, and the error to as many places."""
    perplexity, error = number.perplexity, number.perplexity_stderr
    if perplexity is None:
        return None
    places = max(0, 3 - math.floor(math.log10(perplexity)))
    return f"{perplexity:.{places}f}" + ("" if error is None else f" ± {error:.{places}f}")


def with_error(value: str, error: str) -> Callable[[NegativeLogLikelihood], Cell]:
    def cell(number: NegativeLogLikelihood) -> Cell:
        parts = [f"{each:.4f}" for name in (value, error) if (each := getattr(number, name)) is not None]
        return " ± ".join(parts) or None

    return cell


NAT_COLUMNS: list[Column] = [
    ("nats ± std. error", with_error("nats", "stderr")),
    ("bits/dim", field("bpd")),
    ("perplexity", field("perplexity")),
]
EXCESS_COLUMN: Column = ("excess ± std. error", with_error("excess", "excess_stderr"))
CHARACTER_COLUMN: Column = ("bits per character", field("bits_per_character"))


def bound_table(reports: Sequence[RunReport]) -> Table:
    """One row per number: the step bounds, the ELBO, the paper's DELBO. Each says whether it is valid."""
    measured = [(name, report.likelihood) for name, report in named_reports(reports) if report.likelihood is not None]
    units = {likelihood.unit or "position" for _, likelihood in measured}
    each = units.pop() if len(units) == 1 else "position"
    bounds = [bound for _, likelihood in measured for bound in likelihood.bounds]
    numbers = [(name, what, number) for name, likelihood in measured for what, number in named_numbers(likelihood)]
    if each == "position":
        columns = NAT_COLUMNS + [EXCESS_COLUMN] * any(bound.excess is not None for bound in bounds)
        notes = ["Negative log-likelihood per example, in nats, as bits per position and as exp(nats per position)."]
    else:
        columns = [(f"bits per {each}", field("bpd")), (f"perplexity per {each}", perplexity_cell)]
        columns += [CHARACTER_COLUMN] if any(bound.bits_per_character is not None for bound in bounds) else []
        notes = [f"Negative log-likelihood in bits and as perplexity, exp(nats per {each}), ± standard errors."]
    rows = [
        [name, what, "yes" if number.valid else f"no: {number.problem}", *(cell(number) for _, cell in columns)]
        for name, what, number in numbers
    ]
    notes += _how_measured([number for _, _, number in numbers])
    entropies = {report.recipe: report.entropy for report in reports if report.entropy is not None}
    if entropies:
        known = "; ".join(f"entropy of {recipe}: {value:.4f} nats" for recipe, value in entropies.items())
        notes.append(f"Excess: above what the true distribution itself scores on the same examples; {known}.")
    notes += [] if all(likelihood.scores_pads for _, likelihood in measured) else [PADS_NOTE]
    titles = ["run", "", "valid", *(title for title, _ in columns)]
    return Table("Likelihood of held-out examples", titles, rows, " ".join(notes))


def _how_measured(numbers: Sequence[NegativeLogLikelihood]) -> list[str]:
    """K, masks and examples of the numbers of a table, each value once."""

    def values(counts: Iterable[int | None]) -> str:
        return " and ".join(f"{count:,}" for count in sorted({count for count in counts if count is not None}))

    latents = values(each.particles for each in numbers if each.proposals is not None or each.warning is not None)
    masks, examples = values(each.draws for each in numbers), values(each.examples for each in numbers)
    parts = [f"K = {latents} latents for each estimate"] if latents else []
    parts += [f"{masks} masks (t, x_t) for each example in the ELBO and DELBO"] if masks else []
    return [f"{'; '.join([*parts, f'{examples} examples'])}."] if examples else []


def named_numbers(likelihood: LikelihoodReport) -> list[tuple[str, NegativeLogLikelihood]]:
    """Every number under its name."""
    many = len(likelihood.delbos) > 1
    numbers = [
        *(
            (f"step bound, T = {bound.steps}" + ", one z" * bool(bound.one_latent), bound)
            for bound in likelihood.bounds
        ),
        *([] if likelihood.elbo is None else [("ELBO", likelihood.elbo)]),
        *(("the paper's DELBO" + f", K = {delbo.particles}" * many, delbo) for delbo in likelihood.delbos),
    ]
    return [(what + ", given the label" * bool(number.given_label), number) for what, number in numbers]


def skipped_notes(report: RunReport) -> list[str]:
    skipped = [corpus for corpus in report.zero_shot or () if isinstance(corpus, SkippedCorpus)]
    return [f"Skipped {corpus.corpus}: {corpus.skipped}." for corpus in skipped]


def zero_shot_table(report: RunReport) -> Table:
    """One row per corpus: perplexity by each step bound, and by the ELBO or the paper's DELBO under its own name."""

    def numbers(likelihood: LikelihoodReport) -> dict[str, NegativeLogLikelihood]:
        titled = {f"step bound, T = {bound.steps}": bound for bound in likelihood.bounds}
        titled |= {} if likelihood.elbo is None else {"ELBO": likelihood.elbo}
        delbos = {f"the paper's DELBO, K = {delbo.particles}": delbo for delbo in likelihood.delbos}
        return titled | {f"{title}: not a likelihood bound": delbo for title, delbo in delbos.items()}

    scored = [corpus for corpus in report.zero_shot or () if isinstance(corpus, ScoredCorpus)]
    first = scored[0].likelihood
    last = first.bounds[-1]
    in_characters = last.bits_per_character is not None
    kinds = [corpus.read_as for corpus in scored]
    rows: list[list[Cell]] = []
    for corpus in scored:
        bound, plain = corpus.likelihood.bounds[-1], corpus.read_as == "plain text" or kinds.count(corpus.read_as) > 1
        cells = [perplexity_cell(number) for number in numbers(corpus.likelihood).values()]
        cells += [bound.bits_per_character] if in_characters else []
        rows.append([corpus.corpus if plain else corpus.read_as, bound.examples, bound.scored, *cells])
    columns = ["corpus", "sequences", f"{first.unit}s", *numbers(first)]
    notes = [f"Perplexity per {first.unit} ± standard error, over all sequences judged."]
    if in_characters:
        columns.append("bits per character")
        notes.append(f"Bits per character of the text by the bound at T = {last.steps}.")
    notes += [] if first.scores_pads else [PADS_NOTE]
    notes += [SPELLED_NOTE] if any(corpus.spelled_like for corpus in scored) else []
    notes += skipped_notes(report)
    return Table(f"Zero-shot perplexity of {report_names([report])[0]}", columns, rows, " ".join(notes))


def latent_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = []
    for name, report in named_reports(reports):
        if (latent := report.latent) is not None:
            per_dimension = " ".join(f"{value:.2f}" for value in sorted(latent.kl_per_dimension, reverse=True)[:8])
            rows.append([name, latent.verdict, latent.kl_all_masked, latent.kl_average, per_dimension])
    columns = ["run", "verdict", "KL at t = 1", "KL on average", "largest KL by dimension"]
    return Table("Health of the latent", columns, rows, "KL of the recognition model from N(0, I), in nats.")
