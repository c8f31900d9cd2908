"""Ctrl-C and SIGTERM end a training at the end of its step, not in the middle."""

import signal
import threading
from types import FrameType, TracebackType


class StopRequest:
    """While active, the first SIGINT or SIGTERM sets ``asked``; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopRequest":
        # Python lets no other thread set signal handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def ask(self) -> None:
        """As if somebody had sent a signal."""
        self.asked = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
