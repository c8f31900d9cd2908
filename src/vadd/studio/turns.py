"""Of what a visitor asks one page for, only the newest counts.

Everything that is asked for is sent to the server at once, with the time at which it was. What is still worked on when
something newer comes stops at its next step and changes nothing on the page, and neither does what comes too late. A
problem is an answer too, shown where the other would have been: Gradio forgets what waits behind an event that fails.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from vadd.studio.problems import problem

NO_BAR = gr.Progress()
WITH_TIME = "(_, ...given) => [performance.now(), ...given]"
MOST_VISITORS = 1_000
"""Of whom it is known when they asked last."""


class OvertakenError(Exception):
    """Something newer was asked for, or nothing any more."""


@dataclass(eq=False)
class Turn:
    """One thing that was asked for."""

    turns: "Turns"
    visitor: str | None
    asked: float
    """Milliseconds on the visitor's clock."""
    bar: gr.Progress
    overtaken: bool = False

    def progress(self, what: str, done: int = 0, total: int | None = None) -> None:
        """As all long work reports; the moment at which one that was overtaken ends."""
        if self.overtaken:
            raise OvertakenError
        self.bar((done, total), unit=what)


class Turns:
    """Of all visitors, for one page."""

    def __init__(self) -> None:
        self._newest: dict[str | None, Turn] = {}
        self._lock = threading.Lock()
        self._time = gr.Number(visible=False)

    def event(self, inputs: Sequence[Any], outputs: Any) -> dict[str, Any]:
        """How something is asked for, with a function of :meth:`newest`."""
        return {
            "inputs": [self._time, *inputs],
            "outputs": outputs,
            "js": WITH_TIME,
            "trigger_mode": "multiple",
            "api_visibility": "private",
        }

    def newest(self, *, place: int = 0, of: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """For an event's function, which is given its turn first: ``of`` outputs, a problem is told in the HTML at
        ``place``.
        """

        def decorated(work: Callable[..., Any]) -> Callable[..., Any]:
            def answer(request: gr.Request, bar: gr.Progress = NO_BAR, asked: float | None = None, *given: Any) -> Any:
                turn = Turn(self, request.session_hash, asked or 0.0, bar)
                found: Any = [gr.skip()] * of
                try:
                    self._begin(turn)
                    answered = work(turn, *given)
                    found = list(answered) if of > 1 else [answered]
                except OvertakenError:
                    pass
                except Exception as error:
                    found[place] = problem(error)
                if turn.overtaken:
                    found = [gr.skip()] * of
                return found if of > 1 else found[0]

            return answer

        return decorated

    def cancel(self, visitor: str | None) -> None:
        """What was asked for is wanted no more."""
        with self._lock:
            if visitor in self._newest:
                self._newest[visitor].overtaken = True

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
