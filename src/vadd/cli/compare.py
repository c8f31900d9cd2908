"""``vadd compare``."""

import vadd
from vadd.cli.console import show_results
from vadd.cli.options import parse_steps
from vadd.cli.syntax_sampling import Compare
from vadd.core import Particles
from vadd.evaluation import BoundSettings
from vadd.parallel import Processes, leave
from vadd.progress import progress_bar
from vadd.report.likelihood_tables import bound_table
from vadd.report.tables import quality_table
from vadd.run.loading import check_same_data
from vadd.studies.comparison import Measurements, Page
from vadd.studies.comparison import compare as compare_runs


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
