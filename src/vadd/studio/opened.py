"""The runs that the page may open: those that were named when it was started, and those that it trains itself."""

import threading
from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.runs.exported import check_model
from vadd.runs.layout import RunDirectory
from vadd.runs.run import Run, load


class OpenRuns:
    """Runs by name. A name that is not among them opens nothing: no path comes from the page."""

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._paths: dict[str, Path] = {}
        self._loaded: dict[str, tuple[Path | None, Run]] = {}
        self._lock = threading.RLock()
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> str:
        """The name that the page knows it by: the folder's, with the folders above it where that is not enough."""
        check_model(path)
        with self._lock:
            for name, known in self._paths.items():
                if known.resolve() == path.resolve():
                    return name
            parts = path.resolve().parts[1:] if path.exists() else path.parts
            lengths = range(1, len(parts) + 1)
            name = next(each for n in lengths if (each := "/".join(parts[-n:])) not in self._paths)
            self._paths[name] = path
            return name

    def names(self) -> list[str]:
        """Of those that can be drawn from by now, in the order in which they came."""
        with self._lock:
            return [name for name, path in self._paths.items() if _has_weights(path)]

    def offered(self, name: str | None) -> str | None:
        """This one, or the first that there is: runs may have come since the page was opened."""
        names = self.names()
        return name if name in names else next(iter(names), None)

    def path(self, name: str) -> Path:
        with self._lock:
            if name not in self._paths:
                raise UserError(f"no run of the name {name!r} is open here")
            return self._paths[name]

    def get(self, name: str) -> Run:
        """With its newest weights: a run that is still training is followed."""
        path = self.path(name)
        with self._lock:
            newest = _newest(path)
            kept = self._loaded.get(name)
            if kept is None or kept[0] != newest:
                kept = self._loaded[name] = (newest, load(path))
            return kept[1]


def _newest(path: Path) -> Path | None:
    """The newest checkpoint; None for an exported model."""
    kept = RunDirectory(path).checkpoints()
    return kept[-1] if kept else None


def _has_weights(path: Path) -> bool:
    """A run has some after its first checkpoint, an exported model always; a start that was stopped is gone."""
    if _newest(path) is not None:
        return True
    try:
        check_model(path)
    except UserError:
        return False
    return not RunDirectory(path).is_run()
