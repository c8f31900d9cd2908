"""Trainings that the page starts: each is a ``vadd train`` in a process of its own, so that a page never waits for one,
and one that fails takes nothing with it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe
from vadd.recipe.building import recipe_for
from vadd.recipe.plan import make_plan
from vadd.run.directory import RunDirectory
from vadd.run.status import RunStatus, read_status
from vadd.studio.opened import OpenRuns, awaits_prior
from vadd.words import duration, size_in_memory

AT_ONCE = 2
FAREWELL = 20
"""Seconds that trainings are given to save when the studio ends."""
QUIET_ENDS = (None, 0, 130, 143, -signal.SIGINT, -signal.SIGTERM)
"""Exit codes of what runs, is done or was stopped, the last before Python had begun."""
LOOKED_AT = ("training.checkpoint_every=100", "training.evaluate_every=100", "training.log_every=20")
"""For those who watch: something new every few seconds."""
DEMO = ("digits", "training.steps=2000", *LOOKED_AT)


class Trainings:
    """Of this studio, by the names that the page knows them by."""

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
        """A new training of what ``source`` says, as the arguments of ``vadd train``."""
        with self._lock:
            free = name
            number = 2
            while (self.place / free).exists() or free in self._processes:
                free, number = f"{name}-{number}", number + 1
            self._begin(free, source)
            return free

    def resume(self, name: str) -> None:
        with self._lock:
            path = self.path(name) if name in self._processes else self.place / name
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

    def start_demo(self) -> None:
        """Both models on the digits; finished ones are opened, begun ones gone on with."""
        recipe, *changes = DEMO
        for model in ("mdlm", "vadd"):
            name = f"digits-{model}"
            found = RunDirectory(self.place / name)
            if not found.is_run():
                self._begin(name, [recipe, f"model={model}", *changes])
            elif read_status(self.place / name).state == "finished" and not awaits_prior(self.place / name):
                self.runs.add(self.place / name)
            else:
                self._run(name, ["--out", str(self.place / name), "--resume"])

    def status(self, name: str) -> tuple[RunStatus | None, str]:
        """What the run says of itself, once there is one, and what went wrong, if something did."""
        path, process = self.path(name), self._processes[name]
        ended = process.poll()
        found = None
        # A start that is stopped takes its directory with it, perhaps while somebody looks.
        with contextlib.suppress(UserError):
            found = read_status(path)
            self.runs.add(path)
        problem = "" if ended in QUIET_ENDS else self._last_words(name)
        return found, problem

    def close(self) -> list[str]:
        """Everything that runs is asked to save and to end. Gives back the names of those that can be gone on with."""
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
            # In a group of its own: Ctrl-C in the terminal is for the studio, which then asks the trainings to end.
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
        return lines[-1][:300] if lines else "it ended without a word"


def recipe_of(chosen: str | None, data: Path | None) -> Recipe:
    if data is not None:
        return recipe_for(data)
    if chosen is None:
        raise UserError("choose a recipe, or upload data")
    return load_recipe(chosen)


def changes_of(model: str, steps: int | None, skip: str = "") -> list[str]:
    changes = [f"model={model}", *LOOKED_AT]
    changes += [f"training.steps={int(steps)}"] if steps else []
    left_out = [name.strip() for name in skip.split(",") if name.strip()]
    return [*changes, f"data.skip={json.dumps(left_out)}"] if left_out else changes


def tell_plan(recipe: Recipe) -> str:
    """What a training will take, in a few lines."""
    plan = make_plan(recipe)
    disk = plan.checkpoints_kept * plan.checkpoint_bytes
    most = max(memory.total for memory in plan.memory if memory.precision == "float32")
    return "\n".join(
        [
            f"{recipe.name}, {recipe.model}: {recipe.about}",
            f"examples of {' x '.join(map(str, plan.shape))} with {plan.vocab_size:,} values; "
            f"{plan.parameters.trained:,} parameters",
            f"{plan.steps:,} steps of batch {plan.batch}: {duration(3600 * plan.hours)} of arithmetic alone on an idle "
            "machine, measured here; a training takes longer",
            f"memory about {size_in_memory(most)}, on disk {size_in_memory(disk)}",
        ]
    )
