"""One engine for all studies: build the recipes, train what is missing, measure, tabulate, draw and write the page.

OUT/report.html, OUT/results.json, OUT/tables.md, OUT/figures/, and a run for each training
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from vadd.data import DiscreteDataset
from vadd.data.text.named_corpora import hub_corpora
from vadd.errors import UserError
from vadd.evaluation import EvaluationOptions, RunReport
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.frechet import fetch_inception, load_network
from vadd.evaluation.zero_shot import corpora_in, recognise, zero_shot
from vadd.parallel import Processes
from vadd.progress import named, note
from vadd.recipe import differences
from vadd.recipe.loading import how_computed
from vadd.report.figures import save_figure
from vadd.report.images import grids_by_steps, tokens_to_images
from vadd.report.likelihood_tables import perplexity_cell, scored_corpora, zero_shot_notes
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, grouped, model_label, named_reports, report_names
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.baselines import compare_zoo
from vadd.studies.comparison import Measurements, Page, Result, compare, publish
from vadd.studies.equal_time import chosen_recipe
from vadd.studies.league import compare_sets
from vadd.studies.study import Published, Request, Study, View
from vadd.studies.tables import TABLES, Reports, difference_notes
from vadd.studies.trainings import bound_settings, finished_run, fitted, measuring_of, trainings_of, trial_trainer
from vadd.training.start import check_trainable
from vadd.words import check_known

SHOWN = 36
"""Images of each model of the package."""
ROUNDS = 4
"""Turns of the study of speed: what else the machine does falls on both models alike."""


def reproduce(study: Study, request: Request) -> Result:
    """What is wrong with the request is reported before anything is trained."""
    return ENGINES[study.engine](study, request)


def compare_entries(study: Study, request: Request) -> Result:
    """Train every entry and compare the runs, each sampled in the ways of ``study.views``."""
    trainings, measuring = trainings_of(study, request), measuring_of(study, request)
    first = trainings[0][0]
    page = Page.of(study, recipe=first.name, setting=request.setting)
    if study.shipped:
        page = replace(page, heading=(shipped_samples(study.shipped, request.out),))
    inception = request.inception
    if study.needs_inception:
        inception = inception or fetch_inception()
        load_network(inception, trust=False)
    language = request.open_judge() if first.data.kind == "text" else None
    if study.choose is not None and request.choose:
        for recipe, _ in trainings:
            check_trainable(recipe)
        trainings = [(chosen_recipe(recipe, path, study.choose, request.progress), path) for recipe, path in trainings]
    runs = [finished_run(recipe, path, fit=request.fit) for recipe, path in trainings]
    groups = [[view for view in group if request.float32 or not view.float32] for group in study.views]
    rows = [row for group in groups for run in runs for view in group if (row := viewed(run, view)) is not None]

    def tables(reports: Sequence[RunReport], wanted: Sequence[str] = study.tables) -> list[Table]:
        return [table for name in wanted for table in TABLES[name](reports, study.published)]

    options = EvaluationOptions(inception=inception, language=language)
    measurements = Measurements(measuring.steps, measuring.samples, bound_settings(measuring), options)
    reports, path = compare(rows, request.out, measurements, page, tables, request.progress)
    return Result(tables(reports, study.terminal or study.tables), [report.to_json() for report in reports], path)


def shipped_samples(names: Sequence[str], out: Path) -> PageSection:
    """Images that models of the package draw in one step."""
    grids = {}
    for run in map(load, names):
        images = tokens_to_images(run.sample(SHOWN, steps=1).numpy(), run.shape, run.kind.vocab_size)
        grids[model_label(run.recipe.model)] = [("1 step", images)]
    picture = save_figure(grids_by_steps(grids), out / "figures" / "shipped.png")
    note(f"{' and '.join(names)} in one step: {picture}")
    return PageSection("Models of the package", NOTES["shipped"], [("Images drawn in one step", picture)])


def viewed(run: Run, view: View) -> Run | None:
    """The run, sampled so; None where the model cannot be, or where its recipe already says so."""
    if view.float32:
        return run.with_sampling(precision="float32")
    recipe = run.recipe
    if view.prior == "flow" and recipe.has_latent:
        run = load(run.directory.path, prior="flow")
    if view.latent_policy is None:
        return run
    if not recipe.has_latent or (view.latent_policy == "resample" and recipe.latent.kind != "per-state"):
        return None
    if view.prior == "trained":
        run = load(run.directory.path, prior="trained")
    elif run.sampling.latent_policy == view.latent_policy:
        return None
    return run.with_sampling(latent_policy=view.latent_policy)


def evaluate_corpora(study: Study, request: Request) -> Result:
    """The runs of ``vadd reproduce text`` in the same directory, or those that the user names, on corpora that models
    of OpenWebText have not learnt from.
    """
    assert request.corpora is not None
    if request.runs and request.overrides:
        raise UserError("changes to a recipe are for runs that the study trains, not for --run")
    check_known("unknown corpus", request.only or (), study.published.columns)
    paths = copies_of(request.corpora, request.only or study.published.columns)
    settings = bound_settings(measuring_of(study, request))
    trainings = [] if request.runs else trainings_of(study, request)
    runs = [*map(load, request.runs), *(finished_run(recipe, path, fit=request.fit) for recipe, path in trainings)]
    reports = [report_of(run) for run in runs]
    for number, (name, run) in enumerate(zip(report_names(reports), runs, strict=True)):
        corpora = zero_shot(run, paths, settings, named(request.progress, name))
        reports[number] = reports[number].changed(zero_shot=corpora, step=run.step)
    section = PageSection("Perplexity by corpus", tables=zero_shot_tables(reports, study.published))
    return publish(request.out / "zero-shot", Page.of(study), section, [report.to_json() for report in reports])


def copies_of(folder: Path, names: Sequence[str]) -> list[Path]:
    """The files of the corpora; missing ones are named, with how to get them, before anything is trained."""
    copies: Mapping[str, Path] = {recognise(path): path for path in reversed(corpora_in(folder))}
    missing = [name for name in names if name not in copies]
    if missing:
        places = ", ".join(f"{name} ({hub_corpora()[name].repository} on the hub)" for name in missing)
        raise UserError(
            f"there is no copy of {places} in {folder}: put each there as a .txt with a document a line, a .jsonl or a "
            f".csv whose name begins like {missing[0]}, or name those that you have with --only"
        )
    return [copies[name] for name in names]


def zero_shot_tables(reports: Reports, published: Published) -> list[Table]:
    """Ours, and the paper's: in one table where they read the same text in the same tokens, in several else."""
    corpora = [corpus.read_as for corpus in scored_corpora(reports[0])]
    quoted = {name: dict(zip(published.columns, values, strict=True)) for name, values in published.rows.items()}

    def table(title: str, rows: Mapping[str, Mapping[str, Cell]], note: str) -> Table:
        cells = [[name, *(row.get(corpus) for corpus in corpora)] for name, row in rows.items()]
        return Table(title, ["", *corpora], cells, note)

    tables, quoted_apart = [], True
    for members in grouped(named_reports(reports), lambda named: _reading(named[1])).values():
        rows: dict[str, Mapping[str, Cell]] = {}
        for name, report in members:
            rows |= _perplexities(name, report)
        evaluated = scored_corpora(members[0][1])
        rows["sequences evaluated"] = {one.read_as: one.likelihood.bounds[-1].examples for one in evaluated}
        unit = " or ".join({str(corpus.likelihood.unit) for corpus in evaluated})
        if all(report.published_recipe == published.recipe for _, report in members):
            quoted_apart, rows, unit = False, rows | quoted, "token of GPT-2"
        files = ", ".join(f"{corpus.read_as} from {corpus.corpus}" for corpus in evaluated)
        splits = ", ".join(f"{name} {hub_corpora()[name].test}" for name in published.columns)
        notes = [NOTES["zero_shot"].format(files=files, splits=splits), *zero_shot_notes(members[0][1])]
        notes += difference_notes([report for _, report in members])
        tables.append(table(f"Zero-shot perplexity per {unit}", rows, " ".join(notes)))
    if quoted_apart:
        tables.append(table("The paper's zero-shot perplexities", quoted, NOTES["papers_zero_shot"]))
    return tables


def _reading(report: RunReport) -> tuple[object, ...]:
    """What two runs must share for their perplexities to compare: the text as they read it, and what they score."""
    corpora = scored_corpora(report)
    readings = {(one.likelihood.unit, one.spelled_like, one.likelihood.scores_pads) for one in corpora}
    return (report.values, *sorted(readings, key=str))


def _perplexities(name: str, report: RunReport) -> dict[str, dict[str, Cell]]:
    """By what the number is and by corpus."""
    rows: dict[str, dict[str, Cell]] = {}
    for corpus in scored_corpora(report):
        for what, number in corpus.likelihood.named:
            facts = [name + ": " + what.removeprefix("the paper's ")]
            facts += [] if number.proposals is None or "K = " in what else [f"K = {number.particles}"]
            facts += [] if number.draws is None else [f"{number.draws} masks"]
            facts += ["not a bound"] if "DELBO" in what else []
            rows.setdefault(", ".join(facts), {})[corpus.read_as] = perplexity_cell(number)
    return rows


def measure_speed(study: Study, request: Request) -> Result:
    """Steps of both models in turns, on random examples of the recipe's format. With ``fit`` both are computed as it
    takes for the larger one to fit into memory.
    """
    recipes = [recipe for recipe, _ in trainings_of(study, request)]
    for recipe in recipes:
        check_trainable(recipe)
    kind, generator, processes = recipes[0].data.example_kind(), torch.Generator().manual_seed(0), Processes()
    examples = torch.randint(kind.vocab_size, (recipes[0].training.batch, kind.positions), generator=generator)
    data = DiscreteDataset(recipes[0].name, kind.vocab_size, kind.shape, examples, examples[:1], pad=kind.pad)
    if request.fit:
        mdlm, vadd = recipes
        chosen = fitted(vadd, data, other=mdlm)
        recipes = [mdlm.with_values((key, new) for key, (_, new) in differences(vadd, chosen).items()), chosen]
    each_round = -(-request.timed_steps // ROUNDS)
    seconds = [0.0 for _ in recipes]
    with ExitStack() as stack:
        trainers = [stack.enter_context(trial_trainer(recipe, data)) for recipe in recipes]
        for turn, (number, trainer) in product(range(ROUNDS + 1), enumerate(trainers)):
            request.progress(f"round {turn} of {ROUNDS}: {model_label(trainer.recipe.model)}")
            began = time.perf_counter()
            for step in range(turn * each_round, (turn + 1) * each_round):
                result = trainer.step(step)
            result.loss.detach().item()  # waits for the device
            if turn > 0:  # the first is to warm up
                seconds[number] += time.perf_counter() - began
    speeds = [
        {
            "model": recipe.model,
            "recipe": recipe.name,
            "batch": recipe.training.batch,
            "steps": ROUNDS * each_round,
            "steps_per_second": ROUNDS * each_round / passed,
            "device": processes.device.type,
            "processes": processes.count,
            "how_computed": list(how_computed(recipe)),
        }
        for recipe, passed in zip(recipes, seconds, strict=True)
    ]
    section = PageSection("Iterations per second", tables=[speed_table(speeds, study.published)])
    return publish(request.out, Page.of(study), section, speeds)


def speed_table(speeds: Sequence[dict[str, Any]], published: Published) -> Table:
    """Ours and the paper's, each with its ratio to its own MDLM: the machines are not the same."""
    first = speeds[0]
    theirs = {name: value for name, (value, *_) in published.rows.items() if value is not None}
    rows: list[dict[str, Cell]] = [
        {
            "": model_label(speed["model"]),
            "it/s": f"{speed['steps_per_second']:.3g}",
            "of MDLM's": f"{speed['steps_per_second'] / first['steps_per_second']:.2f}",
            "batch": speed["batch"],
            "devices": f"{speed['processes']} x {speed['device']}",
        }
        for speed in speeds
    ]
    for name, value in theirs.items():
        papers: dict[str, Cell] = {"it/s": f"{value:.2f}", "of MDLM's": f"{value / theirs['MDLM']:.2f}", "batch": 512}
        rows.append({"": f"{name}, the paper", **papers, "devices": "not said"})
    note = NOTES["speed"].format(**first)
    note += f" Computed with {', '.join(first['how_computed'])}." if first["how_computed"] else ""
    return Table.of("Training speed", rows, note)


ENGINES: dict[str, Callable[[Study, Request], Result]] = {
    "comparison": compare_entries,
    "zero-shot": evaluate_corpora,
    "speed": measure_speed,
    "baselines": compare_zoo,
    "league": compare_sets,
}
