"""``vadd eval``, ``vadd compare`` and ``vadd judge``."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import vadd
from vadd.cli.console import err_console, out_console, show_results
from vadd.cli.options import parse_steps
from vadd.cli.syntax_sampling import Compare, Eval, Judge, JudgeOptions
from vadd.core import Particles
from vadd.errors import UserError, refuse_if
from vadd.evaluation import BoundSettings, EvaluationOptions
from vadd.evaluation import evaluate as measure
from vadd.evaluation.diversity import against, with_controls
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.frechet import fetched_inception
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import AgainstSource
from vadd.evaluation.zero_shot import evaluate_texts, read_examples, read_texts
from vadd.evaluation.zero_shot import zero_shot as score_corpora
from vadd.parallel import Processes, default_device, leave
from vadd.progress import Progress, progress_bar
from vadd.report.likelihood_tables import bound_table
from vadd.report.results import Results
from vadd.report.tables import files_table, quality_table, source_table
from vadd.run.loading import check_same_data
from vadd.run.run import Run
from vadd.studies.comparison import Measurements, Page
from vadd.studies.comparison import compare as compare_runs

DEFAULT_STEPS = "1,2,5,20"
PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
SAMPLING = ("latent_policy", "sampler", "temperature", "top_k", "top_p")
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


def evaluate(options: Eval) -> None:
    folder = options.zero_shot
    refuse_if(
        (folder and options.data, "--data and --zero-shot both name the texts to score: give one of them"),
        (folder and not folder.is_dir(), f"--zero-shot takes a folder; {folder} is a file"),
    )
    steps, bounds = _steps(options), _bounds(options)
    Processes()
    run = options.load(options.checkpoint)
    run = run.with_sampling(**{name: getattr(options, name) for name in SAMPLING})
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


def _bounds_asked(options: Eval) -> bool:
    given = (options.bound, options.bracket, options.delbo_particles, options.data, options.zero_shot)
    return options.delbo or options.conventions or any(option is not None for option in given)


def _steps(options: Eval) -> list[int]:
    """Numbers of steps to sample with; none where only bounds were asked for."""
    if options.steps is None and _bounds_asked(options) and options.judge is None and not options.nearest:
        return []
    return parse_steps(DEFAULT_STEPS if options.steps is None else options.steps)


def _bounds(options: Eval) -> BoundSettings | None:
    """With --zero-shot many sequences are scored, so that less is done for each of them."""
    if not _bounds_asked(options):
        return None
    many = options.zero_shot is not None
    counts = [] if options.delbo_particles is None else parse_steps(options.delbo_particles, "--delbo-particles")
    particles = options.particles if options.particles is not None else ZERO_SHOT_PARTICLES if many else PARTICLES
    proposals: Any = {} if options.proposals == "auto" else {"proposals": tuple(options.proposals.split(","))}
    return BoundSettings(
        Particles(particles, **proposals),
        steps=_bound_steps(options),
        brackets=[] if options.bracket is None else parse_steps(options.bracket, "--bracket"),
        paths=options.paths,
        conventions=options.conventions,
        delbo_draws=options.draws if options.delbo or counts or many else 0,
        delbo_particles=counts,
        limit=ZERO_SHOT_LIMIT if many and options.limit is None else options.limit,
        score_pads=options.score_pads,
        given_label=options.given_label,
        choose_proposals=options.proposals == "auto",
        grid=options.grid,
    )


def _bound_steps(options: Eval) -> list[int]:
    if options.bound is not None:
        return parse_steps(options.bound, "--bound")
    if options.zero_shot is not None:
        return [ZERO_SHOT_STEPS]
    return [1] if options.bracket is None and not options.conventions else []


def _measure(run: Run, options: Eval, steps: list[int], bounds: BoundSettings | None, progress: Progress) -> Results:
    fid = options.fid or options.inception is not None
    if fid and run.kind.name != "image":
        raise UserError(f"the FID is for images; the examples of this run have the shape {run.shape}")
    report = report_of(run)
    if steps or options.zero_shot is None:
        report = measure(
            run,
            steps,
            options.samples,
            bounds=bounds if options.zero_shot is None else None,
            options=EvaluationOptions(
                examples=None if options.data is None else read_examples(run, options.data, progress),
                inception=fetched_inception() if fid and options.inception is None else options.inception,
                language=options.open([run], progress) if steps else None,
                nearest=options.nearest,
            ),
            progress=progress,
        ).report
    if options.zero_shot is not None and bounds is not None:
        report = report.changed(zero_shot=score_corpora(run, options.zero_shot, bounds, progress))
    return Results(report.changed(step=run.step))


def compare(options: Compare) -> None:
    steps = parse_steps(options.steps)
    bounds = None
    if options.bound != "none":
        counts = parse_steps(options.bound, "--bound")
        bounds = BoundSettings(Particles(options.particles), steps=counts, limit=options.limit)
    Processes()
    runs = [vadd.load(run) for run in options.runs]
    check_same_data(runs)
    title = "Comparison of " + " and ".join(run.name for run in options.runs)
    page = Page(title, "The same measurements for every run, by number of sampling steps.")
    with progress_bar() as progress:
        measurements = Measurements(steps, options.samples, bounds, language=options.open(runs, progress))
        reports, path = compare_runs(runs, options.out, measurements, page, progress=progress)
    tables = [quality_table(reports)]
    if bounds is not None:
        tables.append(bound_table(reports))
    show_results(tables, [report.to_json() for report in reports], path, options.json)
    leave()


HINT = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)


def judge(options: Judge) -> None:
    with progress_bar() as progress:
        read = partial(read_texts, documents=options.documents, field=options.field)
        texts = [(path.name, read(path, limit=options.limit)) for path in options.files]
        beside: dict[str, AgainstSource] = {}
        if options.source is not None:
            source = read(options.source, limit=None)
            parts = with_controls(dict(texts), source)
            texts, beside = list(parts.items()), against(parts, source)
        language = open_judge(options, (), progress)
        scored = [evaluate_texts(name, each, language, progress) for name, each in texts]
        scored = [one.changed(against=beside.get(one.file)) for one in scored]
    files_table(scored).print(out_console)
    if beside:
        source_table(scored).print(out_console)
    options.write([one.to_json() for one in scored])


def open_judge(options: JudgeOptions, runs: Sequence[Run], progress: Progress) -> LanguageJudge | None:
    """The judge for these runs; without one a hint, where they are all text."""
    others = [run.directory.path for run in runs if run.kind.name != "text"]
    if options.judge is None:
        if not others:
            err_console.print(HINT, soft_wrap=True)
        return None
    if others:  # before the judge is loaded, which takes long
        raise UserError(f"--judge is for runs on text; {others[0]} is not one")
    return LanguageJudge.open(options.judge, options.convention, device=default_device(), progress=progress)
