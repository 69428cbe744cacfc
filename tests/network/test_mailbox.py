from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from kafka_share.core.events import CompleteCommit, Deliver, FetchedBatch, FinishClose, Output
from kafka_share.errors import ConsumerClosedError, InternalError
from kafka_share.native import IS_COMPILED, DirectLine
from kafka_share.network import mailbox as mailbox_module
from kafka_share.network.mailbox import Mailbox

T = TypeVar("T")
LONG_MS = 60_000


def deliver(batch_id: int) -> Deliver:
    return Deliver(FetchedBatch(batch_id, (), acquired_at_ms=0, acquisition_lock_timeout_ms=30_000))


def on_thread(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the future has it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class WaitingTakers:
    """Tells when a taker has begun to wait, so that a test need not sleep."""

    def __init__(self, box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits = threading.Event()
        monkeypatch.setattr(box, "_bell", Bell(box._bell, self.waits.set))


class Bell:
    """The lock that a taker waits for; `about_to_wait` is called before each wait."""

    def __init__(self, lock: threading.Lock, about_to_wait: Callable[[], object]) -> None:
        self.release = lock.release
        self._lock = lock
        self._about_to_wait = about_to_wait

    def acquire(self, *, timeout: float) -> bool:
        self._about_to_wait()
        return self._lock.acquire(timeout=timeout)


def test_all_that_is_pending_is_taken_when_something_was_put() -> None:
    box = Mailbox()
    box.put(deliver(1))
    box.put_all([CompleteCommit(7, False), deliver(2)])
    assert box.take(0) == [deliver(1), CompleteCommit(7, False), deliver(2)]
    assert box.take(0) == []


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda box: box.put(FinishClose()), [FinishClose()]),
        (lambda box: box.wakeup(), []),
    ],
)
def test_wait_ends_when_something_happens(
    act: Callable[[Mailbox], None], expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Mailbox()
    takers = WaitingTakers(box, monkeypatch)
    taken = on_thread(lambda: box.take(LONG_MS))
    assert takers.waits.wait(10)
    act(box)
    assert taken.result(10) == expected


def test_wait_ends_with_nothing_when_the_time_is_over() -> None:
    assert Mailbox().take(1) == []


def test_wakeup_is_not_lost_when_it_comes_before_the_wait() -> None:
    box = Mailbox()
    box.wakeup()
    assert box.take(0) == []  # does not use the wake-up up
    assert box.take(LONG_MS) == []
    assert box.consume_wakeup()
    assert not box.consume_wakeup()


def test_one_wakeup_ends_one_wait_when_nobody_asks_for_the_flag() -> None:
    box = Mailbox()
    box.wakeup()
    assert box.take(LONG_MS) == []
    assert box.take(1) == []  # waits its millisecond instead of spinning
    assert not box.is_interrupted
    assert box.consume_wakeup()


def test_batch_comes_back_when_nobody_has_taken_it() -> None:
    box = Mailbox()
    box.put_all([deliver(1), FinishClose(), deliver(2)])
    assert box.reclaim(2)
    assert not box.reclaim(2)
    assert box.take(0) == [deliver(1), FinishClose()]
    assert not box.reclaim(1)


def test_taking_raises_for_ever_when_the_thread_died(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox()
    takers = WaitingTakers(box, monkeypatch)
    taken = on_thread(lambda: box.take(LONG_MS))
    assert takers.waits.wait(10)
    defect = AssertionError("an invariant broke")
    box.fail(defect)
    box.fail(ValueError("a later one"))
    error = taken.exception(10)
    assert isinstance(error, InternalError)
    assert error.__cause__ is defect
    box.put(FinishClose())
    for timeout_ms in (0, LONG_MS):
        with pytest.raises(InternalError, match="an invariant broke") as caught:
            box.take(timeout_ms)
        assert caught.value.__cause__ is defect


def test_last_outputs_can_be_taken_and_no_wait_blocks_when_the_thread_has_ended() -> None:
    box = Mailbox()
    box.put(FinishClose())
    box.stop()
    assert box.take(LONG_MS) == [FinishClose()]
    assert box.take(0) == []
    with pytest.raises(ConsumerClosedError):
        box.take(LONG_MS)


def test_mailbox_stays_usable_when_a_wait_is_interrupted_by_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox()

    def interrupt_soon() -> None:
        # To the main thread, which is this one: the kernel breaks its wait off.
        threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()

    monkeypatch.setattr(box, "_bell", Bell(box._bell, interrupt_soon))
    with pytest.raises(KeyboardInterrupt):
        box.take(LONG_MS)
    monkeypatch.undo()
    box.put(FinishClose())
    assert box.take(LONG_MS) == [FinishClose()]


def test_notify_is_called_without_the_lock_when_something_changes() -> None:
    calls: list[bool] = []
    box = Mailbox(notify=lambda: calls.append(on_thread(lambda: box.has_news(with_records=True)).result(10)))
    box.put(FinishClose())
    box.wakeup()
    box.fail(ValueError())
    box.stop()
    assert calls == [True] * 4, "another thread could look meanwhile"


def test_core_is_stopped_when_it_puts_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "MAX_PENDING", 3)
    box = Mailbox()
    box.put_all(deliver(batch_id) for batch_id in range(3))
    with pytest.raises(AssertionError):
        box.put(deliver(3))


def test_every_batch_arrives_once_when_two_threads_hurry() -> None:
    box = Mailbox()
    count = 5_000

    def put() -> None:
        for batch_id in range(count):
            box.put(deliver(batch_id))

    done = on_thread(put)
    taken: list[int] = []
    while len(taken) < count:
        taken += [output.batch.batch_id for output in box.take(LONG_MS) if isinstance(output, Deliver)]
    done.result(10)
    assert taken == list(range(count))


def test_outputs_are_shown_again_and_cannot_be_taken_back_until_they_are_dropped() -> None:
    """Who is interrupted between looking and dealing with it finds everything as it was."""
    mailbox = Mailbox()
    first, second = CompleteCommit(7, False), deliver(7)
    mailbox.put_all((first, second))
    assert mailbox.arrived() == [first, second]
    assert not mailbox.reclaim(7)
    mailbox.drop(first)
    assert mailbox.arrived(with_records=False) == []
    assert mailbox.arrived() == [second]
    mailbox.drop(second)
    mailbox.drop(second)
    assert mailbox.arrived() == []


def test_records_stay_in_the_mailbox_when_only_a_poll_may_take_them() -> None:
    mailbox = Mailbox()
    batch = deliver(7)
    mailbox.put_all((batch, FinishClose()))
    assert mailbox.take(0, with_records=False) == [FinishClose()]
    assert mailbox.take(0, with_records=False) == []
    assert mailbox.reclaim(7)
    assert mailbox.take(0) == []


def test_one_batch_at_a_time_can_be_taken_and_the_others_taken_back() -> None:
    mailbox = Mailbox()
    outputs: list[Output] = [
        CompleteCommit(1, timed_out=False),
        deliver(1),
        CompleteCommit(2, timed_out=False),
        deliver(2),
    ]
    mailbox.put_all(outputs)
    assert mailbox.arrived(one_batch=True) == outputs[:3]
    assert not mailbox.reclaim(1), "it has been shown"
    assert mailbox.reclaim(2)


def test_records_are_no_news_for_who_waits_for_an_answer_only() -> None:
    """A commit does not end because another broker's records came by the core; it does when its session is wanted."""
    mailbox = Mailbox()
    direct: Any = SimpleNamespace(is_recalled=False)
    mailbox.put(deliver(1))
    assert mailbox.has_direct_news([direct], with_records=True)
    assert not mailbox.has_direct_news([direct], with_records=False)
    direct.is_recalled = True
    assert mailbox.has_direct_news([direct], with_records=False)


@pytest.mark.skipif(not IS_COMPILED, reason="polls wait for sockets in the compiled module only")
def test_a_wait_for_a_socket_ends_when_something_is_put_or_an_answer_comes() -> None:
    """However long it may last: what poll(2) takes is an int."""
    mailbox = Mailbox()
    ours, peer = socket.socketpair()
    with peer:
        line = DirectLine(ours.detach())
        direct: Any = SimpleNamespace(line=line, is_recalled=False)
        line.send(b"?", None)
        thread = threading.Thread(target=lambda: mailbox.put(FinishClose()))
        thread.start()
        mailbox.wait_on([direct], 1 << 62, with_records=True)
        thread.join()
        assert mailbox.take(0) == [FinishClose()]
        peer.sendall(b"\0\0\0\x06ans")
        thread = threading.Thread(target=lambda: peer.sendall(b"wer"))
        thread.start()
        mailbox.wait_on([direct], 1 << 62, with_records=True)
        thread.join()
        assert line.answer == b"answer"
        mailbox.wait_on([direct], 1 << 62, with_records=True)  # it is there, and nothing more comes from the socket
        line.close()
    mailbox.close()
