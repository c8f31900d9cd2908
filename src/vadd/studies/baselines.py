"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from pydantic import Field, computed_field

from vadd.core import Samples
from vadd.errors import UserError
from vadd.evaluation.diversity import periodic_texts, trigram_texts
from vadd.evaluation.evaluate import choose_evaluator, source_texts
from vadd.evaluation.evaluators import Evaluator, Reference
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import PERIODIC, TRIGRAM
from vadd.evaluation.zero_shot import evaluate_texts
from vadd.progress import Progress, named
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, build_dataset, differences, load_recipe
from vadd.report.figures import CostPoint, quality_by_cost, save_figure
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, at_steps, grouped, mean_and_spread, model_label, rounded
from vadd.report.tables import COLUMN_TITLES
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.comparison import Result, Row, RowsOfStudy, absent_notes, checksum
from vadd.studies.ddpm import Ddpm, check_installed, ddpm_trained_for, weights_of
from vadd.studies.equal_time import FIT_SHARE, chosen_words, trained_for
from vadd.studies.study import Request, Study
from vadd.studies.trainings import bound_settings, check_judges, check_overrides, of_seed, processor_seconds
from vadd.words import check_known

FIRST = ("mdlm", "vadd")
POSITIONS_AT_ONCE, FEWEST_AT_ONCE = 4096, 4
"""Positions in a batch of AR, at most, and sequences, at least: a transformer takes long for a position, and small
batches learn more in little time.
"""
SHORT_DRAW, MOST_DRAWS = 2.0, 5
"""Draws that take less than so many seconds are repeated so often, to time them."""


class ModelRow(Row):
    """What one model costs and gives with one number of sampling steps."""

    model: str
    steps: int
    evaluations: float
    """Calls of the network for a chunk of samples."""
    sequences: float
    """Sequences shown to networks, for each sample."""
    seconds: float
    """Of processor time, for each sample."""
    metrics: dict[str, Any]
    measure: str | None
    """Which of the metrics is the quality; None where texts had no judge."""
    nats: float | None = None
    """The step bound (AR: the exact value) of held-out examples."""
    nats_stderr: float | None = None
    bound_valid: bool | None = None
    training_steps: int
    parameters: int
    exact_sampler: bool
    samples: int = 0
    """That were evaluated."""
    reference: float | None = None
    """The quality of as many held-out examples, or of all there are."""
    controls: Mapping[str, float | None] = Field(default_factory=dict)
    """The quality of texts that a good number must not be fooled by."""
    training_seconds: float | None = None
    """Of processor time, the fit of a learned prior included."""
    measuring_seconds: float = 0.0
    """Of processor time, for drawing, evaluating and bounding."""
    chosen: str | None = None
    """What was chosen for it on a part of the training set."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def quality(self) -> float | None:
        """The number that figures show; smaller is better."""
        return None if self.measure is None else float(self.metrics[self.measure])

    @property
    def kind(self) -> str:
        """What the nats are."""
        if self.nats is None:
            return "not reported"
        if self.model == "ar":
            return "exact"
        return "a bound" if self.bound_valid else "a bound of the proposal, not of this sampler"


def labels_of(study: Study, setting: str) -> dict[str, str]:
    """Labels by the names of ``--models``, in the order of the tables. EDLM is two of these together."""
    variants = {key: f"VADD, {key[5:].replace('-', ' ')}" for key in study.settings[setting].variants}
    others = [str(name) for name in MODELS if name not in (*FIRST, "edlm")]
    return {key: variants.get(key, model_label(key)) for key in (*FIRST, *variants, *others, *COMPARED_ONLY)}


def recipes_of(study: Study, request: Request) -> tuple[dict[str, Recipe], dict[str, str]]:
    """Of the requested models (by default all) that can take part, and why others cannot, by label. A model that the
    user names must be able to.
    """
    check_overrides(request.overrides, study.fixed)
    labels = labels_of(study, request.setting)
    check_known("unknown model", request.models, labels)
    recipes: dict[str, Recipe] = {}
    absent: dict[str, str] = {}
    for key in dict.fromkeys(request.models or labels):
        try:
            recipe = _recipe(key, study, request)
        except UserError as error:
            # An error of the first, MDLM, is one of the request.
            if request.models or not recipes:
                raise
            absent[labels[key]] = str(error)
            continue
        known = {} if key in COMPARED_ONLY else recipes
        twins = [labels[other] for other in known if _same_training(recipes[other], recipe)]
        if twins:
            absent[labels[key]] = f"under this recipe the same training as {twins[0]}, whose rows stand for both"
        else:
            recipes[key] = recipe
    return recipes, absent


def _recipe(key: str, study: Study, request: Request) -> Recipe:
    setting = study.settings[request.setting]
    entry = setting.variants.get(key, setting.entries[0])
    model = "vadd" if key in setting.variants else "mdlm" if key in COMPARED_ONLY else key
    recipe = load_recipe(entry.recipe).with_overrides([f"model={model}", *entry.changes, *request.overrides])
    kind = recipe.data.example_kind()
    if key in COMPARED_ONLY:
        if kind.name != "image":
            raise UserError(f"{model_label(key)} is for images; --data {request.setting} has none")
        check_installed()
    batch_is_chosen = any(override.startswith("training.batch=") for override in request.overrides)
    if MODELS[recipe.model].chosen_steps or batch_is_chosen:
        return recipe
    most = max(FEWEST_AT_ONCE, POSITIONS_AT_ONCE // kind.positions)
    return recipe.with_values([("training.batch", min(recipe.training.batch, most))])


def _same_training(*recipes: Recipe) -> bool:
    """Whether two models, under this recipe, are the same class with the same settings (as MDLM and RADD often are)."""
    first, second = (each.with_values([("diffusion.mask_draw", each.mask_draw)]) for each in recipes)
    same_class = MODELS[first.model].build is MODELS[second.model].build and first.has_latent == second.has_latent
    return same_class and set(differences(first, second)) <= {"model", "name", "about"}


def compare_zoo(study: Study, request: Request) -> Result:
    """Train what is missing of the models (by default all), then sample and evaluate each at every number of steps.

    Where AR and MDLM or VADD are among them, the masked ones are also weighed by the energy of AR (EDLM).
    """
    recipes, absent = recipes_of(study, request)
    first = next(iter(recipes.values()))
    check_judges(request, first)
    zoo = _Zoo(study, request, recipes)
    build_dataset(first)  # missing data are not the failure of one model
    zoo.language = request.open_judge() if first.data.kind == "text" else None
    return zoo.measured(absent)


class _Zoo(RowsOfStudy[ModelRow]):
    row_type = ModelRow
    language: LanguageJudge | None = None

    def __init__(self, study: Study, request: Request, recipes: Mapping[str, Recipe]) -> None:
        super().__init__(study, request, recipes)
        self.labels = labels_of(study, request.setting)
        self.judges: dict[int, Evaluator] = {}
        """By number of samples."""
        self.controls: dict[str, float | None] = {}

    def parts(self, seed: int) -> Iterator[tuple[str, Iterator[ModelRow]]]:
        """All models, and those that need two of them."""
        runs: dict[str, Run] = {}
        steps, count = self.measuring.steps, self.setting.candidates
        for key in self.recipes:
            yield self.labels[key], self._trained(key, seed, runs)
        for key in FIRST:
            if "ar" in runs and key in runs:
                weighed = runs[key].with_energy(load(runs["ar"].directory.path), count)
                few = [each for each in steps if each in self.setting.energy_steps] or list(steps[:1])
                name = f"EDLM on {self.labels[key]}, k = {count}"
                yield name, self._of_run(name, seed, weighed, few, runs["ar"])

    def _trained(self, key: str, seed: int, runs: dict[str, Run]) -> Iterator[ModelRow]:
        recipe, progress = self.recipes[key], self.request.progress
        recipe, place = of_seed(recipe, self.request.out / f"{recipe.name}-{key}", seed)
        run: Run | Ddpm
        if key in COMPARED_ONLY:
            run = ddpm_trained_for(recipe, self.seconds, place, progress)
        else:
            run = runs[key] = trained_for(recipe, self.seconds, place, progress, self.choice)
        yield from self._of_run(self.labels[key], seed, run, self.measuring.steps)

    def _of_run(
        self, name: str, seed: int, run: Run | Ddpm, wanted: Sequence[int], energy: Run | None = None
    ) -> Iterator[ModelRow]:
        """``energy`` is what weighs its samples, if anything does."""
        about = facts_of(run)
        count, fewer = self.measuring.samples, self.setting.costly_samples
        cheap = isinstance(run, Ddpm) or (about["exact_sampler"] and MODELS[run.recipe.model].chosen_steps)
        if fewer is not None and not cheap:  # a sample takes many times as long as that of a masked model
            count = min(count, fewer)
        reader = None if self.language is None else repr(self.language.about())
        measured = [count, self.measuring.limit, self.measuring.particles, str(self.request.inception), reader]
        for steps in run.possible_steps(wanted):
            facts = {**about, "name": name, "seed": seed, "steps": steps}
            decides = [name, steps, seed, checksum(run, energy), *measured]
            yield self.once(decides, partial(self._row, run, count, facts))

    def _row(self, run: Run | Ddpm, count: int, facts: dict[str, Any]) -> ModelRow:
        progress, steps = named(self.request.progress, facts["name"]), facts["steps"]
        exact = run if isinstance(run, Run) else None
        if count not in self.judges:
            reference = Reference(run.data, count, 0, exact, self.request.inception, self.language, progress)
            self.judges[count] = choose_evaluator(reference)
        judge, began = self.judges[count], time.process_time()
        parts, seconds = timed_draw(run, judge.samples, steps, progress)
        adapted, real = judge if exact is None else judge.for_run(exact), judge.real_text
        metrics = adapted(torch.cat([part.tokens for part in parts]).numpy(), steps)
        if exact is not None:  # a density of continuous images is not comparable with probabilities of discrete ones
            settings = bound_settings(self.measuring.model_copy(update={"bound_steps": (steps,)}))
            bound = measure_bounds(exact, run.data.test, settings, progress).bounds[0]
            facts |= {"nats": bound.nats, "nats_stderr": bound.stderr, "bound_valid": bound.valid}
        return ModelRow(
            **facts,
            evaluations=sum(part.evaluations for part in parts) / len(parts),
            sequences=sum(part.sequences for part in parts) / judge.samples,
            seconds=seconds / judge.samples,
            metrics=metrics.to_json(),
            measure=None if metrics.value is None else metrics.name,
            samples=judge.samples,
            reference=getattr(metrics, "floor", None) if real is None else real.metrics.value,
            controls={} if exact is None or self.language is None else self._controls(exact, judge.samples),
            measuring_seconds=time.process_time() - began,
        )

    def _controls(self, run: Run, count: int) -> dict[str, float | None]:
        if not self.controls:
            source = source_texts(run, 0)
            made = {PERIODIC: periodic_texts(source, count), TRIGRAM: trigram_texts(source, count)}
            scored = [evaluate_texts(name, texts, self.language, self.request.progress) for name, texts in made.items()]
            self.controls = {each.file: each.metrics.value for each in scored}
        return self.controls

    def names(self) -> dict[str, str]:
        return super().names() | {
            "seconds": f"{self.seconds:.3g}",
            "fit_share": f"{FIT_SHARE:.0%}",
            "measuring": f"{sum(row.measuring_seconds for row in self.rows) / 60:.1f}",
            "reader": "" if self.language is None else f" Texts were read by {self.language.about().name}.",
        }

    def section(self) -> PageSection:
        rows = self.rows
        figure = save_figure(quality_figure(rows), self.request.out / "figures" / "quality.png")
        shown = [("Quality against cost", figure)]
        tables = [summary_table(rows, self.absent), likelihood_table(rows), cost_table(rows)]
        return PageSection("Side by side", figures=shown, tables=tables)


def facts_of(run: Run | Ddpm) -> dict[str, Any]:
    """What the rows of a model, a run or the continuous one of diffusers, say of it."""
    if isinstance(run, Ddpm):
        facts = {"model": "ddpm", "training_steps": run.training_steps, "training_seconds": run.training_seconds}
        return {**facts, "parameters": weights_of(run.network), "exact_sampler": False}
    return {
        "model": run.recipe.model,
        "training_steps": run.recipe.training.steps,
        "training_seconds": processor_seconds(run.directory.path),
        "chosen": chosen_words(run.directory.path),
        "parameters": weights_of(run.model),
        "exact_sampler": run.model.samplers["ancestral"].exact,
    }


def timed_draw(run: Run | Ddpm, count: int, steps: int, progress: Progress) -> tuple[list[Samples], float]:
    """Samples, and the processor time that they take; short draws are repeated and the fastest counts."""
    times: list[float] = []
    while not times or (sum(times) < SHORT_DRAW and len(times) < MOST_DRAWS):
        began = time.process_time()
        parts = list(run.stream(count, steps=steps, seed=0, progress=progress))
        times.append(time.process_time() - began)
    return parts, min(times)


Rows = Sequence[ModelRow]


def by_model(rows: Iterable[ModelRow]) -> dict[str, dict[int, list[ModelRow]]]:
    """The seeds of each model and number of steps."""
    models = grouped(rows, lambda row: row.name)
    return {name: grouped(members, lambda row: row.steps) for name, members in models.items()}


def quality_of(members: Rows) -> Cell:
    return mean_and_spread(row.quality for row in members)


def nats_of(members: Rows) -> Cell:
    """Their mean, and the error of one or half of what they differ by, whichever is larger."""
    nats = [row.nats for row in members if row.nats is not None]
    error = max([(max(nats, default=0) - min(nats, default=0)) / 2, *(row.nats_stderr or 0.0 for row in members)])
    return f"{fmean(nats):.2f} ± {error:.2f}" if nats else None


def quality_figure(rows: Rows) -> Figure:
    """Quality, or of texts without a judge the bound, by evaluations of the network."""
    label, scored = f"{measure_of(rows)}, smaller is better", [row for row in rows if row.quality is not None]
    references = sorted({row.samples: row.reference for row in scored if row.reference is not None}.values())
    if not scored:
        scored = [row for row in rows if row.nats is not None and row.bound_valid]
        label = "nats of a held-out example (bound)"
    points: dict[str, list[CostPoint]] = {}
    for (name, _), members in grouped(scored, lambda row: (row.name, row.steps)).items():
        values = [(row.nats or 0.0) if row.quality is None else row.quality for row in members]
        spread = (max(values) - min(values)) / 2
        points.setdefault(name, []).append((members[0].evaluations, fmean(values), spread))
    return quality_by_cost(points, label, references)


def summary_table(rows: Rows, absent: Mapping[str, str]) -> Table:
    """A row for each model: its training, and the quality of its samples by number of steps."""
    steps, measure = sorted({row.steps for row in rows}), measure_of(rows)
    cells: list[dict[str, Cell]] = []
    for name, by_steps in by_model(rows).items():
        first, *_ = members = next(iter(by_steps.values()))
        facts: dict[str, Cell] = {
            "here": name,
            "parameters": f"{first.parameters:,}",
            "training steps": f"{first.training_steps:,}",
            "s": rounded(first.training_seconds, 0),
        }
        chosen = " or ".join(dict.fromkeys(row.chosen for row in members if row.chosen)) or None
        qualities = {count: quality_of(those) for count, those in by_steps.items()}
        cells.append({**facts, **at_steps(qualities, steps), "chosen": chosen})
    for count, value in {row.samples: row.reference for row in rows if row.reference is not None}.items():
        reference = at_steps(dict.fromkeys(steps, f"{value:.3g}"), steps)
        cells.append({"here": f"held-out data, up to {count:,}", **reference})
    controls = {name: value for row in rows for name, value in row.controls.items()}
    cells += [{"here": name, **at_steps(dict.fromkeys(steps, rounded(it, 3)), steps)} for name, it in controls.items()]
    cells += [{"here": name} for name in absent]
    most, *fewer = sorted({row.samples for row in rows}, reverse=True)
    note = f"{measure}, smaller is better, of {most:,} samples"
    for count in fewer:
        note += f", {count:,} of {', '.join(dict.fromkeys(row.name for row in rows if row.samples == count))}"
    said = {"fewer_samples": fewer, "summary": True, "edlm": _has(rows, "edlm")}
    said |= {"chosen": any(row.chosen for row in rows), "seeds": any(row.seed for row in rows)}
    text = " ".join([f"{note}.", *(NOTES[key] for key, wanted in said.items() if wanted)]) + absent_notes(absent)
    return Table.of(f"Samples by number of steps: {measure}", cells, text, optional=["chosen"])


def likelihood_table(rows: Rows) -> Table:
    """A row for each model that has a likelihood or a bound of one, by number of steps."""
    bounded = [row for row in rows if row.nats is not None and row.exact_sampler]
    steps = sorted({row.steps for row in bounded})
    cells = [
        {
            "here": name,
            **at_steps({count: nats_of(members) for count, members in by_steps.items()}, steps),
            "which is": next(iter(by_steps.values()))[0].kind,
        }
        for name, by_steps in by_model(bounded).items()
    ]
    return Table.of("Likelihood by number of steps: nats", cells, NOTES["baseline_nats"])


def cost_table(rows: Rows) -> Table:
    """A row for each model and number of steps, with what a sample costs."""
    unit = next((row for row in rows if row.model == "mdlm"), rows[0])
    measure = measure_of(rows)
    cells: list[dict[str, Cell]] = [
        {
            "here": row.name,
            "T": row.steps,
            "evaluations": f"{row.evaluations:.0f}",
            "sequences": f"{row.sequences:.1f}",
            "time": f"{row.seconds / unit.seconds:.3g}",
            "samples": f"{row.samples:,}",
            measure: quality_of(members),
            "nats": nats_of(members),
            "which is": row.kind,
        }
        for members in grouped(rows, lambda row: (row.name, row.steps)).values()
        for row in members[:1]
    ]
    about = {"distance": NOTES["unread"], "judge's bits": NOTES["judge_bits"]}.get(measure, NOTES["distance"])
    note = NOTES["cost"].format(unit=f"{model_label(unit.model)}'s, T = {unit.steps}", about=about)
    note += f" {NOTES['ddpm']}" if _has(rows, "ddpm") else ""
    return Table.of("What samples cost, and what they are worth", cells, note)


def _has(rows: Rows, model: str) -> bool:
    return any(row.model == model for row in rows)


def measure_of(rows: Rows) -> str:
    """What the quality of these rows is called."""
    measure = next((row.measure for row in rows if row.measure is not None), None)
    return "distance" if measure is None else {**COLUMN_TITLES, "judge_bits": "judge's bits"}[measure]
