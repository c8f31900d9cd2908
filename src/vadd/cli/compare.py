"""``vadd compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import progress_bar
from vadd.cli.judging import PARTICLES, JudgeOptions
from vadd.cli.options import JsonOption, SamplesOption, check_json, check_run, grouped, parse_steps

if TYPE_CHECKING:
    from vadd.evaluation import BoundSettings


@grouped
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: Annotated[
        str, typer.Option(help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")
    ] = "1,2,5,20",
    samples: SamplesOption = None,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: Annotated[int, typer.Option(help="Latents drawn for each likelihood estimate.")] = PARTICLES,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    judging: JudgeOptions,
    json: JsonOption = None,
) -> None:
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """
    counts = parse_steps(steps)
    bound_counts = [] if bound == "none" else parse_steps(bound, "--bound")
    check_json(json)
    for run in runs:
        check_run(run)
    from vadd.parallel import Processes, leave
    from vadd.report.tables import bound_table
    from vadd.report.text_tables import quality_table
    from vadd.runs.run import load
    from vadd.studies.comparison import compare as compare_runs

    Processes()
    loaded = [load(run) for run in runs]
    with progress_bar() as progress:
        comparison = compare_runs(
            loaded,
            out,
            steps=counts,
            samples=samples,
            bounds=_settings(bound_counts, particles, limit),
            language=judging.open(loaded, progress),
            title="Comparison of " + " and ".join(run.name for run in runs),
            introduction="The same measurements for every run, by number of sampling steps.",
            commands=[f"vadd compare {' '.join(map(str, runs))} --out {out} --steps {steps} --bound {bound}"],
            progress=progress,
        )
    tables = [quality_table(comparison.reports)]
    if bound_counts:
        tables.append(bound_table(comparison.reports))
    show_comparison(comparison, tables, json)
    leave()


def _settings(steps: list[int], particles: int, limit: int | None) -> "BoundSettings | None":
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings

    return BoundSettings(Particles(particles), steps=steps, limit=limit) if steps else None
