"""``vadd eval``."""

from dataclasses import replace
from typing import Any

from vadd.cli.console import out_console
from vadd.cli.options import parse_steps
from vadd.cli.syntax_sampling import Evaluate
from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, EvaluationOptions
from vadd.evaluation import evaluate as measure
from vadd.evaluation.evaluate import report_of
from vadd.evaluation.frechet import fetched_inception
from vadd.evaluation.zero_shot import read_examples
from vadd.evaluation.zero_shot import zero_shot as score_corpora
from vadd.files import write_json
from vadd.parallel import Processes, leave
from vadd.progress import Progress, progress_bar
from vadd.report.results import Results
from vadd.run.run import Run

DEFAULT_STEPS = "1,2,5,20"
PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


def evaluate(options: Evaluate) -> None:
    _check(options)
    steps, bounds = _steps(options), _bounds(options)
    Processes()
    run = options.load(options.checkpoint)
    if options.latent_policy is not None:
        run = run.with_sampling(latent_policy=options.latent_policy)
    if options.steps is None:
        steps = run.possible_steps(steps)
    if bounds is not None and options.bound is None:
        bounds = replace(bounds, steps=run.possible_steps(bounds.steps))
    with progress_bar() as progress:
        results = _measure(run, options, steps, bounds, progress)
    for table in results.tables():
        table.print(out_console)
    if options.json is not None:
        write_json(options.json, results.to_json())
    leave()


def _check(options: Evaluate) -> None:
    if options.zero_shot is not None and options.data is not None:
        raise UserError("--data and --zero-shot both name the texts to score: give one of them")
    if options.zero_shot is not None and not options.zero_shot.is_dir():
        raise UserError(f"--zero-shot takes a folder; {options.zero_shot} is a file")


def _bounds_asked(options: Evaluate) -> bool:
    asked = options.delbo or options.bound is not None or options.delbo_particles is not None
    return asked or options.data is not None or options.zero_shot is not None


def _steps(options: Evaluate) -> list[int]:
    """Numbers of steps to sample with; none where only bounds were asked for."""
    if options.steps is None and _bounds_asked(options) and options.judge is None and not options.nearest:
        return []
    return parse_steps(DEFAULT_STEPS if options.steps is None else options.steps)


def _bounds(options: Evaluate) -> BoundSettings | None:
    """With --zero-shot many sequences are scored, so that less is done for each of them."""
    if not _bounds_asked(options):
        return None
    many = options.zero_shot is not None
    counts = [] if options.delbo_particles is None else parse_steps(options.delbo_particles, "--delbo-particles")
    particles = options.particles if options.particles is not None else ZERO_SHOT_PARTICLES if many else PARTICLES
    proposals: Any = {} if options.proposals == "auto" else {"proposals": tuple(options.proposals.split(","))}
    return BoundSettings(
        Particles(particles, **proposals),
        steps=[ZERO_SHOT_STEPS if many else 1] if options.bound is None else parse_steps(options.bound, "--bound"),
        delbo_draws=options.draws if options.delbo or counts or many else 0,
        delbo_particles=counts,
        limit=ZERO_SHOT_LIMIT if many and options.limit is None else options.limit,
        score_pads=options.score_pads,
        given_label=options.given_label,
        choose_proposals=options.proposals == "auto",
        grid=options.grid,
    )


def _measure(
    run: Run, options: Evaluate, steps: list[int], bounds: BoundSettings | None, progress: Progress
) -> Results:
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
