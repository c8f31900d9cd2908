"""`vadd reproduce league`: what people get who train on their own data, against MDLM, on sets without any tuning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vadd.errors import UserError
from vadd.evaluation.likelihood import measure_bounds, measure_latent
from vadd.parallel import on_main_process
from vadd.progress import Progress, named
from vadd.recipe import Recipe, build_dataset
from vadd.report.figures import save_figure
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, at_steps, mean_and_spread
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.studies.comparison import Result
from vadd.studies.equal_time import processor_seconds, steps_in, timed_run, trained_for
from vadd.studies.fitting import trial_trainer
from vadd.studies.league_sets import SETS
from vadd.studies.rows import Row, RowsOfStudy, absent_notes, checksum
from vadd.studies.study import Request, Study
from vadd.studies.trainings import bound_settings, check_overrides, of_seed, place_of
from vadd.training.data import source_of
from vadd.words import one_line, suggestion

BY_STEPS = dict[int, float]
LABELS = {"vadd": "default", "mdlm": "MDLM"}


class SetRow(Row):
    """Both models on one set; what is by model has the keys vadd and mdlm."""

    kind: str
    nats: dict[str, BY_STEPS]
    """Step bounds of held-out examples."""
    stderr: dict[str, BY_STEPS]
    bound_valid: bool
    """False for padded texts: bounds given where the pads are."""
    right: dict[str, BY_STEPS]
    """The share of samples that are right by the set's own measure."""
    right_held_out: float | None = None
    latent: str | None
    grid: str
    """Chosen for MDLM."""
    seconds: dict[str, float | None]
    training_steps: dict[str, int]

    def share(self, steps: int) -> float | None:
        """Of the dependence that MDLM cannot draw at so many steps, what the default holds; None where that is no more
        than the standard error of its bound.
        """
        mdlm, ours = self.nats["mdlm"].get(steps), self.nats["vadd"].get(steps)
        best = min(nats for by_steps in self.nats.values() for nats in by_steps.values())
        if mdlm is None or ours is None or mdlm - best <= self.stderr["mdlm"][steps]:
            return None
        return (mdlm - ours) / (mdlm - best)

    def is_worse(self, steps: int) -> bool:
        """Whether the default's bound is above MDLM's, by more than the error of either."""
        if any(steps not in by_steps for by_steps in self.nats.values()):
            return False
        error = max(errors[steps] for errors in self.stderr.values())
        return self.nats["vadd"][steps] > self.nats["mdlm"][steps] + error


def compare_sets(study: Study, request: Request) -> Result:
    """Train what is missing of both models on every set, then measure them."""
    check_overrides(request.overrides, study.fixed, compared=("model", "name"))
    league = _League(study, request)
    recipes = {}
    for name in request.sets or league.setting.sets:
        if name not in SETS:
            raise UserError(f"unknown set {name!r}{suggestion(name, SETS)}; choose from {', '.join(SETS)}")
        if (lacking := SETS[name].lacking) is not None:
            why = f"the set {name} needs the package {lacking[0]}: pip install {lacking[1]}"
            if request.sets:
                raise UserError(why)
            league.leave_out(name, why)
        else:
            recipes[name] = recipe_of(name, request)
    for seed in range(request.seeds):
        for name, recipe in recipes.items():
            league.attempt(name, league.row(name, of_seed(recipe, seed), seed))
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


class _League(RowsOfStudy[SetRow]):
    row_type = SetRow

    def row(self, name: str, recipe: Recipe, seed: int) -> Iterator[SetRow]:
        progress = named(self.request.progress, name)
        ours, theirs = (self.request.out / place_of(f"{name}-{model}", seed) for model in LABELS)
        progress("the default")
        run = default_run(recipe, self.seconds, ours)
        mdlm = recipe.with_values([("model", "mdlm")])
        seconds = processor_seconds(ours) or self.seconds
        runs = {"vadd": run, "mdlm": trained_for(mdlm, seconds, theirs, progress, self.choice)}
        about = {"name": name, "seed": seed, "kind": recipe.data.kind}
        decides = [name, seed, checksum(*runs.values()), self.measuring.model_dump(mode="json")]
        yield self.once(decides, lambda: self._measured(runs, about, progress))

    def _measured(self, runs: Mapping[str, Run], about: Mapping[str, Any], progress: Progress) -> SetRow:
        settings, run, name = bound_settings(self.measuring), runs["vadd"], about["name"]
        bounds = {
            model: measure_bounds(
                each, each.data.test, replace(settings, steps=each.possible_steps(settings.steps)), progress
            ).bounds
            for model, each in runs.items()
        }
        health, right = measure_latent(run, run.data.test), {}
        if SETS[name].valid is not None:
            right = {model: self._right(name, each) for model, each in runs.items()}
        return SetRow(
            **about,
            nats={model: {bound.steps or 0: bound.nats for bound in those} for model, those in bounds.items()},
            stderr={
                model: {bound.steps or 0: bound.stderr or 0.0 for bound in those} for model, those in bounds.items()
            },
            bound_valid=all(bound.valid for those in bounds.values() for bound in those),
            right=right,
            right_held_out=share_right(name, run, run.data.test[:].numpy()) if right else None,
            latent=None if health is None else health.verdict,
            grid=runs["mdlm"].sampling.grid,
            seconds={model: processor_seconds(each.directory.path) for model, each in runs.items()},
            training_steps={model: each.recipe.training.steps for model, each in runs.items()},
        )

    def _right(self, name: str, run: Run) -> BY_STEPS:
        count, steps = self.measuring.samples, run.possible_steps(self.measuring.steps)
        return {each: share_right(name, run, run.sample(count, steps=each, seed=0).numpy()) for each in steps}

    def numbers(self) -> list[dict[str, Any]]:
        shares = [{"shares": {steps: row.share(steps) for steps in self.measuring.steps}} for row in self.rows]
        numbers = super().numbers()
        return [*(row | share for row, share in zip(numbers, shares, strict=False)), *numbers[len(shares) :]]

    def section(self) -> PageSection:
        steps = self.measuring.steps
        figure = save_figure(share_figure(self.rows, steps), self.request.out / "figures" / "shares.png")
        measures = measure_table(self.rows, steps, self.study.published.by_steps)
        tables = [share_table(self.rows, steps, self.absent), measures, nats_table(self.rows)]
        figures = [("Share of the dependence held, by set and number of steps", figure)]
        return PageSection("Sets", verdict(self.rows, steps), figures=figures, tables=tables)


def share_right(name: str, run: Run, tokens: "np.ndarray[Any, np.dtype[Any]]") -> float:
    valid = SETS[name].valid
    assert valid is not None
    return float(np.mean(valid(run.kind.decode(tokens))))


Rows = Sequence[SetRow]


def by_set(rows: Rows) -> dict[str, list[SetRow]]:
    """The seeds of each set."""
    return {name: [row for row in rows if row.name == name] for name in dict.fromkeys(row.name for row in rows)}


def mean_shares(rows: Rows, steps: int) -> dict[str, float]:
    """Of the sets that have a share."""
    shares = {
        name: [share for row in members if (share := row.share(steps)) is not None]
        for name, members in by_set(rows).items()
    }
    return {name: fmean(those) for name, those in shares.items() if those}


def verdict(rows: Rows, steps: Sequence[int]) -> str:
    sentences = []
    for count in steps:
        if means := mean_shares(rows, count):
            worst = min(means, key=lambda name: means[name])
            sentences.append(f"T = {count}: median {median(means.values()):.2f}, least {means[worst]:.2f} ({worst}).")
    worse = dict.fromkeys(row.name for row in rows if any(row.is_worse(count) for count in steps))
    behind = f" Worse than MDLM at some T, by more than a standard error: {', '.join(worse) or 'none'}."
    return f"Share of the dependence held, over {len(by_set(rows))} sets: {' '.join(sentences)}{behind}"


def share_table(rows: Rows, steps: Sequence[int], absent: Mapping[str, str]) -> Table:
    """A row for each set: the shares, and the latent."""
    cells: list[dict[str, Cell]] = []
    for name, members in by_set(rows).items():
        shares = {count: mean_and_spread((row.share(count) for row in members), "{:.2f}") for count in steps}
        latents = "; ".join(dict.fromkeys(row.latent for row in members if row.latent)) or None
        cells.append({"set": name, "kind": members[0].kind, **at_steps(shares, steps), "latent": latents})
    cells += [{"set": name} for name in absent]
    note = f"{NOTES['shares']} {verdict(rows, steps)}" + f" {NOTES['seeds']}" * any(row.seed for row in rows)
    return Table.of("Share of the dependence held", cells, note + absent_notes(absent))


def measure_table(rows: Rows, steps: Sequence[int], published: Mapping[str, Mapping[int, float]]) -> Table:
    """What share of samples is right by the set's own measure, and what others have ``published``: rows of
    "SET: SYSTEM".
    """
    cells: list[dict[str, Cell]] = []
    for name, members in by_set(rows).items():
        if not members[0].right:
            continue
        about = {"set": name, "measure": SETS[name].measure}
        for model, label in LABELS.items():
            shares = {
                count: mean_and_spread((row.right[model].get(count) for row in members), "{:.1%}") for count in steps
            }
            cells.append({**about, "model": label, **at_steps(shares, steps)})
        theirs = {row.partition(": ")[2]: shares for row, shares in published.items() if row.startswith(f"{name}: ")}
        for system, quoted in theirs.items():
            cells.append({**about, "model": system, **at_steps({n: f"{value}%" for n, value in quoted.items()}, steps)})
        held_out = mean_and_spread((row.right_held_out for row in members), "{:.1%}")
        cells.append({**about, "model": "held-out examples", **at_steps(dict.fromkeys(steps, held_out), steps)})
    return Table.of("Right by the set's own measure", cells, NOTES["published"] if published else "")


def nats_table(rows: Rows) -> Table:
    """The bounds of both models, and what their trainings took."""
    steps = sorted({count for row in rows for by_steps in row.nats.values() for count in by_steps})
    cells: list[dict[str, Cell]] = []
    for name, members in by_set(rows).items():
        for model, label in LABELS.items():
            nats = {
                count: mean_and_spread((row.nats[model].get(count) for row in members), "{:.2f}") for count in steps
            }
            facts: dict[str, Cell] = {"set": name, "model": label, **at_steps(nats, steps)}
            facts["entropy"] = SETS[name].entropy
            facts["s"] = mean_and_spread((row.seconds[model] for row in members), "{:.0f}")
            facts["training steps"] = f"{members[0].training_steps[model]:,}"
            cells.append(facts | {"grid": members[0].grid if model == "mdlm" else None})
    return Table.of("Likelihood by number of steps: nats", cells, NOTES["league_nats"])


def share_figure(rows: Rows, steps: Sequence[int]) -> Figure:
    sets = list(by_set(rows))
    figure = Figure(figsize=(7.0, 1.2 + 0.3 * len(sets)), layout="constrained")
    axis = figure.subplots()
    for count in steps:
        means = mean_shares(rows, count)
        axis.plot(list(means.values()), [sets.index(name) for name in means], "o", label=f"T = {count}", alpha=0.8)
    for place, style in ((0, "-"), (1, "--")):
        axis.axvline(place, color="#888888", linewidth=0.8, linestyle=style)
    axis.set_yticks(range(len(sets)), sets)
    axis.invert_yaxis()
    axis.set_xlabel("share of the dependence held (0: as MDLM, 1: as the best bound)")
    axis.grid(alpha=0.25)
    axis.legend(framealpha=0.85, edgecolor="none", fontsize=8)
    return figure
