"""The checkpoints of a run: which one to go on from, which to keep, and what a full disk costs."""

from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.training.checkpoint import (
    TrainingState,
    held_out_loss,
    remove_checkpoint,
    remove_tree,
    verify_checkpoint,
    write_checkpoint,
)
from vadd.training.display import warn


class Archive:
    """``step-00001000`` and so on below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, step: int) -> Path:
        return self.root / f"step-{step:08d}"

    def all(self, upto: int | None = None) -> list[Path]:
        """Oldest first; those up to the step ``upto`` if it is given."""
        # By number: beyond a hundred million steps the names have different lengths.
        found = sorted(self.root.glob("step-*"), key=step_of)
        return found if upto is None else [path for path in found if step_of(path) <= upto]

    def newest(self) -> Path | None:
        """The newest that is whole, with a warning if it is not the newest; None if there is none at all."""
        problems: list[UserError] = []
        for path in reversed(self.all()):
            try:
                verify_checkpoint(path)
            except UserError as error:
                problems.append(error)
            else:
                for problem in problems:
                    warn(f"{problem}; taking {path.name}")
                return path
        if problems:
            raise problems[0]
        return None

    def best(self, upto: int | None = None) -> Path | None:
        """The one with the lowest held-out objective among those that were evaluated; the older one of equals."""
        losses = {path: loss for path in self.all(upto) if (loss := held_out_loss(path)) is not None}
        return min(losses, key=losses.__getitem__) if losses else None

    def improves(self, step: int, loss: float) -> bool:
        best = self.best(step - 1)
        known = None if best is None else held_out_loss(best)
        return known is None or loss < known

    def save(self, state: TrainingState, keep: int) -> bool:
        """Write a checkpoint and remove what is no longer wanted: all but the newest ``keep`` and the best.

        Where it cannot be written, a warning is given and everything stays as it was.
        """
        try:
            write_checkpoint(self.path(state.step), state)
        except OSError as error:
            warn(f"no checkpoint of step {state.step}: {error.strerror or error}; older ones are untouched")
            return False
        # A later one than this is damaged, or the run would have gone on from there; it is replaced in its turn.
        self._keep_only(self.all(state.step)[-keep:], state.step)
        return True

    def _keep_only(self, newest: Sequence[Path], step: int) -> None:
        kept = {*newest, self.best(step)}
        for path in self.all(step):
            if path not in kept:
                remove_checkpoint(path)

    def sweep(self) -> None:
        """Remove what a crash in the middle of writing or removing left behind."""
        for path in (*self.root.glob(".step-*.partial"), *self.root.glob(".step-*.removed")):
            remove_tree(path)


def step_of(path: Path) -> int:
    """The step of a checkpoint, told by its name; -1 if that is not one of a checkpoint."""
    number = path.name.removeprefix("step-")
    return int(number) if number.isdigit() else -1
