"""What the commands say and show: two consoles, aligned columns, and something to look at while waiting."""

import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from vadd.errors import Interrupted, UserError
from vadd.files import write_json
from vadd.progress import PlainConsole
from vadd.words import one_line, shortened, size_in_memory

if TYPE_CHECKING:
    from vadd.data import DiscreteDataset
    from vadd.kinds.table.schema import ColumnReport
    from vadd.progress import Progress
    from vadd.report.table import Table


out_console = PlainConsole()
err_console = PlainConsole(stderr=True)


def print_columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: str = "") -> None:
    """Aligned and never broken, so that lines can be searched and piped; the columns ``right`` end evenly."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(row)]
        out_console.out(indent + "  ".join(cells).rstrip())


@contextmanager
def progress_bar() -> "Iterator[Progress]":
    """What is being done and how far it is, on a terminal only."""
    if not err_console.is_terminal:
        from vadd.progress import silent

        yield silent
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=err_console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int = 0, total: int | None = None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


class Narrator:
    """One line for each new piece of work, where training shows its own progress in between."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        if what != self._last:
            err_console.print(what, soft_wrap=True)
            self._last = what


def show_results(tables: "Sequence[Table]", numbers: list[dict[str, Any]], page: Path, json: Path | None) -> None:
    for table in tables:
        table.print(out_console)
    if json is not None:
        write_json(json, numbers)
    out_console.print(f"report: {page.resolve()}", soft_wrap=True)


LONGEST_EXAMPLE = 20


def show_reports(reports: "Sequence[ColumnReport]") -> None:
    """A line for each column: kind, number of values, missing cells, the most frequent values."""
    lines = [["column", "kind", "values", "missing", "most frequent"]]
    for report in reports:
        skipped = report.spec.kind == "skip"
        grouped = report.distinct > report.spec.values and not skipped
        values = f"{report.distinct:,}" + (f" in {report.spec.values}" if grouped else "")
        missing = f"{report.missing:,}" if report.missing else "-"
        shown = report.problem or ", ".join(_short(example) for example in report.examples)
        lines.append([report.name, "left out" if skipped else report.spec.kind, values, missing, shown])
    print_columns(lines, right=frozenset({2, 3}))


def show_table(data: "DiscreteDataset") -> None:
    """What a training is about to learn, before it begins."""
    from vadd.kinds import TableKind

    if not isinstance(data.kind, TableKind):
        return
    err_console.print(
        f"{data.name}: {len(data.train) + len(data.test):,} rows, {len(data.test):,} held out", soft_wrap=True
    )
    for column in data.kind.codec.columns:
        notes = {"value": ", missing cells are one of them", "unknown": ", missing cells are unknown", "never": ""}
        err_console.print(
            f"  {column.name}: {column.kind}, {column.size} values{notes[column.missing]}", soft_wrap=True, style="dim"
        )
    for name in data.kind.codec.left_out:
        err_console.print(f"  {name}: left out", soft_wrap=True, style="dim")


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= LONGEST_EXAMPLE else f"{one_line[: LONGEST_EXAMPLE - 3]}..."


LONGEST_LINE = 1500
TOO_LARGE = (
    # What torch says on a CUDA device, on Linux, on Windows.
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    # What torch and NumPy say of sizes that no machine could have.
    "overflow",
    "Python int too large",
    "Maximum allowed dimension exceeded",
    "array is too big",
    "Trying to create tensor with negative dimension",
)


@contextmanager
def one_line_for_mistakes() -> Iterator[None]:
    """Around a whole command. What is nobody's mistake but ours goes through, with its traceback."""
    try:
        with _stopped_politely():
            yield
    except UserError as error:
        _end(f"error: {error}")
    except OSError as error:
        _end(f"error: {error.filename or 'the system'}: {error.strerror or error}")
    except (Interrupted, KeyboardInterrupt) as stop:
        _end(f"{stop}; run the same command again to go on" if str(stop) else "interrupted", code=130)
    except Exception as error:
        reason = _why_too_large(error)
        if reason is None:
            raise
        _end(f"error: there is not enough memory for this: {reason}")


@contextmanager
def _stopped_politely() -> Iterator[None]:
    """SIGTERM, and the SIGHUP of a terminal that goes away, are as Ctrl-C: what is half done is removed or saved."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other set signal handlers
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _why_too_large(error: Exception) -> str | None:
    """What could not be had, if that is what went wrong."""
    said = next(iter(str(error).splitlines()), "")
    if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in TOO_LARGE):
        return None
    wanted = re.search(r"allocate (\d+) bytes", said)
    return f"{size_in_memory(int(wanted[1]))} at once" if wanted else said or "the system gave none"


def _end(line: str, *, code: int = 2) -> None:
    err_console.print(shortened(one_line(line), LONGEST_LINE), soft_wrap=True)
    sys.exit(code)
