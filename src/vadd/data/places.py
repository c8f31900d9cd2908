"""Where downloaded data sets live."""

import os
from pathlib import Path


def data_directory(name: str) -> Path:
    """``$VADD_DATA/name``, else ``vadd/name`` in the user's cache (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    if chosen := os.environ.get("VADD_DATA"):
        return Path(chosen).expanduser() / name
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # unset or empty; the standard says to ignore relative ones as well
        cache = Path.home() / ".cache"
    return cache / "vadd" / name
