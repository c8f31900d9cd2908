"""`vadd reproduce league`: what people get who train on their own data, against MDLM, on sets without any tuning.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures/shares.png  OUT/data, and two runs for each set

Everything is written anew after each set. What was trained and measured before is kept; a set that fails is named in
the tables and does not stop the others.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, ValidationError

from vadd.errors import UserError
from vadd.evaluation.likelihood import measure_bounds, measure_latent
from vadd.files import write_json
from vadd.parallel import on_main_process
from vadd.parsing import read_json
from vadd.progress import named, note, warn
from vadd.recipe import Recipe, build_dataset
from vadd.report.figures import save_figure
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.equal_time import processor_seconds, steps_in, timed_run, trained_for
from vadd.studies.fitting import trial_trainer
from vadd.studies.league_sets import SETS
from vadd.studies.study import Request, Study
from vadd.studies.tables import SEEDS_NOTE
from vadd.studies.trainings import bound_settings, check_overrides, measuring_of, of_seed, place_of
from vadd.studies.zoo import Trained
from vadd.training.data import source_of
from vadd.words import one_line, suggestion

BY_STEPS = dict[int, float]
KEPT = "league.json"
"""In the run of the default: what was measured of it and of MDLM."""


class SetRow(BaseModel):
    """Both models on one set; what is by model has the keys vadd and mdlm."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: str
    seed: int
    nats: dict[str, BY_STEPS]
    """Step bounds of held-out examples."""
    stderr: dict[str, dict[int, float | None]]
    bound_valid: bool
    """False for padded texts: bounds given where the pads are."""
    right: dict[str, BY_STEPS] = {}
    """The share of samples that are right by the set's own measure."""
    right_held_out: float | None = None
    latent: str | None
    grid: str
    """Chosen for MDLM."""
    seconds: dict[str, float | None]
    training_steps: dict[str, int]
    stamp: str

    def share(self, steps: int) -> float | None:
        """Of the dependence that MDLM cannot draw at so many steps, what the default holds; None where that is no more
        than the standard error of its bound.
        """
        mdlm, ours = self.nats["mdlm"].get(steps), self.nats["vadd"].get(steps)
        best = min(nats for by_steps in self.nats.values() for nats in by_steps.values())
        if mdlm is None or ours is None or mdlm - best <= (self.stderr["mdlm"][steps] or 0.0):
            return None
        return (mdlm - ours) / (mdlm - best)

    def is_worse(self, steps: int) -> bool:
        """Whether the default's bound is above MDLM's, by more than the error of either."""
        if any(steps not in by_steps for by_steps in self.nats.values()):
            return False
        error = max(errors[steps] or 0.0 for errors in self.stderr.values())
        return self.nats["vadd"][steps] > self.nats["mdlm"][steps] + error


def compare_sets(study: Study, request: Request) -> Result:
    """Train what is missing of both models on every set, then measure them."""
    check_overrides(request.overrides, study.fixed, compared=("model", "name"))
    league = _League(study, request)
    names = request.sets or study.settings[request.setting].sets
    for name in names:
        if name not in SETS:
            raise UserError(f"unknown set {name!r}{suggestion(name, SETS)}; choose from {', '.join(SETS)}")
        try:
            SETS[name].check_installed(name)
        except UserError as error:
            if request.sets:
                raise
            note(f"left out: {error}")
            league.absent[name] = str(error)
    recipes = {name: recipe_of(name, request) for name in dict.fromkeys(names) if name not in league.absent}
    for seed in range(request.seeds):
        for name, recipe in recipes.items():
            league.attempt(name, of_seed(recipe, seed), seed)
    if not league.rows:
        raise UserError(f"no set could be trained and measured: {list(league.absent.values())[-1]}")
    return league.publish()


def recipe_of(name: str, request: Request) -> Recipe:
    """What the data get by default; they are written below ``--out``."""
    request.progress(f"the data of {name}")
    directory = RunDirectory(request.out / "data" / name)
    try:
        data = SETS[name].make(np.random.default_rng(0), directory.path)
    except (ImportError, AttributeError, LookupError, OSError) as error:  # another version of a package
        raise UserError(f"the set {name} cannot be made: {one_line(str(error))}") from None
    labelled = isinstance(data, Path)
    source = source_of(data, reading={"labels": labelled})
    directory.path.mkdir(parents=True, exist_ok=True)
    on_main_process(partial(source.keep, directory))
    labels = ["data.labels=true"] if labelled else []
    return source.recipe(directory).with_overrides([*labels, *request.overrides])


def default_run(recipe: Recipe, seconds: float, path: Path) -> Run:
    """Trained as long as the default says, at most so many ``seconds`` of processor time."""
    directory = RunDirectory(path)
    if directory.is_run():
        steps = directory.recipe().training.steps
    else:
        with trial_trainer(recipe, build_dataset(recipe)) as trainer:
            steps = min(recipe.training.steps, steps_in(trainer.step, seconds))
    return timed_run(recipe.with_values([("training.steps", steps)]), path)


class _League:
    def __init__(self, study: Study, request: Request) -> None:
        self.study, self.request = study, request
        self.measuring = measuring_of(study, request)
        self.minutes = study.settings[request.setting].minutes if request.minutes is None else request.minutes
        self.rows: list[SetRow] = []
        self.absent: dict[str, str] = {}

    def attempt(self, name: str, recipe: Recipe, seed: int) -> None:
        """Its row or, where it fails, why."""
        try:
            self.rows.append(self._row(name, recipe, seed))
        except (UserError, RuntimeError, ArithmeticError, MemoryError) as error:
            warn(f"{name} failed: {error}")
            self.absent[name] = f"failed: {next(iter(str(error).splitlines()), repr(error))}"
        if self.rows:
            self.publish()

    def _row(self, name: str, recipe: Recipe, seed: int) -> SetRow:
        progress = named(self.request.progress, name)
        ours, theirs = (self.request.out / place_of(f"{name}-{model}", seed) for model in ("vadd", "mdlm"))
        progress("the default")
        run = default_run(recipe, 60 * self.minutes, ours)
        mdlm = recipe.with_values([("model", "mdlm")])
        seconds = processor_seconds(ours) or 60 * self.minutes
        runs = {"vadd": run, "mdlm": trained_for(mdlm, seconds, theirs, progress, self.study.choose)}
        checksums = [Trained(each, ()).checksum for each in runs.values()]
        stamp = hashlib.sha256("".join([*checksums, self.measuring.model_dump_json()]).encode()).hexdigest()[:16]
        kept = row_kept(ours / KEPT)
        if kept is not None and kept.stamp == stamp:
            return kept
        settings, valid = bound_settings(self.measuring), SETS[name].valid
        bounds = {
            model: measure_bounds(
                each, each.data.test, replace(settings, steps=each.possible_steps(settings.steps)), progress
            ).bounds
            for model, each in runs.items()
        }
        health = measure_latent(run, run.data.test)
        row = SetRow(
            name=name,
            kind=recipe.data.kind,
            seed=seed,
            nats={model: {bound.steps or 0: bound.nats for bound in those} for model, those in bounds.items()},
            stderr={
                model: {bound.steps or 0: bound.stderr or 0.0 for bound in those} for model, those in bounds.items()
            },
            bound_valid=all(bound.valid for those in bounds.values() for bound in those),
            right={} if valid is None else {model: self._right(name, each) for model, each in runs.items()},
            right_held_out=None if valid is None else share_right(name, run, run.data.test[:].numpy()),
            latent=None if health is None else health.verdict,
            grid=runs["mdlm"].sampling.grid,
            seconds={model: processor_seconds(each.directory.path) for model, each in runs.items()},
            training_steps={model: each.recipe.training.steps for model, each in runs.items()},
            stamp=stamp,
        )
        on_main_process(lambda: write_json(ours / KEPT, row.model_dump(mode="json")))
        return row

    def _right(self, name: str, run: Run) -> BY_STEPS:
        count, steps = self.measuring.samples, run.possible_steps(self.measuring.steps)
        return {each: share_right(name, run, run.sample(count, steps=each, seed=0).numpy()) for each in steps}

    def publish(self) -> Result:
        setting, out, steps = self.request.setting, self.request.out, self.measuring.steps
        figure = save_figure(share_figure(self.rows, steps), out / "figures" / "shares.png")
        section = PageSection(
            "Sets",
            verdict(self.rows, steps),
            figures=[("Share of the dependence held, by set and number of steps", figure)],
            tables=[share_table(self.rows, steps, self.absent), nats_table(self.rows)],
        )
        numbers = [
            row.model_dump(mode="json") | {"shares": {count: row.share(count) for count in steps}} for row in self.rows
        ]
        numbers += [{"name": name, "absent": why} for name, why in self.absent.items()]
        return publish(out, Page.of(self.study, setting=setting), section, numbers)


def share_right(name: str, run: Run, tokens: "np.ndarray[Any, np.dtype[Any]]") -> float:
    valid = SETS[name].valid
    assert valid is not None
    return float(np.mean(valid(run.kind.decode(tokens))))


def row_kept(file: Path) -> SetRow | None:
    """What was measured before; what cannot be read is measured again."""
    try:
        return SetRow(**read_json(file))
    except (OSError, ValueError, TypeError, ValidationError):
        return None


Rows = Sequence[SetRow]


def by_set(rows: Rows) -> dict[str, list[SetRow]]:
    """The seeds of each set."""
    return {name: [row for row in rows if row.name == name] for name in dict.fromkeys(row.name for row in rows)}


def shares_of(members: Rows, steps: int) -> list[float]:
    return [share for row in members if (share := row.share(steps)) is not None]


def spread(values: Sequence[float], form: str) -> Cell:
    """Their mean and, of several, half of what they differ by."""
    if not values:
        return None
    return form.format(fmean(values)) + (f" ± {(max(values) - min(values)) / 2:.1g}" if len(values) > 1 else "")


def verdict(rows: Rows, steps: Sequence[int]) -> str:
    sentences = []
    for count in steps:
        means = {name: fmean(shares) for name, members in by_set(rows).items() if (shares := shares_of(members, count))}
        if means:
            worst = min(means, key=lambda name: means[name])
            sentences.append(f"T = {count}: median {median(means.values()):.2f}, least {means[worst]:.2f} ({worst}).")
    worse = dict.fromkeys(row.name for row in rows if any(row.is_worse(count) for count in steps))
    behind = f" Worse than MDLM at some T, by more than a standard error: {', '.join(worse) or 'none'}."
    return f"Share of the dependence held, over {len(by_set(rows))} sets: {' '.join(sentences)}{behind}"


def share_table(rows: Rows, steps: Sequence[int], absent: Mapping[str, str]) -> Table:
    """A row for each set: the shares, the latent, and the set's own measure of one-step samples."""
    cells: list[list[Cell]] = []
    for name, members in by_set(rows).items():
        right = [
            spread([row.right[model][min(row.right[model])] for row in members if model in row.right], "{:.1%}")
            for model in ("vadd", "mdlm")
        ]
        held_out = spread([row.right_held_out for row in members if row.right_held_out is not None], "{:.1%}")
        latents = "; ".join(dict.fromkeys(row.latent for row in members if row.latent)) or None
        shares = [spread(shares_of(members, count), "{:.2f}") for count in steps]
        cells.append([name, members[0].kind, *shares, latents, SETS[name].measure or None, *right, held_out])
    cells += [[name, *[None] * (len(steps) + 6)] for name in absent]
    note = (
        "T: sampling steps. Share: what MDLM's bound at T is above the default's, over what it is above the best bound "
        "of either at any T that was measured; 1 is all of the dependence between positions, below 0 the default is "
        "worse than MDLM; - where MDLM is within a standard error of the best. Measure: what samples drawn in the "
        f"fewest steps are, in the share of the columns after it. {verdict(rows, steps)}"
    )
    note += f" {SEEDS_NOTE}" if any(row.seed for row in rows) else ""
    note += "".join(f" {name}: {why}." for name, why in absent.items())
    columns = ["set", "kind", *(f"T = {count}" for count in steps), "latent", "measure", "default", "MDLM", "data"]
    return Table("Share of the dependence held", columns, cells, note)


def nats_table(rows: Rows) -> Table:
    """The bounds of both models, and what their trainings took."""
    steps = sorted({count for row in rows for by_steps in row.nats.values() for count in by_steps})
    cells: list[list[Cell]] = []
    for name, members in by_set(rows).items():
        for model, label in (("vadd", "default"), ("mdlm", "MDLM")):
            nats = [
                spread([row.nats[model][count] for row in members if count in row.nats[model]], "{:.2f}")
                for count in steps
            ]
            spent = spread([seconds for row in members if (seconds := row.seconds[model]) is not None], "{:.0f}")
            grid = members[0].grid if model == "mdlm" else None
            length = f"{members[0].training_steps[model]:,}"
            cells.append([name, label, *nats, SETS[name].entropy, spent, length, grid])
    note = (
        "Nats of a held-out example, upper bounds under the sampler with T steps; of texts, given where their pads "
        "are. Entropy: of the law that made the data, where it is known. s: processor time of the training; MDLM has "
        "as much as the default took, in each of its trainings, and the grid and length that bounded training examples "
        "set aside best."
    )
    columns = ["set", "model", *(f"T = {count}" for count in steps), "entropy", "s", "training steps", "grid"]
    return Table("Likelihood by number of steps: nats", columns, cells, note)


def share_figure(rows: Rows, steps: Sequence[int]) -> Figure:
    sets = by_set(rows)
    figure = Figure(figsize=(7.0, 1.2 + 0.3 * len(sets)), layout="constrained")
    axis = figure.subplots()
    for count in steps:
        points = [(fmean(shares), y) for y, each in enumerate(sets.values()) if (shares := shares_of(each, count))]
        axis.plot([x for x, _ in points], [y for _, y in points], "o", label=f"T = {count}", alpha=0.8)
    for place, style in ((0, "-"), (1, "--")):
        axis.axvline(place, color="#888888", linewidth=0.8, linestyle=style)
    axis.set_yticks(range(len(sets)), list(sets))
    axis.invert_yaxis()
    axis.set_xlabel("share of the dependence held (0: as MDLM, 1: as the best bound)")
    axis.grid(alpha=0.25)
    axis.legend(framealpha=0.85, edgecolor="none", fontsize=8)
    return figure
