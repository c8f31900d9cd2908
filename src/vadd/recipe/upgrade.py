"""Recipes of earlier versions: what their keys are called today. Runs and exports made with them still load."""

from collections.abc import Mapping
from typing import Any

RENAMED: dict[tuple[str, str], dict[str, str]] = {
    ("data", "toy"): {"values": "vocab_size"},
    ("data", "copies"): {"values": "vocab_size"},
    ("data", "array"): {"values": "vocab_size"},
    ("network", "mlp"): {
        "depth": "denoiser.depth",
        "latent_frequencies": "denoiser.latent_frequencies",
        "recognizer_depth": "recognizer.depth",
    },
    ("network", "residual"): {"blocks": "denoiser.blocks", "recognizer_blocks": "recognizer.blocks"},
    ("network", "transformer"): {"recognizer_blocks": "recognizer.blocks"},
    ("network", "short-transformer"): {
        "width": "denoiser.width",
        "blocks": "denoiser.blocks",
        "recognizer_width": "recognizer.width",
        "recognizer_blocks": "recognizer.blocks",
    },
}
"""For each section and kind: old keys and new ones, a dot for a sub-section. Version 0.1.0 had the old ones."""


def upgraded(content: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """``content`` with today's keys; what is not a recipe of an earlier version stays as it is.

    ``base`` is what it extends, which may be the one that names the kind of a section.
    """
    new = dict(content)
    network, latent = new.get("network"), new.get("latent", {})
    if isinstance(network, dict) and isinstance(latent, dict) and "heard_from" in network:
        new["network"] = {key: value for key, value in network.items() if key != "heard_from"}
        new["latent"] = {"heard_from": network["heard_from"], **latent}
    for name in ("data", "network"):
        section = new.get(name)
        if isinstance(section, dict):
            below = (base or {}).get(name)
            kind = section.get("kind", below.get("kind") if isinstance(below, dict) else None)
            new[name] = _renamed(section, RENAMED.get((name, str(kind)), {}))
    return new


def _renamed(section: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    new = {key: dict(value) if isinstance(value, dict) else value for key, value in section.items() if key not in names}
    for old in (name for name in names if name in section):
        *inner, last = names[old].split(".")
        target: Any = new
        for part in inner:
            target = target.setdefault(part, {})
        if isinstance(target, dict):
            target[last] = section[old]
        else:  # no sub-section stands there: whoever validates it will say so
            new[old] = section[old]
    return new


def name_today(content: Mapping[str, Any], key: str) -> str | None:
    """What a dotted key of an earlier version is called today, in a recipe with this ``content``."""
    section, _, name = key.partition(".")
    if key == "network.heard_from":
        return "latent.heard_from"
    inner = content.get(section)
    kind = str(inner.get("kind")) if isinstance(inner, dict) else ""
    renamed = RENAMED.get((section, kind), {}).get(name)
    return None if renamed is None else f"{section}.{renamed}"
