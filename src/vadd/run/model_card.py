"""The model card of an exported model, in the layout of the Hugging Face Hub; its text is in ``model_card.md``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment

from vadd.data import TextData
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.networks import CustomSettings
from vadd.recipe import MODELS, Recipe, flatten
from vadd.run.status import latent_verdict

OBJECTIVES = {
    "shared": "The objective is measured on held-out examples, at full KL weight to N(0, I), paid once for an example. "
    "As a loss it is at least the negative log-likelihood under the sampler with one z and many steps, up to the noise "
    "of the estimate.",
    "padded": "The objective is measured on held-out examples, at full KL weight. Pads count as positions but are not "
    "scored: it is **not** a bound of the likelihood of the padded sequences. Nor has the model learnt to draw pads: a "
    "sample ends at its first EOS.",
}


@dataclass(frozen=True)
class CardResults:
    """Tables for a model card, and what they are about."""

    source: str
    recipe: str
    model: str
    step: int | None
    """Of the weights that were measured, where that was written down."""
    tables: str
    """Markdown."""

    def check(self, recipe: Recipe, step: int) -> None:
        """Refuse tables about another run or other weights."""
        if (self.recipe, self.model) != (recipe.name, recipe.model):
            raise UserError(
                f"{self.source} is about {self.recipe} {self.model}; this run is {recipe.name} {recipe.model}"
            )
        if self.step not in (None, step):
            raise UserError(f"{self.source} is about the weights of step {self.step}; those chosen are of step {step}")


def model_card(
    recipe: Recipe,
    kind: Kind,
    step: int,
    parameters: int,
    measured: Mapping[str, Mapping[str, Any]],
    results: CardResults | None = None,
) -> str:
    """``measured`` are lines of the training's metrics, by their split."""
    facts, size, network = MODELS[recipe.model], " x ".join(map(str, kind.shape)), recipe.network
    tags = ["vadd", "masked-diffusion", "discrete-diffusion", "few-step-generation", recipe.model, recipe.data.kind]
    custom = network.arguments() if isinstance(network, CustomSettings) else {}
    environment = Environment(trim_blocks=True, autoescape=False)  # Markdown, not HTML
    environment.filters["cell"] = _cell
    card = environment.from_string(Path(__file__).with_suffix(".md").read_text()).render(
        recipe=recipe,
        kind=kind,
        facts=facts,
        front_matter=yaml.safe_dump({"library_name": "vadd", "tags": list(dict.fromkeys(tags))}, sort_keys=False),
        what=f"images of {size}" if kind.name == "image" else f"arrays of {size} integers",
        networks="".join(f", {name}={of}(...)" for name, of in custom.items()),
        training=_training(recipe, step, parameters),
        test=measured.get("test"),
        numbers=_numbers(recipe, measured),
        objective=_objective(recipe),
        results=results,
    )
    return card.strip() + "\n"


def _training(recipe: Recipe, step: int, parameters: int) -> dict[str, str]:
    def listed(section: Mapping[str, Any]) -> str:
        return ", ".join(f"{key} {value}" for key, value in flatten(section) if value not in (None, (), [], "", {}))

    settings = recipe.training
    return {
        "data": listed(recipe.data.model_dump()),
        "network": f"{listed(recipe.network.model_dump())}; {parameters:,} weights",
        **({"latent": listed(recipe.latent.model_dump())} if recipe.has_latent else {}),
        "steps": f"{step:,} of {settings.steps:,}, batch {settings.batch}",
        "optimiser": f"{settings.optimizer}, learning rate {settings.learning_rate:g}",
        "averaging of the weights": f"decay {settings.ema:g}",
    }


def _numbers(recipe: Recipe, measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    test, latent = measured.get("test", {}), measured.get("latent")
    numbers = {
        "held-out objective, nats per position": test.get("loss"),
        "reconstruction, nats per example": test.get("reconstruction"),
    }
    if recipe.has_latent:
        numbers["KL, nats per example"] = test.get("kl")
    if latent is not None:
        numbers["latent"] = latent_verdict(latent)
        numbers["KL of the latent when everything is masked, nats"] = latent.get("kl_all_masked")
    return numbers


def _objective(recipe: Recipe) -> str:
    if isinstance(recipe.data, TextData) and recipe.data.wrap == "padded":
        return OBJECTIVES["padded"]
    shared = recipe.has_latent and recipe.latent.kind == "shared"
    return OBJECTIVES["shared"] if shared else MODELS[recipe.model].objective


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value).replace("|", "\\|")
