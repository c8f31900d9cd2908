"""The options of the commands that draw samples or measure them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import vadd
from vadd.cli.options import (
    CheckpointOption,
    DrawingOptions,
    JsonOption,
    LoadOptions,
    OverwriteOption,
    RunArgument,
    SamplesOption,
    TemperatureOption,
    check_out,
    check_run,
    check_there,
    input_option,
    latent_option,
    output_option,
    research_option,
    sampler_option,
)
from vadd.progress import Progress

if TYPE_CHECKING:
    from vadd.evaluation.language_models import LanguageJudge

SAMPLE_FORMATS = (".npy", ".csv", ".png", ".txt", ".jsonl", ".parquet")
TRAJECTORY_FORMATS = (".html", ".gif", ".png", ".npz")
PATH_POINTS, TRAVERSAL_POINTS = 8, 9
DEFAULT_STEPS = "1,2,5,20"
PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""

TrajectoryOption = Annotated[
    Path | None,
    output_option(
        help="Also how the first 4 come about: .html, a page with a slider; .gif; .png for images; .npz, the states.",
        callback=check_out(*TRAJECTORY_FORMATS),
    ),
]


@dataclass(frozen=True, kw_only=True)
class Sample(DrawingOptions):
    """Draw samples from a trained model.

    Any number of them, in memory that does not grow with it; started with torchrun, on several devices.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 8 --sampler parallel --checkpoint best --out grid.png
      vadd sample runs/digits --steps 20 --trajectory denoising.gif
      vadd sample runs/book -n 8 --steps 32 --temperature 0.9 --top-p 0.95 --trajectory denoising.html
      vadd sample runs/digits --steps 4 --energy runs/digits-ar --energy-candidates 16 --out grid.png
      vadd sample runs/book --grid 0,0.1,0.4,1
      vadd sample runs/digits --label 7 --guidance 1.5 --out sevens.png
      vadd sample runs/digits --label all -n 12 --out digits.png
      vadd sample runs/people -n 10000 --out synthetic.csv
      vadd sample runs/people -n 1000 --where age=40-49 --where sex=F --out women.csv
      torchrun --nproc-per-node 4 -m vadd sample runs/book -n 5000 --steps 64 --out texts.jsonl
    """

    n: Annotated[
        int | None, typer.Option("-n", help="How many samples. [default: 1000; 64 for a picture of images; 8 texts]")
    ] = None
    checkpoint: CheckpointOption = "latest"
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: .npy, .csv, or .png for a picture; text also .txt or .jsonl, rows of a table .parquet.",
            callback=check_out(*SAMPLE_FORMATS),
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a table, only rows with: COLUMN=VALUE, COLUMN=ONE|ANOTHER, COLUMN=FROM-TO (dates FROM..TO), "
            "COLUMN>=FROM, COLUMN<=TO, or COLUMN= for a missing cell. May be repeated.",
            metavar="CONDITION",
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(help="Of a run trained with data.labels=true: only samples of this label; all: -n of each label."),
    ] = None
    guidance: Annotated[
        float | None,
        sampler_option(
            help="With --label: above 1 follows the label more closely than the model by itself would (not exact)."
        ),
    ] = None
    trajectory: TrajectoryOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Infill(DrawingOptions):
    """Fill what is missing in texts, images or arrays; what is given stays.

    A text shorter than the model's sequences stands at their beginning; the model writes on to their end, and what it
    writes there is not shown. Where a sequence is one padded document, a text is the whole of it.

    \b
    Examples:
      vadd infill runs/book --text "The ____ of the ____" -n 8
      vadd infill runs/book --prefix "Once upon a time" --steps 64
      vadd infill runs/book --file prompts.txt --out filled.jsonl
      vadd infill runs/mnist --from-data 0,1,2 --keep top --out halves.png
      vadd infill runs/mnist --image seven.png --mask hole.png --out filled.png
      vadd infill runs/mine --array unfinished.npy --out filled.npy
      vadd infill runs/people --table gaps.csv --out filled.csv
      vadd infill runs/people --table gaps.csv --count 5 --probabilities sure.csv --out filled.csv
    """

    text: Annotated[
        str | None, typer.Option(help=r"A text with gaps of two or more underscores; \_ is an ordinary one.")
    ] = None
    prefix: Annotated[str | None, typer.Option(help="A text to continue.")] = None
    suffix: Annotated[str | None, input_option(help="A text to lead to.")] = None
    image: Annotated[
        Path | None, typer.Option(help="An image in the model's size: .png, or .npy for several.", callback=check_there)
    ] = None
    array: Annotated[
        Path | None,
        typer.Option(help="Any examples as .npy, -1 where there is something to fill.", callback=check_there),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(help="A table as .csv or .parquet: its missing cells are filled.", callback=check_there),
    ] = None
    file: Annotated[Path | None, input_option(help="Many texts with gaps, one in each line.", callback=check_there)] = (
        None
    )
    from_data: Annotated[str | None, input_option(help="Held-out images by their numbers, like 0,5,7.")] = None
    gap: Annotated[
        int | None,
        input_option(
            help="Tokens in each gap. [default: one for each underscore where tokens are characters or bytes, else 3]"
        ),
    ] = None
    length: Annotated[
        int | None,
        input_option(
            help="Tokens of prefix, gap and suffix together. [default: as many as the model's sequences have]"
        ),
    ] = None
    mask: Annotated[
        Path | None, input_option(help="An image in the same size: white is filled, black kept.", callback=check_there)
    ] = None
    keep: Annotated[
        Literal["top", "bottom", "left", "right"] | None, input_option(help="Instead of a mask: the half to keep.")
    ] = None
    n: Annotated[int | None, typer.Option("-n", "--count", help="Completions of each. [default: 4; of a table 1]")] = (
        None
    )
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: text .txt or .jsonl, images .png or .npy, arrays .npy or .csv, tables .csv or .parquet.",
            callback=check_out(),
        ),
    ] = None
    probabilities: Annotated[
        Path | None,
        output_option(
            help="Of a table: write here, as .csv, how probable every filled value was given what is known of its row.",
            callback=check_out(".csv"),
        ),
    ] = None
    trajectory: TrajectoryOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Use the latent as a control: points z of examples, paths between them, and what each dimension does.

    An example's z is the mean of the recognition model, with everything masked. All samples of a path are drawn with
    the same random numbers, so that the differences come from z.

    \b
    Examples:
      vadd latent runs/mnist --interpolate 0 1 --steps 5 --out path.png
      vadd latent runs/mnist --traverse --around 3 --out dimensions.gif
      vadd latent runs/book --interpolate "the cat" "the dog" --steps 16
      vadd latent runs/mine --encode codes.npy --out z.npy
    """

    run: RunArgument
    encode: Annotated[
        str | None,
        typer.Option(help="Print or write the points z of examples: an .npy, or held-out ones by number, like 0,5,7."),
    ] = None
    interpolate: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="From one example to another: each the number of a held-out one, FILE.npy:ROW, an image or a text.",
            metavar="A B",
        ),
    ] = None
    traverse: Annotated[
        bool, typer.Option("--traverse", help="Move each of the most informative dimensions by itself.")
    ] = False
    around: Annotated[str | None, typer.Option(help="Traverse around this example instead of around z = 0.")] = None
    points: Annotated[
        int | None, latent_option(help=f"Of a path. [default: {PATH_POINTS}; {TRAVERSAL_POINTS} to traverse]")
    ] = None
    dimensions: Annotated[int, latent_option(min=1, help="To traverse.")] = 6
    span: Annotated[float, latent_option(help="Traverse from -span to span.")] = 2.0
    steps: Annotated[int, typer.Option(help="Sampling steps, with one z for all of them.")] = 1
    temperature: TemperatureOption = 1.0
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers that all samples share.")] = 0
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: images .png, .gif or .npy, text .txt or .npy, else .csv or .npy.", callback=check_out()
        ),
    ] = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The language model that scores texts."""

    judge: Annotated[
        str | None,
        typer.Option(
            help="Texts: also their generative perplexity under this causal language model, a folder, a .gguf file or "
            "a name on the hub.",
            metavar="MODEL",
        ),
    ] = None
    convention: Annotated[
        Literal["corpus", "sedd"],
        research_option(help="Generative perplexity of all texts together, or the mean of each text's own."),
    ] = "corpus"

    def open(self, runs: "Sequence[vadd.Run]", progress: Progress) -> "LanguageJudge | None":
        """See :func:`vadd.cli.judge.open_judge`."""
        from vadd.cli.judge import open_judge

        return open_judge(self, runs, progress)


@dataclass(frozen=True, kw_only=True)
class Evaluate(LoadOptions, JudgeOptions):
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

    checkpoint: CheckpointOption = "latest"
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
        Path | None, research_option(help="The same with this TorchScript InceptionV3.", callback=check_there)
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
            callback=check_there,
        ),
    ] = None
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
    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Compare(JudgeOptions):
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """

    runs: Annotated[list[Path], typer.Argument(help="Run directories.", callback=check_run)]
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison")
    steps: Annotated[str, typer.Option(help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")] = (
        "1,2,5,20"
    )
    samples: SamplesOption = None
    bound: Annotated[str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")] = (
        "1,2,4,8,16"
    )
    particles: Annotated[int, research_option(help="Latents drawn for each likelihood estimate.")] = PARTICLES
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000
    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Judge(JudgeOptions):
    """Score texts from any source: generative perplexity, bits per character, variety.

    \b
    Examples:
      vadd judge samples.txt --judge gpt2-large
      vadd judge ours.txt theirs.jsonl --judge judge.gguf --limit 256
      vadd judge stories/ --documents file
    """

    files: Annotated[
        list[Path], typer.Argument(help="Texts: .txt, .jsonl, .csv, or folders of .txt.", callback=check_there)
    ]
    documents: Annotated[
        Literal["line", "paragraph", "file"],
        typer.Option(help="What a text is in a .txt; rows of .jsonl and .csv are texts."),
    ] = "line"
    field: Annotated[str, typer.Option(help="The key or column that holds the text.")] = "text"
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many texts of each file.")] = None
    json: JsonOption = None
    overwrite: OverwriteOption = False
