"""Stopping a computation without a signal."""

from threading import Thread

from mhgrn.io.signals import StopSignals, ask_to_stop


def test_a_computation_of_another_thread_is_asked_to_stop() -> None:
    assert not ask_to_stop()  # there is none
    signals = StopSignals()
    found = []

    def compute() -> None:
        with signals.handled():
            found.append(ask_to_stop())

    thread = Thread(target=compute)
    thread.start()
    thread.join()
    assert found == [True]
    assert signals.asked_to_stop
    assert not ask_to_stop()  # it has ended
    assert not StopSignals().asked_to_stop
