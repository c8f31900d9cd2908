"""The options of all commands; those that draw samples or measure them are declared in a file of their own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from vadd.cli import checks
from vadd.cli.commands import OUTPUT, Only
from vadd.cli.options import Numbers, Overrides, Overwrite, RunArgument, Weights
from vadd.cli.syntax_sampling import Compare, Eval, Infill, Judge, Latent, Sample  # noqa: F401


@dataclass(frozen=True, kw_only=True)
class Demo(Numbers):
    """Train MDLM and VADD on a toy for a minute or so each and show what one step gives.

    Finished trainings are kept: run it again and only the report is made anew.

    \b
    Examples:
      vadd demo
      vadd demo --toy circles --out runs/circles-demo
    """

    out: Path = Path("runs/demo")
    """Where the runs and the report go."""
    toy: Literal["checkerboard", "swissroll", "circles"] = "checkerboard"
    """The data to learn."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model.

    \b
    Examples:
      vadd train checkerboard --out runs/checkers
      vadd train checkerboard model=mdlm training.steps=2000 --out runs/baseline
      vadd train --data people.csv --out runs/people
      vadd train --data people.csv data.skip=[id] data.schema_path=people.yaml --out runs/people
      vadd train --data my_codes.npy --out runs/mine
      vadd train --data photos/ data.labels=true --out runs/photos
      vadd train --data news.jsonl data.labels=true data.label_field=topic --out runs/news
      vadd train --data book.txt data.tokenizer=bpe --out runs/book
      vadd train --out runs/checkers --resume
      vadd train digits --start-from runs/digits-mdlm training.steps=1500 --out runs/upgraded
      torchrun --nproc-per-node 4 -m vadd train digits training.sharding=full
    """

    recipe: Annotated[str | None, typer.Argument(), checks.recipe] = None
    """A preset (see `vadd recipes`) or a YAML file."""
    overrides: Overrides = None
    """Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key."""
    out: Annotated[Path | None, checks.place] = None
    """The run directory; by default runs/RECIPE-MODEL."""
    data: Annotated[Path | None, checks.there] = None
    """Your own data: a table as .csv or .parquet; an .npy file of integers, examples first; a folder of images; a text
    file, .jsonl, .csv with a column called text, or a folder of .txt."""
    resume: Annotated[bool, typer.Option(is_eager=True)] = False
    """Continue from the newest checkpoint of the run in --out."""
    start_from: Annotated[str | None, typer.Option(metavar="RUN"), checks.start] = None
    """Start from this trained model: a run, an export, or a .safetensors file as the MDLM or RADD code writes it."""
    freeze: Annotated[bool, Only("start_from")] = False
    """Leave the weights of --start-from as they are."""
    overwrite: Annotated[bool, typer.Option(is_eager=True)] = False
    """Delete the run that is in --out and start anew."""


@dataclass(frozen=True, kw_only=True)
class FitPrior(Weights):
    """Learn the prior of a trained model's latent: where z comes from when sampling. The model stays as it is.

    The recognition model's z, averaged over the data, does not follow N(0, I), and the denoiser cannot read every z
    that N(0, I) draws. A flow is fitted to the recognition model's z instead. Samples, completions and bounds then use
    the flow, with one z for all steps, and so do exported models. An interrupted fit starts again.

    \b
    Examples:
      vadd fit-prior runs/digits
      vadd fit-prior runs/digits --conditional
      vadd sample runs/digits --steps 5 --out better.png
    """

    conditional: bool = False
    """Fit p(z | x_t), which reads what is known, for completions."""
    steps: int | None = None
    """Steps of the fit. [default: latent.flow.steps of the recipe]"""


@dataclass(frozen=True, kw_only=True)
class Studio:
    """Open a page in the browser: draw from models, fill in, walk through the latent, compare, train. Ctrl-C ends it.

    Without a run the models of the package are opened.

    The page is for this machine alone and needs no internet. It can open the runs that are named here, and no others.

    \b
    Examples:
      vadd studio
      vadd studio runs/digits-mdlm runs/digits-vadd
      vadd studio runs/book --port 8000 --no-open
      vadd studio runs/digits-vadd --host 0.0.0.0 --token correct-horse-battery
    """

    runs: Annotated[list[Path] | None, typer.Argument(), checks.run] = None
    """Run directories, or exported models; without one, the models of the package."""
    out: Path = Path("runs/studio")
    """Where trainings, uploads and comparisons of the page go."""
    host: str = "127.0.0.1"
    """The address to listen on. Other machines reach it only with a --token."""
    port: Annotated[int, typer.Option(min=1, max=65535)] = 7860
    """If it is in use, the next free one is taken."""
    token: Annotated[str | None, typer.Option(metavar="SECRET")] = None
    """A secret that visitors must know, 8 characters or more."""
    open_browser: Annotated[bool, typer.Option("--open/--no-open")] = True
    """Open the page in a browser."""


@dataclass(frozen=True, kw_only=True)
class Status(Numbers):
    """Show how far a training is, how fast, and how it is doing. Nothing is changed, running or not.

    A run is new, running, stopped (go on with --resume), finished, or unknown where its lock cannot be read.

    \b
    Examples:
      vadd status runs/checkers
      vadd status runs/checkers --json status.json
      watch vadd status runs/checkers
    """

    run: RunArgument
    """A run directory."""


@dataclass(frozen=True, kw_only=True)
class Runs(Numbers):
    """List all runs below a directory: how far they are and how they are doing.

    \b
    Examples:
      vadd runs
      vadd runs ~/experiments --json runs.json
    """

    directory: Annotated[Path, typer.Argument(metavar="DIR")] = Path("runs")
    """Where to look, at any depth."""


@dataclass(frozen=True, kw_only=True)
class Doctor(Numbers):
    """Test this installation in two minutes: devices and the speed of their matrix products, precision, torch.compile,
    a few training steps on every device beside the CPU's numbers, and, started with torchrun, how processes talk.

    \b
    Examples:
      vadd doctor
      vadd doctor --device cuda:1
      torchrun --nproc-per-node 8 -m vadd doctor --shared /shared/runs
    """

    device: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """Test this device only."""
    shared: Annotated[Path | None, typer.Option(metavar="DIR")] = None
    """A directory that all processes must see."""


@dataclass(frozen=True, kw_only=True)
class Plan(Numbers):
    """Show what a training will take: parameters, FLOPs, memory, disk and hours. Nothing is allocated or written.

    \b
    Examples:
      vadd plan digits
      vadd plan cifar10 --devices 8 --flops 60e12
      vadd plan mnist training.batch=512 network.checkpointing=true --json plan.json
    """

    recipe: Annotated[str, typer.Argument(), checks.recipe]
    """A preset (see `vadd recipes`) or a YAML file."""
    overrides: Overrides = None
    """Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key."""
    devices: Annotated[int, typer.Option(metavar="N")] = 1
    """Devices that train together; several need --flops."""
    flops: Annotated[float | None, typer.Option(metavar="RATE")] = None
    """FLOP per second that one device really reaches, like 50e12. [default: a matrix product's, measured here]"""


TRACED = Only("onnx", "torch_export")


@dataclass(frozen=True, kw_only=True)
class Export(Weights):
    """Write a model to a folder that can be published: weights, recipe and a model card.

    Sampling from it needs neither the run nor its data. On the Hugging Face Hub it is found by its name "owner/name".

    \b
    Examples:
      vadd export runs/checkers published/checkers
      vadd export runs/checkers published/checkers --checkpoint best --results checkers.json
      vadd sample published/checkers -n 5
      vadd train checkerboard --start-from published/checkers --out runs/further
      vadd export runs/checkers served/checkers --onnx --steps 1
      vadd export runs/checkers published/checkers --push me/checkers
    """

    directory: Annotated[Path, typer.Argument(metavar="DIR")]
    """A new folder."""
    results: Annotated[Path | None, typer.Option(metavar="FILE"), checks.there] = None
    """Put the numbers of `vadd eval --json FILE`, of the same checkpoint, into the model card."""
    onnx: bool = False
    """Also write the sampler as ONNX: the samples of any seed without PyTorch. Of an exported model, only that."""
    torch_export: bool = False
    """Also write the sampler as torch.export saves it."""
    steps: Annotated[int | None, TRACED] = None
    """Sampling steps of the written sampler. [default: the recipe's]"""
    half: bool = False
    """Weights in float16: half of the space, numbers to three digits."""
    sampler: Annotated[str | None, TRACED] = None
    """ancestral, parallel or first-hitting. [default: the recipe's]"""
    push: Annotated[str | None, typer.Option(metavar="OWNER/NAME"), checks.hub_name] = None
    """Also put the folder on the Hugging Face Hub under this name."""
    private: Annotated[bool, Only("push")] = False
    """With --push: visible to you only."""


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """List the recipes, or show one with every key and value.

    \b
    Examples:
      vadd recipes
      vadd recipes checkerboard > mine.yaml
    """

    name: Annotated[str | None, typer.Argument(), checks.recipe] = None
    """Show this recipe with every key."""


@dataclass(frozen=True, kw_only=True)
class Zoo(Numbers):
    """List the models that can be trained, sampled and evaluated side by side, or show what one brings to a recipe.

    \b
    Examples:
      vadd zoo
      vadd zoo sedd
      vadd zoo --pretrained
      vadd train digits model=sedd --out runs/digits-sedd
    """

    name: Annotated[str | None, typer.Argument()] = None
    """Show what this model changes in a recipe."""
    pretrained: bool = False
    """List the trained models that are part of the package."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """List the data sets and where they are, fetch one, or look at the columns of a table.

    \b
    Examples:
      vadd data
      vadd data mnist
      vadd data cifar10 --dir ~/data/cifar10
      vadd data inspect people.csv
      vadd data inspect people.csv --schema people.yaml
    """

    name: Annotated[str | None, typer.Argument()] = None
    """Fetch this one: mnist, cifar10, text8 or inception; or inspect, to look at a table."""
    file: Annotated[Path | None, typer.Argument()] = None
    """The table to inspect: .csv, .tsv or .parquet."""
    directory: Annotated[Path | None, typer.Option("--dir")] = None
    """Where to put it; by default $VADD_DATA/NAME or ~/.cache/vadd/NAME."""
    schema: Annotated[Path | None, OUTPUT, checks.out()] = None
    """Of a table: write here, as YAML to edit, what its columns are; data.schema_path reads it."""
    overwrite: Overwrite = False
    """Replace existing files."""
