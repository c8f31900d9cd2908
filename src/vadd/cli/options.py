"""Options that several commands share. Paths are checked as they are parsed, before torch is imported; all other values
are checked by the Python function that they are passed to.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import vadd
from vadd.cli.commands import LATENT, OUTPUT, RESEARCH, SAMPLER
from vadd.errors import UserError, refuse_if
from vadd.files import check_replaceable, write_json
from vadd.presets import check_recipe_name
from vadd.run.directory import CheckpointName, RunDirectory, check_model
from vadd.words import listed, parse_size

Paths = Path | list[Path] | None


def check_run(given: Paths) -> Paths:
    """A run, an exported model or a name on the Hub; loading it checks the rest."""
    for path in _each(given):
        check_model(path)
    return given


def check_there(given: Paths) -> Paths:
    """Files and folders to read."""
    for path in _each(given):
        other = f"{path} is neither a regular file nor a folder; copy what comes out of it to a file"
        refuse_if((not path.exists(), f"there is no file {path}"), (not path.is_file() and not path.is_dir(), other))
    return given


def check_out(*suffixes: str) -> Callable[..., Path | None]:
    """For a file to write: its format, that it replaces nothing without ``--overwrite``, and that its folder exists."""

    def check(context: typer.Context, option: typer.CallbackParam, file: Path | None) -> Path | None:
        if file is None:
            return None
        takes, kept = f"{option.opts[0]} takes a file", not context.params.get("overwrite")
        refuse_if(
            (suffixes and file.suffix not in suffixes, f"{takes} that ends in {listed(suffixes)}, not {file}"),
            (file.is_dir(), f"{takes}; {file} is a folder"),
            (file.is_file() and kept, f"{file} exists; name another file or add --overwrite"),
            (not file.parent.is_dir(), f"there is no directory {file.parent} to write {file.name} into"),
        )
        check_replaceable(file)
        return file

    return check


def check_recipe(context: typer.Context, name: str | None) -> str | None:
    """A recipe by its name or file; the first word of ``vadd train`` may be a change, key=value, already."""
    if name is None or ("=" in name and not Path(name).exists()):
        return name
    if context.params.get("resume") and context.params.get("out") is None and RunDirectory(name).is_run():
        raise UserError(f"a run is named with --out: vadd train --out {name} --resume")
    check_recipe_name(name)
    return name


def check_place(context: typer.Context, place: Path | None) -> Path | None:
    """Of a run to train: new, to be resumed or to be replaced. Of several processes the main one checks it later."""
    if place is not None and context.params.get("resume"):
        RunDirectory.open(place)
    elif place is not None and os.environ.get("WORLD_SIZE", "1") == "1":
        RunDirectory(place).check_place(overwrite=bool(context.params.get("overwrite")))
    return place


def check_start(source: str | None) -> str | None:
    """A run, an exported model, or weights as the MDLM or RADD code writes them."""
    if source is not None:
        (check_there if Path(source).suffix == ".safetensors" else check_run)(Path(source))
    return source


def _each(given: Paths) -> list[Path]:
    return [] if given is None else [given] if isinstance(given, Path) else given


def parse_steps(text: str, option: str = "--steps") -> list[int]:
    """ "1,2,5" -> [1, 2, 5]."""
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} takes whole numbers separated by commas, like 1,2,5; not {text!r}") from None
    if min(steps) < 1:
        raise UserError(f"{option} takes numbers of at least 1, not {min(steps)}")
    return sorted(set(steps))


def parse_checkpoint(text: str) -> CheckpointName:
    """ "latest", "best" or a step, as :func:`vadd.load` takes them."""
    match text:
        case "latest" | "best":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UserError(f"--checkpoint takes latest, best or a step, not {text!r}")


RunArgument = Annotated[Path, typer.Argument(), check_run]
Overwrite = Annotated[bool, typer.Option(is_eager=True), OUTPUT]
"""Eager: files are checked with its value."""
Overrides = Annotated[list[str] | None, typer.Argument()]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Of commands that show numbers."""

    json: Annotated[Path | None, typer.Option(metavar="FILE"), OUTPUT, check_out()] = None
    """Also write the numbers to this file."""
    overwrite: Overwrite = False
    """Replace existing files."""

    def write(self, numbers: Any) -> None:
        if self.json is not None:
            write_json(self.json, numbers)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Of commands that read the weights of a run."""

    run: RunArgument
    """A run directory."""
    checkpoint: Annotated[str, typer.Option(metavar="WHICH")] = "latest"
    """Whose averaged weights: latest, best or a step."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a run is opened for sampling or evaluation."""

    run: RunArgument
    """A run directory."""
    latent_policy: Annotated[Literal["resample", "fixed"] | None, LATENT] = None
    """A new z at each step, or one for all. [default: the recipe's; fixed with a flow prior]"""
    prior: Annotated[Literal["fitted", "trained", "flow", "conditional"], LATENT] = "fitted"
    """Where z comes from; fitted is what `vadd fit-prior` made, if it did, else trained."""
    energy: Annotated[Path | None, RESEARCH, check_run] = None
    """An autoregressive run: candidates of each step are weighed by its likelihood (EDLM; not exact)."""
    energy_candidates: Annotated[int | None, RESEARCH] = None
    """With --energy: completions drawn at each step, one kept. [default: 8]"""

    def load(self, checkpoint: str = "latest", device: Any = None) -> "vadd.Run":
        if self.energy_candidates is not None and self.energy is None:
            raise UserError("--energy-candidates needs --energy AR_RUN, which weighs them")
        run = vadd.load(self.run, device, checkpoint=parse_checkpoint(checkpoint), prior=self.prior)
        if self.energy is not None:
            candidates = 8 if self.energy_candidates is None else self.energy_candidates
            run = run.with_energy(vadd.load(self.energy), candidates)
        if self.latent_policy is not None and run.model.latent.absent:
            raise UserError(f"{self.run} has no latent; leave --latent-policy out")
        return run


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(LoadOptions):
    """How to draw: the same for samples and completions."""

    steps: int | None = None
    """Sampling steps. [default: the recipe's; first-hitting: one for each position]"""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """The first n of its samples are drawn."""
    temperature: Annotated[float | None, SAMPLER] = None
    """Of the values given z: below 1 sharpens, 0 takes the likeliest. [default: the recipe's, else 1]"""
    sampler: Annotated[str | None, SAMPLER] = None
    """ancestral, parallel, first-hitting or left-to-right (the model's own distribution); confidence, margin, entropy
    or entropy-bounded (the surest first); remask or remask-rescaled (ReMDM remasking); euler is SEDD's, proposal
    EDLM's without its energy. [default: the recipe's]"""
    grid: Annotated[str | None, SAMPLER] = None
    """Step grid: uniform, cosine, or the times, like 0,0.2,1. [default: the recipe's]"""
    top_k: Annotated[int | None, SAMPLER] = None
    """Draw from the k likeliest values only."""
    top_p: Annotated[float | None, SAMPLER] = None
    """Draw from the likeliest values that reach p only."""
    candidates: Annotated[int | None, LATENT] = None
    """Completions with one z: latents drawn for each, one kept by the likelihood of what is known. [default: the
    recipe's]"""
    memory: Annotated[str | None, typer.Option(metavar="SIZE"), OUTPUT] = None
    """What the samples drawn at once may take, like 500MB or 2GB. [default: 268MB; on a GPU a quarter of what is
    free]"""
    precision: Annotated[Literal["float64", "float32"], RESEARCH] = "float64"
    """Of the draws; float32 as in the paper's text figure, which sharpens."""

    def sampling(self) -> dict[str, Any]:
        """The options as :meth:`vadd.Run.sample` takes them."""
        return {name: getattr(self, name) for name in SAMPLING} | {"grid": _grid(self.grid)}

    def drawing(self) -> dict[str, Any]:
        """The same for :meth:`vadd.Run.stream`, which draws in chunks."""
        memory = None if self.memory is None else parse_size(self.memory, "--memory")
        return {"memory": memory, **self.sampling()}


SAMPLING = ("steps", "seed", "sampler", "latent_policy", "candidates", "temperature", "top_k", "top_p", "precision")


def _grid(text: str | None) -> str | list[float] | None:
    """ "0,0.2,1" -> the times; a name stays as it is."""
    if text is None or "," not in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--grid takes uniform, cosine or times like 0,0.2,1; not {text!r}") from None
