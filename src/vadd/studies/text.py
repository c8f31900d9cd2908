"""The paper's text experiments (its section 5.3): generative perplexity by number of steps, likelihoods, samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, Report
from vadd.evaluation.language_judge import LanguageJudge
from vadd.progress import Progress
from vadd.recipe import Recipe, ShortTransformerNetwork, TextData
from vadd.report.figures import label
from vadd.report.page import Section
from vadd.report.tables import Cell, Table
from vadd.report.text_tables import judge_note
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_trained
from vadd.studies.paper import GENERATIVE_JUDGE, OPENWEBTEXT_GENERATIVE_PERPLEXITY, PERPLEXITY

Scale = Literal["small", "paper"]
RECIPES: dict[Scale, str] = {"small": "text8-small", "paper": "openwebtext"}
STEPS: dict[Scale, tuple[int, ...]] = {"small": (1, 2, 4, 8, 16, 32), "paper": (16, 32, 64, 128, 256, 512, 1024)}
BOUND_STEPS = (1, 2, 4, 8)
BOUND_EXAMPLES = 128
BOUND_PARTICLES: dict[Scale, int] = {"small": 256, "paper": 32}
PARTICLES = 10
"""K of the paper's perplexities of VADD on OpenWebText that stand beside ours."""


def reproduce_text(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    recipe: str | None = None,
    data: Path | None = None,
    language: LanguageJudge | None = None,
    steps: Sequence[int] | None = None,
    samples: int = 256,
    overrides: Sequence[str] = (),
) -> Comparison:
    """Both models on one recipe for text; VADD is sampled with a new latent at each step and with one for all."""
    name = recipe or RECIPES[scale]
    recipes = _recipes(name, data, overrides)
    runs = [ensure_trained(each, out / f"{each.name}-{each.model}") for each in recipes]
    runs.append(runs[-1].with_sampling(latent_policy="fixed"))
    return compare(
        runs,
        out,
        steps=steps or STEPS[scale],
        samples=samples,
        bounds=BoundSettings(
            Particles(BOUND_PARTICLES[scale]),
            steps=BOUND_STEPS,
            delbo_draws=10,
            delbo_particles=[PARTICLES],
            limit=BOUND_EXAMPLES,
            choose_proposals=True,
        ),
        language=language,
        title=f"Text, {recipes[0].name}: MDLM and VADD",
        introduction=(
            "Both models learn the same text with the same network and batches; the steps are stated below, with the "
            "time they took. VADD is sampled in two ways: with a new latent at each step, as in the paper, "
            "and with one latent for all steps ('one z')."
        ),
        commands=[_command(scale, recipe, language)],
        first_sections=_first_sections,
        progress=progress,
    )


def _recipes(name: str, data: Path | None, overrides: Sequence[str]) -> list[Recipe]:
    place = [] if data is None else [f"data.path={data.resolve()}"]
    recipes = both_models(name, [*place, *overrides])
    if not isinstance(recipes[0].data, TextData):
        raise UserError(f"the recipe {name} is not one for text; `vadd recipes` lists them")
    return [_in_equal_time(each) for each in recipes]


def _in_equal_time(recipe: Recipe) -> Recipe:
    """On a laptop time is what counts; at the paper's scale both models take the same steps, as in the paper.

    A step of VADD took 1.11 to 1.15 times MDLM's with a latent that is always heard, 1.05 and 1.03 times with one that
    is heard from a masked share of 0.8 and 0.9 on: its recognition model then reads fewer examples.
    """
    if recipe.model != "mdlm" or not isinstance(recipe.network, ShortTransformerNetwork):
        return recipe
    more = 1.02 + 0.1 * (1 - recipe.latent.heard_from)
    return recipe.with_overrides([f"training.steps={round(more * recipe.training.steps)}"])


def _command(scale: Scale, recipe: str | None, language: LanguageJudge | None) -> str:
    options = [" --scale paper"] if scale == "paper" else []
    options += [] if recipe is None else [f" --recipe {recipe}"]
    options += [] if language is None else [f" --judge {language.name}"]
    return "vadd reproduce text" + "".join(options)


def _first_sections(reports: list[Report]) -> list[Section]:
    tables = [ratio_table(reports), character_table(reports)] if "judge" in reports[0] else []
    return [Section("Beside each other", tables=[*tables, bits_table(reports), training_table(reports)])]


def _names(reports: Sequence[Report]) -> list[str]:
    return [label(r["model"]) + (", one z" if r.get("latent_policy") == "fixed" else "") for r in reports]


def ratio_table(reports: Sequence[Report]) -> Table:
    """Generative perplexities by number of steps, VADD's over MDLM's, and the paper's where they compare."""
    steps = [result["steps"] for result in reports[0]["results"]]
    ours = {
        name: {result["steps"]: result["gen_ppl"] for result in report["results"]}
        for name, report in zip(_names(reports), reports, strict=True)
    }
    rows: list[list[Cell]] = [[name, *(_rounded(found[count], 1) for count in steps)] for name, found in ours.items()]
    baseline = ours[label("mdlm")]
    for name, found in ours.items():
        if found is not baseline:
            rows.append([f"{name} / MDLM", *(_rounded(_ratio(found[c], baseline[c]), 3) for c in steps)])
    rows.append(["real text", *(_rounded(reports[0]["real_text"]["gen_ppl"], 1) for _ in steps)])
    published = _published(reports)
    rows += [[f"{label(model)}, the paper", *(by_steps.get(c) for c in steps)] for model, by_steps in published.items()]
    note = judge_note(reports) + ("" if published else NOT_THE_PAPERS)
    return Table("Generative perplexity by number of steps", ["", *(f"T = {count}" for count in steps)], rows, note)


def character_table(reports: Sequence[Report]) -> Table:
    """The judge's bits per character, and VADD's perplexity per character over MDLM's."""
    steps = [result["steps"] for result in reports[0]["results"]]
    ours = {
        name: {result["steps"]: result.get("judge_bits") for result in report["results"]}
        for name, report in zip(_names(reports), reports, strict=True)
    }
    rows: list[list[Cell]] = [[name, *(_rounded(found[count], 3) for count in steps)] for name, found in ours.items()]
    baseline = ours[label("mdlm")]
    for name, found in ours.items():
        if found is not baseline:
            ratios = [None if (a := found[c]) is None or (b := baseline[c]) is None else 2 ** (a - b) for c in steps]
            rows.append([f"{name} / MDLM, perplexity", *(_rounded(ratio, 3) for ratio in ratios)])
    rows.append(["real text", *(_rounded(reports[0]["real_text"].get("judge_bits"), 3) for _ in steps)])
    note = "Of the same texts. Models of characters are compared by these: they do not depend on the judge's tokens."
    return Table("The judge's bits per character", ["", *(f"T = {count}" for count in steps)], rows, note)


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


def _published(reports: Sequence[Report]) -> Mapping[str, Mapping[int, float]]:
    """The paper's generative perplexities, if these were measured as they were: same data, judge and convention."""
    judge: Mapping[str, Any] = reports[0]["judge"]
    same_judge = str(judge["name"]).rpartition("/")[2] == GENERATIVE_JUDGE
    same = reports[0]["recipe"] == "openwebtext" and same_judge and str(judge["convention"]).startswith("corpus")
    return OPENWEBTEXT_GENERATIVE_PERPLEXITY if same else {}


def bits_table(reports: Sequence[Report]) -> Table:
    """Bits per token: every number under its own name, the paper's perplexities beside those they compare with."""
    measured = [report for report in reports if report.get("latent_policy") != "fixed"]
    steps = [bound["steps"] for bound in measured[0]["bounds"]]
    published = {r["model"]: PERPLEXITY.get((r["recipe"], r["model"])) for r in measured}
    with_paper = any(value is not None for value in published.values())
    rows: list[list[Cell]] = []
    for report in measured:
        integral = report.get("delbo") or report["elbo"]
        which = "DELBO, invalid" if "delbo" in report else "ELBO, valid"
        bits = [_rounded(found["bpd"], 3) for found in [*report["bounds"], integral]]
        row: list[Cell] = [label(report["model"]), *bits, which]
        rows.append([*row, integral["perplexity"], published[report["model"]]] if with_paper else row)
    columns = ["", *(f"T = {count}" for count in steps), "formula", "which is"]
    note = (
        "Of held-out text, per token of the run; of a run on characters, per character. Step bounds are valid for the "
        "sampler that takes T steps. The paper's formula is the ELBO for MDLM, valid for many steps, and the DELBO for "
        "VADD, which is not a likelihood bound: the two do not compare."
    )
    if with_paper:
        columns += ["as perplexity", "paper"]
        note += f" The paper's DELBO is the one with K = {PARTICLES}."
    return Table("Bits per token: step bounds, and the paper's formula", columns, rows, note)


def training_table(reports: Sequence[Report]) -> Table:
    measured = [report for report in reports if report.get("latent_policy") != "fixed"]
    rows: list[list[Cell]] = [
        [
            label(report["model"]),
            report["training_steps"],
            None if report["training_seconds"] is None else round(report["training_seconds"]),
        ]
        for report in measured
    ]
    note = "Of the optimisation steps alone, without evaluations and pauses, on whatever machine it was."
    return Table("Time of training", ["", "steps", "seconds"], rows, note)


NOT_THE_PAPERS = (
    " The paper's generative perplexities are GPT-2 large's on OpenWebText: they do not compare with these, and are "
    "not shown."
)
