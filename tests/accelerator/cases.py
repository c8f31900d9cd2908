"""Every model and every network on tiny settings, by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import vadd
from vadd.recipe import MODELS

SHORT: dict[str, Any] = {
    "training.steps": 3,
    "training.batch": 8,
    "training.log_every": 3,
    "training.evaluate_every": 3,
    "training.checkpoint_every": 3,
    "training.trackers": [],
}
BLOCKS: dict[str, Any] = {"denoiser": {"blocks": 1}, "recognizer": {"blocks": 1}}
RESIDUAL: dict[str, Any] = {"kind": "residual", "width": 16, **BLOCKS}
MLP: dict[str, Any] = {"kind": "mlp", "width": 16, "denoiser": {"depth": 1}, "recognizer": {"depth": 1}}
TABLE: dict[str, Any] = {"kind": "table", "width": 16, **BLOCKS}
TRANSFORMER: dict[str, Any] = {"kind": "transformer", "width": 16, "blocks": 2, "heads": 2, "condition": 8}
SHORT_TRANSFORMER: dict[str, Any] = {
    "kind": "short-transformer",
    "heads": 2,
    "denoiser": {"width": 16, "blocks": 1},
    "recognizer": {"width": 16, "blocks": 1},
}
UNET: dict[str, Any] = {"kind": "unet", "embedding": 8, "blocks": 2, "groups": 2, "pixel_embedding": 4}
PYRAMID: dict[str, Any] = {"kind": "pyramid", "channels": 4, "width": 16, **BLOCKS}

PER_STATE: dict[str, Any] = {
    "latent": {"kind": "per-state", "prior": "normal", "dim": 2},
    "sampling.latent_policy": "resample",
}
SHARED: dict[str, Any] = {
    "latent": {"kind": "shared", "dim": 2, "autoregressive": {"width": 8, "blocks": 1, "components": 3}}
}
FLOW = {"steps": 2, "transforms": 2, "components": 3, "width": 8, "batch": 16}


def codes() -> np.ndarray[Any, Any]:
    first = np.random.default_rng(0).integers(0, 4, (80, 1))
    return first.repeat(6, axis=1)


def images(channels: int, values: int) -> Callable[[], np.ndarray[Any, Any]]:
    return lambda: np.random.default_rng(0).integers(0, values, (60, 4, 4, channels))


def texts() -> list[str]:
    return ["ab cd", "abc d", "a bcd", "dcba", "bb cc"] * 12


def people() -> Any:
    import pandas as pd

    generator = np.random.default_rng(0)
    numbers = generator.normal(size=80).round(1)
    words = generator.choice(np.array(["x", "y", None]), 80)
    return pd.DataFrame({"number": numbers, "word": words, "sign": numbers > 0})


@dataclass(frozen=True)
class Case:
    data: Callable[[], Any] = codes
    settings: dict[str, Any] = field(default_factory=dict)
    labels: bool = False

    def train(self, path: Path, device: str, **more: Any) -> vadd.Run:
        data = self.data()
        labels = data[:, 0] if self.labels else None
        settings = SHORT | self.settings | more
        return vadd.train(data, path, labels=labels, progress=False, device=device, **settings)


def of_model(name: str) -> Case:
    network = SHORT_TRANSFORMER if name == "ar" else RESIDUAL
    latent = SHARED if name == "vadd" else {}
    return Case(settings={"model": name, "network": network, **latent})


CASES: dict[str, Case] = {
    **{name: of_model(name) for name in MODELS if name != "edlm"},
    "mlp": Case(settings={"network": MLP, **PER_STATE}),
    "transformer": Case(settings={"network": TRANSFORMER, **PER_STATE}),
    "transformer-checkpointing": Case(settings={"network": TRANSFORMER | {"checkpointing": True}, **PER_STATE}),
    "unet": Case(images(3, 8), {"network": UNET, **PER_STATE}),
    "unet-binary": Case(images(1, 2), {"network": UNET, **PER_STATE, "model": "mdlm"}),
    "pyramid": Case(images(1, 2), {"network": PYRAMID, **SHARED}),
    "texts": Case(texts, {"network": SHORT_TRANSFORMER, "latent": {**SHARED["latent"], "dim": 1}}),
    "texts-ar": Case(texts, {"network": SHORT_TRANSFORMER, "model": "ar"}),
    "table": Case(people, {"network": TABLE, **SHARED}),
    "labels": Case(settings={"network": RESIDUAL, **SHARED}, labels=True),
    "particles": Case(settings={"network": RESIDUAL, "latent": {**PER_STATE["latent"], "particles": 3}}),
    "codes": Case(settings={"network": RESIDUAL, "latent": {**PER_STATE["latent"], "codes": 3}}),
    "flow": Case(settings={"network": RESIDUAL, "latent": {**PER_STATE["latent"], "prior": "flow", "flow": FLOW}}),
    "conditional": Case(
        settings={"network": RESIDUAL, "latent": {**SHARED["latent"], "prior": "conditional", "flow": FLOW}}
    ),
}
"""EDLM starts from another run and has tests of its own."""
