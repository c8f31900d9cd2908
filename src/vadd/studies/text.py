"""The paper's text experiments (its section 5.3): generative perplexity by number of steps, likelihoods, samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from vadd.errors import UserError
from vadd.evaluation import RunReport
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.metrics import TextMetrics
from vadd.networks import ShortTransformerSettings
from vadd.progress import Progress
from vadd.recipe import Recipe, TextData
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, model_label, sample_counts
from vadd.report.text_tables import judge_note
from vadd.studies.beside import BITS_PER_TOKEN, PERPLEXITIES, kinship_notes, likelihood_table
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_all_trained, one_latent_beside
from vadd.studies.measuring import Changes, Measuring, Scale, as_the_paper, command_line
from vadd.studies.paper import GENERATIVE_JUDGE, GENERATIVE_SAMPLES, OPENWEBTEXT_GENERATIVE_PERPLEXITY, PERPLEXITY

TextStudy = Literal["text", "lm1b"]
RECIPES: dict[TextStudy, dict[Scale, str]] = {
    "text": {"small": "text8-per-state", "paper": "openwebtext"},
    "lm1b": {"small": "lm1b-small", "paper": "lm1b"},
}
BOUND_STEPS = (1, 2, 4, 8)
ABLATION = (1, 10, 50, 100, 1000)
"""K of the paper's ablation, which is of OpenWebText."""
STEPS = (16, 32, 64, 128, 256, 512, 1024)
SMALL = Measuring(
    steps=(1, 2, 4, 8, 16, 32),
    samples=GENERATIVE_SAMPLES,
    bound_steps=BOUND_STEPS,
    particles=256,
    delbo_particles=(1, 10),
    draws=10,
    limit=128,
    choose_proposals=True,
)
MEASURING: dict[TextStudy, dict[Scale, Measuring]] = {
    "text": {"small": SMALL, "paper": as_the_paper(STEPS, GENERATIVE_SAMPLES, BOUND_STEPS, ABLATION)},
    "lm1b": {"small": SMALL, "paper": as_the_paper(STEPS, GENERATIVE_SAMPLES, BOUND_STEPS)},
}


def reproduce_text(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    recipe: str | None = None,
    data: Path | None = None,
    language: LanguageJudge | None = None,
    float32: bool = False,
    study: TextStudy = "text",
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """Both models on one recipe for text; VADD is sampled with a new latent at each step and with one for all.

    ``float32`` adds both models drawn in single precision, as in the paper's figure of generative perplexities; its
    appendix has them in double precision.
    """
    name, measuring = recipe or RECIPES[study][scale], MEASURING[study][scale].changed(changes or {})
    recipes = text_recipes(name, data, overrides)
    runs = ensure_all_trained(in_folders(recipes, out), fit=fit)
    single = [run.with_sampling(precision="float32") for run in runs] if float32 else []
    runs += [*one_latent_beside(runs[-1]), *single]
    judge = None if language is None else language.name
    return compare(
        runs,
        out,
        steps=measuring.steps,
        samples=measuring.samples,
        bounds=measuring.bounds(),
        language=language,
        title=f"Text, {recipes[0].name}: MDLM and VADD",
        introduction=(
            "Both models learn the same text with the same network and batches; the steps are stated below, with the "
            "time they took. VADD is sampled in two ways: with a new latent at each step, as in the paper, "
            "and with one latent for all steps ('one z')."
        ),
        commands=[command_line(study, scale, overrides, changes, recipe=recipe, judge=judge, float32=float32)],
        first_sections=partial(_first_sections, study),
        progress=progress,
    )


def text_recipes(name: str, data: Path | None, overrides: Sequence[str]) -> list[Recipe]:
    place = [] if data is None else [f"data.path={data.resolve()}"]
    recipes = both_models(name, [*place, *overrides])
    if not isinstance(recipes[0].data, TextData):
        raise UserError(f"the recipe {name} is not one for text; `vadd recipes` lists them")
    return [_in_equal_time(each) for each in recipes]


def in_folders(recipes: Sequence[Recipe], out: Path) -> list[tuple[Recipe, Path]]:
    """Where the runs of this study lie."""
    return [(each, out / f"{each.name}-{each.model}") for each in recipes]


def _in_equal_time(recipe: Recipe) -> Recipe:
    """On a laptop time is what counts; at the paper's scale both models take the same steps, as in the paper.

    A step of VADD took 1.11 to 1.15 times MDLM's.
    """
    if recipe.model != "mdlm" or not isinstance(recipe.network, ShortTransformerSettings):
        return recipe
    return recipe.with_overrides([f"training.steps={round(1.12 * recipe.training.steps)}"])


def _first_sections(study: TextStudy, reports: list[RunReport]) -> list[PageSection]:
    tables = [] if reports[0].judge is None else [ratio_table(reports), character_table(reports)]
    tables += [*text_likelihood_tables(study, reports), training_table(reports)]
    return [PageSection("Beside each other", tables=tables)]


def text_likelihoods(reports: Sequence[RunReport]) -> Table:
    """Perplexities beside the paper's where it has this corpus; else bits, which are easier to read for characters."""
    quoted = PERPLEXITY.get(reports[0].published_recipe or "", ())
    if not quoted:
        return likelihood_table("Bits per token of held-out text", reports, BITS_PER_TOKEN)
    iterations = ("iterations", lambda report: millions_of_steps(report.training_steps))
    return likelihood_table("Perplexity of held-out text", reports, PERPLEXITIES, quoted, iterations)


def text_likelihood_tables(study: TextStudy, reports: Sequence[RunReport]) -> list[Table]:
    """Ours with the paper's rows; where the text or its tokens are others, those in a table of their own."""
    ours, published = text_likelihoods(reports), RECIPES[study]["paper"]
    if reports[0].published_recipe == published:
        return [ours]
    iterations = ("iterations", lambda report: millions_of_steps(report.training_steps))
    theirs = likelihood_table(
        f"The paper's perplexities: {published}", [], PERPLEXITIES, PERPLEXITY[published], iterations
    )
    return [ours, replace(theirs, note=f"{OTHER_TOKENS} {theirs.note}")]


OTHER_TOKENS = "Of other text in other tokens, and of sequences of another length: not to be compared with ours."


def millions_of_steps(steps: int | None) -> str | None:
    return None if steps is None else f"{steps / 1e6:g}M" if steps >= 100_000 else str(steps)


def ratio_table(reports: Sequence[RunReport]) -> Table:
    """Generative perplexities by number of steps, VADD's over MDLM's, and the paper's where they compare."""
    steps, rows = _beside_mdlm(reports, lambda metrics: metrics.gen_ppl, 1, "MDLM", lambda a, b: a / b)
    published = _published(reports)
    for model, theirs in published.items():
        name = f"{model_label(model)}, the paper, float64 draws, {GENERATIVE_SAMPLES} samples"
        rows.append([name, *(theirs.get(count) for count in steps)])
    note = " ".join([judge_note(reports) + ("" if published else NOT_THE_PAPERS), *kinship_notes(reports)])
    note = f"{sample_counts(reports)} samples for each number of steps. {note}"
    return Table("Generative perplexity by number of steps", ["", *(f"T = {count}" for count in steps)], rows, note)


def character_table(reports: Sequence[RunReport]) -> Table:
    """The judge's bits per character, and VADD's perplexity per character over MDLM's."""
    ratio_name = "MDLM, perplexity"
    steps, rows = _beside_mdlm(reports, lambda metrics: metrics.judge_bits, 3, ratio_name, lambda a, b: 2 ** (a - b))
    note = "Of the same texts. Models of characters are compared by these: they do not depend on the judge's tokens."
    return Table("The judge's bits per character", ["", *(f"T = {count}" for count in steps)], rows, note)


def _beside_mdlm(
    reports: Sequence[RunReport],
    number_of: Callable[[TextMetrics], float | None],
    digits: int,
    ratio_name: str,
    ratio: Callable[[float, float], float],
) -> tuple[list[int], list[list[Cell]]]:
    """The numbers of steps, and rows: a number of each report, its ratio to MDLM's, the number of real text."""
    ours = {
        model_label(report.model)
        + (", one z" if report.one_latent else "")
        + (f", {report.draws} draws" if report.draws is not None else ""): {
            steps: number_of(metrics) for steps, metrics in report.by_steps(TextMetrics).items()
        }
        for report in reports
    }
    baseline = ours[model_label("mdlm")]
    rows: list[list[Cell]] = [
        [name, *(_rounded(found[count], digits) for count in baseline)] for name, found in ours.items()
    ]
    for report, (name, found) in zip(reports, ours.items(), strict=True):
        if report.model != "mdlm":
            # Draws in single precision are compared with each other only.
            alike = baseline if report.draws is None else ours[f"{model_label('mdlm')}, {report.draws} draws"]
            pairs = [(found[count], alike[count]) for count in baseline]
            ratios = [None if a is None or b is None else ratio(a, b) for a, b in pairs]
            rows.append([f"{name} / {ratio_name}", *(_rounded(value, 3) for value in ratios)])
    real = reports[0].real_text
    rows.append(["real text", *(None if real is None else _rounded(number_of(real.metrics), digits) for _ in baseline)])
    return list(baseline), rows


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _published(reports: Sequence[RunReport]) -> Mapping[str, Mapping[int, float]]:
    """The paper's generative perplexities, if these were measured as they were: same data, judge and convention."""
    judge = reports[0].judge
    if judge is None or judge.name.rpartition("/")[2] != GENERATIVE_JUDGE or not judge.convention.startswith("corpus"):
        return {}
    return OPENWEBTEXT_GENERATIVE_PERPLEXITY if reports[0].published_recipe == "openwebtext" else {}


def training_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = [
        [
            model_label(report.model),
            report.training_steps,
            None if report.training_seconds is None else round(report.training_seconds),
        ]
        for report in reports
        if not report.one_latent and report.draws is None
    ]
    note = "Of the optimisation steps alone, without evaluations and pauses, on whatever machine it was."
    return Table("Time of training", ["", "steps", "seconds"], rows, note)


NOT_THE_PAPERS = (
    " The paper's generative perplexities are GPT-2 large's on OpenWebText: they do not compare with these, and are "
    "not shown."
)
