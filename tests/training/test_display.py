"""What a person sees while a model trains: the objective, and all that decides whether to wait."""

import re
import time
from io import StringIO
from pathlib import Path

import pytest

from tests.helpers.tiny import tiny_recipe, train_in
from vadd.terminal import PlainConsole
from vadd.training import display
from vadd.training.display import TrainingDisplay


def screen(monkeypatch: pytest.MonkeyPatch, *, width: int = 80, terminal: bool) -> StringIO:
    """What the display prints."""
    stream = StringIO()
    plain = PlainConsole(file=stream, width=width, force_terminal=terminal, color_system=None, _environ={})
    monkeypatch.setattr(display, "console", plain)
    return stream


def test_a_log_begins_with_what_is_trained_and_tells_the_objective(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = screen(monkeypatch, terminal=False)
    train_in(tmp_path / "run", tiny_recipe())
    first, *rest = stream.getvalue().splitlines()
    assert first.startswith("checkerboard vadd: 500 examples of 2 with 8 values, 200 held out; ")
    assert " parameters; 30 steps of batch 32; " in first
    assert " kB a checkpoint; about " in first
    assert [line.split(",")[0] for line in rest] == [f"checkerboard vadd: {step}/30 steps" for step in (10, 20, 30)]
    assert all("held-out objective" in line and "nats per position" in line and "it/s" in line for line in rest)
    assert not any("reconstruction" in line for line in rest)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_steps_speed_and_time_left_are_there_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    stream = screen(monkeypatch, width=width, terminal=True)
    title, about = "a recipe with a rather long name vadd", "100 examples; 3 parameters"
    with TrainingDisplay(title, about, 0, 1_000_000) as shown:
        shown._began -= 100
        for step in range(123_456, 123_459):
            shown.advance(step)
        shown.note(0.1234, "2 of 2 dimensions active")
    assert f"{title}: {about}; about " in stream.getvalue().replace("\n", "")
    last = [line for line in stream.getvalue().replace("\r", "\n").splitlines() if "it/s" in line][-1]
    assert "123458/1000000" in last
    assert re.search(r"123\d it/s", last)
    assert "left" in last
    assert "held-out 0.1234" in last
    assert "…" not in last
    assert len(last.removeprefix("\x1b[2K")) <= width


def test_a_log_hears_from_steps_that_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = screen(monkeypatch, terminal=False)
    monkeypatch.setattr(display, "LINE_EVERY", 0.02)
    with TrainingDisplay("toy vadd", "100 examples", 0, 10) as shown:
        while "the first step takes long" not in stream.getvalue():
            time.sleep(0.01)
        shown.advance(1)
        while "toy vadd: 1/10 steps" not in stream.getvalue():
            time.sleep(0.01)
    assert stream.getvalue().startswith("toy vadd: 100 examples; the first step takes long\n")


def test_whoever_is_silent_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = screen(monkeypatch, terminal=False)
    with TrainingDisplay("toy vadd", "100 examples", 0, 2, silent=True) as shown:
        shown.advance(1)
        shown.advance(2)
        shown.note(0.5, "")
    assert stream.getvalue() == ""
