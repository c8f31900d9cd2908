"""The studies of ``vadd reproduce`` that are about text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.comparisons import show_comparison, show_results
from vadd.cli.console import Narrator
from vadd.cli.judge import JudgeOptions
from vadd.cli.options import OverridesArgument, check_run, check_there, grouped
from vadd.cli.study_options import DataStudyOptions, FitOption, NumbersOptions, OutOption, Scale
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.studies.text import TextStudy

Float32Option = Annotated[
    bool | None,
    typer.Option(
        "--float32/--no-float32",
        help="Also samples drawn in single precision, as in the paper's figure. [default: with --scale paper]",
        show_default=False,
    ),
]


@grouped
def text(
    *,
    out: OutOption = Path("runs/text"),
    scale: Annotated[
        Scale, typer.Option(help="small: text8-per-state, for a CPU; paper: openwebtext, 1M iterations on GPUs.")
    ] = Scale.small,
    recipe: Annotated[
        str | None, typer.Option(help="Another recipe for text, like pydocs or mine.yaml.", show_default=False)
    ] = None,
    float32: Float32Option = None,
    judging: JudgeOptions,
    study: DataStudyOptions,
) -> None:
    """Text: both models, bounds, generative perplexity with entropy by steps and their ratio, samples side by side.

    Finished trainings are kept and interrupted ones continued, and no text is judged twice. At the paper's scale this
    is OpenWebText, with the paper's ablation over K.

    \b
    Examples:
      vadd reproduce text --judge gpt2-large
      vadd reproduce text --recipe pydocs --steps 1,4,16 --samples 64
      vadd reproduce text --scale paper --judge gpt2-large --out runs/text-paper
    """
    _text("text", out, scale, recipe, float32, judging, study)


@grouped
def lm1b(
    *,
    out: OutOption = Path("runs/lm1b"),
    scale: Annotated[
        Scale, typer.Option(help="small: lm1b-small, for a CPU; paper: sentences padded to 128 tokens, 1M iterations.")
    ] = Scale.small,
    float32: Float32Option = None,
    judging: JudgeOptions,
    study: DataStudyOptions,
) -> None:
    """One Billion Word: perplexities of both models beside all rows that the paper quotes.

    \b
    Examples:
      vadd reproduce lm1b --data sentences.txt
      vadd reproduce lm1b --scale paper --out runs/lm1b-paper
    """
    _text("lm1b", out, scale, None, float32, judging, study)


def _text(
    name: "TextStudy",
    out: Path,
    scale: Scale,
    recipe: str | None,
    float32: bool | None,
    judging: JudgeOptions,
    study: DataStudyOptions,
) -> None:
    check_there(study.data)
    settings = study.settings(scale)
    from vadd.report.text_tables import text_table
    from vadd.studies.text import RECIPES, ratio_table, reproduce_text, text_likelihood_tables, text_recipes

    # What cannot be trained is told before a judge is loaded, which takes long.
    text_recipes(recipe or RECIPES[name][scale.value], study.data, study.overrides or [])
    narrator = Narrator()
    comparison = reproduce_text(
        out,
        scale.value,
        narrator,
        study=name,
        recipe=recipe,
        language=judging.open((), narrator),
        float32=scale is Scale.paper if float32 is None else float32,
        **settings,
    )
    ratios = [] if judging.judge is None else [ratio_table(comparison.reports)]
    tables = [text_table(comparison.reports), *ratios, *text_likelihood_tables(name, comparison.reports)]
    show_comparison(comparison, tables, study.json)


@grouped
def zero_shot(
    *,
    corpora: Annotated[
        Path,
        typer.Option(help="The folder with copies of the corpora; files whose names begin like lambada, lm1b, ..."),
    ],
    only: Annotated[
        str | None, typer.Option(help="These corpora alone, like lambada,wikitext.", show_default=False)
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", help="Judge this run, and others named likewise, instead of those of the study."),
    ] = None,
    out: OutOption = Path("runs/text"),
    scale: Annotated[
        Scale, typer.Option(help="small: text8-per-state; paper: openwebtext, 1M iterations.")
    ] = Scale.small,
    study: DataStudyOptions,
) -> None:
    """Zero-shot perplexities of both models on the paper's six corpora, beside its rows.

    The runs are those of `vadd reproduce text` in the same --out, which are trained if they are not there.

    \b
    Examples:
      vadd reproduce zero-shot --corpora corpora/ --only lambada,wikitext
      vadd reproduce zero-shot --corpora corpora/ --run runs/a --run runs/b
      vadd reproduce zero-shot --scale paper --corpora corpora/ --out runs/text-paper
    """
    for path in run or []:
        check_run(path)
    if run and study.overrides:
        raise UserError("changes to a recipe are for runs that the study trains, not for --run")
    settings = study.settings(scale)
    from vadd.studies.zero_shot import reproduce_zero_shot, zero_shot_tables

    comparison = reproduce_zero_shot(
        out,
        scale.value,
        corpora,
        Narrator(),
        only=None if only is None else only.split(","),
        given=run or [],
        **settings,
    )
    show_comparison(comparison, zero_shot_tables(comparison.reports), study.json)


@grouped
def speed(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/speed"),
    scale: Annotated[
        Scale, typer.Option(help="small: text8-per-state; paper: openwebtext with batch 512, for GPUs.")
    ] = Scale.small,
    recipe: Annotated[str | None, typer.Option(help="Another recipe.", show_default=False)] = None,
    steps: Annotated[int, typer.Option(min=2, help="Steps that are timed, of each model.")] = 20,
    fit: FitOption = None,
    numbers: NumbersOptions,
) -> None:
    """Training speed of MDLM and VADD in iterations per second, measured in turns, beside the paper's.

    No data are needed: examples of the recipe's format are drawn at random, which takes the same time.

    \b
    Examples:
      vadd reproduce speed
      vadd reproduce speed --recipe digits --steps 50
      torchrun --nproc-per-node 8 -m vadd reproduce speed --scale paper training.precision=bfloat16
    """
    from vadd.studies.speed import reproduce_speed, speed_table

    fits = scale is Scale.paper if fit is None else fit
    found = reproduce_speed(
        out, scale.value, Narrator(), recipe=recipe, steps=steps, overrides=overrides or [], fit=fits
    )
    show_results([speed_table(found.speeds)], found.to_json(), found.page, numbers.json)
