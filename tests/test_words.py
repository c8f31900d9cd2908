"""What is shown of texts that come from elsewhere."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vadd.errors import UserError
from vadd.terminal import PlainConsole
from vadd.words import one_line, printable, shortened


@given(st.text(st.characters(codec=None)))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    shown = printable(text)
    assert shown == printable(shown)
    assert not set(shown) & {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\n", "\t"}
    assert len(one_line(text).splitlines()) <= 1
    one_line(text).encode()  # no half of a surrogate pair either


def test_letters_stay_and_controls_are_told() -> None:
    assert printable("Äß 漢字 🙂\tx\n") == "Äß 漢字 🙂\tx\n"
    assert printable("\x1b[31m\u202ex\x9b") == r"\x1b[31m\u202ex\x9b"
    assert one_line("a\nb\tc\u2028") == r"a\nb\tc\u2028"


def test_long_texts_are_cut() -> None:
    assert shortened("x" * 80) == "x" * 80
    assert shortened("x" * 5000) == "x" * 80 + "... (5,000 characters)"


@pytest.mark.parametrize("way", ["print", "out"])
def test_a_console_shows_what_it_is_given(way: str) -> None:
    stream = StringIO()
    getattr(PlainConsole(file=stream, force_terminal=True, width=200), way)("[red]:smile:[/foo]\x1b]0;title")
    assert stream.getvalue().rstrip() == r"[red]:smile:[/foo]\x1b]0;title"
    plain = StringIO()
    PlainConsole(file=plain, width=200).out("\x1b[1mx")  # into a file goes what there is
    assert plain.getvalue() == "\x1b[1mx\n"


def test_messages_repeat_the_beginning_of_long_values_and_are_cut_once() -> None:
    refused = UserError(f"the model's own: {'x' * 5000!r} is not one of 'a', 'b'; that's all")
    expected = f"the model's own: '{'x' * 80}...' (5,000 characters) is not one of 'a', 'b'; that's all"
    assert str(refused) == str(UserError(str(refused))) == expected
