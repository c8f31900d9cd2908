"""The layout of a run on disk, known here and nowhere else. Nothing in here imports torch.

runs/checkerboard-vadd/
    recipe.yaml          everything that defines the run
    data.json            shape of an example, vocabulary size, pad, and the checksum of the data
    metrics.jsonl        one line per logged step
    training.lock        held while a training runs; fitting-{flow,conditional}.lock while a prior is fitted
    tokenizer/           when the data are text: what sampling needs of them
    table.json           when the data are a table: its columns and their values
    checkpoints/step-00001000/{model,ema,optimizer}.safetensors, checkpoint.json
        prior-{flow,conditional}.safetensors, priors.json    where priors were fitted
    tensorboard/         when TensorBoard is installed
    examples.npy, examples.jsonl or examples/    the data, when they were given in Python
    labels.npy           the labels of examples.npy, when there are any

An exported model is a folder with model.safetensors, recipe.yaml, config.json, README.md and perhaps tokenizer/ or
table.json.
"""

import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vadd.errors import UserError
from vadd.files import write_whole
from vadd.parsing import parse_json, read_json
from vadd.run.lock import LOCK, RunLock
from vadd.words import suggestion

if TYPE_CHECKING:
    from vadd.kinds import Kind
    from vadd.recipe import Recipe

RECIPE, METRICS, CHECKPOINTS = "recipe.yaml", "metrics.jsonl", "checkpoints"
MODEL, EMA, OPTIMIZER, MANIFEST = "model.safetensors", "ema.safetensors", "optimizer.safetensors", "checkpoint.json"
PRIORS, EXAMPLES, LABELS = "priors.json", "examples", "labels.npy"
EXPORTED_WEIGHTS, EXPORTED_CONFIG, EXPORTED_CARD = "model.safetensors", "config.json", "README.md"
SHIPPED = "-pretrained"
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""How the names of models end that are part of the package."""

CheckpointName = Literal["latest", "best"] | int
PriorName = Literal["flow", "conditional"]
PriorChoice = Literal["fitted", "trained", "flow", "conditional"]
Record = dict[str, Any]
"""A line of metrics."""


@dataclass(frozen=True)
class SavedStep:
    """A checkpoint, as its name and its manifest describe it."""

    path: Path
    step: int
    test_loss: float | None
    """The held-out objective in nats per position, if it was measured at this step."""


class RunDirectory:
    """A run on disk, there already or to be made."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / RECIPE
        self.metrics_file = self.path / METRICS
        self.checkpoints_directory = self.path / CHECKPOINTS
        self.lock = RunLock(self.path)

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        directory = cls(path)
        if (problem := directory.problem()) is not None:
            raise UserError(f"{path} is not a run: {problem}")
        return directory

    def problem(self) -> str | None:
        """Why this is not a run; an exported model has a recipe too, but nothing to go on from."""
        if not self.path.is_dir():
            return "it is not a directory" if self.path.exists() else "there is no such directory"
        if not self.recipe_file.is_file():
            return f"it has no {RECIPE}"
        return "it is an exported model" if (self.path / EXPORTED_CONFIG).is_file() else None

    def is_run(self) -> bool:
        return self.problem() is None

    def fit_lock(self, name: PriorName) -> RunLock:
        """Held while a prior is fitted."""
        return RunLock(self.path, f"fitting-{name}.lock")

    # Making one

    def create(
        self, recipe: "Recipe", *, overwrite: bool = False, keep: "Callable[[RunDirectory], None]" = lambda _: None
    ) -> None:
        """Make the directory, into which ``keep`` writes data that are in memory only. An existing run is replaced only
        when asked to, anything else never.
        """
        self.check_place(overwrite=overwrite)
        self.path.mkdir(parents=True, exist_ok=True)
        with self.lock:  # no training is running in there, and no other is being made
            self.check_place(overwrite=overwrite)
            for content in self.path.iterdir():
                if content.name != LOCK:
                    shutil.rmtree(content) if content.is_dir() else content.unlink()
            self.write_recipe(recipe)
            keep(self)

    def remove_unstarted(self) -> None:
        """What a start that failed before its first step leaves behind: nothing to go on from, and in the way."""
        if not self.metrics_file.exists() and not self.checkpoints():
            shutil.rmtree(self.path, ignore_errors=True)

    def check_place(self, *, overwrite: bool = False) -> None:
        """Whether a run may be made here."""
        # Anything but what a crash in the middle of making a run leaves behind.
        there = self.path.iterdir() if self.path.is_dir() else [self.path] if self.path.exists() else []
        if all(content.name == LOCK or ".partial" in content.name for content in there):
            return
        if (problem := self.problem()) is not None:
            raise UserError(f"{self.path} exists and is not a run ({problem}); choose another --out")
        if not overwrite:
            raise UserError(
                f"{self.path} holds a run already: continue it with --resume or replace it with --overwrite (in Python "
                f"resume=True, overwrite=True), or open it with vadd.load({str(self.path)!r})"
            )

    def write_recipe(self, recipe: "Recipe") -> None:
        # An unchanged file keeps its date, by which ``vadd status`` knows when a run was last written to.
        if not self.is_run() or self.recipe_file.read_text() != recipe.to_yaml():
            write_whole(self.recipe_file, recipe.to_yaml())

    def recipe(self) -> "Recipe":
        from vadd.recipe import load_recipe  # only here: a status needs no validated recipe, and answers at once

        recipe = load_recipe(str(self.recipe_file))
        path = Path(getattr(recipe.data, "path", None) or "")
        if path.stem != EXAMPLES or path.exists() or not (kept := self.examples(path.suffix)).exists():
            return recipe
        # The run was moved, and its data with it.
        return recipe.model_copy(update={"data": recipe.data.model_copy(update={"path": str(kept.resolve())})})

    def examples(self, suffix: str = "") -> Path:
        """Where the data lie that were given in Python: an array, texts, or a folder for a whole data set."""
        return self.path / f"{EXAMPLES}{suffix}"

    @property
    def example_labels(self) -> Path:
        """Beside an array that was given in Python: where its labels are looked for, wherever the run goes."""
        return self.path / LABELS

    def kind(self, recipe: "Recipe") -> "tuple[Kind, str | None]":
        """What the examples are, so that sampling never has to read the data, and the checksum of the data."""
        from vadd.kinds import read_kind  # only here: a status answers at once

        file = self.path / "data.json"
        try:
            about = read_json(file)
            return read_kind(self.path, about, getattr(recipe.data, "wrap", None)), about.get("sha256")
        except UserError:
            raise
        except (OSError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise UserError(f"{file} is missing or damaged") from None

    # Its checkpoints

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints_directory / f"step-{step:08d}"

    def checkpoints(self, upto: int | None = None) -> list[Path]:
        """All of them, or those up to a step, oldest first."""
        # By number: beyond a hundred million steps the names have different lengths.
        last = float("inf") if upto is None else upto
        named = self.checkpoints_directory.glob("step-*")
        return sorted((path for path in named if 0 <= step_of(path) <= last), key=step_of)

    def saved_steps(self, upto: int | None = None) -> list[SavedStep]:
        return [SavedStep(path, step_of(path), held_out_loss(path)) for path in self.checkpoints(upto)]

    def best(self, upto: int | None = None) -> SavedStep | None:
        """The checkpoint with the lowest held-out objective; the older one of equals."""
        return best_of(self.saved_steps(upto))

    # Its metrics

    def metrics(self) -> Iterator[Record]:
        """The logged lines, null as NaN; one that a crash cut off is passed over."""
        for record in read_records(self.metrics_file):
            yield {key: float("nan") if value is None else value for key, value in record.items()}


def best_of(saved: Iterable[SavedStep]) -> SavedStep | None:
    measured = [(one.test_loss, one.step, one) for one in saved if one.test_loss is not None]
    return min(measured)[-1] if measured else None


def step_of(checkpoint: Path) -> int:
    """The step in the name of a checkpoint; -1 if it is not the name of one."""
    number = checkpoint.name.removeprefix("step-")
    return int(number) if number.isascii() and number.isdigit() else -1  # a superscript is a digit too


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says of itself: its step, checksums, held-out objective. ValueError where it is damaged."""
    content = read_json(checkpoint / MANIFEST)
    if not isinstance(content, dict):
        raise ValueError
    return content


def held_out_loss(checkpoint: Path) -> float | None:
    """The held-out objective of a checkpoint, if it was measured at its step."""
    try:
        loss = read_manifest(checkpoint)["test_loss"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(loss) if isinstance(loss, int | float) and math.isfinite(loss) else None


def find_runs(root: Path) -> list[Path]:
    """All runs in ``root`` and below, sorted. Nothing is looked for inside a run."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}")
    runs = []
    for folder, below, files in os.walk(root):
        if RECIPE in files and CHECKPOINTS in below and EXPORTED_CONFIG not in files:
            runs.append(Path(folder))
            # os.walk goes on into what is left in this list.
            below.clear()
        below[:] = [name for name in below if not name.startswith(".")]
    return sorted(runs)


def read_records(file: Path, most_bytes: int | None = None) -> list[Record]:
    """The lines of a ``metrics.jsonl``, of the last ``most_bytes`` if given. Torn and foreign lines are passed over."""
    try:
        with file.open("rb") as stream:
            skipped = 0 if most_bytes is None else max(0, stream.seek(0, os.SEEK_END) - most_bytes)
            stream.seek(skipped)
            lines = stream.read().split(b"\n")
    except OSError:
        return []
    # The first line may have begun before the bytes that were read; behind the last newline is nothing, or a torn line.
    return [record for line in lines[bool(skipped) : -1] if (record := parse_record(line)) is not None]


def parse_record(line: bytes) -> Record | None:
    """A line of metrics: a step, a split, and numbers or null. None for anything else."""
    try:
        record = parse_json(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or type(record.get("step")) is not int or not isinstance(record.get("split"), str):
        return None
    numbers = (value for key, value in record.items() if key != "split")
    return record if all(value is None or type(value) in (int, float) for value in numbers) else None


HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_hub_name(path: Path) -> bool:
    return HUB_NAME.fullmatch(path.as_posix()) is not None and not path.parent.exists()


def check_hub_name(name: str) -> str:
    if HUB_NAME.fullmatch(name) is None:
        raise UserError(f"a model on the Hugging Face Hub is called owner/name, not {name!r}")
    return name


def shipped_models() -> dict[str, Path]:
    """The exported models that are part of the package, by the names that they are opened with."""
    configs = sorted(PRETRAINED.glob(f"*/{EXPORTED_CONFIG}"))
    return {f"{config.parent.name}{SHIPPED}": config.parent for config in configs}


def shipped(path: Path) -> Path | None:
    """The model of that name in the package, unless something here has the name."""
    named = path.as_posix()
    if not named.endswith(SHIPPED) or "/" in named or path.exists():
        return None
    models = shipped_models()
    if named not in models:
        like = suggestion(named, models)
        raise UserError(f"vadd zoo --pretrained lists the models of the package; {named} is not among them{like}")
    return models[named]


def check_model(path: Path) -> None:
    """Refuse what is neither a run, nor an exported model, nor one of the package, nor a name on the Hub. Without
    torch, so that a mistyped path is answered at once.
    """
    if not (path / EXPORTED_CONFIG).is_file() and not is_hub_name(path) and shipped(path) is None:
        RunDirectory.open(path)
