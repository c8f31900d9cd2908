"""Recipes of version 0.2.0: runs and exports made with them still load."""

from collections.abc import Mapping
from typing import Any

from vadd.errors import UserError

DELETED = (("latent", "heard_from"), ("diffusion", "partly_explained"))
"""Sections and keys that this version does not have; 0.2.0 wrote a 0 for each of them."""


def upgraded(content: Mapping[str, Any]) -> dict[str, Any]:
    """``content`` with today's keys and values; what is not a recipe of 0.2.0 stays as it is."""
    new = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for section, key in DELETED:
        values = new.get(section)
        if isinstance(values, dict) and (value := values.pop(key, 0)):
            raise UserError(f"{section}.{key}={value} is a setting of version 0.2.0: use `pip install vadd==0.2.0`")
    latent = new.get("latent")
    if isinstance(latent, dict) and latent.get("prior") == "informed":
        latent["prior"] = "conditional"
    return new
