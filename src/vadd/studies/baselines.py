"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from vadd.core import Samples
from vadd.errors import UserError
from vadd.evaluation.evaluator import Evaluator, Reference
from vadd.evaluation.evaluators import choose_evaluator
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import Distance, Metrics, TextMetrics
from vadd.progress import Progress, named
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, build_dataset, differences, load_recipe
from vadd.report.page import PageSection
from vadd.report.table import model_label
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.baseline_tables import ModelRow, baselines_section
from vadd.studies.choosing import chosen_words
from vadd.studies.comparison import Result
from vadd.studies.ddpm import Ddpm, check_installed, ddpm_trained_for, weights_of
from vadd.studies.equal_time import FIT_SHARE, processor_seconds, trained_for
from vadd.studies.rows import RowsOfStudy, checksum
from vadd.studies.study import Request, Study
from vadd.studies.trainings import bound_settings, check_judges, check_overrides, of_seed, place_of
from vadd.words import suggestion

FIRST = ("mdlm", "vadd")
POSITIONS_AT_ONCE, FEWEST_AT_ONCE = 4096, 4
"""Positions in a batch of AR, at most, and sequences, at least: a transformer takes long for a position, and small
batches learn more in little time.
"""
SHORT_DRAW, MOST_DRAWS = 2.0, 5
"""Draws that take less than so many seconds are repeated so often, to time them."""


@dataclass(frozen=True)
class ZooModel:
    key: str
    """As ``--models`` names it."""
    label: str
    recipe: Recipe


def labels_of(study: Study, setting: str) -> dict[str, str]:
    """Labels by the names of ``--models``, in the order of the tables. EDLM is two of these together."""
    variants = {key: f"VADD, {key[5:].replace('-', ' ')}" for key in study.settings[setting].variants}
    others = [str(name) for name in MODELS if name not in (*FIRST, "edlm")]
    return {key: variants.get(key, model_label(key)) for key in (*FIRST, *variants, *others, *COMPARED_ONLY)}


def models_of(study: Study, request: Request) -> tuple[list[ZooModel], dict[str, str]]:
    """The requested models (by default all) that can take part, and why others cannot, by label. A model that the user
    names must be able to.
    """
    check_overrides(request.overrides, study.fixed)
    labels = labels_of(study, request.setting)
    models: list[ZooModel] = []
    absent: dict[str, str] = {}
    for key in dict.fromkeys(request.models or labels):
        if key not in labels:
            raise UserError(f"unknown model {key!r}{suggestion(key, labels)}; choose from {', '.join(labels)}")
        try:
            model = ZooModel(key, labels[key], _recipe(key, study, request))
        except UserError as error:
            # An error of the first, MDLM, is one of the request.
            if request.models or not models:
                raise
            absent[labels[key]] = str(error)
            continue
        twin = next((other for other in models if _same_training(other, model)), None)
        if twin is None:
            models.append(model)
        else:
            absent[model.label] = f"under this recipe the same training as {twin.label}, whose rows stand for both"
    return models, absent


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


def _same_training(one: ZooModel, other: ZooModel) -> bool:
    """Whether two models, under this recipe, are the same class with the same settings (as MDLM and RADD often are)."""
    if {one.key, other.key} & {*COMPARED_ONLY}:
        return False
    first, second = (each.recipe.with_values([("diffusion.mask_draw", each.recipe.mask_draw)]) for each in (one, other))
    same_class = MODELS[first.model].build is MODELS[second.model].build and first.has_latent == second.has_latent
    return same_class and set(differences(first, second)) <= {"model", "name", "about"}


@dataclass(frozen=True)
class Trained:
    """A model as its rows name it: a run or the continuous model of diffusers."""

    name: str
    run: Run | Ddpm
    steps: Sequence[int]
    energy: Run | None = None
    """What weighs its samples, if anything does."""
    proposal: str | None = None
    """The model whose bounds stand for its own, by name."""

    @property
    def about(self) -> dict[str, Any]:
        """What the rows say of it."""
        run = self.run
        if isinstance(run, Ddpm):
            about = {"model": "ddpm", "training_steps": run.training_steps, "training_seconds": run.training_seconds}
            return {**about, "parameters": weights_of(run.network), "exact_sampler": False}
        return {
            "model": run.recipe.model,
            "training_steps": run.recipe.training.steps,
            "training_seconds": processor_seconds(run.directory.path),
            "chosen": chosen_words(run.directory.path),
            "parameters": weights_of(run.model),
            "exact_sampler": run.model.samplers["ancestral"].exact,
        }

    @property
    def costly(self) -> bool:
        """Whether a sample takes many times as long as that of a masked model in a few steps."""
        if isinstance(self.run, Ddpm):
            return False
        return not self.run.model.samplers["ancestral"].exact or not MODELS[self.run.recipe.model].chosen_steps


def compare_zoo(study: Study, request: Request) -> Result:
    """Train what is missing of the models (by default all), then sample and evaluate each at every number of steps.

    Where AR and MDLM or VADD are among them, the masked ones are also weighed by the energy of AR (EDLM).
    """
    models, absent = models_of(study, request)
    check_judges(request, models[0].recipe)
    zoo = _Zoo(study, request)
    for name, why in absent.items():
        zoo.leave_out(name, why)
    build_dataset(models[0].recipe)  # missing data are not the failure of one model
    zoo.language = request.open_judge() if models[0].recipe.data.kind == "text" else None
    for seed in range(request.seeds):
        zoo.compare(models, seed)
    return zoo.publish()


class _Zoo(RowsOfStudy[ModelRow]):
    row_type = ModelRow
    language: LanguageJudge | None = None

    def __init__(self, study: Study, request: Request) -> None:
        super().__init__(study, request)
        self.judges: dict[int, Evaluator] = {}
        """By number of samples."""
        self.references: dict[int, float | None] = {}
        """The quality of held-out examples."""

    def compare(self, models: list[ZooModel], seed: int) -> None:
        """All models, and those that need two of them."""
        self.seed = seed
        runs: dict[str, Run] = {}
        steps, setting = self.measuring.steps, self.setting
        for model in models:
            self.attempt(model.label, self._trained(model, runs))
        for key in FIRST:
            if "ar" in runs and key in runs:
                name = f"EDLM on {model_label(key)}, k = {setting.candidates}"
                weighed = runs[key].with_energy(load(runs["ar"].directory.path), setting.candidates)
                few = [count for count in steps if count in setting.energy_steps] or list(steps[:1])
                self.attempt(name, self._measured(Trained(name, weighed, few, runs["ar"], model_label(key))))

    def _trained(self, model: ZooModel, runs: dict[str, Run]) -> Iterator[ModelRow]:
        place = self.request.out / place_of(f"{model.recipe.name}-{model.key}", self.seed)
        recipe, progress = of_seed(model.recipe, self.seed), self.request.progress
        run: Run | Ddpm
        if model.key in COMPARED_ONLY:
            run = ddpm_trained_for(recipe, self.seconds, place, progress)
        else:
            run = runs[model.key] = trained_for(recipe, self.seconds, place, progress, self.choice)
        yield from self._measured(Trained(model.label, run, self.measuring.steps))

    def _measured(self, trained: Trained) -> Iterator[ModelRow]:
        count, costly = self.measuring.samples, self.setting.costly_samples
        if trained.costly and costly is not None:
            count = min(count, costly)
        reader = None if self.language is None else repr(self.language.about())
        measured = [count, self.measuring.limit, self.measuring.particles, str(self.request.inception), reader]
        for steps in trained.run.possible_steps(trained.steps):
            decides = [trained.name, steps, self.seed, checksum(trained.run, trained.energy), *measured]
            yield self.once(decides, partial(self._row, trained, steps, count))

    def _row(self, trained: Trained, steps: int, count: int) -> ModelRow:
        progress, run = named(self.request.progress, trained.name), trained.run
        exact = run if isinstance(run, Run) else None
        if count not in self.judges:
            reference = Reference(run.data, count, 0, exact, self.request.inception, self.language, progress)
            self.judges[count] = choose_evaluator(reference)
        judge = self.judges[count]
        began = time.process_time()
        parts, seconds = timed_draw(trained, judge.samples, steps, progress)
        adapted = judge if exact is None else judge.for_run(exact)
        metrics = adapted(torch.cat([part.tokens for part in parts]).numpy(), steps)
        if count not in self.references:
            self.references[count] = reference_of(judge, metrics)
        return ModelRow(
            **trained.about,
            name=trained.name,
            seed=self.seed,
            steps=steps,
            evaluations=sum(part.evaluations for part in parts) / len(parts),
            sequences=sum(part.sequences for part in parts) / judge.samples,
            seconds=seconds / judge.samples,
            metrics=metrics.to_json(),
            measure=measure_of(metrics),
            **self._bound(trained, steps, progress),
            samples=judge.samples,
            reference=self.references[count],
            measuring_seconds=time.process_time() - began,
        )

    def _bound(self, trained: Trained, steps: int, progress: Progress) -> dict[str, Any]:
        """None for DDPM: a density of continuous images is not comparable with probabilities of discrete ones."""
        for row in self.rows:
            if (row.name, row.steps, row.seed) == (trained.proposal, steps, self.seed):
                return {"nats": row.nats, "nats_stderr": row.nats_stderr, "bound_valid": False}
        if isinstance(trained.run, Ddpm):
            return {}
        settings = bound_settings(self.measuring.model_copy(update={"bound_steps": (steps,)}))
        bound = measure_bounds(trained.run, trained.run.data.test, settings, progress).bounds[0]
        return {"nats": bound.nats, "nats_stderr": bound.stderr, "bound_valid": bound.valid}

    def names(self) -> dict[str, str]:
        return super().names() | {
            "seconds": f"{self.seconds:.3g}",
            "fit_share": f"{FIT_SHARE:.0%}",
            "measuring": f"{sum(row.measuring_seconds for row in self.rows) / 60:.1f}",
            "reader": "" if self.language is None else f" Texts were read by {self.language.about().name}.",
        }

    def section(self) -> PageSection:
        return baselines_section(self.rows, self.absent, self.request.out / "figures")


def timed_draw(trained: Trained, count: int, steps: int, progress: Progress) -> tuple[list[Samples], float]:
    """Samples, and the processor time that they take; short draws are repeated and the fastest counts."""
    times: list[float] = []
    while not times or (sum(times) < SHORT_DRAW and len(times) < MOST_DRAWS):
        began = time.process_time()
        parts = list(trained.run.stream(count, steps=steps, seed=0, progress=progress))
        times.append(time.process_time() - began)
    return parts, min(times)


def reference_of(judge: Evaluator, metrics: Metrics) -> float | None:
    """The quality of held-out examples."""
    if judge.real_text is not None:
        return judge.real_text.metrics.judge_bits
    return metrics.floor if isinstance(metrics, Distance) else None


def measure_of(metrics: Metrics) -> str | None:
    """The name of the number to compare by."""
    if isinstance(metrics, TextMetrics):
        return None if metrics.judge_bits is None else "judge_bits"
    return metrics.name if isinstance(metrics, Distance) else None
