"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import vadd
from vadd.cli import checks
from vadd.cli.commands import INPUT, LATENT, OUTPUT, RESEARCH, SAMPLER, Only
from vadd.errors import UserError
from vadd.files import write_json
from vadd.words import parse_size

RunArgument = Annotated[Path, typer.Argument(), checks.run]
Overwrite = Annotated[bool, typer.Option(is_eager=True), OUTPUT]
"""Eager: files are checked with its value."""
Overrides = Annotated[list[str] | None, typer.Argument()]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Of commands that show numbers."""

    json: Annotated[Path | None, typer.Option(metavar="FILE"), OUTPUT, checks.out()] = None
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
    checkpoint: Annotated[str, typer.Option(metavar="WHICH"), INPUT] = "latest"
    """The checkpoint to use: latest, best or a step."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions(Weights):
    """How a run is opened for sampling or evaluation, and what both draw from."""

    latent_policy: Annotated[Literal["resample", "fixed"] | None, LATENT] = None
    """A new z at each step, or one for all. [default: the recipe's; fixed with a flow prior]"""
    prior: Annotated[Literal["fitted", "trained", "flow", "conditional"], LATENT] = "fitted"
    """Where z comes from; fitted is what `vadd fit-prior` made, if it did, else trained."""
    energy: Annotated[Path | None, RESEARCH, checks.run] = None
    """An autoregressive run: candidates of each step are weighed by its likelihood (EDLM; not exact)."""
    energy_candidates: Annotated[int | None, RESEARCH, Only("energy")] = None
    """With --energy: completions drawn at each step, one kept. [default: 8]"""
    sampler: Annotated[str | None, SAMPLER] = None
    """ancestral, parallel, first-hitting or left-to-right (the model's own distribution); confidence, margin, entropy
    or entropy-bounded (the surest first); remask or remask-rescaled (ReMDM remasking); euler is SEDD's, proposal
    EDLM's without its energy. [default: the recipe's]"""
    temperature: Annotated[float | None, SAMPLER] = None
    """Below 1 samples vary less; 0 takes the likeliest values. z does not change. [default: the recipe's, else 1]"""
    top_k: Annotated[int | None, SAMPLER] = None
    """Draw from the k likeliest values only."""
    top_p: Annotated[float | None, SAMPLER] = None
    """Draw from the likeliest values that reach p only."""

    def load(self, device: Any = None) -> "vadd.Run":
        run = vadd.load(self.run, device, checkpoint=checks.parse_checkpoint(self.checkpoint), prior=self.prior)
        if self.energy is not None:
            candidates = 8 if self.energy_candidates is None else self.energy_candidates
            run = run.with_energy(vadd.load(self.energy), candidates)
        if run.model.latent.absent and (self.latent_policy is not None or self.prior != "fitted"):
            name = "--prior" if self.latent_policy is None else "--latent-policy"
            raise UserError(f"{self.run} has no latent; leave {name} out")
        return run

    def sampling(self) -> dict[str, Any]:
        """The options as :meth:`vadd.Run.sample` takes them."""
        names = ("latent_policy", "sampler", "temperature", "top_k", "top_p")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(LoadOptions):
    """How to draw: the same for samples and completions."""

    steps: int | None = None
    """Sampling steps. [default: the recipe's; first-hitting: one for each position]"""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """The same seed gives the same samples."""
    grid: Annotated[str | None, SAMPLER] = None
    """Step grid: uniform, cosine, or the times, like 0,0.2,1. [default: the recipe's]"""
    candidates: Annotated[int | None, LATENT] = None
    """Completions with one z: latents drawn for each, one kept by the likelihood of what is known. [default: the
    recipe's]"""
    memory: Annotated[str | None, typer.Option(metavar="SIZE"), OUTPUT] = None
    """Memory for the samples that are drawn at once, like 500MB or 2GB. [default: 268MB; on a GPU a quarter of what is
    free]"""
    compile: Annotated[bool | None, SAMPLER] = None
    """Compile the network with torch.compile: worth it for many samples. [default: the recipe's]"""
    precision: Annotated[Literal["float64", "float32"], RESEARCH] = "float64"
    """Precision of the draws; float32, as in the paper's text figure, lowers the variety."""

    def load(self, device: Any = None) -> "vadd.Run":
        run = super().load(device)
        one_z = run.options(latent_policy=self.latent_policy).latent_policy == "fixed" and not run.model.latent.absent
        if self.candidates is not None and not one_z:
            raise UserError("--candidates needs a run with a latent and one z for all steps: --latent-policy fixed")
        return run

    def sampling(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("steps", "seed", "candidates", "compile", "precision")}
        return {**super().sampling(), **own, "grid": checks.parse_grid(self.grid)}

    def drawing(self) -> dict[str, Any]:
        """The same for :meth:`vadd.Run.stream`, which draws in chunks."""
        memory = None if self.memory is None else parse_size(self.memory, "--memory")
        return {"memory": memory, **self.sampling()}
