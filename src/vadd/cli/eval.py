"""``vadd eval``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vadd.cli.console import out_console, progress_bar
from vadd.cli.judge import JudgeOptions
from vadd.cli.options import (
    CheckpointOption,
    JsonOption,
    LoadOptions,
    OverwriteOption,
    RunArgument,
    SamplesOption,
    check_there,
    grouped,
    parse_steps,
    research_option,
)
from vadd.errors import UserError
from vadd.files import write_json

if TYPE_CHECKING:
    from vadd import Run
    from vadd.evaluation import BoundSettings
    from vadd.progress import Progress
    from vadd.report.run_results import Results

DEFAULT_STEPS = "1,2,5,20"
PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


@dataclass(frozen=True)
class BoundOptions:
    """Bounds of the likelihood."""

    bound: Annotated[
        str | None, typer.Option(help="Bound the likelihood of held-out examples, for the sampler with so many steps.")
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Examples to bound the likelihood of. [default: all; with --zero-shot {ZERO_SHOT_LIMIT} of each "
            "corpus]",
        ),
    ] = None
    particles: Annotated[
        int | None,
        research_option(
            help=f"Latents drawn for each likelihood estimate. [default: {PARTICLES}; with --zero-shot "
            f"{ZERO_SHOT_PARTICLES}]"
        ),
    ] = None
    proposals: Annotated[
        str,
        research_option(
            help="Where the particles come from; any choice is valid, some are tighter. auto: try on training examples."
        ),
    ] = "recognition,revealed,prior"
    delbo: Annotated[
        bool,
        research_option("--delbo", help="Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO)."),
    ] = False
    delbo_particles: Annotated[
        str | None,
        research_option(help="The same with so many latents each, as in the paper's ablation.", metavar="K,K,..."),
    ] = None
    draws: Annotated[int, research_option(min=1, help="Masks drawn for each example in the DELBO or ELBO.")] = 20
    score_pads: Annotated[
        bool, research_option("--score-pads", help="Score pads too: a valid bound for padded text, but not the custom.")
    ] = False
    given_label: Annotated[
        bool, research_option("--given-label", help="Bound the likelihood of each held-out example given its label.")
    ] = False
    grid: Annotated[
        str | None, research_option(help="Step grid of the bound, uniform or cosine. [default: the recipe's]")
    ] = None

    @property
    def asked(self) -> bool:
        return self.bound is not None or self.delbo or self.delbo_particles is not None

    def settings(self, *, zero_shot: bool) -> "BoundSettings":
        """``zero_shot`` scores many sequences, so that less is done for each of them."""
        from vadd.core import Particles
        from vadd.evaluation import BoundSettings

        steps = [ZERO_SHOT_STEPS if zero_shot else 1] if self.bound is None else parse_steps(self.bound, "--bound")
        counts = [] if self.delbo_particles is None else parse_steps(self.delbo_particles, "--delbo-particles")
        count = self.particles if self.particles is not None else ZERO_SHOT_PARTICLES if zero_shot else PARTICLES
        proposals: Any = {} if self.proposals == "auto" else {"proposals": tuple(self.proposals.split(","))}
        return BoundSettings(
            Particles(count, **proposals),
            steps=steps,
            delbo_draws=self.draws if self.delbo or counts or zero_shot else 0,
            delbo_particles=counts,
            limit=ZERO_SHOT_LIMIT if zero_shot and self.limit is None else self.limit,
            score_pads=self.score_pads,
            given_label=self.given_label,
            choose_proposals=self.proposals == "auto",
            grid=self.grid,  # type: ignore[arg-type]  # checked by BoundSettings
        )


@dataclass(frozen=True)
class MeasureOptions(LoadOptions):
    """What to measure, and with what."""

    steps: Annotated[
        str | None,
        typer.Option(help=f"Compare samples drawn in so many steps with the data. [default: {DEFAULT_STEPS}]"),
    ] = None
    samples: SamplesOption = None
    data: Annotated[
        Path | None,
        typer.Option(
            help="Bound the likelihood of this .npy or text instead of the held-out part.", callback=check_there
        ),
    ] = None
    fid: Annotated[
        bool, typer.Option("--fid", help="Score images by FID (clean-fid protocol); `vadd data inception` first.")
    ] = False
    inception: Annotated[
        Path | None,
        research_option(help="The same with this TorchScript InceptionV3.", show_default=False, callback=check_there),
    ] = None
    nearest: Annotated[
        bool,
        research_option("--nearest", help="Also how close samples come to training examples: does the model copy?"),
    ] = False
    zero_shot: Annotated[
        Path | None,
        research_option(
            help="Perplexities of every corpus in this folder; names that begin like lambada, lm1b, wikitext, ag_news, "
            "pubmed or arxiv are read as these, the rest as plain text. --bound is 32 by default.",
            show_default=False,
            callback=check_there,
        ),
    ] = None

    def check(self) -> None:
        if self.nearest and self.steps is None and self.zero_shot is not None:
            raise UserError("--nearest looks at samples: say with --steps how they are to be drawn")
        if self.zero_shot is not None and self.data is not None:
            raise UserError("--data and --zero-shot both name the texts to score: give one of them")
        if self.zero_shot is not None and not self.zero_shot.is_dir():
            raise UserError(f"--zero-shot takes a folder; {self.zero_shot} is a file")

    def counts(self, bounds: BoundOptions, judging: JudgeOptions) -> list[int]:
        """Numbers of steps to sample with; none where only bounds were asked for."""
        bounds_only = bounds.asked or self.data is not None or self.zero_shot is not None
        if self.steps is None and bounds_only and judging.judge is None:
            return []
        return parse_steps(DEFAULT_STEPS if self.steps is None else self.steps)


@grouped
def evaluate(
    run: RunArgument,
    *,
    checkpoint: CheckpointOption = "latest",
    measures: MeasureOptions,
    bounds: BoundOptions,
    judging: JudgeOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Measure a model: the distance of its samples from the data, and bounds of the likelihood.

    \b
    Examples:
      vadd eval runs/checkers
      vadd eval runs/checkers --steps 1,2,5,20 --json checkers.json
      vadd eval runs/checkers --checkpoint best
      vadd eval runs/checkers --bound 1,2,4,8,16 --particles 64
      vadd eval runs/digits --bound 1,4 --latent-policy fixed
      vadd eval runs/digits --steps 1,5 --nearest
      vadd eval runs/checkers --bound 1 --delbo --particles 1000 --limit 1000
      vadd eval runs/digits --energy runs/digits-ar --steps 1,4
      vadd eval runs/cifar10 --fid --steps 10,50 --samples 2000
      vadd eval runs/people --steps 1,2 --bound 1,2
      vadd eval runs/book --data another_book.txt --bound 32 --delbo-particles 1,10,100
      vadd eval runs/book --judge gpt2-large --steps 4,8,16,32,64 --samples 256
      vadd eval runs/openwebtext --zero-shot corpora/ --bound 64 --limit 200
    """
    measures.check()
    counts = measures.counts(bounds, judging)
    wanted = bounds.asked or measures.data is not None or measures.zero_shot is not None
    settings = bounds.settings(zero_shot=measures.zero_shot is not None) if wanted else None
    from vadd.parallel import Processes, leave

    Processes()
    loaded = measures.load(run, checkpoint)
    if measures.latent_policy is not None:
        loaded = loaded.with_sampling(latent_policy=measures.latent_policy)
    if measures.steps is None:
        counts = loaded.possible_steps(counts)
    if settings is not None and bounds.bound is None:
        settings = replace(settings, steps=loaded.possible_steps(settings.steps))
    with progress_bar() as progress:
        results = _measure(loaded, counts, measures, settings, judging, progress)
    for table in results.tables():
        table.print(out_console)
    if json is not None:
        write_json(json, results.to_json())
    leave()


def _measure(
    run: "Run",
    counts: list[int],
    measures: MeasureOptions,
    bounds: "BoundSettings | None",
    judging: JudgeOptions,
    progress: "Progress",
) -> "Results":
    from vadd.evaluation import evaluate as measure
    from vadd.evaluation.evaluate import report_of
    from vadd.evaluation.inception import fetched_inception
    from vadd.evaluation.reading import read_examples
    from vadd.evaluation.zero_shot import zero_shot as score_corpora
    from vadd.report.run_results import Results

    if (measures.fid or measures.inception is not None) and run.kind.name != "image":
        raise UserError(f"the FID is for images; the examples of this run have the shape {run.shape}")
    report = report_of(run)
    if counts or measures.zero_shot is None:
        report = measure(
            run,
            counts,
            measures.samples,
            bounds=bounds if measures.zero_shot is None else None,
            examples=None if measures.data is None else read_examples(run, measures.data, progress),
            inception=fetched_inception() if measures.fid and measures.inception is None else measures.inception,
            language=judging.open([run], progress) if counts else None,
            nearest=measures.nearest and bool(counts),
            progress=progress,
        ).report
    if measures.zero_shot is not None and bounds is not None:
        report = replace(report, zero_shot=score_corpora(run, measures.zero_shot, bounds, progress))
    return Results(replace(report, step=run.step))
