"""`vadd reproduce league`: what people get who train on their own data, against MDLM, on sets without any tuning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field, computed_field
from torch import Tensor

from vadd.errors import UserError
from vadd.evaluation.likelihood import measure_bounds, measure_latent
from vadd.parallel import on_main_process
from vadd.progress import Progress, named
from vadd.recipe import Recipe
from vadd.report.figures import save_figure
from vadd.report.line_style import line_style
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, at_steps, grouped, mean_and_spread, means_at_steps
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.studies.comparison import Result, Row, RowsOfStudy, absent_notes, checksum
from vadd.studies.equal_time import default_run, trained_for
from vadd.studies.league_sets import SETS, Scorer
from vadd.studies.published_scores import PublishedTable
from vadd.studies.puzzles import Puzzles
from vadd.studies.study import Published, Request, Study
from vadd.studies.trainings import bound_settings, check_overrides, of_seed, processor_seconds
from vadd.training.data import source_of
from vadd.words import check_known, one_line

BY_STEPS = dict[int, float]
LABELS = {"vadd": "default", "mdlm": "MDLM"}
SCORED = (("molecule", "{:.4g}", "FCD"), ("puzzle", "{:.1%}", "easy"), ("table", "{:.3f}", "Shape"))
"""What is scored, how scores are written, and one of the scores."""


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
    scores: dict[str, dict[str, BY_STEPS]] = Field(default_factory=dict)
    """By measure and model, where others have published such scores."""
    scores_of_rows: dict[str, float] = Field(default_factory=dict)
    """By measure: of the training rows in place of samples."""
    right_held_out: float | None = None
    latent: str | None
    grid: str
    """Chosen for MDLM."""
    seconds: dict[str, float | None]
    training_steps: dict[str, int]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shares(self) -> dict[int, float | None]:
        """By number of steps: of the dependence that MDLM cannot draw, what the default holds; None where that is no
        more than the standard error of its bound.
        """
        ours, mdlm, errors = self.nats["vadd"], self.nats["mdlm"], self.stderr["mdlm"]
        best = min(*ours.values(), *mdlm.values())
        return {
            steps: (mdlm[steps] - ours[steps]) / (mdlm[steps] - best) if mdlm[steps] - best > errors[steps] else None
            for steps in mdlm
            if steps in ours
        }

    def is_worse(self, steps: int) -> bool:
        """Whether the default's bound is above MDLM's, by more than the error of either."""
        if any(steps not in self.nats[model] for model in LABELS):
            return False
        error = max(self.stderr[model].get(steps, 0) for model in LABELS)
        return self.nats["vadd"][steps] > self.nats["mdlm"][steps] + error


def compare_sets(study: Study, request: Request) -> Result:
    """Train what is missing of both models on every set, then measure them."""
    check_overrides(request.overrides, study.fixed, compared=("model", "name"))
    check_known("unknown set", request.sets, SETS)
    recipes, absent = {}, {}
    for name in request.sets or study.settings[request.setting].sets:
        if (lacking := SETS[name].lacking) is None:
            recipes[name] = recipe_of(name, request)
            continue
        absent[name] = f"the set {name} needs the package {lacking[0]}: pip install {lacking[1]}"
        if request.sets:
            raise UserError(absent[name])
    return _League(study, request, recipes).measured(absent)


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


class _League(RowsOfStudy[SetRow]):
    row_type = SetRow

    def parts(self, seed: int) -> Iterator[tuple[str, Iterator[SetRow]]]:
        for name, recipe in self.recipes.items():
            yield name, self._row(name, recipe, seed)

    def _row(self, name: str, recipe: Recipe, seed: int) -> Iterator[SetRow]:
        progress = named(self.request.progress, name)
        (default, ours), (mdlm, theirs) = (
            of_seed(recipe.with_values([("model", model)]), self.request.out / f"{name}-{model}", seed)
            for model in LABELS
        )
        progress("the default")
        run = default_run(default, self.seconds, ours)
        seconds = processor_seconds(ours) or self.seconds
        runs = {"vadd": run, "mdlm": trained_for(mdlm, seconds, theirs, progress, self.choice)}
        about = {"name": name, "seed": seed, "kind": recipe.data.kind}
        decides = [name, seed, checksum(*runs.values()), self.measuring.model_dump(mode="json")]
        yield self.once(decides, lambda: self._measured(runs, about, progress))

    def _measured(self, runs: Mapping[str, Run], about: Mapping[str, Any], progress: Progress) -> SetRow:
        name, measuring = about["name"], self.measuring
        run, measure, make_scorer = runs["vadd"], SETS[name].valid, SETS[name].scorer
        scorer = None if make_scorer is None else make_scorer(self.request.out / "data" / name, measuring.samples)
        row: dict[str, Any] = {"nats": {}, "stderr": {}, "scores": {}, "right": {}, "bound_valid": True}

        def right(each: Run, tokens: Tensor) -> float | None:
            return None if measure is None else float(np.mean(measure(each.kind.decode(tokens.numpy()))))

        for model, each in runs.items():
            settings = replace(bound_settings(measuring), steps=each.possible_steps(measuring.bound_steps))
            bounds = measure_bounds(each, each.data.test, settings, progress).bounds
            row["nats"][model] = {bound.steps: bound.nats for bound in bounds}
            row["stderr"][model] = {bound.steps: bound.stderr or 0 for bound in bounds}
            row["bound_valid"] &= all(bound.valid for bound in bounds)
            for count in each.possible_steps(measuring.steps):
                if measure is not None:
                    share = right(each, each.sample(measuring.samples, steps=count, seed=0))
                    row["right"].setdefault(model, {})[count] = share
                if scorer is not None:
                    progress(f"scores of {LABELS[model]}, T = {count}")
                    for what, score in scores_of(each, scorer, count).items():
                        row["scores"].setdefault(what, {}).setdefault(model, {})[count] = score
        health = measure_latent(run, run.data.test)
        return SetRow(
            **about,
            **row,
            scores_of_rows=scorer.scores_of_rows() if isinstance(scorer, PublishedTable) else {},
            right_held_out=right(run, run.data.test[:]),
            latent=None if health is None else health.verdict,
            grid=runs["mdlm"].sampling.grid,
            seconds={model: processor_seconds(each.directory.path) for model, each in runs.items()},
            training_steps={model: each.recipe.training.steps for model, each in runs.items()},
        )

    def section(self) -> PageSection:
        steps = self.measuring.steps
        figure = save_figure(share_figure(self.rows, steps), self.request.out / "figures" / "shares.png")
        measures = measure_table(self.rows, steps, self.study.published.by_steps)
        scores = score_tables(self.rows, self.study.published)
        tables = [share_table(self.rows, steps, self.absent), measures, *scores, nats_table(self.rows)]
        figures = [("Share of the dependence held, by set and number of steps", figure)]
        return PageSection("Sets", verdict(self.rows, steps), figures=figures, tables=tables)


def scores_of(run: Run, scorer: Scorer, steps: int) -> dict[str, float]:
    if isinstance(scorer, Puzzles):
        return scorer.scores(run, steps)
    return scorer.scores(run.kind.decode(run.sample(scorer.samples, steps=steps, seed=0).numpy()))


Rows = Sequence[SetRow]


def by_set(rows: Rows) -> dict[str, list[SetRow]]:
    """The seeds of each set."""
    return grouped(rows, lambda row: row.name)


def mean_shares(rows: Rows, steps: int) -> dict[str, float]:
    """Of the sets that have a share."""
    shares = {name: [row.shares.get(steps) for row in members] for name, members in by_set(rows).items()}
    known = {name: [share for share in those if share is not None] for name, those in shares.items()}
    return {name: fmean(those) for name, those in known.items() if those}


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
        shares = means_at_steps([row.shares for row in members], steps, "{:.2f}")
        latents = "; ".join(dict.fromkeys(row.latent for row in members if row.latent)) or None
        cells.append({"set": name, "kind": members[0].kind, **shares, "latent": latents})
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
        held_out = mean_and_spread((row.right_held_out for row in members), "{:.1%}")
        shown = {
            label: means_at_steps([row.right[model] for row in members], steps, "{:.1%}")
            for model, label in LABELS.items()
        }
        for row, shares in published.items():
            if row.startswith(f"{name}: "):
                quoted = {count: f"{value}%" for count, value in shares.items()}
                shown[row.removeprefix(f"{name}: ")] = at_steps(quoted, steps)
        shown["held-out examples"] = at_steps(dict.fromkeys(steps, held_out), steps)
        about = {"set": name, "measure": SETS[name].measure}
        cells += [{**about, "model": system, **shares} for system, shares in shown.items()]
    return Table.of("Right by the set's own measure", cells, NOTES["published"] if published else "")


def score_tables(rows: Rows, published: Published) -> list[Table]:
    """The scores of all samples together, beside those ``published``: rows of "SET: SYSTEM"; a table for sets with the
    same scores.
    """
    scored = grouped((row for row in rows if row.scores), lambda row: tuple(row.scores))
    return [_score_table(measures, those, published) for measures, those in scored.items()]


def _score_table(measures: Sequence[str], rows: Rows, published: Published) -> Table:
    what, form = next(each for each in SCORED if each[2] in measures)[:2]
    cells: list[dict[str, Cell]] = []
    for name, members in by_set(rows).items():
        first = next(iter(members[0].scores.values()))
        for model, count in ((model, count) for model, by_steps in first.items() for count in by_steps):
            means: dict[str, Cell] = {
                measure: mean_and_spread((row.scores[measure][model].get(count) for row in members), form)
                for measure in measures
            }
            cells.append({"set": name, "model": LABELS[model], "T": count, **means})
        if of_rows := members[0].scores_of_rows:
            shown = {measure: form.format(score) for measure, score in of_rows.items()}
            cells.append({"set": name, "model": "training rows", **shown})
        for row, values in published.rows.items():
            if row.startswith(f"{name}: "):
                quoted = dict(zip(published.columns, (f"{value:.3f}" for value in values), strict=True))
                cells.append({"set": name, "model": row.removeprefix(f"{name}: "), **quoted})
    return Table.of(f"Scores of {what}s", cells, NOTES[f"{what}_scores"])


def nats_table(rows: Rows) -> Table:
    """The bounds of both models, and what their trainings took."""
    steps = sorted({count for row in rows for by_steps in row.nats.values() for count in by_steps})
    cells: list[dict[str, Cell]] = [
        {
            "set": name,
            "model": label,
            **means_at_steps([row.nats[model] for row in members], steps, "{:.2f}"),
            "entropy": SETS[name].entropy,
            "s": mean_and_spread((row.seconds[model] for row in members), "{:.0f}"),
            "training steps": f"{members[0].training_steps[model]:,}",
            "grid": members[0].grid if model == "mdlm" else None,
        }
        for name, members in by_set(rows).items()
        for model, label in LABELS.items()
    ]
    return Table.of("Likelihood by number of steps: nats", cells, NOTES["league_nats"])


def share_figure(rows: Rows, steps: Sequence[int]) -> Figure:
    sets = list(by_set(rows))
    figure = Figure(figsize=(7.0, 1.4 + 0.36 * len(sets)), layout="constrained")
    axis = figure.subplots()
    for number, count in enumerate(steps):
        means, points = mean_shares(rows, count), line_style(number) | {"linestyle": ""}
        shift = 0.25 * (number - (len(steps) - 1) / 2)  # equal shares stand one below the other
        axis.plot(list(means.values()), [sets.index(name) + shift for name in means], label=f"T = {count}", **points)
    for place, style in ((0, "-"), (1, "--")):
        axis.axvline(place, color="#888888", linewidth=0.8, linestyle=style)
    axis.set_yticks(range(len(sets)), sets)
    axis.invert_yaxis()
    axis.set_xlabel("share of the dependence held (0: as MDLM, 1: as the best bound)")
    axis.grid(alpha=0.25, axis="x")
    figure.legend(loc="outside upper center", ncols=len(steps), frameon=False, fontsize=9)
    return figure
