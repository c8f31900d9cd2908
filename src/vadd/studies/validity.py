"""Which numbers bound a likelihood: data whose entropy is known exactly, both models, all the numbers side by side."""

from collections.abc import Sequence
from pathlib import Path

from vadd.core import Particles
from vadd.evaluation import BoundSettings
from vadd.progress import Progress
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_all_trained
from vadd.studies.measuring import command_line

SETTINGS = BoundSettings(Particles(64), steps=(1, 2, 4, 8, 16, 32), delbo_draws=20, limit=4000)


def reproduce_validity(out: Path, progress: Progress, overrides: Sequence[str] = ()) -> Comparison:
    recipes = both_models("copies", overrides)
    runs = ensure_all_trained([(recipe, out / f"copies-{recipe.model}") for recipe in recipes])
    return compare(
        runs,
        out,
        steps=(1, 2, 4, 8, 16, 32),
        samples=100_000,
        bounds=SETTINGS,
        title="Which numbers bound a likelihood",
        introduction=(
            "Six noisy copies of one hidden symbol; the entropy of this distribution is a finite sum. No model's "
            "negative log-likelihood can lie below it. The step bounds do not, at any number of steps; the paper's "
            "DELBO does."
        ),
        commands=[command_line("validity", overrides=overrides)],
        progress=progress,
    )
