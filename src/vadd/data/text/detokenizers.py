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
    return "\n" + _in_turn(_LAMBADA, text).strip()


def scientific_papers(text: str) -> str:
    """PubMed and arXiv."""
    return lm1b(wikitext(text))


def unchanged(text: str) -> str:
    return text


def _in_turn(steps: Iterable[Detokenizer], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


def _literal(old: str, new: str) -> Detokenizer:
    return lambda text: text.replace(old, new)


def _attached(mark: str, *, also_last: bool = False) -> Detokenizer:
    """A mark between blanks joins the word before it, if ``also_last`` also at the end of the text."""
    pattern = re.compile(f" {re.escape(mark)}(?P<after> |$)" if also_last else f" {re.escape(mark)}(?P<after> )")
    return lambda text: pattern.sub(lambda found: mark + found["after"], text)


def _stripped_inside(opening: str, closing: str) -> Detokenizer:
    """Whatever stands between the two loses the white space at its ends."""
    pattern = re.compile(f"{re.escape(opening)}(?P<inside>[^{re.escape(closing)}]*){re.escape(closing)}")
    return lambda text: pattern.sub(lambda found: opening + found["inside"].strip() + closing, text)


def _tight(opening: str, closing: str) -> Detokenizer:
    """The same for one blank on either side, around something that has neither of the two in it."""
    neither = f"[^{re.escape(opening + closing)}]+"
    pattern = re.compile(f"{re.escape(opening)} (?P<inside>{neither}) {re.escape(closing)}")
    return lambda text: pattern.sub(lambda found: opening + found["inside"] + closing, text)


def _joined_words(text: str) -> str:
    """``Walton 's`` and ``we 're``: an apostrophe with letters after it joins the word before."""
    return re.sub(r" (?='\w)", "", text)


def _full_stops(text: str) -> str:
    """Only after a plain word: ``U.S. .`` stays as it is."""
    return re.sub(r"(?P<word> \w+) \.(?P<after> |$)", r"\g<word>.\g<after>", text)


_WIKITEXT: tuple[Detokenizer, ...] = (
    _literal("s '", "s'"),  # the genitive of plurals
    *(_literal(f" @{mark}@ ", mark) for mark in "-,."),  # inside words and numbers
    *(_attached(mark) for mark in ":;.!?,"),
    *(_stripped_inside(*pair) for pair in ("()", "[]", "{}", '""', "''")),
    *(_literal(" ".join("=" * level), "=" * level) for level in (4, 3, 2)),  # headings
    _literal(" ° ", "°"),
    _literal(" \n", "\n"),
    _literal("\n ", "\n"),
    _literal(" N ", " 1 "),  # meant for the Penn Treebank's numbers, but part of every published result
    _literal(" 's", "'s"),
)

_LM1B: tuple[Detokenizer, ...] = (
    *(_literal(f"{scheme} : / / ", f"{scheme}://") for scheme in ("http", "https")),
    _joined_words,
    _full_stops,
    *(_attached(mark, also_last=True) for mark in "?!"),
    *(_attached(mark) for mark in ",:;"),
    _literal(" / ", "/"),
    *(_tight(*pair) for pair in ('""', "''", "()", "[]")),
    *(_literal(f"{currency} ", currency) for currency in "$£"),
)

_LAMBADA: tuple[Detokenizer, ...] = tuple(_literal(quote, '"') for quote in ("“", "”", "``", "''"))
