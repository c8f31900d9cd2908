"""Of what a visitor asks for only the newest counts."""

from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import numpy as np
import pytest
import torch

from vadd.errors import UserError
from vadd.studio.widgets import MOST_VISITORS, Turn, Turns, described

HERE, THERE = (cast(gr.Request, SimpleNamespace(session_hash=name)) for name in ("here", "there"))
SKIPPED = gr.skip()


class Bar:
    def __init__(self) -> None:
        self.said: list[Any] = []

    def __call__(self, done: object, unit: str) -> None:
        self.said.append((done, unit))


def bar() -> gr.Progress:
    return cast(gr.Progress, Bar())


def test_an_answer_is_given_and_a_problem_is_shown_in_its_place() -> None:
    turns = Turns()

    def half(turn: Turn, number: int) -> tuple[str, int]:
        turn.progress("halves", 1, 2)
        if number % 2:
            raise UserError(f"{number} is <odd>")
        return "", number // 2

    shown, answer = bar(), turns.answering(half, 2)
    assert answer(HERE, shown, 1.0, "", 8) == ["", 4]
    assert cast(Bar, shown).said == [((1, 2), "halves")]
    assert answer(HERE, bar(), 2.0, "", 7) == ['<p class="problem" role="alert">7 is &lt;odd&gt;</p>', SKIPPED]


@pytest.mark.parametrize("ended", ["asked", "cancelled"])
def test_what_is_worked_on_ends_when_something_newer_comes_or_nothing_is_wanted(ended: str) -> None:
    turns = Turns()
    steps: list[int] = []

    quick = turns.answering(lambda turn: "quick", 1)

    def work(turn: Turn) -> str:
        for step in range(10):
            steps.append(step)
            if step == 3:
                assert quick(THERE, bar(), 9.0) == "quick"  # another visitor does not disturb
            if step == 5:
                turns.cancel("here") if ended == "cancelled" else quick(HERE, bar(), 2.0)
            turn.progress("steps", step, 10)
        return "slow"

    assert turns.answering(work, 1)(HERE, bar(), 1.0) == SKIPPED
    assert steps == [0, 1, 2, 3, 4, 5]
    assert quick(HERE, bar(), 3.0) == "quick"


def test_what_comes_too_late_changes_nothing() -> None:
    echo = Turns().answering(lambda turn, text: text, 1)
    assert echo(HERE, bar(), 2.0, "", "second") == "second"
    assert echo(HERE, bar(), 1.0, "", "first") == SKIPPED
    assert echo(HERE, bar(), 2.0, "", "at the same moment") == "at the same moment"
    assert echo(THERE, bar(), 1.0, "", "another visitor") == "another visitor"


def test_visitors_of_long_ago_are_forgotten() -> None:
    turns = Turns()
    echo = turns.answering(lambda turn: "here", 1)
    for number in range(MOST_VISITORS + 5):
        visitor = cast(gr.Request, SimpleNamespace(session_hash=str(number)))
        assert echo(visitor, bar(), 1.0) == "here"
    assert len(turns._newest) == MOST_VISITORS


def test_what_went_wrong_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert described(UserError("so")) == "so"
    for ask in (torch.empty, np.empty):
        with pytest.raises((RuntimeError, MemoryError)) as too_much:
            ask(2**55)
        assert "not enough memory" in described(too_much.value)
    assert "not enough memory" in described(RuntimeError("[enforce fail] can't allocate memory: you tried 9 bytes"))
    assert described(FileNotFoundError(2, "No such file", "x.npy")) == "x.npy: No such file"
    assert capsys.readouterr().err == ""
    assert "something went wrong (KeyError)" in described(KeyError("secret"))
    assert "secret" in capsys.readouterr().err
