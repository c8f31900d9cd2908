"""Paths and numbers of options. Paths are checked as they are parsed, before torch is imported; all other values are
checked by the Python function that they are passed to.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer

from vadd.errors import UserError, refuse_if
from vadd.files import check_replaceable
from vadd.presets import check_recipe_name
from vadd.run.directory import CheckpointName, RunDirectory, check_hub_name, check_model
from vadd.words import listed

Paths = Path | list[Path] | None
N = TypeVar("N", int, float)
WRITTEN = ("out", "json", "trajectory", "probabilities")
"""Options that name files to write."""


def run(given: Paths) -> Paths:
    """A run, an exported model or a name on the Hub; loading it checks the rest."""
    for path in _each(given):
        check_model(path)
    return given


def there(given: Paths) -> Paths:
    """Files and folders to read."""
    for path in _each(given):
        other = f"{path} is neither a regular file nor a folder; copy what comes out of it to a file"
        refuse_if((not path.exists(), f"there is no file {path}"), (not path.is_file() and not path.is_dir(), other))
    return given


def out(*suffixes: str) -> Callable[..., Path | None]:
    """For a file to write: its format, that it replaces nothing without ``--overwrite``, and that its folder exists."""

    def check(context: typer.Context, option: typer.CallbackParam, file: Path | None) -> Path | None:
        if file is None:
            return None
        takes, kept = f"{option.opts[0]} takes a file", not context.params.get("overwrite")
        others = {context.params.get(name) for name in WRITTEN if name != option.name}
        refuse_if(
            (file in others, f"two options name the file {file}; name two"),
            (suffixes and file.suffix not in suffixes, f"{takes} that ends in {listed(suffixes)}, not {file}"),
            (file.is_dir(), f"{takes}; {file} is a folder"),
            (file.is_file() and kept, f"{file} exists; name another file or add --overwrite"),
            (not file.parent.is_dir(), f"there is no directory {file.parent} to write {file.name} into"),
        )
        check_replaceable(file)
        return file

    return check


def report(context: typer.Context, place: Path) -> Path:
    """For the files of a report: those of an earlier one are replaced, other files are not."""
    numbers = place / "results.json"
    files = [file for file in (numbers, place / "tables.md", place / "report.html") if file.exists()]
    ours = numbers.is_file() and numbers.read_bytes().startswith(b'[\n  {\n    "run": ')
    if files and not ours and not context.params.get("overwrite"):
        raise UserError(f"{files[0]} is of no earlier comparison; name another --out or add --overwrite")
    return place


def recipe(context: typer.Context, name: str | None) -> str | None:
    """A recipe by its name or file; the first word of ``vadd train`` may be a change, key=value, already."""
    if name is None or ("=" in name and not Path(name).exists()):
        return name
    if context.params.get("resume") and context.params.get("out") is None and RunDirectory(name).is_run():
        raise UserError(f"a run is named with --out: vadd train --out {name} --resume")
    check_recipe_name(name)
    return name


def place(context: typer.Context, place: Path | None) -> Path | None:
    """Of a run to train: new, to be resumed or to be replaced. Of several processes the main one checks it later."""
    if place is not None and context.params.get("resume"):
        RunDirectory.open(place)
    elif place is not None and os.environ.get("WORLD_SIZE", "1") == "1":
        RunDirectory(place).check_place(overwrite=bool(context.params.get("overwrite")))
    return place


def start(source: str | None) -> str | None:
    """A run, an exported model, or weights as the MDLM or RADD code writes them."""
    if source is not None:
        (there if Path(source).suffix == ".safetensors" else run)(Path(source))
    return source


def hub_name(name: str | None) -> str | None:
    return None if name is None else check_hub_name(name)


def _each(given: Paths) -> list[Path]:
    return [] if given is None else [given] if isinstance(given, Path) else given


def parse_steps(text: str | None, option: str = "--steps") -> list[int]:
    """ "1,2,5" -> [1, 2, 5]; none where the option is not given."""
    if text is None:
        return []
    steps = _numbers(text, int, f"{option} takes whole numbers separated by commas, like 1,2,5")
    if min(steps) < 1:
        raise UserError(f"{option} takes numbers of at least 1, not {min(steps)}")
    return sorted(set(steps))


def parse_temperatures(text: str | None) -> list[float]:
    """ "0.7,1" -> [0.7, 1.0]; none where the option is not given."""
    return [] if text is None else _numbers(text, float, "--temperatures takes numbers like 0.7,0.85,1")


def parse_checkpoint(text: str) -> CheckpointName:
    """ "latest", "best" or a step, as :func:`vadd.load` takes them."""
    match text:
        case "latest" | "best":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UserError(f"--checkpoint takes latest, best or a step, not {text!r}")


def parse_grid(text: str | None) -> str | list[float] | None:
    """ "0,0.2,1" -> the times; a name stays as it is."""
    if text is None or "," not in text:
        return text
    return _numbers(text, float, "--grid takes uniform, cosine or times like 0,0.2,1")


def _numbers(text: str, kind: Callable[[str], N], takes: str) -> list[N]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{takes}; not {text!r}") from None
