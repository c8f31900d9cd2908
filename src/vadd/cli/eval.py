"""``vadd eval`` and ``vadd compare``."""

from dataclasses import replace
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
from vadd.cli.judging import ConventionName, ConventionOption, JudgeOption, open_judge
from vadd.errors import UserError

PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


def evaluate(
    run: RunArgument,
    checkpoint: CheckpointOption = "latest",
    steps: Annotated[
        str | None, typer.Option(help="Compare samples drawn in so many steps with the data. [default: 1,2,5,20]")
    ] = None,
    samples: SamplesOption = None,
    bound: Annotated[
        str | None, typer.Option(help="Bound the likelihood of held-out examples, for the sampler with so many steps.")
    ] = None,
    particles: Annotated[
        int | None,
        typer.Option(help="Latents drawn for each likelihood estimate. [default: 64; with --zero-shot 8]"),
    ] = None,
    proposals: Annotated[
        str,
        typer.Option(
            help="Where the particles come from; any choice is valid, some are tighter. auto: try on training examples."
        ),
    ] = "recognition,revealed,prior",
    delbo: Annotated[
        bool, typer.Option("--delbo", help="Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO).")
    ] = False,
    delbo_particles: Annotated[
        str | None,
        typer.Option(help="The same with so many latents each, as in the paper's ablation.", metavar="K,K,..."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Masks drawn for each example in the DELBO or ELBO.")] = 20,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge by the first so many held-out examples. [default: all; with --zero-shot 500 of each corpus]",
        ),
    ] = None,
    score_pads: Annotated[
        bool, typer.Option("--score-pads", help="Score pads too: a valid bound for padded text, but not the custom.")
    ] = False,
    grid: Annotated[
        str | None, typer.Option(help="Step grid of the bound, uniform or cosine. [default: the recipe's]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Bound the likelihood of this .npy or text instead of the held-out part.")
    ] = None,
    zero_shot: Annotated[
        Path | None,
        typer.Option(
            help="Perplexities of every corpus in this folder; names that begin like lambada, lm1b, wikitext, ag_news, "
            "pubmed or arxiv are read as these, the rest as plain text. --bound is 32 by default.",
            show_default=False,
        ),
    ] = None,
    fid: Annotated[
        bool, typer.Option("--fid", help="Judge images by FID (clean-fid protocol); `vadd data inception` first.")
    ] = False,
    inception: Annotated[
        Path | None, typer.Option(help="The same with this TorchScript InceptionV3.", show_default=False)
    ] = None,
    judge: JudgeOption = None,
    convention: ConventionOption = ConventionName.corpus,
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
      vadd eval runs/book --data another_book.txt --bound 32 --delbo-particles 1,10,100
      vadd eval runs/book --judge gpt2-large --steps 4,8,16,32,64 --samples 256
      vadd eval runs/openwebtext --zero-shot corpora/ --bound 64 --limit 200
    """
    if zero_shot is not None and data is not None:
        raise UserError("--data and --zero-shot both say what to judge by: give one of them")
    judging = bound is not None or delbo or delbo_particles is not None or data is not None or zero_shot is not None
    if steps is None and (judge is not None or not judging):
        steps = "1,2,5,20"
    counts = [] if steps is None else parse_steps(steps)
    which = parse_checkpoint(checkpoint)
    check_json(json)
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings
    from vadd.evaluation import evaluate as measure
    from vadd.evaluation.evaluate import report_of
    from vadd.evaluation.inception import fetched_inception
    from vadd.evaluation.reading import read_examples
    from vadd.evaluation.zero_shot import zero_shot as judge_corpora
    from vadd.files import write_json
    from vadd.parallel import Processes, leave
    from vadd.report.tables import bound_table, latent_table
    from vadd.report.text_tables import quality_table
    from vadd.report.zero_shot import zero_shot_table
    from vadd.runs.run import load

    settings, few = None, zero_shot is not None
    if judging:
        if particles is None:
            particles = ZERO_SHOT_PARTICLES if few else PARTICLES
        settings = BoundSettings(
            Particles(particles) if proposals == "auto" else Particles(particles, tuple(proposals.split(","))),  # type: ignore[arg-type]  # checked on construction
            steps=[ZERO_SHOT_STEPS if few else 1] if bound is None else parse_steps(bound, "--bound"),
            delbo_draws=draws if delbo or delbo_particles is not None or few else 0,
            delbo_particles=[] if delbo_particles is None else parse_steps(delbo_particles, "--delbo-particles"),
            limit=ZERO_SHOT_LIMIT if few and limit is None else limit,
            score_pads=score_pads,
            choose_proposals=proposals == "auto",
            grid=grid,  # type: ignore[arg-type]  # checked by the step grid
        )
    if fid and inception is None:
        inception = fetched_inception()
    Processes()
    loaded = load(run, checkpoint=which)
    with progress_bar() as tell:
        examples = None if data is None else read_examples(loaded, data, tell)
        if counts or not few:
            language = open_judge(judge, convention, [loaded], tell) if counts else None
            report = measure(
                loaded,
                counts,
                samples,
                bounds=None if few else settings,
                examples=examples,
                inception=inception,
                language=language,
                progress=tell,
            ).report
        else:
            report = report_of(loaded)
        if zero_shot is not None and settings is not None:
            report = replace(report, zero_shot=judge_corpora(loaded, zero_shot, settings, tell))
    report = replace(report, step=loaded.step)
    if counts:
        quality_table([report]).print(out_console)
    if report.likelihood is not None:
        bound_table([report]).print(out_console)
    if report.zero_shot is not None:
        zero_shot_table(report).print(out_console)
    if report.latent is not None:
        latent_table([report]).print(out_console)
    if json is not None:
        write_json(json, report.to_json())
    leave()


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: StepsOption = "1,2,5,20",
    samples: SamplesOption = None,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: ParticlesOption = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    judge: JudgeOption = None,
    convention: ConventionOption = ConventionName.corpus,
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
    from vadd.files import write_json
    from vadd.parallel import Processes, leave
    from vadd.report.tables import bound_table
    from vadd.report.text_tables import quality_table
    from vadd.runs.run import load
    from vadd.studies.comparison import compare as compare_runs

    Processes()
    loaded = [load(run) for run in runs]
    with progress_bar() as tell:
        comparison = compare_runs(
            loaded,
            out,
            steps=counts,
            samples=samples,
            bounds=BoundSettings(Particles(particles), steps=bound_counts, limit=limit) if bound_counts else None,
            language=open_judge(judge, convention, loaded, tell),
            title="Comparison of " + " and ".join(run.name for run in runs),
            introduction="The same measurements for every run, by number of sampling steps.",
            commands=[f"vadd compare {' '.join(map(str, runs))} --out {out} --steps {steps} --bound {bound}"],
            progress=tell,
        )
    quality_table(comparison.reports).print(out_console)
    if bound_counts:
        bound_table(comparison.reports).print(out_console)
    if json is not None:
        write_json(json, [report.to_json() for report in comparison.reports])
    out_console.print(f"report: {comparison.page}", soft_wrap=True)
    leave()
