"""The model card of an exported model, in the layout of the Hugging Face Hub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from vadd.errors import UserError
from vadd.overview import latent_verdict
from vadd.recipe import Recipe, TextData, flatten
from vadd.report.tables import Cell, Table, bound_table, divergence_table, latent_table
from vadd.report.zero_shot import zero_shot_table

METHODS = {
    "vadd": "VADD: a masked diffusion model whose denoiser is conditioned on a Gaussian latent. The latent lets it "
    "reveal many positions at once and still respect how they depend on each other, so that a few steps are enough.",
    "mdlm": "MDLM: a masked diffusion model without a latent. Positions revealed in the same step are drawn "
    "independently of each other.",
}
OBJECTIVES = {
    "vadd": "The objective is what the model was trained on (the DELBO; with several particles its "
    "importance-weighted form), at full KL weight, on held-out examples. It is **not** a bound of the likelihood "
    "and does not compare with likelihoods of other models.",
    "mdlm": "The objective is an estimate of the ELBO on held-out examples, as a loss: the negative log-likelihood "
    "is at most that, up to the noise of the estimate.",
}

PADDED_OBJECTIVE = (
    "The objective is what the model was trained on, at full KL weight, on held-out examples. Pads count as positions "
    "but are not scored: it is **not** a bound of the likelihood of the padded sequences. Nor has the model learnt to "
    "draw pads: a sample ends at its first EOS."
)


@dataclass(frozen=True)
class Measured:
    """Lines of the training's metrics."""

    test: Mapping[str, Any] | None
    latent: Mapping[str, Any] | None


def model_card(
    recipe: Recipe,
    shape: Sequence[int],
    values: int,
    step: int,
    parameters: int,
    measured: Measured,
    report: Mapping[str, Any] | None = None,
) -> str:
    """``report`` is what ``vadd eval --json`` wrote."""
    label = recipe.model.upper()
    size = " x ".join(map(str, shape))
    what = f"images of {size}" if len(shape) == 3 else f"arrays of {size} integers"
    about = f"\n\n{recipe.about}." if recipe.about else ""
    sections = [
        _front_matter(recipe),
        f"# {recipe.name}, {label}\n\n{METHODS[recipe.model]} It generates {what} with values 0..{values - 1}.{about}",
        "## Use\n\n```python\nimport vadd  # pip install vadd\n\n"
        'samples = vadd.load("PATH OR owner/name").sample(16, steps=4)  # (16, positions) integers\n```\n\n'
        "The training data are not needed for sampling. The weights are in safetensors; nothing is unpickled.",
        f"## Training\n\n{_training(recipe, step, parameters)}",
        f"## Measured\n\n{_numbers(recipe, measured)}",
    ]
    if report is not None:
        sections.append(_tables(report))
    return "\n\n".join(section.strip() for section in sections) + "\n"


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
    if isinstance(recipe.data, TextData) and recipe.data.wrap == "padded":
        objective = PADDED_OBJECTIVE
    return f"{_rows([at_step, ''], rows)}\n\n{objective}"


def _tables(report: Mapping[str, Any]) -> str:
    try:
        tables = [divergence_table([report])] if report["results"] else []
        tables += [bound_table([report])] if "bounds" in report else []
        tables += [zero_shot_table(report)] if "zero_shot" in report else []
        tables += [latent_table([report])] if report.get("latent") else []
        return "\n\n".join(table.to_markdown().strip() for table in tables)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UserError("the results are not what `vadd eval --json` writes") from None


def _rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    return Table("", columns, rows).to_markdown().partition("\n\n")[2].strip()
