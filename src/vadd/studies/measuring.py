"""What a study measures, with the changes that the user asks for."""

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.evaluate import MOST_SAMPLES
from vadd.run.limits import check_time
from vadd.run.options import SamplingOptions
from vadd.studies.study import Measuring, Request, Study


def measuring_of(study: Study, request: Request) -> Measuring:
    """Refuses what would never end."""
    measuring = study.settings[request.setting].measuring.model_copy(update=dict(request.measuring))
    if measuring.samples > MOST_SAMPLES:
        raise UserError(f"a comparison takes at most {MOST_SAMPLES:,} samples, not {measuring.samples:,}")
    for steps in (*measuring.steps, *measuring.bound_steps):
        SamplingOptions().changed({"steps": steps})
    examples, in_delbo = max(1, measuring.limit), max(measuring.delbo_particles, default=measuring.particles)
    for name, rows in (("step bounds", measuring.particles), ("the DELBO", measuring.draws * in_delbo)):
        check_time(f"{name} of {examples:,} examples", steps=1, rows=rows * examples)
    return measuring


def bound_settings(measuring: Measuring) -> BoundSettings:
    return BoundSettings(
        Particles(measuring.particles),
        steps=measuring.bound_steps,
        delbo_draws=measuring.draws,
        delbo_particles=measuring.delbo_particles,
        limit=measuring.limit or None,
        choose_proposals=measuring.choose_proposals,
    )
