"""What the tests of several networks share."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from vadd.core import MaskedDiffusion, Model
from vadd.kinds import kind_of
from vadd.networks import NETWORKS
from vadd.networks.transformer_blocks import TransformerSize
from vadd.recipe import Recipe, build_model
from vadd.recipe.counting import model_on_meta

SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"width": 8},
    "residual": {"width": 8},
    "pyramid": {"channels": 4, "width": 8},
    "unet": {"embedding": 8, "blocks": 1, "groups": 2, "pixel_embedding": 4},
    "transformer": {"width": 8, "blocks": 1, "heads": 2, "condition": 4},
    "table": {"width": 8},
    "short-transformer": {"heads": 2, "denoiser": {"width": 8, "blocks": 1}, "recognizer": {"width": 8}},
}
"""Settings that make each kind of network small."""


def flat_settings(kind: str, size: TransformerSize | None = None, **values: Any) -> Any:
    """Settings of a network from keys without their sub-section: each is set wherever it exists."""
    network = NETWORKS[kind]
    given = {**({} if size is None else asdict(size)), **values}
    content: dict[str, Any] = {key: value for key, value in given.items() if key in network.model_fields}
    used = set(content)
    for part in ("denoiser", "recognizer"):
        inner = getattr(network.model_fields.get(part), "annotation", None)
        keys = set(getattr(inner, "model_fields", ())) & set(given)
        content |= {part: {key: given[key] for key in keys}} if keys else {}
        used |= keys
    not_all_have = {"checkpointing", "pairs", "pairs_alone", "rounds", "learnt_rounds", "activation"}
    absent = set(given) - used - not_all_have
    assert not absent, f"{kind} has no {absent}"
    return network.model_validate(content)


def awaken(network: nn.Module) -> None:
    """Draw the weights that start at zero, as if the network had been trained for a while."""
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.normal_(std=0.3)


def weights_of(network: nn.Module, part: str = "") -> int:
    """How many numbers the parameters hold whose name contains ``part``."""
    return sum(parameter.numel() for name, parameter in network.named_parameters() if part in name)


def gradients(network: nn.Module) -> list[Tensor]:
    """Of every parameter; all must have one."""
    found = []
    for parameter in network.parameters():
        assert parameter.grad is not None
        found.append(parameter.grad)
    return found


def small_recipe(kind: str, *overrides: str) -> Recipe:
    content = {
        "name": kind,
        "data": {"kind": "toy"},
        "network": {"kind": kind, **SMALL[kind]},
        "latent": {"dim": 2, "per": "position"},
    }
    return Recipe.model_validate(content).with_overrides(overrides)


def small_model(kind: str, vocab_size: int = 3, overrides: Sequence[str] = ()) -> MaskedDiffusion:
    """Of examples of 2 x 2 pixels."""
    recipe = small_recipe(kind, *overrides)
    model = build_model(recipe, kind_of((2, 2, 1), vocab_size))
    assert isinstance(model, MaskedDiffusion)
    return model


def on_meta(recipe: Recipe) -> Model:
    """The recipe's model without memory for its weights."""
    return model_on_meta(recipe, recipe.data.example_kind())
