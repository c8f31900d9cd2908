"""Where lines for a person go."""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from vadd.words import printable


class PlainConsole(Console):
    """Prints what it is given as it is, no markup in it. A terminal gets no character that would steer it: names, texts
    and samples may come from anywhere. Of several processes only the first one prints.
    """

    def __init__(self, **options: Any) -> None:
        silent = os.environ.get("RANK", "0") != "0"
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, "quiet": silent, **options})

    def on_broken_pipe(self) -> None:
        """Rich would end the process here, with code 1."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            steers = self.is_terminal and segment.control is None
            yield segment._replace(text=printable(segment.text)) if steers else segment


console = PlainConsole(stderr=True)
