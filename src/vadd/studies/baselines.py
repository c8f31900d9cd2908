"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures/quality.png, and a run for each model
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.judge import Judge
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.metrics import Distance, Metrics, TextMetrics
from vadd.files import write_json
from vadd.progress import Progress, named, note
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, load_recipe, suggestion
from vadd.report.tables import model_label
from vadd.runs.run import Run, load
from vadd.studies.baseline_page import Row, baselines_section
from vadd.studies.contenders import Contender, DdpmContender, RunContender
from vadd.studies.ddpm import check_installed, ddpm_trained_for
from vadd.studies.ensure import COMPARED, check_overrides
from vadd.studies.equal_time import trained_for
from vadd.studies.measuring import command_line
from vadd.studies.publishing import publish

BaselineData = Literal["toys", "digits", "mnist", "cifar10", "text"]


@dataclass(frozen=True)
class Setting:
    """What is compared on one kind of data."""

    recipe: str
    minutes: float
    """Processor time of each training."""
    samples: int
    steps: tuple[int, ...]
    limit: int
    """Held-out examples whose likelihood is bounded."""
    particles: int = 64
    candidates: int = 8
    """Of the energy's rows."""
    energy_steps: tuple[int, ...] = (1,)
    """Those of ``steps`` that are also weighed by an energy, which takes a hundred times as long."""


SETTINGS: dict[BaselineData, Setting] = {
    "toys": Setting("checkerboard", 1.5, 20_000, (1, 2, 5, 20), 500, energy_steps=(1, 2, 5, 20)),
    "digits": Setting("digits-per-state", 2.0, 1_000, (1, 2, 5, 20), 200, energy_steps=(1, 5)),
    "mnist": Setting("mnist-per-state", 2.0, 500, (1, 5, 20), 50, particles=16, candidates=4),
    "cifar10": Setting("cifar10-per-state", 2.0, 200, (1, 5, 20), 20, particles=16, candidates=2),
    "text": Setting("text8-per-state", 2.5, 64, (1, 4, 16, 64), 32, particles=16, energy_steps=(1, 4, 16)),
}
IMAGES = ("digits", "mnist", "cifar10")
TRAINED = tuple(name for name in MODELS if name != "edlm")
"""EDLM is two of these together."""
SET_BY_TIME = ("steps", "evaluate_every", "checkpoint_every", "keep_checkpoints")
FIXED = (*COMPARED, *(f"training.{key}" for key in SET_BY_TIME))


@dataclass(frozen=True)
class Baselines:
    rows: list[Row]
    page: Path

    def to_json(self) -> list[dict[str, Any]]:
        return [_json(row) for row in self.rows]


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
    recipes = _recipes(data, setting, models, overrides)
    seconds = 60 * (setting.minutes if minutes is None else minutes)
    contenders = _trained(recipes, setting, seconds, out, progress)
    rows: list[Row] = []
    judge: Judge | None = None
    for name, contender in contenders.items():
        told = named(progress, name)
        judge = judge or contender.judge(samples or setting.samples, inception, language, told)
        for each in contender.steps:
            rows.append(_row(name, contender, each, contender.judged_by(judge), setting, told))
            write_json(out / "results.json", [_json(row) for row in rows])
    introduction = (
        f"Every model learned the same examples for {seconds / 60:.1f} minutes of processor time. The likelihood of AR "
        "is exact; all others are bounds for the sampler with T steps, and those of EDLM are its proposal's."
    )
    if any(recipe.has_latent and recipe.latent.prior != "normal" for recipe in recipes.values()):
        introduction += " The prior of a latent is fitted afterwards, and takes its time besides."
    section = baselines_section(rows, out, command, quoted=data == "toys")
    numbers = [_json(row) for row in rows]
    return Baselines(rows, publish(out, f"The zoo on {data}", introduction, [section], numbers))


def _recipes(
    data: BaselineData, setting: Setting, models: Sequence[str], overrides: Sequence[str]
) -> dict[str, Recipe]:
    """By model, all of them before the first is trained: what is wrong shows at once."""
    check_overrides(overrides, FIXED)
    every = (*TRAINED, *COMPARED_ONLY)
    for name in models:
        if name not in every:
            raise UserError(f"unknown model {name!r}{suggestion(name, every)}; choose from {', '.join(every)}")
    chosen = list(models or every)
    for name in COMPARED_ONLY:
        if name not in chosen:
            continue
        try:
            if data not in IMAGES:
                raise UserError(f"{model_label(name)} is for images; --data {data} has none")
            check_installed()
        except UserError as error:
            if models:
                raise
            note(f"{model_label(name)} is left out: {error}")
            chosen.remove(name)
    return {
        name: load_recipe(setting.recipe).with_overrides(
            [f"model={'mdlm' if name in COMPARED_ONLY else name}", *overrides]
        )
        for name in chosen
    }


def _trained(
    recipes: dict[str, Recipe], setting: Setting, seconds: float, out: Path, progress: Progress
) -> dict[str, Contender]:
    runs: dict[str, Run] = {}
    others: dict[str, Contender] = {}
    for name, recipe in recipes.items():
        place = out / f"{setting.recipe}-{name}"
        if name in COMPARED_ONLY:
            trained = ddpm_trained_for(recipe, seconds, place, progress)
            others[model_label(name)] = DdpmContender(trained, setting.steps)
        else:
            runs[model_label(name)] = trained_for(recipe, seconds, place, progress)
    weighed = _weighed(runs, setting.candidates)
    return {
        **{name: RunContender(run, setting.steps) for name, run in runs.items()},
        **{name: RunContender(run, setting.energy_steps) for name, run in weighed.items()},
        **others,
    }


def _weighed(runs: dict[str, Run], candidates: int) -> dict[str, Run]:
    """Masked runs with the autoregressive one as their energy."""
    energy = runs.get(model_label("ar"))
    bases = [name for name in ("mdlm", "vadd") if model_label(name) in runs]
    if energy is None:
        return {}
    return {
        f"EDLM on {model_label(name)}, k = {candidates}": runs[model_label(name)].with_energy(
            load(energy.directory.path), candidates
        )
        for name in bases
    }


def _row(name: str, contender: Contender, steps: int, judge: Judge, setting: Setting, progress: Progress) -> Row:
    began = time.process_time()
    parts = contender.draw(judge.samples, steps, progress)
    seconds = (time.process_time() - began) / judge.samples
    metrics = judge(torch.cat([part.tokens for part in parts]).numpy(), steps)
    settings = BoundSettings(Particles(setting.particles), steps=[steps], limit=setting.limit)
    bound = contender.bound(settings, progress)
    return Row(
        model=contender.model,
        name=name,
        steps=steps,
        evaluations=sum(part.evaluations for part in parts) / len(parts),
        sequences=sum(part.sequences for part in parts) / judge.samples,
        seconds=seconds,
        metrics=metrics.to_json(),
        measure=measure_of(metrics),
        nats=None if bound is None else bound.nats,
        nats_stderr=None if bound is None else bound.stderr,
        bound_valid=None if bound is None else bound.valid,
        training_steps=contender.training_steps,
        parameters=contender.parameters,
        exact_sampler=contender.exact,
    )


def measure_of(metrics: Metrics) -> str | None:
    """Which of the numbers is the one to compare by."""
    if isinstance(metrics, TextMetrics):
        return None if metrics.judge_bits is None else "judge_bits"
    return metrics.name if isinstance(metrics, Distance) else None


def _json(row: Row) -> dict[str, Any]:
    return asdict(row) | {"quality": row.quality}
