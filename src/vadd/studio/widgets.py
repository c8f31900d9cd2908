"""Building blocks of all tabs: controls, events, cards, and the line that is shown where an answer failed."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

import gradio as gr
from markupsafe import Markup

from vadd.errors import UserError
from vadd.words import why_too_large

NO_BAR = gr.Progress()
WITH_TIME_AND_TAB = """(_, __, ...given) => [performance.now(),
  Array.from(document.querySelectorAll('[role=tabpanel]')).find((tab) => tab.offsetParent)?.id ?? '', ...given]"""
MOST_VISITORS = 1_000
NOTHING = Markup("")
Answer = tuple[Any, ...]
"""A value for each output of an event."""
Picker = Callable[[Sequence[str]], str]


def asset(name: str) -> str:
    """A script or style sheet of the studio."""
    return resources.files("vadd").joinpath("studio", name).read_text()


def slider(label: str, info: str, ends: tuple[float, float], value: float, name: str, **more: Any) -> gr.Slider:
    low, high = ends
    return gr.Slider(low, high, value=value, label=label, info=info, elem_id=name, **{"step": 1, **more})


def number(label: str, info: str, value: int = 0, **more: Any) -> gr.Number:
    return gr.Number(value, label=label, info=info, precision=0, minimum=0, **more)


def choice(label: str, info: str, choices: Sequence[Any], value: str | None = "", **more: Any) -> gr.Dropdown:
    return gr.Dropdown(list(choices), value=value, label=label, info=info, **more)


def button(text: str, name: str, **more: Any) -> gr.Button:
    return gr.Button(text, elem_id=name, **{"min_width": 80, **more})


def hint(text: str) -> None:
    """A line of help for what has none of its own: buttons, canvases, files."""
    gr.HTML(str(Markup("<p>{}</p>").format(text)), elem_classes="hint", padding=False)


def controls() -> gr.Column:
    return gr.Column(scale=1, min_width=280)


def results(scale: int = 2) -> gr.Column:
    """Beside the controls; above them on a narrow screen."""
    return gr.Column(scale=scale, min_width=280, elem_classes="results")


def card(title: str, content: Markup, note: str = "") -> Markup:
    return Markup('<figure class="card"><figcaption>{}</figcaption>{}<p class="note">{}</p></figure>').format(
        title, content, note
    )


def wide_card(content: Markup) -> Markup:
    return Markup('<div class="card wide">{}</div>').format(content)


def cards(content: Sequence[Markup], size: str = "") -> str:
    return str(Markup('<div class="cards {}">{}</div>').format(size, NOTHING.join(content)))


def note(text: str) -> str:
    return str(Markup('<p class="note" role="status">{}</p>').format(text))


def problem(error: Exception | str) -> str:
    """For the place on the page where the answer would have been."""
    text = error if isinstance(error, str) else described(error)
    return str(Markup('<p class="problem" role="alert">{}</p>').format(text))


def described(error: Exception) -> str:
    """In one line. An unforeseen error goes to the terminal as well."""
    if isinstance(error, UserError):
        return str(error)
    if why_too_large(error) is not None:
        return "there is not enough memory for this; ask for less at once"
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    traceback.print_exception(error, file=sys.stderr)
    return f"something went wrong ({type(error).__name__}); the terminal that runs the studio says what"


CANCELLED = note("Cancelled. The page shows the earlier result.")


class OvertakenError(Exception):
    """A newer request came, or the visitor cancelled."""


@dataclass(eq=False)
class Turn:
    """One request of a visitor."""

    visitor: str | None
    asked: float
    """Milliseconds on the visitor's clock."""
    tab: str
    """The id of the tab that is open."""
    bar: gr.Progress
    overtaken: bool = False

    def progress(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Reports progress, and ends work that was overtaken."""
        if self.overtaken:
            raise OvertakenError
        self.bar((done, total), unit=what)


class Turns:
    """A group of events. Of the requests of one visitor only the newest counts.

    Every request is sent at once, with its time. One that is still worked on when a newer one comes stops at its next
    step and changes nothing on the page, and so does one that arrives too late.
    """

    def __init__(self) -> None:
        self._newest: dict[str | None, Turn] = {}
        self._lock = threading.Lock()

    def on(
        self, triggers: Sequence[Any], work: Callable[..., Any], inputs: Sequence[Any], outputs: list[Any], **more: Any
    ) -> Any:
        """``work(turn, *inputs)`` answers with a value for each of the ``outputs``. The first of them is HTML: a
        problem is shown there, and not raised, since Gradio drops the requests that wait behind one that fails.
        """
        settings: dict[str, Any] = {
            "js": WITH_TIME_AND_TAB,
            "trigger_mode": "multiple",
            "api_visibility": "private",
            "show_progress": "minimal",
            "show_progress_on": outputs[0],
            # The gate has checked the values, and limits that are on their way are no mistake of the visitor's.
            "preprocess": False,
        }
        hidden = [gr.Number(visible=False), gr.Textbox(visible=False)]
        return gr.on(
            list(triggers), self.answering(work, len(outputs)), [*hidden, *inputs], list(outputs), **settings | more
        )

    def follow(
        self, tab: gr.Tab, chosen: Any, pick: Picker, build: Callable[..., Answer], inputs: Sequence[Any], outputs: Any
    ) -> None:
        """Shows the run that ``pick`` takes of the chosen ones whenever that is another one than before and the tab is
        open: what a tab shows may need the data of a run, which take long to read. ``build`` gives a value for each
        output; the run is None where none is chosen.
        """
        built: Any = gr.State("")

        def rebuilt(turn: Turn, names: list[str], before: str, *given: Any, opened: bool = False) -> Answer:
            name = pick(names) if names else None
            if name == before or not (opened or turn.tab == tab.elem_id):
                return (gr.skip(),) * (len(outputs) + 1)
            return *build(name, *given), name

        for trigger, answer in ((tab.select, partial(rebuilt, opened=True)), (chosen.change, rebuilt)):
            self.on([trigger], answer, [chosen, built, *inputs], [*outputs, built])

    def answering(self, work: Callable[..., Any], count: int) -> Callable[..., Any]:
        def answer(
            request: gr.Request, bar: gr.Progress = NO_BAR, asked: float | None = None, tab: str = "", *given: Any
        ) -> Any:
            turn, values = Turn(request.session_hash, asked or 0.0, tab, bar), [gr.skip()] * count
            try:
                self._begin(turn)
                answered = work(turn, *given)
                values = list(answered) if isinstance(answered, tuple) else [answered]
            except OvertakenError:
                pass
            except Exception as error:
                values[0] = problem(error)
            if turn.overtaken:
                values = [gr.skip()] * count
            return values if count > 1 else values[0]

        return answer

    def cancel(self, visitor: str | None) -> None:
        with self._lock:
            if visitor in self._newest:
                self._newest[visitor].overtaken = True

    def cancelled_by(self, button: gr.Button, said: gr.HTML, *events: Any) -> None:
        """The button ends what is under way; nothing but ``said`` changes on the page."""

        def cancel(request: gr.Request) -> str:
            self.cancel(request.session_hash)
            return CANCELLED

        settings: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
        button.click(cancel, None, said, cancels=list(events), **settings)

    def _begin(self, turn: Turn) -> None:
        with self._lock:
            before = self._newest.pop(turn.visitor, None)
            if before is not None and before.asked > turn.asked:
                self._newest[turn.visitor] = before
                turn.overtaken = True
                raise OvertakenError
            if before is not None:
                before.overtaken = True
            self._newest[turn.visitor] = turn
            while len(self._newest) > MOST_VISITORS:
                del self._newest[next(iter(self._newest))]
