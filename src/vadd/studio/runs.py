"""The runs that the page may open: those named on the command line, and those that it trains itself."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.recipe import Recipe
from vadd.run.directory import RunDirectory, check_model
from vadd.run.export import find_exported
from vadd.run.priors import prior_records
from vadd.run.run import Run, load
from vadd.run.status import read_status
from vadd.studio.views import VIEWS, View

Weights = tuple[Path | None, tuple[str, ...]]
"""The newest checkpoint, None for an exported model, and the checksums of the priors that were fitted to it."""


@dataclass(frozen=True)
class About:
    """What is known of a run before its weights are read."""

    recipe: Recipe
    kind: Kind

    @property
    def view(self) -> type[View]:
        return VIEWS[self.kind.name]


class OpenRuns:
    """Runs by name. No path comes from the page: another name opens nothing."""

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._paths: dict[str, Path] = {}
        self._about: dict[str, About] = {}
        self._loaded: dict[str, tuple[Weights, Run]] = {}
        # Two of them: a request for names does not wait until weights are read.
        self._lock, self._loading = threading.RLock(), threading.Lock()
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> str:
        """The name on the page: the folder's, with as many folders above it as tell it from the others."""
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
        """Those that have weights by now, in the order in which they came."""
        with self._lock:
            return [name for name, path in self._paths.items() if _has_weights(path)]

    def path(self, name: str) -> Path:
        with self._lock:
            if name not in self._paths:
                raise UserError(f"no run of the name {name!r} is open here")
            return self._paths[name]

    def about(self, name: str) -> About:
        path = self.path(name)
        if name not in self._about:
            self._about[name] = _about(path)
        return self._about[name]

    def get(self, name: str) -> Run:
        """With its newest weights: a run that is still training is followed."""
        path = self.path(name)
        with self._loading:
            newest = newest_weights(path)
            kept = self._loaded.get(name)
            if kept is None or kept[0] != newest:
                kept = self._loaded[name] = (newest, load(path))
            return kept[1]


def _about(path: Path) -> About:
    if (exported := find_exported(path)) is not None:
        return About(exported.recipe, exported.kind)
    directory = RunDirectory.open(path)
    recipe = directory.recipe()
    return About(recipe, directory.kind(recipe)[0])


def newest_weights(path: Path) -> Weights:
    kept = RunDirectory(path).checkpoints()
    if not kept:
        return None, ()
    return kept[-1], tuple(record.sha256 for _, record in sorted(prior_records(kept[-1]).items()))


def awaits_prior(path: Path) -> bool:
    """Whether a run has taken its steps, and the prior that its recipe asks for is not fitted yet."""
    recipe = RunDirectory(path).recipe()
    wanted = recipe.has_latent and recipe.latent.prior != "normal"
    return wanted and read_status(path).state == "finished" and not newest_weights(path)[1]


def _has_weights(path: Path) -> bool:
    """A run has some after its first checkpoint, an exported model always."""
    if RunDirectory(path).checkpoints():
        return True
    try:
        check_model(path)
    except UserError:
        return False
    return not RunDirectory(path).is_run()
