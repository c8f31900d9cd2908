"""``vadd eval``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.console import out_console, progress_bar
from vadd.cli.judging import BoundOptions, JudgeOptions
from vadd.cli.options import (
    CheckpointOption,
    EnergyCandidatesOption,
    EnergyOption,
    JsonOption,
    LatentPolicyOption,
    OverwriteOption,
    PriorOption,
    RunArgument,
    SamplesOption,
    check_energy,
    check_json,
    check_latent_policy,
    check_run,
    check_there,
    grouped,
    parse_checkpoint,
    parse_prior,
    parse_steps,
    refuse_latent_policy,
    with_energy,
)
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.evaluation import BoundSettings, RunReport
    from vadd.progress import Progress
    from vadd.run.directory import PriorChoice
    from vadd.run.run import Run

DEFAULT_STEPS = "1,2,5,20"


@dataclass(frozen=True)
class MeasureOptions:
    """What to measure, and by what."""

    steps: Annotated[
        str | None,
        typer.Option(help=f"Compare samples drawn in so many steps with the data. [default: {DEFAULT_STEPS}]"),
    ] = None
    samples: SamplesOption = None
    latent_policy: LatentPolicyOption = None
    prior: PriorOption = None
    data: Annotated[
        Path | None, typer.Option(help="Bound the likelihood of this .npy or text instead of the held-out part.")
    ] = None
    zero_shot: Annotated[
        Path | None,
        typer.Option(
            help="Perplexities of every corpus in this folder; names that begin like lambada, lm1b, wikitext, ag_news, "
            "pubmed or arxiv are read as these, the rest as plain text. --bound is 32 by default.",
            show_default=False,
        ),
    ] = None
    fid: Annotated[
        bool, typer.Option("--fid", help="Judge images by FID (clean-fid protocol); `vadd data inception` first.")
    ] = False
    inception: Annotated[
        Path | None, typer.Option(help="The same with this TorchScript InceptionV3.", show_default=False)
    ] = None

    nearest: Annotated[
        bool, typer.Option("--nearest", help="Also how close samples come to training examples: does the model copy?")
    ] = False

    energy: EnergyOption = None
    energy_candidates: EnergyCandidatesOption = None

    def prior_choice(self) -> "PriorChoice":
        return parse_prior(self.prior)

    def check(self) -> None:
        check_latent_policy(self.latent_policy)
        parse_prior(self.prior)
        check_energy(self.energy, self.energy_candidates)
        if self.nearest and self.steps is None and self.zero_shot is not None:
            raise UserError("--nearest looks at samples: say with --steps how they are to be drawn")
        if self.zero_shot is not None and self.data is not None:
            raise UserError("--data and --zero-shot both say what to judge by: give one of them")
        check_there(self.data, self.inception)
        if self.zero_shot is not None and not self.zero_shot.is_dir():
            raise UserError(f"there is no folder {self.zero_shot}")

    def counts(self, bounds: BoundOptions, judging: JudgeOptions) -> list[int]:
        """Numbers of steps to sample with; none where only bounds were asked for."""
        bounds_only = bounds.asked or self.data is not None or self.zero_shot is not None
        if self.steps is None and bounds_only and judging.judge is None:
            return []
        return parse_steps(DEFAULT_STEPS if self.steps is None else self.steps)

    def inception_file(self, run: "Run") -> Path | None:
        if (self.fid or self.inception is not None) and len(run.shape) != 3:
            raise UserError(f"the FID is for images; the examples of this run have the shape {run.shape}")
        if not self.fid or self.inception is not None:
            return self.inception
        from vadd.evaluation.inception import fetched_inception

        return fetched_inception()


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
    which = parse_checkpoint(checkpoint)
    check_json(json, overwrite)
    check_run(run)
    wanted = bounds.asked or measures.data is not None or measures.zero_shot is not None
    settings = bounds.settings(zero_shot=measures.zero_shot is not None) if wanted else None
    from vadd.files import write_json
    from vadd.parallel import Processes, leave
    from vadd.run.options import possible_steps
    from vadd.run.run import load

    Processes()
    loaded = load(run, checkpoint=which, prior=measures.prior_choice())
    loaded = with_energy(loaded, measures.energy, measures.energy_candidates)
    refuse_latent_policy(loaded, measures.latent_policy)
    if measures.latent_policy is not None:
        loaded = loaded.with_sampling(latent_policy=measures.latent_policy)
    if measures.steps is None:
        counts = possible_steps(loaded.model, loaded.recipe.sampling, counts)
    if settings is not None and bounds.bound is None:
        settings = replace(settings, steps=possible_steps(loaded.model, loaded.recipe.sampling, settings.steps))
    with progress_bar() as progress:
        report = _measure(loaded, counts, measures, settings, judging, progress)
    _show(report, sampled=bool(counts))
    if json is not None:
        write_json(json, report.to_json())
    leave()


def _measure(
    run: "Run",
    counts: list[int],
    measures: MeasureOptions,
    bounds: "BoundSettings | None",
    judging: JudgeOptions,
    progress: "Progress",
) -> "RunReport":
    from vadd.evaluation import evaluate as measure
    from vadd.evaluation.evaluate import report_of
    from vadd.evaluation.reading import read_examples
    from vadd.evaluation.zero_shot import zero_shot as judge_corpora

    if counts or measures.zero_shot is None:
        report = measure(
            run,
            counts,
            measures.samples,
            bounds=bounds if measures.zero_shot is None else None,
            examples=None if measures.data is None else read_examples(run, measures.data, progress),
            inception=measures.inception_file(run),
            language=judging.open([run], progress) if counts else None,
            nearest=measures.nearest and bool(counts),
            progress=progress,
        ).report
    else:
        report = report_of(run)
    if measures.zero_shot is not None and bounds is not None:
        report = replace(report, zero_shot=judge_corpora(run, measures.zero_shot, bounds, progress))
    return replace(report, step=run.step)


def _show(report: "RunReport", *, sampled: bool) -> None:
    from vadd.report.label_tables import label_table
    from vadd.report.table_tables import imputation_table
    from vadd.report.tables import bound_table, latent_table, nearest_table
    from vadd.report.text_tables import quality_table
    from vadd.report.zero_shot import zero_shot_table

    if sampled:
        quality_table([report]).print(out_console)
    by_label = label_table([report])
    if by_label is not None:
        by_label.print(out_console)
    if report.imputation is not None:
        imputation_table([report]).print(out_console)
    if report.nearest is not None:
        nearest_table([report]).print(out_console)
    if report.likelihood is not None:
        bound_table([report]).print(out_console)
    if report.zero_shot is not None:
        zero_shot_table(report).print(out_console)
    if report.latent is not None:
        latent_table([report]).print(out_console)
