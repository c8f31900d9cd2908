"""The docstrings of the package for the pages of its reference: roles of Sphinx as code, doctests as code blocks."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")
DOCTEST = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).+)*)+", re.MULTILINE)


def readable(text: str) -> str:
    named = ROLE.sub(lambda found: f"`{found[1].rsplit('.', 1)[-1]}`", text)
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", named)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
