"""The ends of a driver that are rare: threads that do not start or stop, interrupts, what asyncio reports."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from network.peer import WAIT_S, ScriptedCore, driver_of, held_up, talking

from kafka_share.core.events import CompleteCommit, Output, PollEnded
from kafka_share.errors import ConsumerClosedError, InternalError

LONG_MS = 60_000
DONE = CompleteCommit(1, timed_out=False)


def test_nothing_is_left_open_when_the_thread_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    driver = driver_of(ScriptedCore())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        driver.start()
    assert driver._loop is not None
    assert driver._loop.is_closed()


def test_the_next_event_wakes_the_loop_when_an_interrupt_kept_the_last_one_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with talking() as (client, _):
        with monkeypatch.context() as patch:
            patch.setattr(client.driver._wake_up, "ring", interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.driver.post(PollEnded())
        client.driver.post(PollEnded())
        assert [client.next_event(), client.next_event()] == [PollEnded(), PollEnded()]


def test_stop_does_not_wait_when_it_is_called_on_the_network_thread() -> None:
    """A finalizer may run on any thread, on this one too."""

    def react(event: Any) -> list[Output]:
        client.driver.stop(LONG_MS)
        return []

    with talking(react=react) as (client, _):
        client.driver.post(PollEnded())
        assert client.driver._thread is not None
        client.driver._thread.join(WAIT_S)
        assert not client.driver._thread.is_alive()
        with pytest.raises(ConsumerClosedError):
            client.driver.post(PollEnded())


def test_a_warning_is_logged_when_the_thread_does_not_end_in_time(caplog: pytest.LogCaptureFixture) -> None:
    with held_up() as (client, go_on):
        with caplog.at_level(logging.WARNING, "kafka_share.network"):
            client.driver.stop(1)
        go_on.set()
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.getMessage() == "thread 'tested' did not end within 1 ms"


def test_an_interrupt_comes_out_as_a_defect_when_it_hits_the_network_thread() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with talking() as (client, _):
        assert client.driver._loop is not None
        client.driver._loop.call_soon_threadsafe(interrupt)
        with pytest.raises(InternalError) as caught:
            client.mailbox.take(LONG_MS)
        assert isinstance(caught.value.__cause__, KeyboardInterrupt)


def test_a_defect_comes_out_when_closing_the_connections_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with talking() as (client, _):
        client.do(DONE)
        assert client.mailbox.take(LONG_MS) == [DONE]
        monkeypatch.setattr(client.driver._turns.connections, "close", broken)
        client.driver.stop()
        with pytest.raises(InternalError) as caught:
            client.mailbox.take(0)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_only_the_first_defect_is_reported_when_there_are_more() -> None:
    with talking() as (client, _):
        loop = client.driver._loop
        assert loop is not None

        def break_twice() -> None:
            for number in range(2):
                loop.call_exception_handler({"message": "defect", "exception": ValueError(number)})

        loop.call_soon_threadsafe(break_twice)
        with pytest.raises(InternalError) as caught:
            client.mailbox.take(LONG_MS)
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.args == (0,)


@pytest.mark.parametrize("error", [None, ConnectionResetError("gone")])
def test_the_client_goes_on_when_asyncio_remarks_something_about_a_socket(error: Exception | None) -> None:
    with talking() as (client, _):
        assert client.driver._loop is not None
        context = {"message": "socket.send() raised exception."} | ({} if error is None else {"exception": error})
        client.driver._loop.call_soon_threadsafe(client.driver._loop.call_exception_handler, context)
        client.do(DONE)
        assert client.mailbox.take(LONG_MS) == [DONE]
