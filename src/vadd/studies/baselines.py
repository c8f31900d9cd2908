"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures/quality.png, and a run for each model

All of it is written anew after each model. What was trained and measured before is kept, so a study that was stopped
goes on where it was; a model that fails is named in the tables and does not stop the others.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vadd.core import Particles, Samples
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.judge import Judge
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.metrics import Distance, FrechetDistance, Metrics, TextMetrics
from vadd.files import write_json
from vadd.parallel import is_main
from vadd.progress import Progress, named, note, warn
from vadd.recipe import COMPARED_ONLY
from vadd.recipe.building import build_dataset
from vadd.report.tables import model_label
from vadd.run.run import Run, load
from vadd.studies.baseline_page import baselines_section
from vadd.studies.baseline_rows import Absent, Row, rows_kept, to_json
from vadd.studies.contenders import Contender, DdpmContender, RunContender
from vadd.studies.ddpm import ddpm_trained_for
from vadd.studies.entrants import SETTINGS, BaselineData, Entrant, Setting, entrants_of
from vadd.studies.equal_time import FIT_SHARE, trained_for
from vadd.studies.measuring import command_line
from vadd.studies.publishing import publish

WEIGHED = ("mdlm", "vadd")
"""The masked models whose candidates are weighed by AR."""
SHORT_DRAW, MOST_DRAWS = 2.0, 5
"""Draws that take less than so many seconds are repeated so often, to time them."""


@dataclass(frozen=True)
class Baselines:
    rows: list[Row]
    absent: list[Absent]
    page: Path

    def to_json(self) -> list[dict[str, Any]]:
        return to_json(self.rows, self.absent)


def reproduce_baselines(
    data: BaselineData,
    out: Path,
    progress: Progress,
    *,
    models: Sequence[str] = (),
    minutes: float | None = None,
    steps: Sequence[int] | None = None,
    samples: int | None = None,
    overrides: Sequence[str] = (),
    language: LanguageJudge | None = None,
    inception: Path | None = None,
) -> Baselines:
    """Train what is missing of the ``models`` (by default all), then sample and judge each at every number of steps.

    Where AR and MDLM or VADD are among them, the masked ones are also weighed by the energy of AR (EDLM).
    """
    setting = SETTINGS[data]
    command = command_line(
        "baselines",
        overrides=overrides,
        data=data,
        models=list(models) or None,
        minutes=minutes,
        steps=None if steps is None else list(steps),
        samples=samples,
    )
    if steps is not None:
        energy_steps = tuple(each for each in steps if each in setting.energy_steps) or tuple(steps)[:1]
        setting = replace(setting, steps=tuple(steps), energy_steps=energy_steps)
    if samples is not None:
        costly = None if setting.costly_samples is None else min(samples, setting.costly_samples)
        setting = replace(setting, samples=samples, costly_samples=costly)
    setting = replace(setting, minutes=setting.minutes if minutes is None else minutes)
    entrants, absent = entrants_of(data, setting, models, overrides)
    for each in absent:
        note(f"{each.name} is left out: {each.why}")
    # Data that are not there are nobody's failure in particular.
    build_dataset(entrants[0].recipe)
    study = _Study(data, setting, out, command, absent, progress, inception, language)
    study.run(entrants)
    if not study.rows:
        raise UserError(f"no model could be trained and measured: {study.absent[-1].why}")
    return Baselines(study.rows, study.absent, study.publish())


class _Study:
    def __init__(
        self,
        data: BaselineData,
        setting: Setting,
        out: Path,
        command: str,
        absent: Sequence[Absent],
        progress: Progress,
        inception: Path | None,
        language: LanguageJudge | None,
    ) -> None:
        self.data, self.setting, self.out, self.command, self.progress = data, setting, out, command, progress
        self.inception, self.language = inception, language
        self.absent = list(absent)
        self.rows: list[Row] = []
        self.kept = rows_kept(out / "results.json")
        self.judges: dict[int, Judge] = {}
        """By number of samples."""
        self.references: dict[int, float | None] = {}
        """What held-out examples score."""

    def run(self, entrants: Sequence[Entrant]) -> None:
        """One after the other, so that there is something to read early."""
        runs: dict[str, Run] = {}
        for entrant in entrants:
            self._attempt(entrant.label, partial(self._trained, entrant, runs))
        energy = runs.get("ar")
        for key in WEIGHED:
            if energy is not None and key in runs:
                name = f"EDLM on {model_label(key)}, k = {self.setting.candidates}"
                self._attempt(name, partial(self._weighed, runs[key], energy, key))

    def _attempt(self, name: str, contender: Callable[[], Contender]) -> None:
        """Its rows or, where it fails, why."""
        try:
            self._measure(name, contender())
        except (UserError, RuntimeError, ArithmeticError, MemoryError) as error:
            warn(f"{name} failed: {error}")
            self.absent.append(Absent(name, f"failed: {str(error).splitlines()[0] if str(error) else repr(error)}"))
        if self.rows:
            self.publish()

    def _trained(self, entrant: Entrant, runs: dict[str, Run]) -> Contender:
        seconds, place = 60 * self.setting.minutes, self.out / entrant.folder
        if entrant.key in COMPARED_ONLY:
            return DdpmContender(ddpm_trained_for(entrant.recipe, seconds, place, self.progress), self.setting.steps)
        run = trained_for(entrant.recipe, seconds, place, self.progress)
        runs[entrant.key] = run
        return RunContender(run, self.setting.steps)

    def _weighed(self, run: Run, energy: Run, key: str) -> Contender:
        weighed = run.with_energy(load(energy.directory.path), self.setting.candidates)
        return RunContender(weighed, self.setting.energy_steps, model_label(key), energy)

    def _measure(self, name: str, contender: Contender) -> None:
        told = named(self.progress, name)
        costly = self.setting.costly_samples if contender.costly else None
        count = self.setting.samples if costly is None else costly
        stamp = self._stamp(contender, count)
        for steps in contender.steps:
            kept = self.kept.get((name, steps))
            row = kept if kept is not None and kept.stamp == stamp else None
            self.rows.append(row or replace(self._row(name, contender, steps, count, told), stamp=stamp))
            write_json(self.out / "results.json", to_json(self.rows, self.absent))

    def _stamp(self, contender: Contender, count: int) -> str:
        reader = None if self.language is None else repr(self.language.about())
        decides = [contender.weights, count, self.setting.limit, self.setting.particles, str(self.inception), reader]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]

    def _row(self, name: str, contender: Contender, steps: int, count: int, progress: Progress) -> Row:
        if count not in self.judges:
            self.judges[count] = contender.judge(count, self.inception, self.language, progress)
        judge = self.judges[count]
        began = time.process_time()
        parts, seconds = timed_draw(contender, judge.samples, steps, progress)
        metrics = contender.judged_by(judge)(torch.cat([part.tokens for part in parts]).numpy(), steps)
        if count not in self.references:
            self.references[count] = reference_of(judge, metrics, contender.held_out)
        nats, stderr, valid = self._bound(contender, steps, progress)
        return Row(
            model=contender.model,
            name=name,
            steps=steps,
            evaluations=sum(part.evaluations for part in parts) / len(parts),
            sequences=sum(part.sequences for part in parts) / judge.samples,
            seconds=seconds / judge.samples,
            metrics=metrics.to_json(),
            measure=measure_of(metrics),
            nats=nats,
            nats_stderr=stderr,
            bound_valid=valid,
            training_steps=contender.training_steps,
            parameters=contender.parameters,
            exact_sampler=contender.exact,
            samples=judge.samples,
            reference=self.references[count],
            training_seconds=contender.training_seconds,
            measuring_seconds=time.process_time() - began,
        )

    def _bound(
        self, contender: Contender, steps: int, progress: Progress
    ) -> tuple[float | None, float | None, bool | None]:
        """Nats, standard error, and whether they bound the likelihood of this sampler."""
        for row in self.rows:  # that of a proposal is known
            if (row.name, row.steps) == (contender.proposal, steps):
                return row.nats, row.nats_stderr, False
        particles = Particles(self.setting.particles)
        found = contender.bound(BoundSettings(particles, steps=[steps], limit=self.setting.limit), progress)
        return (None, None, None) if found is None else (found.nats, found.stderr, found.valid)

    def publish(self) -> Path:
        numbers, page = to_json(self.rows, self.absent), self.out / "report.html"
        if not is_main():
            return page
        section = baselines_section(self.rows, self.absent, self.out, self.command, quoted=self.data == "toys")
        return publish(self.out, f"The zoo on {self.data}", self._introduction(), [section], numbers)

    def _introduction(self) -> str:
        measuring = sum(row.measuring_seconds for row in self.rows)
        reader = "" if self.language is None else f" Texts were read by {self.language.about().name}."
        return (
            f"Every model learned the same examples for {60 * self.setting.minutes:.3g} s of processor time; where the "
            f"prior of a latent is learned, its fit has {FIT_SHARE:.0%} of it. The likelihood of AR is exact; all "
            f"others are bounds for the sampler with T steps, and those of EDLM are its proposal's. Drawing, judging "
            f"and bounding took {measuring / 60:.1f} minutes of processor time besides.{reader}"
        )


def timed_draw(contender: Contender, count: int, steps: int, progress: Progress) -> tuple[list[Samples], float]:
    """Samples, and the processor time that they take; short draws are repeated and the fastest counts."""
    fastest, spent, drawn = float("inf"), 0.0, 0
    while not drawn or (spent < SHORT_DRAW and drawn < MOST_DRAWS):
        began = time.process_time()
        parts = contender.draw(count, steps, progress)
        taken = time.process_time() - began
        fastest, spent, drawn = min(fastest, taken), spent + taken, drawn + 1
    return parts, fastest


def reference_of(judge: Judge, metrics: Metrics, held_out: Tensor) -> float | None:
    """What held-out examples score, as many as samples or all there are."""
    if judge.real_text is not None:
        return judge.real_text.metrics.judge_bits
    if isinstance(metrics, FrechetDistance) and not judge.of_labels:  # whose floor is that of all held-out examples
        found = judge(held_out[: judge.samples].numpy(), 0)
        return found.value if isinstance(found, Distance) else None
    return metrics.floor if isinstance(metrics, Distance) else None


def measure_of(metrics: Metrics) -> str | None:
    """Which of the numbers is the one to compare by."""
    if isinstance(metrics, TextMetrics):
        return None if metrics.judge_bits is None else "judge_bits"
    return metrics.name if isinstance(metrics, Distance) else None
