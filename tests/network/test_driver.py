from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from network.peer import WAIT_S, Accepted, Client, ScriptedCore, ask, driver_of, held_up, metadata, talking

from kafka_share.core.events import (
    BatchReclaimed,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    FetchedBatch,
    FinishClose,
    Output,
    PollEnded,
    RaiseError,
    Reclaim,
    ReportOutcomes,
    ResponseReceived,
    Unsubscribed,
)
from kafka_share.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    ConsumerClosedError,
    IllegalStateError,
    InternalError,
)
from kafka_share.network import driver as driver_module

LONG_MS = 60_000


def deliver(batch_id: int) -> Deliver:
    return Deliver(FetchedBatch(batch_id, (), acquired_at_ms=0, acquisition_lock_timeout_ms=30_000))


def take(client: Client, count: int) -> list[Output]:
    taken: list[Output] = []
    while len(taken) < count:
        taken += client.mailbox.take(LONG_MS)
    return taken


def test_all_outputs_for_the_application_reach_the_mailbox_in_their_order() -> None:
    outputs: list[Output] = [
        deliver(1),
        ReportOutcomes(()),
        RaiseError(BrokerUnreachableError("x"), fatal=False),
        CompleteCommit(1, timed_out=False),
        CompleteUnsubscribe(2),
    ]
    with talking() as (client, _):
        client.do(*outputs)
        assert take(client, 5) == outputs


def test_batch_goes_back_to_the_core_when_it_is_reclaimed_in_time() -> None:
    with talking() as (client, _):
        client.do(deliver(1), deliver(2), Reclaim(2), Reclaim(3))
        assert client.next_event() == BatchReclaimed(2)
        assert take(client, 1) == [deliver(1)]
        client.do(Reclaim(1), CompleteCommit(1, timed_out=False))
        assert take(client, 1) == [CompleteCommit(1, timed_out=False)]
        assert client.core.events.empty()


def test_quiet_events_come_first_and_wake_nobody() -> None:
    with talking() as (client, _):
        client.do(CompleteCommit(0, timed_out=False))
        take(client, 1)
        client.come_to_rest()
        before = client.driver.wakeups
        client.driver.post(PollEnded(), wake=False)
        client.driver.post(PollEnded(), wake=False)
        assert client.driver.wakeups == before
        assert client.core.events.empty()
        client.driver.post(Unsubscribed(1, 0))
        assert [client.next_event() for _ in range(3)] == [PollEnded(), PollEnded(), Unsubscribed(1, 0)]
        assert client.driver.wakeups == before + 1


def test_loop_is_woken_when_quiet_events_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "UNWOKEN_LIMIT", 3)
    with talking() as (client, _):
        for _ in range(4):
            client.driver.post(PollEnded(), wake=False)
        assert [client.next_event() for _ in range(4)] == [PollEnded()] * 4


def test_one_wakeup_serves_many_events_when_the_loop_is_busy() -> None:
    with held_up() as (client, go_on):
        for request_id in range(100):
            client.driver.post(Unsubscribed(request_id, 0))
        go_on.set()
        assert [client.next_event() for _ in range(101)][1:] == [Unsubscribed(i, 0) for i in range(100)]
        client.do(CompleteCommit(0, timed_out=False))
        take(client, 1)
        assert client.driver.wakeups <= 3


def test_next_request_leaves_in_the_callback_of_the_answer_when_nothing_wakes_the_loop() -> None:
    count = 50

    def script(connection: Accepted) -> None:
        connection.negotiate()
        for i in range(count):
            request = connection.read()
            connection.answer(request, metadata(str(i)))
        connection.expect_end()

    def react(event: Any) -> list[Output]:
        assert isinstance(event, ResponseReceived)
        if event.send_id == count:
            return [CompleteCommit(0, timed_out=False)]
        return [ask(shared["peer"], event.send_id + 1), deliver(event.send_id)]

    shared: dict[str, Any] = {}
    with talking(script, react=react) as (client, peer):
        shared["peer"] = peer
        client.do(ask(peer, 1))
        assert len(take(client, count)) == count
        assert client.driver.wakeups == 1


def test_core_is_polled_when_the_time_it_named_has_come() -> None:
    with talking() as (client, _):
        core = client.core
        before = client.driver.now_ms()
        core.wake_at = before + 30
        original = core.poll

        def poll(now_ms: int) -> list[Output]:
            if core.wake_at is not None and now_ms >= core.wake_at:
                core.wake_at = None
                return [CompleteCommit(now_ms, timed_out=True)]
            return original(now_ms)

        core.poll = poll  # type: ignore[method-assign]
        client.do()
        (woken,) = take(client, 1)
    assert isinstance(woken, CompleteCommit)
    assert woken.request_id >= before + 30


def test_earlier_time_wins_when_the_core_changes_its_mind() -> None:
    with talking() as (client, _):
        client.core.wake_at = client.driver.now_ms() + LONG_MS
        client.do(CompleteCommit(0, timed_out=False))
        client.come_to_rest()  # the timer is armed after the outputs of a step
        timer = client.driver._timer
        assert timer is not None
        client.core.wake_at = client.driver.now_ms() + LONG_MS // 2
        client.do(CompleteCommit(0, timed_out=False))
        client.come_to_rest()
        assert timer.cancelled()


def test_times_of_the_core_never_go_back() -> None:
    with talking() as (client, _):
        for _ in range(100):
            client.do()
        client.do(CompleteCommit(0, timed_out=False))
        take(client, 1)
        assert client.core.times == sorted(client.core.times)
        assert client.core.times[-1] <= client.driver.now_ms()


# ---- the end


def test_thread_ends_by_itself_when_the_core_has_finished() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        client.next_event()
        client.do(FinishClose())
        assert take(client, 1) == [FinishClose()]
        assert client.driver._thread is not None
        client.driver._thread.join(WAIT_S)
        assert not client.driver._thread.is_alive()
        with pytest.raises(ConsumerClosedError):
            client.driver.post(PollEnded())
        assert client.mailbox.take(0) == []


def test_stopping_again_does_nothing() -> None:
    with talking() as (client, _):
        client.driver.stop()
        client.driver.stop()
        with pytest.raises(ConsumerClosedError):
            client.mailbox.take(LONG_MS)


def test_stopping_does_nothing_when_it_never_started() -> None:
    driver_of(ScriptedCore()).stop()


@pytest.mark.parametrize("read_first", [False, True])
def test_nothing_is_left_when_stopped_in_the_middle_of_opening(read_first: bool) -> None:
    reached = threading.Event()

    def script(connection: Accepted) -> None:
        if read_first:
            connection.read()
        reached.set()
        connection.ignore_all()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        assert reached.wait(WAIT_S)


def test_post_is_refused_before_the_start_and_a_second_start_too() -> None:
    driver = driver_of(ScriptedCore())
    with pytest.raises(IllegalStateError):
        driver.post(PollEnded())
    driver.start()
    try:
        with pytest.raises(IllegalStateError):
            driver.start()
    finally:
        driver.stop()


@pytest.mark.parametrize("where", ["handle", "poll", "wake_at_ms", "output"])
def test_defect_comes_out_everywhere_when_the_core_breaks(where: str) -> None:
    defect = AssertionError("two and two are five")

    def break_down(*_: object) -> Any:
        raise defect

    with talking() as (client, _):
        client.do(CompleteCommit(0, timed_out=False))
        take(client, 1)
        if where == "output":
            client.do("no output at all")  # type: ignore[arg-type]
        else:
            setattr(client.core, where, break_down)
            client.driver.post(PollEnded())
        with pytest.raises(InternalError) as caught:
            take(client, 1)
        assert caught.value.__cause__ is defect or where == "output"
        client.driver._thread.join(WAIT_S)  # type: ignore[union-attr]
        with pytest.raises(InternalError):
            client.driver.post(PollEnded())
        with pytest.raises(InternalError):
            client.mailbox.take(0)


def test_defect_comes_out_when_a_connection_breaks_while_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kafka_share.network.connection.dial", broken)
    with talking() as (client, peer):
        client.do(ask(peer))
        with pytest.raises(InternalError) as caught:
            take(client, 1)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_defect_comes_out_when_a_connection_breaks_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.expect_end()

    monkeypatch.setattr("kafka_share.network.wire.messages.decode_response", broken)
    with talking(script) as (client, peer):
        client.do(ask(peer))
        with pytest.raises(InternalError) as caught:
            take(client, 1)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_settings_are_refused_when_they_cannot_work() -> None:
    with pytest.raises(ConfigurationError):
        driver_of(ScriptedCore(), security_protocol="SSL", ssl_cafile="/no/such/file")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_is_refused_when_the_process_forks() -> None:
    with talking() as (client, _):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for use in (
                    lambda: client.driver.post(PollEnded()),
                    lambda: client.driver.start(),
                    lambda: client.mailbox.take(LONG_MS),
                ):
                    with pytest.raises(IllegalStateError, match="fork"):
                        use()
                client.driver.stop()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        client.do(CompleteCommit(0, timed_out=False))
        assert take(client, 1)  # the parent's goes on


FORGETFUL = """
import sys
sys.path[:0] = {path!r}
from network.peer import Client
from kafka_share.core.events import CompleteCommit
client = Client()
client.do(CompleteCommit(0, timed_out=False))
print(client.mailbox.take(20_000))
{more}
"""


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
@pytest.mark.parametrize("more", ["", "del client", "raise SystemExit(0)"])
def test_process_ends_without_a_word_when_nobody_stopped_the_driver(more: str) -> None:
    code = FORGETFUL.format(path=[str(Path(__file__).parents[1]), os.getcwd()], more=more)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CompleteCommit" in done.stdout


def test_no_warning_of_resources_when_everything_is_collected() -> None:
    with talking() as (client, _):
        client.do(CompleteCommit(0, timed_out=False))
        take(client, 1)
    del client
    gc.collect()  # pytest turns what a finalizer warns of into a failure
