"""Bars and messages that another process shows."""

import pytest

from mhgrn.progress import Event, Relayed, bar, say, send_to, track


def test_bars_and_messages_are_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[Event] = []
    send_to(sent.append)
    try:
        say("before")
        assert list(track("abc", "letters")) == ["a", "b", "c"]
        with pytest.raises(InterruptedError), bar("broken", None):
            raise InterruptedError
    finally:
        send_to(None)
    assert capsys.readouterr().err == ""
    assert sent[:3] == [("message", "before", None), ("bar", "letters", 3), ("advance", 1, None)]
    assert sent[-4:] == [("advance", 3, None), ("end", None, None), ("bar", "broken", None), ("end", None, None)]
    shown = Relayed()
    for event in [*sent, ("advance", 1, None), ("message", "after\x1b[2J", None)]:  # also what comes too late
        shown.show(event)
    shown.close()
    assert capsys.readouterr().err == "before\nafter\\u001b[2J\n"
