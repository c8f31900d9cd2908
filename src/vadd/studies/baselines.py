"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from vadd.core import Samples
from vadd.errors import UserError
from vadd.evaluation.evaluate import choose_evaluator
from vadd.evaluation.evaluators import Evaluator, Reference
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.progress import Progress, named
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, build_dataset, differences, load_recipe
from vadd.report.page import PageSection
from vadd.report.table import model_label
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.baseline_tables import ModelRow, baselines_section
from vadd.studies.comparison import Result, RowsOfStudy, checksum
from vadd.studies.ddpm import Ddpm, check_installed, ddpm_trained_for, weights_of
from vadd.studies.equal_time import FIT_SHARE, chosen_words, processor_seconds, trained_for
from vadd.studies.study import Request, Study, check_known
from vadd.studies.trainings import bound_settings, check_judges, check_overrides, of_seed, place_of

FIRST = ("mdlm", "vadd")
POSITIONS_AT_ONCE, FEWEST_AT_ONCE = 4096, 4
"""Positions in a batch of AR, at most, and sequences, at least: a transformer takes long for a position, and small
batches learn more in little time.
"""
SHORT_DRAW, MOST_DRAWS = 2.0, 5
"""Draws that take less than so many seconds are repeated so often, to time them."""


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
    check_known("model", request.models, labels)
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
        twins = [] if key in COMPARED_ONLY else [other for other in recipes if _same_training(recipes[other], recipe)]
        if twins:
            absent[labels[key]] = (
                f"under this recipe the same training as {labels[twins[0]]}, whose rows stand for both"
            )
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
    zoo = _Zoo(study, request)
    for name, why in absent.items():
        zoo.leave_out(name, why)
    build_dataset(first)  # missing data are not the failure of one model
    zoo.language = request.open_judge() if first.data.kind == "text" else None
    for seed in range(request.seeds):
        zoo.compare(recipes, seed)
    return zoo.finished()


class _Zoo(RowsOfStudy[ModelRow]):
    row_type = ModelRow
    language: LanguageJudge | None = None

    def __init__(self, study: Study, request: Request) -> None:
        super().__init__(study, request)
        self.judges: dict[int, Evaluator] = {}
        """By number of samples."""

    def compare(self, recipes: Mapping[str, Recipe], seed: int) -> None:
        """All models, and those that need two of them."""
        self.seed = seed
        runs: dict[str, Run] = {}
        labels, steps, setting = labels_of(self.study, self.request.setting), self.measuring.steps, self.setting
        for key, recipe in recipes.items():
            self.attempt(labels[key], self._trained(key, labels[key], of_seed(recipe, seed), runs))
        for key in FIRST:
            if "ar" in runs and key in runs:
                weighed = runs[key].with_energy(load(runs["ar"].directory.path), setting.candidates)
                few = [count for count in steps if count in setting.energy_steps] or list(steps[:1])
                name = f"EDLM on {labels[key]}, k = {setting.candidates}"
                self.attempt(name, self._measured(name, weighed, few, runs["ar"], labels[key]))

    def _trained(self, key: str, name: str, recipe: Recipe, runs: dict[str, Run]) -> Iterator[ModelRow]:
        place, progress = self.request.out / place_of(f"{recipe.name}-{key}", self.seed), self.request.progress
        run: Run | Ddpm
        if key in COMPARED_ONLY:
            run = ddpm_trained_for(recipe, self.seconds, place, progress)
        else:
            run = runs[key] = trained_for(recipe, self.seconds, place, progress, self.choice)
        yield from self._measured(name, run, self.measuring.steps)

    def _measured(
        self, name: str, run: Run | Ddpm, wanted: Sequence[int], energy: Run | None = None, proposal: str | None = None
    ) -> Iterator[ModelRow]:
        """``energy`` is what weighs its samples, if anything does; the bounds of the model ``proposal`` are then its
        own.
        """
        about = facts_of(run)
        count, fewer = self.measuring.samples, self.setting.costly_samples
        cheap = isinstance(run, Ddpm) or (about["exact_sampler"] and MODELS[run.recipe.model].chosen_steps)
        if fewer is not None and not cheap:  # a sample takes many times as long as that of a masked model
            count = min(count, fewer)
        reader = None if self.language is None else repr(self.language.about())
        measured = [count, self.measuring.limit, self.measuring.particles, str(self.request.inception), reader]
        for steps in run.possible_steps(wanted):
            facts = {**about, "name": name, "seed": self.seed, "steps": steps}
            decides = [name, steps, self.seed, checksum(run, energy), *measured]
            yield self.once(decides, partial(self._row, run, count, facts, proposal))

    def _row(self, run: Run | Ddpm, count: int, facts: Mapping[str, Any], proposal: str | None) -> ModelRow:
        progress, steps = named(self.request.progress, facts["name"]), facts["steps"]
        exact = run if isinstance(run, Run) else None
        if count not in self.judges:
            reference = Reference(run.data, count, 0, exact, self.request.inception, self.language, progress)
            self.judges[count] = choose_evaluator(reference)
        judge, began = self.judges[count], time.process_time()
        parts, seconds = timed_draw(run, judge.samples, steps, progress)
        adapted = judge if exact is None else judge.for_run(exact)
        metrics = adapted(torch.cat([part.tokens for part in parts]).numpy(), steps)
        real = judge.real_text
        return ModelRow(
            **facts,
            evaluations=sum(part.evaluations for part in parts) / len(parts),
            sequences=sum(part.sequences for part in parts) / judge.samples,
            seconds=seconds / judge.samples,
            metrics=metrics.to_json(),
            measure=None if metrics.value is None else metrics.name,
            **self._bound(run, facts, proposal, progress),
            samples=judge.samples,
            reference=getattr(metrics, "floor", None) if real is None else real.metrics.value,
            measuring_seconds=time.process_time() - began,
        )

    def _bound(
        self, run: Run | Ddpm, facts: Mapping[str, Any], proposal: str | None, progress: Progress
    ) -> dict[str, Any]:
        """None for DDPM: a density of continuous images is not comparable with probabilities of discrete ones."""
        for row in self.rows:
            if (row.name, row.steps, row.seed) == (proposal, facts["steps"], self.seed):
                return {"nats": row.nats, "nats_stderr": row.nats_stderr, "bound_valid": False}
        if isinstance(run, Ddpm):
            return {}
        settings = bound_settings(self.measuring.model_copy(update={"bound_steps": (facts["steps"],)}))
        bound = measure_bounds(run, run.data.test, settings, progress).bounds[0]
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
