"""How a command ends early: what the user did is one line and exit code 2, an interruption exit code 130."""

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from vadd.cli.console import err_console
from vadd.errors import Interrupted, UserError
from vadd.words import one_line, shortened, size_in_memory

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
