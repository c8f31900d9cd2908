"""``vadd compare``."""

from pathlib import Path
from typing import Annotated

import typer

import vadd
from vadd.cli.comparisons import show_results
from vadd.cli.console import progress_bar
from vadd.cli.eval import PARTICLES
from vadd.cli.judge import JudgeOptions
from vadd.cli.options import (
    JsonOption,
    OverwriteOption,
    SamplesOption,
    check_run,
    grouped,
    parse_steps,
    research_option,
)


@grouped
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False, callback=check_run)],
    *,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: Annotated[
        str, typer.Option(help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")
    ] = "1,2,5,20",
    samples: SamplesOption = None,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: Annotated[int, research_option(help="Latents drawn for each likelihood estimate.")] = PARTICLES,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    judging: JudgeOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """
    counts = parse_steps(steps)
    bound_counts = [] if bound == "none" else parse_steps(bound, "--bound")
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings
    from vadd.parallel import Processes, leave
    from vadd.report.tables import bound_table
    from vadd.report.text_tables import quality_table
    from vadd.run.same_data import check_same_data
    from vadd.studies.comparison import Measurements, Page
    from vadd.studies.comparison import compare as compare_runs

    Processes()
    loaded = [vadd.load(run) for run in runs]
    check_same_data(loaded)
    bounds = BoundSettings(Particles(particles), steps=bound_counts, limit=limit) if bound_counts else None
    title = "Comparison of " + " and ".join(run.name for run in runs)
    page = Page(title, "The same measurements for every run, by number of sampling steps.")
    with progress_bar() as progress:
        measurements = Measurements(counts, samples, bounds, language=judging.open(loaded, progress))
        reports, path = compare_runs(loaded, out, measurements, page, progress=progress)
    tables = [quality_table(reports)]
    if bound_counts:
        tables.append(bound_table(reports))
    show_results(tables, [report.to_json() for report in reports], path, json)
    leave()
