"""What the commands say and show: two consoles, aligned columns, and something to look at while waiting."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from vadd.errors import Interrupted, UserError
from vadd.files import remove_parts, write_json
from vadd.terminal import PlainConsole
from vadd.words import one_line, shortened, why_too_large

if TYPE_CHECKING:
    from vadd.report.table import Table


out_console = PlainConsole()
err_console = PlainConsole(stderr=True)


def print_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = "") -> None:
    """Aligned and never broken, so that lines can be searched and piped; the columns ``right`` end evenly."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(row)]
        out_console.out(indent + "  ".join(cells).rstrip())


class Narrator:
    """One line for each new piece of work, where training shows its own progress in between."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        if what != self._last:
            err_console.out(what)
            self._last = what


def show_results(tables: "Sequence[Table]", numbers: list[dict[str, Any]], page: Path, json: Path | None) -> None:
    for table in tables:
        table.print(out_console)
    if json is not None:
        write_json(json, numbers)
    out_console.out(f"report: {page.resolve()}")


LONGEST_LINE = 1500
BUSY = 0.5
"""Seconds that the main thread has to answer a signal."""


@contextmanager
def one_line_for_mistakes() -> Iterator[None]:
    """Around a whole command. Our own mistakes go through, with its traceback."""
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
        reason = why_too_large(error)
        if reason is None:
            raise
        _end(f"error: there is not enough memory for this: {reason}")


@contextmanager
def _stopped_politely() -> Iterator[None]:
    """SIGTERM, and the SIGHUP of a terminal that goes away, are as Ctrl-C: what is half done is removed or saved."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other set signal handlers
        yield
        return
    before = {}
    answered = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        answered.set()
        raise KeyboardInterrupt

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # Not those that are ignored, as under nohup.
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, interrupt)
    # Python calls handlers between two of its own instructions, but writes a byte here at once.
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    former = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_end_if_busy, args=(reading, interrupt, answered), daemon=True).start()
    try:
        yield
    except (UserError, Interrupted):
        raise
    except Exception:
        if answered.is_set():  # a library that was interrupted while it was imported fails in its own way
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.set_wakeup_fd(former)
        writing.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_if_busy(signals: socket.socket, interrupt: object, answered: threading.Event) -> None:
    """End the process where one call into a library, such as the training of a tokenizer, takes so long that a signal
    is not answered. A training that will save at the end of its step has a handler of its own, and its time.
    """
    with signals:
        while number := signals.recv(1):
            if signal.getsignal(number[0]) is interrupt and not answered.wait(BUSY):
                remove_parts()
                err_console.show_cursor()
                os.write(2, b"interrupted\n")
                os._exit(130)


def end_by_closed_pipe() -> None:
    """As other programs end whose output goes to one that has ended, like ``head``: without a message, by SIGPIPE."""
    if hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
    os._exit(1)  # not sys.exit, which would write what is left


def _end(line: str, *, code: int = 2) -> None:
    """Said once on every host: what is wrong may be wrong there only."""
    err_console.quiet = os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) != "0"
    err_console.out(shortened(one_line(line), LONGEST_LINE))
    sys.exit(code)
