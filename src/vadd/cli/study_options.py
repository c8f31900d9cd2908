"""What the studies of ``vadd reproduce`` are told: how they measure, what is not said is what their scale says; changes
to their recipes; where the numbers go.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from vadd.cli.options import JsonOption, OverridesArgument, OverwriteOption, parse_steps


class Scale(StrEnum):
    small = "small"
    paper = "paper"


OutOption = Annotated[Path, typer.Option("--out", help="Where the runs and the report go.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Where the data set lies; by default where `vadd data` puts it.", show_default=False),
]


FitOption = Annotated[
    bool | None,
    typer.Option(
        "--fit/--no-fit",
        help="Choose accumulation, bfloat16 and checkpointing so that trainings fit into memory, proved by a trial "
        "step. [default: with --scale paper]",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class NumbersOptions:
    """The numbers, for programs."""

    json: JsonOption = None
    overwrite: OverwriteOption = False


@dataclass(frozen=True)
class StudyOptions:
    """Changes to the recipes, and to what the scale says of measuring."""

    overrides: OverridesArgument = None
    steps: Annotated[
        str | None, typer.Option("--steps", help="Numbers of sampling steps. [default: as --scale says]", metavar="T,T")
    ] = None
    samples: Annotated[
        int | None,
        typer.Option("--samples", min=2, help="Samples for each of them. [default: as --scale says]", metavar="N"),
    ] = None
    bound: Annotated[
        str | None,
        typer.Option("--bound", help="Numbers of steps of the likelihood bounds. [default: as --scale says]"),
    ] = None
    particles: Annotated[
        int | None,
        typer.Option(
            "--particles", min=1, help="K, latents for each estimate. [default: as --scale says; paper: 1000]"
        ),
    ] = None
    delbo_particles: Annotated[
        str | None, typer.Option("--delbo-particles", help="K of the DELBO. [default: as --scale says]", metavar="K,K")
    ] = None
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", min=1, help="Pairs (t, x_t) for each example, in the ELBO and DELBO. [default: paper: 100]"
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, help="Held-out examples for bounds, 0: all. [default: as --scale says; paper: all]"
        ),
    ] = None

    fit: FitOption = None
    json: JsonOption = None
    overwrite: OverwriteOption = False

    def settings(self, scale: StrEnum) -> dict[str, Any]:
        """As every study takes them in Python."""
        return {"overrides": self.overrides or [], "changes": self.changes(), "fit": self.fits(scale)}

    def fits(self, scale: StrEnum) -> bool:
        return scale.value == "paper" if self.fit is None else self.fit

    def changes(self) -> dict[str, Any]:
        """Only what was said."""
        said = {
            "steps": None if self.steps is None else parse_steps(self.steps),
            "samples": self.samples,
            "bound_steps": None if self.bound is None else parse_steps(self.bound, "--bound"),
            "particles": self.particles,
            "delbo_particles": None
            if self.delbo_particles is None
            else parse_steps(self.delbo_particles, "--delbo-particles"),
            "draws": self.draws,
            "limit": self.limit,
        }
        # Who asks for a number of particles means the DELBO too, unless that is said by itself.
        if self.particles is not None and self.delbo_particles is None:
            said["delbo_particles"] = [self.particles]
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class DataStudyOptions(StudyOptions):
    """The same for a study whose data may lie somewhere else."""

    data: DataOption = None

    def settings(self, scale: StrEnum) -> dict[str, Any]:
        return {"data": self.data, **super().settings(scale)}
