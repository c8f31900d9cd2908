"""The options of the other commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.options import (
    CheckpointOption,
    JsonOption,
    OptionalRecipeArgument,
    OverridesArgument,
    OverwriteOption,
    RecipeArgument,
    RunArgument,
    check_out,
    check_place,
    check_recipe,
    check_run,
    check_start,
    check_there,
)


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

    recipe: OptionalRecipeArgument = None
    overrides: OverridesArgument = None
    out: Annotated[
        Path | None, typer.Option(help="The run directory; by default runs/RECIPE-MODEL.", callback=check_place)
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data: a table as .csv or .parquet; an .npy file of integers, examples first; a folder of "
            "images; a text file, .jsonl, .csv with a column called text, or a folder of .txt.",
            callback=check_there,
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", is_eager=True, help="Go on from the newest checkpoint of the run in --out.")
    ] = False
    start_from: Annotated[
        str | None,
        typer.Option(
            help="Begin as this trained model without a latent: a run, an export, or a .safetensors file as the MDLM "
            "code writes it.",
            metavar="RUN",
            callback=check_start,
        ),
    ] = None
    freeze: Annotated[bool, typer.Option("--freeze", help="Leave the weights of --start-from as they are.")] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", is_eager=True, help="Delete the run that is in --out and start anew.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class FitPrior:
    """Learn the prior of a trained model's latent: where z comes from when sampling. The model is not touched.

    What a recognition model writes is not distributed like N(0, I); samples from there fall into the hole between the
    two. A flow that is fitted to what it writes closes it. Samples, completions and bounds then use it, with one z for
    all steps, and so do exported models. An interrupted fit goes on when the command is repeated.

    \b
    Examples:
      vadd fit-prior runs/digits
      vadd fit-prior runs/digits --conditional
      vadd sample runs/digits --steps 5 --out better.png
    """

    run: RunArgument
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Fit p(z | x_t), which reads what is known, for completions.")
    ] = False
    steps: Annotated[int | None, typer.Option(help="Of the fit. [default: latent.flow.steps of the recipe]")] = None
    checkpoint: CheckpointOption = "latest"


@dataclass(frozen=True, kw_only=True)
class Studio:
    """Open a page in the browser: draw from models, fill in, walk through the latent, compare, train. Ctrl-C ends it.

    Without a run both models learn digits while you watch, in about two minutes.

    The page is for this machine alone and needs no internet. It can open the runs that are named here, and no others.

    \b
    Examples:
      vadd studio
      vadd studio runs/digits-mdlm runs/digits-vadd
      vadd studio runs/book --port 8000 --no-open
      vadd studio runs/digits-vadd --host 0.0.0.0 --token correct-horse-battery
    """

    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run directories, or exported models; without one, digits are learnt.", callback=check_run),
    ] = None
    out: Annotated[Path, typer.Option(help="Where trainings, uploads and comparisons of the page go.")] = Path(
        "runs/studio"
    )
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other machines reach it only with a --token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=1, max=65535, help="If it is in use, the next free one is taken.")] = 7860
    token: Annotated[
        str | None, typer.Option(help="A secret that visitors must know, 8 characters or more.", metavar="SECRET")
    ] = None
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True


@dataclass(frozen=True, kw_only=True)
class Status:
    """Show how far a training is, how fast, and how it is doing. Nothing is changed, running or not.

    A run is new, running, stopped (go on with --resume), finished, or unknown where its lock cannot be read.

    \b
    Examples:
      vadd status runs/checkers
      vadd status runs/checkers --json status.json
      watch vadd status runs/checkers
    """

    run: RunArgument
    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Runs:
    """List all runs below a directory: how far they are and how they are doing.

    \b
    Examples:
      vadd runs
      vadd runs ~/experiments --json runs.json
    """

    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look, at any depth.")] = Path("runs")
    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Show what a training will take: parameters, FLOPs, memory, disk and hours. Nothing is allocated or written.

    \b
    Examples:
      vadd plan digits
      vadd plan cifar10 --devices 8 --flops 60e12
      vadd plan mnist training.batch=512 network.checkpointing=true --json plan.json
    """

    recipe: RecipeArgument
    overrides: OverridesArgument = None
    devices: Annotated[int, typer.Option(metavar="N", help="Devices that train together.")] = 1
    flops: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="FLOP per second that one device really reaches, like 50e12. [default: a matrix product's, measured "
            "here]",
        ),
    ] = None
    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model to a folder that can be published: weights, recipe and a model card.

    Sampling from it needs neither the run nor its data. On the Hugging Face Hub it is found by its name "owner/name".

    \b
    Examples:
      vadd export runs/checkers published/checkers
      vadd export runs/checkers published/checkers --checkpoint best --results checkers.json
      vadd sample published/checkers -n 5
    """

    run: RunArgument
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")]
    checkpoint: CheckpointOption = "latest"
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Put the numbers of `vadd eval --json FILE`, of the same checkpoint, into the model card.",
            callback=check_there,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """List the recipes, or show one with every key and value.

    \b
    Examples:
      vadd recipes
      vadd recipes checkerboard > mine.yaml
    """

    name: Annotated[str | None, typer.Argument(help="Show this one whole.", callback=check_recipe)] = None


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

    name: Annotated[
        str | None,
        typer.Argument(help="Fetch this one: mnist, cifar10, text8 or inception; or inspect, to look at a table."),
    ] = None
    file: Annotated[Path | None, typer.Argument(help="The table to inspect: .csv, .tsv or .parquet.")] = None
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to put it; by default $VADD_DATA/NAME or ~/.cache/vadd/NAME.")
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Of a table: write here, as YAML to edit, what its columns are; data.schema_path reads it.",
            callback=check_out(),
        ),
    ] = None
    overwrite: OverwriteOption = False
