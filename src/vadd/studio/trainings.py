"""Trainings that the page starts: each is a ``vadd train`` in a child process, so that the page never waits for it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.run.directory import RunDirectory
from vadd.run.status import RunStatus, read_status
from vadd.studio.runs import OpenRuns, awaits_prior

AT_ONCE = 2
FAREWELL = 20
"""Seconds that trainings are given to save when the studio ends."""
QUIET_ENDS = (None, 0, 130, 143, -signal.SIGINT, -signal.SIGTERM)
"""Exit codes of a training that runs, is done or was stopped, the last before Python had begun."""
WATCHED = ("training.checkpoint_every=100", "training.evaluate_every=100", "training.log_every=20")
"""The page shows something new every few seconds."""


class Trainings:
    """Of this studio, by name."""

    def __init__(self, runs: OpenRuns, place: Path) -> None:
        self.runs, self.place = runs, place
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sources: dict[str, list[str]] = {}
        self._lock = threading.RLock()

    def names(self) -> list[str]:
        """Those that were started here, the newest last."""
        with self._lock:
            return list(self._processes)

    def running(self) -> list[str]:
        with self._lock:
            return [name for name, process in self._processes.items() if process.poll() is None]

    def path(self, name: str) -> Path:
        if name not in self.names():
            raise UserError(f"no training of the name {name!r} was started here")
        return self.place / name

    def start(self, source: Sequence[str], *, name: str) -> str:
        """A new training with ``source`` as the arguments of ``vadd train``."""
        with self._lock:
            free, number = name, 2
            while (self.place / free).exists() or free in self._processes:
                free, number = f"{name}-{number}", number + 1
            self._begin(free, source)
            return free

    def resume(self, name: str) -> None:
        with self._lock:
            path = self.path(name)
            if name in self.running():
                raise UserError(f"{name} is running")
            if name in self._sources and not RunDirectory(path).is_run():  # stopped before its first step
                self._begin(name, self._sources[name])
            else:
                self._run(name, ["--out", str(path), "--resume"])

    def stop(self, name: str) -> None:
        """At the end of its step, saved; before its first one there is nothing to save."""
        self.path(name)
        process = self._processes[name]
        if process.poll() is not None:
            raise UserError(f"{name} is not running")
        process.terminate()  # not SIGINT, which children of a background job ignore

    def status(self, name: str) -> tuple[RunStatus | None, str]:
        """Of the run, once there is one, and what went wrong, if something did."""
        path, status = self.path(name), None
        # A start that is stopped takes its directory with it, perhaps at this moment.
        with contextlib.suppress(UserError):
            status = read_status(path)
            self.runs.add(path)
        return status, "" if self._processes[name].poll() in QUIET_ENDS else self._last_words(name)

    def can_resume(self, name: str) -> bool:
        return name in self.names() and name not in self.running() and not _is_done(self.path(name))

    def close(self) -> list[str]:
        """Asks all that run to save and to end. Gives back the names of those that can be resumed."""
        with self._lock:
            left = {name: process for name, process in self._processes.items() if process.poll() is None}
        for process in left.values():
            process.terminate()
        for process in left.values():
            try:
                process.wait(timeout=FAREWELL)
            except subprocess.TimeoutExpired:
                process.kill()
        return [name for name in left if RunDirectory(self.place / name).checkpoints()]

    def _begin(self, name: str, source: Sequence[str]) -> None:
        self._run(name, [*source, "--out", str(self.place / name)])
        self._sources[name] = list(source)

    def _run(self, name: str, arguments: Sequence[str]) -> None:
        if len(self.running()) >= AT_ONCE:
            raise UserError(f"{AT_ONCE} trainings are running; stop one of them first")
        self.place.mkdir(parents=True, exist_ok=True)
        # Several at once share the processors; each by itself would take them all.
        environment = os.environ | {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // AT_ONCE))}
        with self._log(name).open("wb") as log:
            # In a group of its own: Ctrl-C in the terminal is for the studio, which then ends the trainings.
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "vadd", "train", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=os.name != "nt",
            )

    def _log(self, name: str) -> Path:
        return self.place / f"{name}.log"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it ended without a message"


def _is_done(path: Path) -> bool:
    return RunDirectory(path).is_run() and read_status(path).state == "finished" and not awaits_prior(path)
