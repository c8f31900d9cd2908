"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures/quality.png, and a run for each model

All of it is written anew after each model. What was trained and measured before is kept; a model that fails is named in
the tables and does not stop the others.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from vadd.core import Samples
from vadd.errors import UserError
from vadd.evaluation.evaluator import Evaluator, Reference
from vadd.evaluation.evaluators import choose_evaluator
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import Distance, Metrics, TextMetrics
from vadd.files import write_json
from vadd.parsing import read_json
from vadd.progress import Progress, named, note, warn
from vadd.recipe import COMPARED_ONLY, build_dataset
from vadd.report.table import model_label
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.baseline_tables import Row, baselines_section
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.ddpm import ddpm_trained_for
from vadd.studies.equal_time import FIT_SHARE, trained_for
from vadd.studies.study import Request, Study
from vadd.studies.trainings import bound_settings, measuring_of, of_seed, place_of
from vadd.studies.zoo import FIRST, Trained, ZooModel, models_of

SHORT_DRAW, MOST_DRAWS = 2.0, 5
"""Draws that take less than so many seconds are repeated so often, to time them."""


def compare_zoo(study: Study, request: Request) -> Result:
    """Train what is missing of the models (by default all), then sample and evaluate each at every number of steps.

    Where AR and MDLM or VADD are among them, the masked ones are also weighed by the energy of AR (EDLM).
    """
    models, absent = models_of(study, request)
    kind = models[0].recipe.data.kind
    if request.judge is not None and kind != "text":
        raise UserError(f"--judge reads texts; --data {request.setting} has none")
    if request.inception is not None and kind in ("text", "toy"):
        raise UserError(f"--inception evaluates images; --data {request.setting} has none")
    comparison = _Comparison(study, request, absent)
    for name, why in absent.items():
        note(f"{name} is left out: {why}")
    build_dataset(models[0].recipe)  # missing data are not the failure of one model
    comparison.language = request.open_judge() if kind == "text" else None
    for seed in range(request.seeds):
        comparison.run(models, seed)
    if not comparison.rows:
        raise UserError(f"no model could be trained and measured: {list(absent.values())[-1]}")
    return comparison.publish()


class _Comparison:
    language: LanguageJudge | None = None

    def __init__(self, study: Study, request: Request, absent: dict[str, str]) -> None:
        zoo = study.settings[request.setting].zoo
        assert zoo is not None
        self.study, self.request, self.absent, self.zoo = study, request, absent, zoo
        self.measuring = measuring_of(study, request)
        steps = self.measuring.steps
        self.energy_steps = [count for count in steps if count in zoo.energy_steps] or list(steps[:1])
        self.seconds = 60 * (zoo.minutes if request.minutes is None else request.minutes)
        self.rows: list[Row] = []
        self.kept = rows_kept(request.out / "results.json")
        self.judges: dict[int, Evaluator] = {}
        """By number of samples."""
        self.references: dict[int, float | None] = {}
        """The quality of held-out examples."""

    def run(self, models: list[ZooModel], seed: int = 0) -> None:
        """All models, and those that need two of them."""
        runs: dict[str, Run] = {}
        self.seed = seed
        for model in models:
            self._attempt(model.label, partial(self._trained, model, runs))
        for key in FIRST:
            if "ar" in runs and key in runs:
                name = f"EDLM on {model_label(key)}, k = {self.zoo.candidates}"
                self._attempt(name, partial(self._weighed, runs[key], runs["ar"], model_label(key)))

    def _attempt(self, name: str, trained: Callable[[], Trained]) -> None:
        """Its rows or, where it fails, why."""
        try:
            self._measure(name, trained())
        except (UserError, RuntimeError, ArithmeticError, MemoryError) as error:
            warn(f"{name} failed: {error}")
            self.absent[name] = f"failed: {next(iter(str(error).splitlines()), repr(error))}"
        if self.rows:
            self.publish()

    def _trained(self, model: ZooModel, runs: dict[str, Run]) -> Trained:
        place = self.request.out / place_of(f"{model.recipe.name}-{model.key}", self.seed)
        recipe, progress = of_seed(model.recipe, self.seed), self.request.progress
        if model.key in COMPARED_ONLY:
            return Trained(ddpm_trained_for(recipe, self.seconds, place, progress), self.measuring.steps)
        choice = self.study.choose if self.request.choose else None
        runs[model.key] = trained_for(recipe, self.seconds, place, progress, choice)
        return Trained(runs[model.key], self.measuring.steps)

    def _weighed(self, run: Run, energy: Run, proposal: str) -> Trained:
        weighed = run.with_energy(load(energy.directory.path), self.zoo.candidates)
        return Trained(weighed, self.energy_steps, energy, proposal)

    def _measure(self, name: str, trained: Trained) -> None:
        count, costly = self.measuring.samples, self.zoo.costly_samples
        if trained.costly and costly is not None:
            count = min(count, costly)
        reader = None if self.language is None else repr(self.language.about())
        measured = [count, self.measuring.limit, self.measuring.particles, str(self.request.inception), reader]
        stamp = hashlib.sha256(json.dumps([trained.checksum, *measured]).encode()).hexdigest()[:16]
        for steps in trained.run.possible_steps(trained.wanted):
            kept = self.kept.get((name, steps, self.seed))
            if kept is None or kept.stamp != stamp:
                kept = self._row(name, trained, steps, count).model_copy(update={"stamp": stamp})
            self.rows.append(kept)
            write_json(self.request.out / "results.json", self.numbers())

    def _row(self, name: str, trained: Trained, steps: int, count: int) -> Row:
        progress = named(self.request.progress, name)
        if count not in self.judges:
            run = trained.run if isinstance(trained.run, Run) else None
            self.judges[count] = choose_evaluator(
                Reference(trained.run.data, count, 0, run, self.request.inception, self.language, progress)
            )
        judge = self.judges[count]
        began = time.process_time()
        parts, seconds = timed_draw(trained, judge.samples, steps, progress)
        adapted = judge.for_run(trained.run) if isinstance(trained.run, Run) else judge
        metrics = adapted(torch.cat([part.tokens for part in parts]).numpy(), steps)
        if count not in self.references:
            self.references[count] = reference_of(judge, metrics)
        return Row(
            **trained.about,
            name=name,
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
        for row in self.rows:
            if (row.name, row.steps, row.seed) == (trained.proposal, steps, self.seed):
                return {"nats": row.nats, "nats_stderr": row.nats_stderr, "bound_valid": False}
        settings = bound_settings(self.measuring.model_copy(update={"bound_steps": (steps,)}))
        bound = trained.bound(settings, progress)
        return {} if bound is None else {"nats": bound.nats, "nats_stderr": bound.stderr, "bound_valid": bound.valid}

    def numbers(self) -> list[dict[str, Any]]:
        absent = [{"name": name, "absent": why} for name, why in self.absent.items()]
        return [*(row.to_json() for row in self.rows), *absent]

    def publish(self) -> Result:
        measuring = sum(row.measuring_seconds for row in self.rows)
        reader = "" if self.language is None else f" Texts were read by {self.language.about().name}."
        introduction = (
            f"Every model learned the same examples for at most {self.seconds:.3g} s of processor time. Choosing "
            "came on top, as long again for each candidate: three weightings of the masks, one for models that allow "
            "integral weights alone, none for DDPM, each bounded with N(0, I) for z. Where the prior of a "
            f"latent is learned, its fit has {FIT_SHARE:.0%} of it. The likelihood of AR is exact; all others are "
            "bounds for the sampler with T steps, and those of EDLM are its proposal's. Drawing, evaluating and "
            f"bounding took {measuring / 60:.1f} minutes of processor time besides.{reader}"
        )
        setting, out = self.request.setting, self.request.out
        page = replace(Page.of(self.study, setting=setting), introduction=introduction)
        section = baselines_section(self.rows, self.absent, out / "figures", quoted=setting == "toys")
        return publish(out, page, section, self.numbers())


def rows_kept(file: Path) -> dict[tuple[str, int, int], Row]:
    """Rows that were measured before, by name, number of steps and seed; what cannot be read is measured again."""
    try:
        rows = [Row(**entry) for entry in read_json(file) if "absent" not in entry]
    except (OSError, ValueError, TypeError, ValidationError):
        return {}
    return {(row.name, row.steps, row.seed): row for row in rows}


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
