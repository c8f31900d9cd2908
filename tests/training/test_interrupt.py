"""Ctrl-C asks a training to stop; a second one insists."""

import signal
import threading

import pytest

from vadd.training.events import StopRequest


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_does_not_interrupt(number: signal.Signals) -> None:
    with StopRequest() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked


def test_a_second_ctrl_c_interrupts_at_once() -> None:
    with StopRequest():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_of_before_come_back_also_after_an_error() -> None:
    def fail() -> None:
        with StopRequest():
            assert handlers() != before
            raise RuntimeError

    before = handlers()
    with pytest.raises(RuntimeError):
        fail()
    assert handlers() == before


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before, during = handlers(), []

    def work() -> None:
        with StopRequest() as stop:
            during.append((handlers(), stop.asked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert during == [(before, False)]
    assert handlers() == before
