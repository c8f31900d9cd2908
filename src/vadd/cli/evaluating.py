"""``vadd eval`` and ``vadd compare``."""

from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.common import (
    CheckpointOption,
    JsonOption,
    ParticlesOption,
    RunArgument,
    SamplesOption,
    StepsOption,
    check_json,
    out_console,
    parse_checkpoint,
    parse_steps,
    progress_bar,
)


def evaluate(
    run: RunArgument,
    checkpoint: CheckpointOption = "latest",
    steps: Annotated[
        str | None, typer.Option(help="Compare samples drawn in so many steps with the data. [default: 1,2,5,20]")
    ] = None,
    samples: SamplesOption = 100_000,
    bound: Annotated[
        str | None, typer.Option(help="Bound the likelihood of held-out examples, for the sampler with so many steps.")
    ] = None,
    particles: ParticlesOption = 64,
    proposals: Annotated[
        str, typer.Option(help="Where the particles come from; any choice is valid, some are tighter.")
    ] = "recognition,revealed,prior",
    delbo: Annotated[
        bool, typer.Option("--delbo", help="Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO).")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="Masks drawn for each example in the DELBO or ELBO.")] = 20,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge by the first so many held-out examples.")] = None,
    grid: Annotated[
        str | None, typer.Option(help="Step grid of the bound, uniform or cosine. [default: the recipe's]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Bound the likelihood of this .npy instead of the held-out part.")
    ] = None,
    fid: Annotated[
        bool, typer.Option("--fid", help="Judge images by FID (clean-fid protocol); `vadd data inception` first.")
    ] = False,
    inception: Annotated[
        Path | None, typer.Option(help="The same with this TorchScript InceptionV3.", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure a model: the distance of its samples from the data, and bounds of the likelihood.

    \b
    Examples:
      vadd eval runs/checkers
      vadd eval runs/checkers --steps 1,2,5,20 --json checkers.json
      vadd eval runs/checkers --checkpoint best
      vadd eval runs/checkers --bound 1,2,4,8,16 --particles 64
      vadd eval runs/checkers --bound 1 --delbo --particles 1000 --limit 1000
      vadd eval runs/cifar10 --fid --steps 10,50 --samples 2000
    """
    if steps is None and bound is None and not delbo and data is None:
        steps = "1,2,5,20"
    counts = [] if steps is None else parse_steps(steps)
    which = parse_checkpoint(checkpoint)
    check_json(json)
    from vadd.core import Particles
    from vadd.data import examples_from
    from vadd.evaluation import BoundSettings
    from vadd.evaluation import evaluate as measure
    from vadd.evaluation.inception import fetched_inception
    from vadd.report.tables import bound_table, divergence_table, latent_table
    from vadd.run import load
    from vadd.studies.comparison import write_json

    settings = None
    if bound is not None or delbo or data is not None:
        settings = BoundSettings(
            Particles(particles, tuple(proposals.split(","))),  # type: ignore[arg-type]  # checked on construction
            steps=[1] if bound is None else parse_steps(bound, "--bound"),
            delbo_draws=draws if delbo else 0,
            limit=limit,
            grid=grid,  # type: ignore[arg-type]  # checked by the step grid
        )
    if fid and inception is None:
        inception = fetched_inception()
    loaded = load(run, checkpoint=which)
    examples = None if data is None else examples_from(data)
    with progress_bar() as tell:
        report = measure(
            loaded, counts, samples, bounds=settings, examples=examples, inception=inception, progress=tell
        ).report
    report["step"] = loaded.step
    if counts:
        divergence_table([report]).print(out_console)
    if settings is not None:
        bound_table([report]).print(out_console)
    if report["latent"] is not None:
        latent_table([report]).print(out_console)
    if json is not None:
        write_json(json, report)


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: StepsOption = "1,2,5,20",
    samples: SamplesOption = 100_000,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: ParticlesOption = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    json: JsonOption = None,
) -> None:
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """
    counts = parse_steps(steps)
    check_json(json)
    bound_counts = [] if bound == "none" else parse_steps(bound, "--bound")
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings
    from vadd.report.tables import bound_table, divergence_table
    from vadd.run import load
    from vadd.studies.comparison import compare as compare_runs
    from vadd.studies.comparison import write_json

    with progress_bar() as tell:
        comparison = compare_runs(
            [load(run) for run in runs],
            out,
            steps=counts,
            samples=samples,
            bounds=BoundSettings(Particles(particles), steps=bound_counts, limit=limit) if bound_counts else None,
            title="Comparison of " + " and ".join(run.name for run in runs),
            introduction="The same measurements for every run, by number of sampling steps.",
            commands=[f"vadd compare {' '.join(map(str, runs))} --out {out} --steps {steps} --bound {bound}"],
            progress=tell,
        )
    divergence_table(comparison.reports).print(out_console)
    if bound_counts:
        bound_table(comparison.reports).print(out_console)
    if json is not None:
        write_json(json, comparison.reports)
    out_console.print(f"report: {comparison.page}", soft_wrap=True)
