"""What goes wrong is told on the page, in one line, and the server lives."""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import gradio as gr
from markupsafe import Markup, escape

from vadd.errors import UserError

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says on a CUDA device, on Linux, on Windows."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


def told(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """An event's function whose mistakes are shown in a corner of the page, for a while."""

    @wraps(work)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result:
        try:
            return work(*given, **named)
        except gr.Error:
            raise
        except Exception as error:
            raise gr.Error(str(escape(described(error))), print_exception=False) from None

    return guarded


def told_here(work: Callable[Given, str]) -> Callable[Given, str]:
    """An event's function that gives HTML, and whose mistakes are shown instead. Not as an error: Gradio forgets what
    waits behind an event that fails.
    """

    @wraps(work)
    def guarded(*given: Given.args, **named: Given.kwargs) -> str:
        try:
            return work(*given, **named)
        except Exception as error:
            return problem(error)

    return guarded


def problem(error: Exception) -> str:
    """For the place on the page where the answer would have been."""
    return str(Markup('<p class="problem" role="alert">{}</p>').format(described(error)))


def described(error: Exception) -> str:
    """In one line. What nobody foresaw goes to the terminal as well, where it can be followed up."""
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MemoryError) or any(sign in first for sign in OUT_OF_MEMORY):
        return "there is not enough memory for this; ask for less at once"
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    traceback.print_exception(error, file=sys.stderr)
    return f"something went wrong ({type(error).__name__}); the terminal that runs the studio says what"
