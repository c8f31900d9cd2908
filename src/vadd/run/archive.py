"""The checkpoints of a run: which one to go on from, which to keep, and what a full disk costs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from vadd.errors import UserError
from vadd.files import remove
from vadd.progress import warn
from vadd.run.checkpoint import TrainingState, remove_checkpoint, write_checkpoint
from vadd.run.directory import CheckpointName, RunDirectory

Content = TypeVar("Content")


class Archive:
    """What is read from and written to the checkpoints of a run."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    def newest(self, read: Callable[[Path], Content]) -> tuple[Path, Content] | None:
        """The newest from which ``read`` can read, with what it gave; damaged ones are passed over with a warning.

        None where there is no checkpoint at all.
        """
        problems: list[UserError] = []
        # Newest first; read at once, so that a checkpoint is verified only once.
        for path in reversed(self.directory.checkpoints()):
            try:
                content = read(path)
            except UserError as error:
                problems.append(error)
            else:
                for problem in problems:
                    warn(f"{problem}; taking {path.name}")
                return path, content
        if problems:
            raise problems[0]
        return None

    def chosen(self, which: CheckpointName, read: Callable[[Path], Content]) -> tuple[Path, Content]:
        """ "latest" (the newest that is whole), "best" (the lowest held-out objective) or a step."""
        run = self.directory
        if which == "latest":
            newest = self.newest(read)
            if newest is None:
                raise UserError(f"{run.path} has no checkpoint yet")
            return newest
        if which == "best":
            best = run.best()
            if best is None:
                raise UserError(f"{run.path} has no checkpoint that was evaluated on held-out examples")
            return best.path, read(best.path)
        if isinstance(which, int) and run.checkpoint(which).is_dir():
            return run.checkpoint(which), read(run.checkpoint(which))
        there = ", ".join(str(saved.step) for saved in run.saved_steps()) or "none"
        raise UserError(f"{run.path} has no checkpoint {which!r}; take latest, best or one of the steps {there}")

    def improves(self, step: int, loss: float) -> bool:
        """Whether the held-out objective at ``step`` is the best yet."""
        best = self.directory.best(step - 1)
        return best is None or best.test_loss is None or loss < best.test_loss

    def save(self, state: TrainingState, keep: int) -> bool:
        """Write a checkpoint and remove what is no longer wanted: all but the newest ``keep`` and the best.

        Where it cannot be written, a warning is given and everything stays as it was.
        """
        try:
            write_checkpoint(self.directory.checkpoint(state.step), state)
        except OSError as error:
            warn(f"no checkpoint of step {state.step}: {error.strerror or error}; older ones are untouched")
            return False
        # A later one than this is damaged, or the run would have gone on from there; it is replaced in its turn.
        self._keep_only(self.directory.checkpoints(state.step)[-keep:], state.step)
        return True

    def _keep_only(self, newest: Sequence[Path], step: int) -> None:
        best = self.directory.best(step)
        kept = {*newest, *([] if best is None else [best.path])}
        for path in self.directory.checkpoints(step):
            if path not in kept:
                remove_checkpoint(path)

    def sweep(self) -> None:
        """Remove what a crash in the middle of writing or removing left behind."""
        root = self.directory.checkpoints_directory
        for path in (*root.glob(".step-*.partial"), *root.glob(".step-*.removed")):
            remove(path)
