"""How a study measures: small enough for a laptop, as the paper did, or as somebody asks."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.evaluate import MOST_SAMPLES
from vadd.run.limits import check_time
from vadd.run.options import SamplingOptions
from vadd.studies.paper import DRAWS, PARTICLES

Scale = Literal["small", "paper"]
Changes = Mapping[str, Any]
"""Fields of :class:`Measuring` that somebody has asked for."""


@dataclass(frozen=True, kw_only=True)
class Measuring:
    steps: Sequence[int]
    """Numbers of sampling steps."""
    samples: int
    """For each of them."""
    bound_steps: Sequence[int]
    """For the step bounds."""
    particles: int
    """K of the step bounds."""
    delbo_particles: Sequence[int] = ()
    """K of the DELBO; by default that of the step bounds."""
    draws: int
    """Pairs (t, x_t) for each example, in the ELBO and the DELBO."""
    limit: int
    """Held-out examples; 0: all of the test set."""
    choose_proposals: bool = False

    def changed(self, changes: Changes) -> "Measuring":
        found = replace(self, **changes)
        found.check()
        return found

    def check(self) -> None:
        """Refuse what would never end, before anything is trained; an example at least is judged."""
        if self.samples > MOST_SAMPLES:
            raise UserError(f"a comparison takes at most {MOST_SAMPLES:,} samples, not {self.samples:,}")
        for steps in (*self.steps, *self.bound_steps):
            SamplingOptions().changed({"steps": steps})
        examples, counts = max(1, self.limit), self.bounds().delbo_counts
        shown = {"step bounds": self.particles, "the DELBO": self.draws * max(counts)}
        for name, each in shown.items():
            check_time(f"{name} of {examples:,} examples", steps=1, rows=each * examples)

    def bounds(self) -> BoundSettings:
        return BoundSettings(
            Particles(self.particles),
            steps=self.bound_steps,
            delbo_draws=self.draws,
            delbo_particles=self.delbo_particles,
            limit=self.limit or None,
            choose_proposals=self.choose_proposals,
        )


def as_the_paper(
    steps: Sequence[int], samples: int, bound_steps: Sequence[int], delbo_particles: Sequence[int] = (PARTICLES,)
) -> Measuring:
    """1000 latents, 100 pairs (t, x_t), the whole test set."""
    return Measuring(
        steps=steps,
        samples=samples,
        bound_steps=bound_steps,
        particles=PARTICLES,
        delbo_particles=delbo_particles,
        draws=DRAWS,
        limit=0,
    )


OPTIONS = {"bound_steps": "bound"}


def command_line(
    study: str,
    scale: str = "small",
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    **options: object,
) -> str:
    """The command that repeats a study; where files lie is left out, they are elsewhere for somebody else."""
    words = ["vadd", "reproduce", study, *(["--scale", "paper"] if scale == "paper" else [])]
    for name, value in {**options, **(changes or {})}.items():
        if value is None or value is False:
            continue
        shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        words += [f"--{OPTIONS.get(name, name).replace('_', '-')}", *([] if value is True else [shown])]
    return shlex.join([*words, *(override for override in overrides if not _is_place(override))])


def _is_place(override: str) -> bool:
    return override.startswith(("data.directory=", "data.path="))


def check_changes(changes: Changes, *known: str) -> None:
    """Of studies that measure less than others."""
    for name in changes:
        if name not in known:
            raise UserError(f"--{OPTIONS.get(name, name).replace('_', '-')} is not for this study")
