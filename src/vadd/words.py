"""Words that the command line and the reports share."""

import difflib
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from vadd.errors import LONGEST_ECHO, UserError

LONGEST_CHOICE = 500
UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


def shortened(text: str, most: int = LONGEST_ECHO) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""What steers a terminal, turns the direction of writing, or cannot be encoded."""
_STEERING, _STEERING_OR_BREAKING = re.compile(f"[{_CONTROLS}]"), re.compile(f"[{_CONTROLS}\t\n]")


def printable(text: str) -> str:
    r"""Without what would steer a terminal: ``\x1b`` in four characters for that byte. Lines and tabs stay."""
    return _STEERING.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same with line breaks and tabs escaped too."""
    return _STEERING_OR_BREAKING.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def typed_command() -> str | None:
    """The ``vadd`` command that this process is, to be typed again in a shell; None in any other process."""
    program = Path(sys.argv[0])
    if program.stem != "vadd" and (program.name, program.parent.name) != ("__main__.py", "vadd"):
        return None
    return shlex.join(["vadd", *sys.argv[1:]])


def plural(count: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def duration(seconds: float) -> str:
    """In two units at most: 42 s, 17 min, 3 h 05 min, 12 d 4 h."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


def size_in_memory(count: int) -> str:
    """``1.235 MB``; a few bytes are a bare number."""
    for unit, size in UNITS.items():
        if count >= size:
            return f"{count / size:,.4g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return str(count)


def parse_size(text: str, option: str) -> int:
    """ "500MB" -> 500000000; a bare number is bytes."""
    units = {unit.lower(): size for unit, size in UNITS.items()} | {"b": 1, "": 1}
    match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?) *([a-z]*)", text.strip().lower())
    if match is None or match[2] not in units or (size := round(float(match[1]) * units[match[2]])) < 1:
        raise UserError(f"{option} takes a size like 500MB or 2GB, not {text!r}")
    return size


USUAL_NAMES = {"lr": "training.learning_rate", "batch_size": "training.batch"} | dict.fromkeys(
    ("epochs", "num_epochs", "num_steps", "n_steps", "max_steps", "iterations"), "training.steps"
)
"""What other packages call our keys."""


TOO_LARGE = re.compile(
    "out of memory|can't allocate memory|not enough memory"  # torch on a CUDA device, on Linux, on Windows
    "|overflow|Python int too large|Maximum allowed dimension exceeded|array is too big"
    "|Trying to create tensor with negative dimension"  # torch and NumPy, of sizes that no machine could have
)


def why_too_large(error: Exception) -> str | None:
    """What memory could not be had, if that is what went wrong."""
    said = next(iter(str(error).splitlines()), "")
    if not isinstance(error, MemoryError) and not TOO_LARGE.search(str(error)):
        return None
    wanted = re.search(r"allocate (\d+) bytes", said)
    return f"{size_in_memory(int(wanted[1]))} at once" if wanted else said or "the system gave none"


def first_line(error: Exception) -> str:
    """Of what it says, or its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def suggestion(name: str, known: Iterable[str]) -> str:
    """ ", did you mean ...?" with the nearest of the known names, or nothing."""
    candidates = list(known)
    near = [key for key in candidates if key == USUAL_NAMES.get(name.rsplit(".", 1)[-1])]
    near = near or difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    near = near or [key for key in candidates if key.rsplit(".", 1)[-1] == name]
    return f", did you mean {near[0]!r}?" if near else ""


def check_known(said: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that do not exist; ``said`` begins the error, "unknown label" say."""
    known = list(known)
    for name in names:
        if name not in known:
            choices = shortened(", ".join(known), LONGEST_CHOICE) or "nothing"
            raise UserError(f"{said} {name!r}{suggestion(name, known) or ';'} choose from {choices}")
