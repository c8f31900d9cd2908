"""One engine for all studies: build the recipes, train what is missing, measure, tabulate, draw and write the page.

OUT/report.html, OUT/results.json, OUT/tables.md, OUT/figures/, and a run for each training
"""

from collections.abc import Callable, Sequence

from vadd.evaluation import RunReport
from vadd.evaluation.frechet import fetch_inception, load_network
from vadd.recipe import Recipe
from vadd.report.table import Table
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.baselines import compare_zoo
from vadd.studies.choosing import chosen_recipe
from vadd.studies.comparison import Measurements, Page, Result, compare
from vadd.studies.equal_time import measure_speed
from vadd.studies.league import compare_sets
from vadd.studies.study import Request, Study, View
from vadd.studies.tables import TABLES
from vadd.studies.trainings import bound_settings, check_judges, finished_runs, measuring_of, trainings_of
from vadd.studies.zero_shot import evaluate_corpora
from vadd.training.start import check_trainable


def reproduce(study: Study, request: Request) -> Result:
    """What is wrong with the request is reported before anything is trained."""
    return ENGINES[study.engine](study, request)


def measurements_of(study: Study, request: Request, recipe: Recipe) -> Measurements:
    """What is measured; judges are loaded."""
    measuring = measuring_of(study, request)
    check_judges(request, recipe)
    inception = request.inception
    if study.needs_inception:
        inception = inception or fetch_inception()
        load_network(inception, trust=False)
    language = request.open_judge() if recipe.data.kind == "text" else None
    return Measurements(measuring.steps, measuring.samples, bound_settings(measuring), inception, language)


def compare_entries(study: Study, request: Request) -> Result:
    """Train every entry and compare the runs, each sampled in the ways of ``study.views``."""
    trainings = trainings_of(study, request)
    measurements = measurements_of(study, request, trainings[0][0])
    if study.choose is not None and request.choose:
        for recipe, _ in trainings:
            check_trainable(recipe)
        trainings = [(chosen_recipe(recipe, path, study.choose, request.progress), path) for recipe, path in trainings]
    runs = finished_runs(trainings, fit=request.fit)
    groups = [[view for view in group if request.float32 or not view.float32] for group in study.views]
    rows = [row for group in groups for run in runs for view in group if (row := viewed(run, view)) is not None]
    page = Page.of(study, recipe=trainings[0][0].name, setting=request.setting)

    def tables(reports: Sequence[RunReport], wanted: Sequence[str]) -> list[Table]:
        return [table for name in wanted for table in TABLES[name](reports, study.published)]

    reports, path = compare(
        rows, request.out, measurements, page, lambda reports: tables(reports, study.tables), request.progress
    )
    return Result(tables(reports, study.terminal or study.tables), [report.to_json() for report in reports], path)


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


ENGINES: dict[str, Callable[[Study, Request], Result]] = {
    "comparison": compare_entries,
    "zero-shot": evaluate_corpora,
    "speed": measure_speed,
    "baselines": compare_zoo,
    "league": compare_sets,
}
