"""The tables of the studies, ours beside the paper's: every likelihood says what it is, whether it is a bound, and with
how many latents, masks and examples it was estimated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vadd.evaluation import RunReport
from vadd.evaluation.reports import (
    NOT_A_BOUND,
    DistributionDistance,
    InceptionDistance,
    NegativeLogLikelihood,
    TextMetrics,
)
from vadd.report.likelihood_tables import bound_table, bracket_table, convention_table
from vadd.report.notes import NOTES
from vadd.report.table import Cell, Table, at_steps, grouped, mean_and_spread, model_label, named_reports, rounded
from vadd.report.tables import judge_note, quality_table, sample_counts
from vadd.studies.study import PARTICLES, Published, Quoted, study_named

MOST_KEYS = 5
BITS_ITERATIONS = 2_000_000
"""Of the paper's bits per dimension on CIFAR-10; its FID is after half as many."""
Reports = Sequence[RunReport]
Rows = dict[str, Mapping[int, Cell]]
"""Cells by number of steps, by name."""


@dataclass(frozen=True)
class Unit:
    title: str
    """Of the table."""
    name: str
    """Of the column with the numbers."""
    field: str
    """Of :class:`NegativeLogLikelihood`."""
    examples: str
    digits: int = 3


NATS = Unit("Likelihood of held-out points", "nats", "nats", "points")
BITS = Unit("Bits per dimension of held-out images", "bits/dim", "bpd", "images")
BITS_PER_TOKEN = Unit("Bits per token of held-out text", "bits/token", "bpd", "sequences")
PERPLEXITY = Unit("Perplexity of held-out text", "perplexity", "perplexity", "sequences", 2)


def row_name(report: RunReport) -> str:
    return model_label(report.model) + (", one z" if report.one_latent else "") + _draws(report)


def _draws(report: RunReport) -> str:
    return "" if report.draws is None else f", {report.draws} draws"


def _detail(report: RunReport, detail: str) -> Cell:
    """A column of a run; of a quoted number it is its ``detail``."""
    number, form = (report.parameters, ".3g") if detail == "parameters" else (report.training_steps, "g")
    if number is None or (detail == "iterations" and number < 100_000):
        return number
    return f"{number / 1e6:{form}}M"


def likelihood_table(
    unit: Unit,
    reports: Reports,
    quoted: Sequence[Quoted] = (),
    detail: str | None = None,
    name_of: Callable[[RunReport], str] = row_name,
) -> Table:
    """Ours, a row for each number, and then the paper's."""
    columns = ["", *([detail] if detail else []), unit.name, "which is", "K", "masks", unit.examples]
    rows: list[list[Cell]] = []
    for report in reports:
        about = [_detail(report, detail)] if detail else []
        for what, number in [] if report.likelihood is None else report.likelihood.named:
            value = rounded(getattr(number, unit.field), unit.digits)
            rows.append([name_of(report), *about, value, *_which(what, number), number.draws, number.examples])
    for one in quoted:
        name = f"{one.name}, {'the paper' if one.model else 'quoted by the paper'}"
        about = [one.detail] if detail else []
        rows.append([name, *about, rounded(one.value, unit.digits), *one.which, one.examples])
    return Table(unit.title, columns, rows, _note(reports, quoted))


def _which(name: str, number: NegativeLogLikelihood) -> tuple[str, int | None]:
    """What a number is, whether it bounds the likelihood, and K; a model without a latent draws none."""
    if "DELBO" in name:
        return ", ".join(filter(None, ["DELBO", NOT_A_BOUND, number.convention])), number.particles
    name = name.removesuffix(", one z")  # the rows say it
    return f"{name}, {number.problem or 'a bound'}", number.particles if number.proposals else None


def _note(reports: Reports, quoted: Sequence[Quoted]) -> str:
    notes = [NOTES["numbers"]]
    likelihoods = [report.likelihood for report in reports if report.likelihood]
    counts = {delbo.particles or 0 for likelihood in likelihoods for delbo in likelihood.delbos}
    if quoted and counts and PARTICLES not in counts:
        listed = " and ".join(map(str, sorted(counts)))
        notes.append(f"Our DELBO has K = {listed}, the paper's K = {PARTICLES}: more latents make it lower.")
    notes += [NOTES["pads"]] if any(not likelihood.scores_pads for likelihood in likelihoods) else []
    return " ".join([*notes, *difference_notes(reports)])


def other_data_notes(reports: Reports) -> list[str]:
    return [NOTES["other_data"]] if any(report.published_recipe is None for report in reports) else []


def difference_notes(reports: Reports) -> list[str]:
    """How these runs differ from the paper's recipe, and how they were computed."""

    def unlike(report: RunReport) -> str:
        if report.published_recipe is None or not (keys := report.unlike_it):
            return ""
        more = f" and {len(keys) - MOST_KEYS} keys more" if len(keys) > MOST_KEYS else ""
        listed = f"{', '.join(keys[:MOST_KEYS])}{more}"
        return f"Unlike the paper's recipe {report.published_recipe}, {{}}: {listed}."

    def computed(report: RunReport) -> str:
        return f"{{}} computed with {', '.join(report.how_computed)}." if report.how_computed else ""

    groups = grouped(reports, unlike) | grouped(reports, computed)
    labels = {text: dict.fromkeys(model_label(each.model) for each in those) for text, those in groups.items() if text}
    return [text.replace("{}", " and ".join(those), 1) for text, those in labels.items()]


def toy_tables(reports: Reports, published: Published) -> list[Table]:
    """The paper's table in parts: its divergences, then the likelihoods of each data set."""

    def toy(report: RunReport) -> str:
        return report.recipe.removesuffix("-paper")

    rows: list[list[Cell]] = []
    for report in reports:
        ours, theirs = report.by_steps(DistributionDistance), published.by_steps[f"{toy(report)} {report.model}"]
        floor = next((distance.paper_js_floor for distance in ours.values()), None)
        pairs = [(ours[steps].paper_js if steps in ours else None, theirs[steps]) for steps in (1, 5)]
        exact = ours[1].jsd_exact if 1 in ours else None
        rows.append([f"{toy(report)} {model_label(report.model)}", *pairs[0], *pairs[1], floor, exact])
    columns = ["", "T = 1", "paper", "T = 5", "paper", "our floor", "jsd exact, T = 1"]
    notes = [*other_data_notes(reports), NOTES["toys"], *difference_notes(reports)]
    title = f"paper_js of {sample_counts(reports)} samples, ours beside the paper's"
    tables = [Table(title, columns, rows, " ".join(notes))]
    for name, members in grouped(reports, toy).items():
        table = likelihood_table(replace(NATS, title=f"{NATS.title}: {name}"), members, published.likelihoods[name])
        tables.append(replace(table, note=" ".join([*other_data_notes(members), table.note])))
    return tables


def bits_table(reports: Reports, published: Published) -> list[Table]:
    """The paper's table of bits per dimension, with parameters."""
    table = likelihood_table(BITS, reports, published.likelihoods[published.recipe], "parameters")
    notes = [table.note, NOTES["parameters"]]
    steps = sorted({report.training_steps for report in reports if report.training_steps is not None})
    if published.recipe != "cifar10":
        notes += other_data_notes(reports)
    elif steps != [BITS_ITERATIONS]:
        listed = " and ".join(f"{count:,}" for count in steps)
        notes.append(NOTES["bits_iterations"].format(papers=BITS_ITERATIONS, ours=listed))
    notes += _value_notes(reports) if published.recipe == "cifar10" else []
    return [replace(table, note=" ".join(notes))]


def _value_notes(reports: Reports) -> list[str]:
    values = reports[0].values
    return [] if values == 256 else [NOTES["values"].format(values=values)]


def by_steps_table(title: str, rows: Rows, notes: Sequence[str], steps: Sequence[int] = ()) -> list[Table]:
    """By default with the numbers of steps of the first row."""
    steps = steps or list(next(iter(rows.values())))
    cells = [{"": name, **at_steps(cells, steps)} for name, cells in rows.items()]
    return [Table.of(title, cells, " ".join(notes))]


def fid_table(reports: Reports, published: Published) -> list[Table]:
    ours = [report.by_steps(InceptionDistance) for report in reports]
    steps = sorted({count for by_steps in ours for count in by_steps})
    papers: dict[str, Rows] = {
        model: {f"{model_label(model)}, the paper, {published.samples} images": fids}
        for model, fids in published.by_steps.items()
    }
    rows: Rows = {}
    for report, by_steps in zip(reports, ours, strict=True):
        fids = {count: distance.fid for count, distance in by_steps.items()}
        rows |= {f"{model_label(report.model)}, {report.samples} images": fids, **papers[report.model]}
    note = f"Floor, as many test images against the training images: {next(iter(ours[0].values())).floor:.2f}."
    notes = [note, *_value_notes(reports), *difference_notes(reports)]
    return by_steps_table("FID by number of steps", rows | papers["ddpm"], notes, steps)


def latents_table(reports: Reports, published: Published) -> list[Table]:
    """Distances of samples (of texts the judge's bits per character) and bits, a row for each way to draw z."""

    def numbers(report: RunReport) -> dict[str, float | None]:
        bounds = () if report.likelihood is None else report.likelihood.bounds
        numbers = {f"T = {result.steps}": result.metrics.value for result in report.results}
        return numbers | {f"bits, T = {bound.steps}": bound.bpd for bound in bounds}

    rows: list[dict[str, Cell]] = []
    seeds = grouped(reports, lambda report: report.seed).values()
    by_name = grouped([named for each in seeds for named in named_reports(each)], lambda named: named[0])
    for name, members in by_name.items():
        first, columns = members[0][1], [numbers(report) for _, report in members]
        fit = "" if first.prior_seconds is None else f" + {first.prior_seconds:.0f}"
        seconds = None if first.training_seconds is None else f"{first.training_seconds:.0f}{fit}"
        cells = {title: mean_and_spread(column[title] for column in columns) for title in columns[0]}
        chosen = " or ".join(dict.fromkeys(report.chosen for _, report in members if report.chosen)) or None
        rows.append({"": name, "s": seconds, **cells, "chosen": chosen})
    said = {"latents": True, "chosen": any(report.chosen for report in reports), "seeds": len(rows) < len(reports)}
    notes = [NOTES[key] for key, wanted in said.items() if wanted]
    return [Table.of("Ways to draw z", rows, " ".join(notes), optional=["chosen"])]


def recognition_tables(reports: Reports, published: Published) -> list[Table]:
    """The information in the latent of each, and bits."""

    def name(report: RunReport) -> str:
        return "without x_t, one z" if report.one_latent else "with x_t"

    rows: list[dict[str, Cell]] = [
        {
            "": name(report),
            "active": f"{report.latent.active_units} of {report.latent.dimensions}",
            "KL at t = 1": f"{report.latent.kl_all_masked:.3f}",
            "KL on average": f"{report.latent.kl_average:.3f}",
        }
        for report in reports
        if report.latent is not None
    ]
    latents = Table.of("Recognition with x_t and without", rows, NOTES["recognition"])
    text = any(report.likelihood is not None and report.likelihood.unit is not None for report in reports)
    return [latents, likelihood_table(BITS_PER_TOKEN if text else BITS, reports, name_of=name)]


def text_likelihood_tables(reports: Reports, published: Published) -> list[Table]:
    """Ours with the paper's rows; where the text or its tokens are others, bits, and the paper's rows apart."""
    corpus = reports[0].published_recipe or ""
    known = study_named("text").published.likelihoods | study_named("lm1b").published.likelihoods
    ours = likelihood_table(BITS_PER_TOKEN, reports)
    if corpus in known:
        ours = likelihood_table(PERPLEXITY, reports, known[corpus], "iterations")
    if corpus == published.recipe:
        return [ours]
    unit = replace(PERPLEXITY, title=f"The paper's perplexities: {published.recipe}")
    theirs = likelihood_table(unit, [], known[published.recipe], "iterations")
    return [ours, replace(theirs, note=f"{NOTES['other_text']} {theirs.note}")]


def ratio_tables(reports: Reports, published: Published) -> list[Table]:
    """Generative perplexities by number of steps, VADD's over MDLM's, and the paper's where they compare."""
    judge = reports[0].judge
    if judge is None:
        return []
    rows = _beside_mdlm(reports, "gen_ppl", 1, "MDLM", lambda a, b: a / b)
    # The same data, judge and convention: else the paper's numbers do not compare.
    alike = judge.name.rpartition("/")[2] == published.judge and judge.convention.startswith("corpus")
    alike = alike and reports[0].published_recipe == published.recipe
    for model, theirs in published.by_steps.items() if alike else ():
        rows[f"{model_label(model)}, the paper, float64 draws, {published.samples} samples"] = theirs
    notes = [f"{sample_counts(reports)} samples for each number of steps.", judge_note(reports)]
    notes += [*([] if alike else [NOTES["not_the_papers"]]), *difference_notes(reports)]
    return by_steps_table("Generative perplexity by number of steps", rows, notes)


def character_tables(reports: Reports, published: Published) -> list[Table]:
    """The judge's bits per character, and VADD's perplexity per character over MDLM's."""
    if reports[0].judge is None:
        return []
    rows = _beside_mdlm(reports, "judge_bits", 3, "MDLM, perplexity", lambda a, b: 2 ** (a - b))
    return by_steps_table("The judge's bits per character", rows, [NOTES["characters"]])


def _beside_mdlm(
    reports: Reports, key: str, digits: int, ratio_name: str, ratio: Callable[[float, float], float]
) -> Rows:
    """By number of steps: a metric of each report, its ratio to MDLM's, and that of real text."""
    ours = {
        row_name(report): {steps: getattr(metrics, key) for steps, metrics in report.by_steps(TextMetrics).items()}
        for report in reports
    }
    rows: Rows = {
        name: {steps: rounded(value, digits) for steps, value in by_steps.items()} for name, by_steps in ours.items()
    }
    for report in reports:
        if report.model != "mdlm":
            # Draws in single precision are compared with each other only.
            mdlm, name = ours[model_label("mdlm") + _draws(report)], row_name(report)
            rows[f"{name} / {ratio_name}"] = {
                steps: None if a is None or (b := mdlm.get(steps)) is None else rounded(ratio(a, b), 3)
                for steps, a in ours[name].items()
            }
    real = None if reports[0].real_text is None else getattr(reports[0].real_text.metrics, key)
    return rows | {"real text": dict.fromkeys(rows[model_label("mdlm")], rounded(real, digits))}


def time_tables(reports: Reports, published: Published) -> list[Table]:
    rows: list[dict[str, Cell]] = [
        {
            "": model_label(report.model),
            "steps": report.training_steps,
            "seconds": None if report.training_seconds is None else round(report.training_seconds),
        }
        for report in reports
        if not report.one_latent and report.draws is None
    ]
    return [Table.of("Time of training", rows, NOTES["training_time"])]


TABLES: dict[str, Callable[[Reports, Published], list[Table]]] = {
    "quality": lambda reports, published: [quality_table(reports)],
    "bounds": lambda reports, published: [bound_table(reports)],
    "brackets": lambda reports, published: [bracket_table(reports)],
    "conventions": lambda reports, published: [convention_table(reports)],
    "toys": toy_tables,
    "bits": bits_table,
    "fid": fid_table,
    "latents": latents_table,
    "recognition": recognition_tables,
    "perplexity-ratios": ratio_tables,
    "characters": character_tables,
    "text-likelihoods": text_likelihood_tables,
    "training-time": time_tables,
}
"""The tables that a study can name."""
