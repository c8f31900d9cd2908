"""A word beforehand about a training on somebody's own data that takes more than they may expect."""

from dataclasses import replace

from vadd.kinds import Kind
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.recipe.counting import checkpoint_bytes, model_on_meta
from vadd.recipe.plan import count_parameters, make_plan
from vadd.words import duration, size_in_memory

LARGE_CHECKPOINT = 100_000_000
LONG = 3e13
"""FLOP: some ten minutes on two cores."""


def warn_of_size(recipe: Recipe, format: Kind) -> None:
    """Where checkpoints are large or the training is long, say what ``vadd plan`` says of it."""
    format = replace(format, pad=None)  # whether pads are scored changes nothing here
    model = model_on_meta(recipe, format)
    settings = recipe.training
    passes = settings.batch * settings.steps * (recipe.latent.particles if recipe.has_latent else 1)
    arithmetic = 6 * count_parameters(model).trained * passes
    if checkpoint_bytes(model) <= LARGE_CHECKPOINT and arithmetic <= LONG:
        return
    plan = make_plan(recipe, format=format)
    checkpoints = f"{plan.checkpoints_kept} checkpoints of {size_in_memory(plan.checkpoint_bytes)} at most"
    warn(
        f"this is large: {plan.parameters.trained:,} parameters, {checkpoints}, {duration(3600 * plan.hours)} of "
        "arithmetic alone at the rate measured here; training.steps, network.width and network.value_embedding make it "
        "smaller, and vadd plan tells more"
    )
