"""``vadd eval``, ``vadd compare`` and ``vadd judge``."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import vadd
from vadd.cli.checks import parse_steps, parse_temperatures
from vadd.cli.commands import flag
from vadd.cli.console import out_console, show_results
from vadd.cli.syntax_sampling import Compare, Eval, Judge
from vadd.core import Particles
from vadd.data.text.corpora import TEXT_FIELD
from vadd.data.text.documents import ROW_SUFFIXES
from vadd.errors import UserError, refuse_if
from vadd.evaluation import BoundSettings, EvaluationOptions
from vadd.evaluation import evaluate as measure
from vadd.evaluation.diversity import beside_source
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.frechet import fetched_inception
from vadd.evaluation.text_features import text_features
from vadd.evaluation.zero_shot import evaluate_texts, read_examples, read_texts
from vadd.evaluation.zero_shot import zero_shot as score_corpora
from vadd.parallel import Processes, default_device, leave
from vadd.progress import Progress, progress_bar
from vadd.report.likelihood_tables import bound_table
from vadd.report.results import Results
from vadd.report.tables import files_table, samples_and_texts, source_table
from vadd.run.loading import check_same_data
from vadd.run.run import EVALUATED_STEPS, PARTICLES, Run
from vadd.studies.comparison import Measurements, Page
from vadd.studies.comparison import compare as compare_runs
from vadd.words import listed

ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT, ZERO_SHOT_PARTICLES = 32, 500, 8
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


def evaluate(options: Eval) -> None:
    folder = options.zero_shot
    refuse_if(
        (folder and options.data, "--data and --zero-shot both name the texts to score: give one of them"),
        (folder and (options.bracket or options.conventions), "--bracket and --conventions are not for --zero-shot"),
        (folder and not folder.is_dir(), f"--zero-shot takes a folder; {folder} is a file"),
    )
    given = (options.bound, options.bracket, options.delbo_particles, options.data, folder)
    bounds = _bounds(options) if options.delbo or options.conventions or given.count(None) < len(given) else None
    of_samples = (options.judge, options.nearest, options.samples, options.fid, options.inception, options.features)
    only_bounds = bounds is not None and not any(of_samples)
    steps = parse_steps(options.steps) or ([] if only_bounds else list(EVALUATED_STEPS))
    Processes()
    run = options.load().with_sampling(**options.sampling())
    refuse_if((options.score_pads and run.kind.pad is None, f"{options.run} has no pads; leave --score-pads out"))
    if options.steps is None:
        steps = run.possible_steps(steps)
    if bounds is not None and options.bound is None:
        bounds = replace(bounds, steps=run.possible_steps(bounds.steps))
    with progress_bar() as progress:
        results = _measure(run, options, steps, bounds, progress)
    for table in results.tables():
        table.print(out_console)
    options.write(results.to_json())
    leave()


def _bounds(options: Eval) -> BoundSettings:
    """With --zero-shot many sequences are scored, so that less is done for each of them."""
    many = options.zero_shot is not None
    brackets = parse_steps(options.bracket, "--bracket")
    counts = parse_steps(options.delbo_particles, "--delbo-particles")
    usual_steps = [ZERO_SHOT_STEPS] if many else [] if brackets or options.conventions else [1]
    usual_particles, usual_limit = (ZERO_SHOT_PARTICLES, ZERO_SHOT_LIMIT) if many else (PARTICLES, None)
    particles = usual_particles if options.particles is None else options.particles
    proposals: Any = {} if options.proposals == "auto" else {"proposals": tuple(options.proposals.split(","))}
    same = ("paths", "conventions", "score_pads", "given_label", "grid")
    return BoundSettings(
        Particles(particles, **proposals),
        parse_steps(options.bound, "--bound") or usual_steps,
        options.draws if options.delbo or counts or many else 0,
        options.limit or usual_limit,
        brackets=brackets,
        delbo_particles=counts,
        choose_proposals=options.proposals == "auto",
        **{name: getattr(options, name) for name in same},
    )


def _measure(run: Run, options: Eval, steps: list[int], bounds: BoundSettings | None, progress: Progress) -> Results:
    fid = options.fid or options.inception is not None
    if fid and run.kind.name != "image":
        raise UserError(f"the FID is for images; the examples of this run have the shape {run.shape}")
    folder, report = options.zero_shot, report_of(run)
    if steps or folder is None:
        judging = _judging(options, [run], progress) if steps else EvaluationOptions()
        compared_with = replace(
            judging,
            examples=None if options.data is None else read_examples(run, options.data, progress),
            inception=fetched_inception() if fid and options.inception is None else options.inception,
            nearest=options.nearest,
        )
        of_data = bounds if folder is None else None
        measured = measure(run, steps, options.samples, bounds=of_data, options=compared_with, progress=progress)
        report = measured.report
    if folder is not None and bounds is not None:
        report = report.changed(zero_shot=score_corpora(run, folder, bounds, progress))
    return Results(report.changed(step=run.step))


def compare(options: Compare) -> None:
    steps, bounds = parse_steps(options.steps), None
    if options.bound == "none":
        chosen = {"particles": Compare.particles, "limit": Compare.limit}
        unused = [flag(name) for name, usual in chosen.items() if getattr(options, name) != usual]
        refuse_if((unused, f"{' and '.join(unused)}: with --bound none there is no likelihood to estimate"))
    else:
        bounds = BoundSettings(Particles(options.particles), parse_steps(options.bound, "--bound"), limit=options.limit)
    Processes()
    runs = [vadd.load(run) for run in options.runs]
    check_same_data(runs)
    title = "Comparison of " + " and ".join(run.name for run in options.runs)
    page = Page(title, "The same measurements for every run, by number of sampling steps.")
    with progress_bar() as progress:
        measurements = Measurements(steps, options.samples, bounds, _judging(options, runs, progress))
        reports, path = compare_runs(runs, options.out, measurements, page, progress=progress)
    tables = [*samples_and_texts(reports), *([] if bounds is None else [bound_table(reports)])]
    show_results(tables, [report.to_json() for report in reports], path, options.json)
    leave()


def _judging(options: Eval | Compare, runs: Sequence[Run], progress: Progress) -> EvaluationOptions:
    temperatures = parse_temperatures(options.temperatures)
    language = options.open(runs, progress)
    features = options.features and text_features(options.features, language, default_device(), progress)
    return EvaluationOptions(language=language, features=features or None, temperatures=temperatures)


def judge(options: Judge) -> None:
    files = [*options.files, *([] if options.source is None else [options.source])]
    with_rows = [file.suffix.lower() in ROW_SUFFIXES for file in files]
    refuse_if(
        (options.features and options.source is None, "--features compares texts with those of --source: add it"),
        (options.field != TEXT_FIELD and not any(with_rows), f"--field is for {listed(sorted(ROW_SUFFIXES))}"),
        (options.documents != "line" and all(with_rows), "--documents is for .txt; rows of other files are texts"),
    )
    names = [path.name for path in options.files]
    with progress_bar() as progress:
        read = partial(read_texts, documents=options.documents, field=options.field)
        texts = [
            (path.name if names.count(path.name) == 1 else str(path), read(path, limit=options.limit))
            for path in options.files
        ]
        source = None if options.source is None else read(options.source, limit=None)
        language = options.open((), progress)
        if source is None:
            scored = [evaluate_texts(name, each, language, progress) for name, each in texts]
        else:
            features = text_features(options.features or "words", language, default_device(), progress)
            scored = beside_source(dict(texts), source, language, features, progress)
    for table in (files_table(scored), source_table({"": scored})):
        if table.rows:
            table.print(out_console)
    options.write([one.to_json() for one in scored])
