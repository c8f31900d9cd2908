"""Corpora that were cut into words for the language models of their time, put back into ordinary writing.

Perplexities compare only between models that read the same text, so these do to each corpus what the papers on masked
diffusion do to it before they tokenise it anew. AG News they take as it is.
"""

import re
from collections.abc import Callable, Iterable

Detokenizer = Callable[[str], str]


def wikitext(text: str) -> str:
    """``guest @-@ starring`` -> ``guest-starring``, ``film , television`` -> ``film, television``, ``= = A = =`` ->
    ``== A ==`` and its kin.
    """
    return _in_turn(_WIKITEXT, text)


def lm1b(text: str) -> str:
    """``we 're , " he said .`` -> ``we're, " he said.`` and its kin."""
    return _in_turn(_LM1B, text)


def lambada(text: str) -> str:
    """Straight quotes, and every passage begins on a new line."""
    return "\n" + re.sub("[“”]|``|''", '"', text).strip()


def scientific_papers(text: str) -> str:
    """PubMed and arXiv."""
    return lm1b(wikitext(text))


def unchanged(text: str) -> str:
    return text


Step = tuple[str, str]
"""A pattern and what replaces it."""


def _in_turn(steps: Iterable[Step], text: str) -> str:
    for pattern, new in steps:
        text = re.sub(pattern, new, text)
    return text


def _stripped_inside(opening: str, closing: str) -> Step:
    """Whatever stands between the two loses the white space at its ends."""
    return rf"\{opening}\s*([^\{closing}]*?)\s*\{closing}", rf"{opening}\1{closing}"


def _tight(opening: str, closing: str) -> Step:
    """The same for one blank on either side, around something that has neither of the two in it."""
    return rf"\{opening} ([^\{opening}\{closing}]+) \{closing}", rf"{opening}\1{closing}"


_WIKITEXT: tuple[Step, ...] = (
    ("s '", "s'"),  # the genitive of plurals
    *((f" @[{mark}]@ ", mark) for mark in "-,."),  # inside words and numbers
    *((f" [{mark}] ", f"{mark} ") for mark in ":;.!?,"),
    *(_stripped_inside(*pair) for pair in ("()", "[]", "{}", '""', "''")),
    *((" ".join("=" * level), "=" * level) for level in (4, 3, 2)),  # headings
    (" ° ", "°"),
    (" \n", "\n"),
    ("\n ", "\n"),
    (" N ", " 1 "),  # meant for the Penn Treebank's numbers, but part of every published result
    (" 's", "'s"),
)

_LM1B: tuple[Step, ...] = (
    *((f"{scheme} : / / ", f"{scheme}://") for scheme in ("http", "https")),
    (r" (?='\w)", ""),  # ``Walton 's`` and ``we 're``
    (r"( \w+) \.( |$)", r"\1.\2"),  # only after a plain word: ``U.S. .`` stays as it is
    *((f" [{mark}]( |$)", rf"{mark}\1") for mark in "?!"),
    *((f" {mark} ", f"{mark} ") for mark in ",:;"),
    (" / ", "/"),
    *(_tight(*pair) for pair in ('""', "''", "()", "[]")),
    *((f"[{currency}] ", currency) for currency in "$£"),
)
