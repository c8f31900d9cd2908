"""The model card of an exported model, in the layout of the Hugging Face Hub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.networks import CustomSettings
from vadd.recipe import Recipe, TextData, flatten
from vadd.run.status import latent_verdict

METHODS = {
    "vadd": "VADD: a masked diffusion model whose denoiser is conditioned on a latent variable. The latent lets it "
    "reveal many positions at once and still respect how they depend on each other, so that a few steps are enough.",
    "mdlm": "MDLM: a masked diffusion model without a latent. Positions revealed in the same step are drawn "
    "independently of each other.",
}
OBJECTIVES = {
    "vadd": "The objective is the paper's DELBO on held-out examples, at full KL weight; with several particles its "
    "importance-weighted form. It is **not** a bound of the likelihood and does not compare with likelihoods of other "
    "models.",
    "mdlm": "The objective is an estimate of the ELBO on held-out examples, as a loss: the negative log-likelihood "
    "is at most that, up to the noise of the estimate.",
}

SHARED_OBJECTIVE = (
    "The objective is measured on held-out examples, at full KL weight to N(0, I), paid once for an example. As "
    "a loss it is at least the negative log-likelihood under the sampler with one z and many steps, up to the noise of "
    "the estimate."
)

PADDED_OBJECTIVE = (
    "The objective is measured on held-out examples, at full KL weight. Pads count as positions but are not scored: it "
    "is **not** a bound of the likelihood of the padded sequences. Nor has the model learnt to "
    "draw pads: a sample ends at its first EOS."
)


@dataclass(frozen=True)
class Measured:
    """Lines of the training's metrics."""

    test: Mapping[str, Any] | None
    latent: Mapping[str, Any] | None


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
    format: Kind,
    step: int,
    parameters: int,
    measured: Measured,
    results: CardResults | None = None,
) -> str:
    label = recipe.model.upper()
    size = " x ".join(map(str, format.shape))
    what = f"images of {size}" if format.name == "image" else f"arrays of {size} integers"
    about = f"\n\n{recipe.about}." if recipe.about else ""
    sections = [
        _front_matter(recipe),
        f"# {recipe.name}, {label}\n\n{METHODS[recipe.model]} It generates {what} with values "
        f"0..{format.vocab_size - 1}.{about}",
        "## Use\n\n```python\nimport vadd  # pip install vadd\n\n"
        f'samples = vadd.load("PATH OR owner/name"{_networks(recipe)}).sample(16, steps=4)'
        "  # (16, positions) integers\n```\n\n"
        "The training data are not needed for sampling. The weights are in safetensors; nothing is unpickled.",
        f"## Training\n\n{_training(recipe, step, parameters)}",
        f"## Measured\n\n{_numbers(recipe, measured)}",
    ]
    if results is not None:
        sections.append(results.tables)
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _networks(recipe: Recipe) -> str:
    """What opening the model takes besides its place."""
    if not isinstance(recipe.network, CustomSettings):
        return ""
    given = {"denoiser": recipe.network.denoiser, "recognizer": recipe.network.recognizer}
    return "".join(f", {name}={kind}(...)" for name, kind in given.items() if kind is not None)


def _front_matter(recipe: Recipe) -> str:
    tags = ["vadd", "masked-diffusion", "discrete-diffusion", "few-step-generation", recipe.model, recipe.data.kind]
    entries = {"library_name": "vadd", "tags": list(dict.fromkeys(tags))}
    return f"---\n{yaml.safe_dump(entries, sort_keys=False)}# license: yours to choose, for example apache-2.0\n---"


def _training(recipe: Recipe, step: int, parameters: int) -> str:
    settings = recipe.training

    def listed(section: Mapping[str, Any]) -> str:
        return ", ".join(f"{key} {value}" for key, value in flatten(section) if value not in (None, (), [], "", {}))

    rows: list[list[Cell]] = [
        ["data", listed(recipe.data.model_dump())],
        ["network", f"{listed(recipe.network.model_dump())}; {parameters:,} weights"],
        ["steps", f"{step:,} of {settings.steps:,}, batch {settings.batch}"],
        ["optimiser", f"{settings.optimizer}, learning rate {settings.learning_rate:g}"],
        ["averaging of the weights", f"decay {settings.ema:g}"],
    ]
    if recipe.model == "vadd":
        rows.insert(2, ["latent", listed(recipe.latent.model_dump())])
    return f"{_rows(['', ''], rows)}\n\nEvery other setting is in `recipe.yaml`."


def _numbers(recipe: Recipe, measured: Measured) -> str:
    if measured.test is None:
        return "Nothing was measured on held-out examples during the training."
    test, latent = measured.test, measured.latent
    rows: list[list[Cell]] = [
        ["held-out objective, nats per position", test.get("loss")],
        ["reconstruction, nats per example", test.get("reconstruction")],
    ]
    if recipe.model == "vadd":
        rows.append(["KL, nats per example", test.get("kl")])
    if latent is not None:
        rows.append(["latent", latent_verdict(latent)])
        rows.append(["KL of the latent when everything is masked, nats", latent.get("kl_all_masked")])
    at_step = f"at step {test['step']}"
    objective = OBJECTIVES[recipe.model]
    if recipe.model == "vadd" and recipe.latent.kind == "shared":
        objective = SHARED_OBJECTIVE
    if isinstance(recipe.data, TextData) and recipe.data.wrap == "padded":
        objective = PADDED_OBJECTIVE
    return f"{_rows([at_step, ''], rows)}\n\n{objective}"


Cell = str | float | None


def _rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    def line(cells: Sequence[Cell]) -> str:
        shown = ["-" if c is None else f"{c:.4f}" if isinstance(c, float) else c.replace("|", "\\|") for c in cells]
        return f"| {' | '.join(shown)} |"

    return "\n".join(map(line, (columns, ["---"] * len(columns), *rows)))
