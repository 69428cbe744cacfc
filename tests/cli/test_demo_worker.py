"""One worker of the demo, over a consumer that hands out what the test has prepared."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from kafka_share.cli.demo.definitions import Definitions
from kafka_share.cli.demo.ledger import (
    Acknowledged,
    DamageFound,
    Delivered,
    Dropped,
    LedgerEvent,
    OutcomeKnown,
    WorkerFailed,
    WorkerStopped,
)
from kafka_share.cli.demo.worker import CHECKSUM_HEADER, StopInTheMiddle, TransientErrors, Worker
from kafka_share.errors import InvalidRecordStateError, WakeupError
from kafka_share.records import (
    AcknowledgementCommitCallback,
    AcknowledgeType,
    ShareRecord,
    TimestampType,
    TopicIdPartition,
)

PARTITION = TopicIdPartition(UUID(int=1), "files", 0)


def record(offset: int, value: bytes, *, delivery_count: int = 1, checksum: bytes | None = None) -> Any:
    headers = ((CHECKSUM_HEADER, hashlib.sha256(value).digest() if checksum is None else checksum),)
    key = b"%d.py" % offset
    return ShareRecord("files", 0, offset, 0, TimestampType.CREATE_TIME, key, value, headers, None, delivery_count)


class PreparedConsumer:
    """Hands out `polls`, one list per poll, then sets `stopping`; every commit ends with `error`."""

    def __init__(self, polls: list[Any], stopping: threading.Event) -> None:
        self.polls = polls
        self.stopping = stopping
        self.error: InvalidRecordStateError | None = None
        self.said: dict[int, AcknowledgeType] = {}
        self.closed = False
        self.callback: AcknowledgementCommitCallback | None = None

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        self.callback = callback

    def poll(self, timeout_ms: int) -> list[Any]:
        if not self.polls:
            self.stopping.set()
            return []
        answer = self.polls.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def acknowledge(self, record: Any, type: AcknowledgeType) -> None:  # noqa: A002
        self.said[record.offset] = type

    def commit_sync(self) -> None:
        assert self.callback is not None
        if self.said:
            self.callback({PARTITION: frozenset(self.said)}, self.error)
        self.said = {}

    def wakeup(self) -> None:
        raise AssertionError("nobody wakes this one")


def run(
    polls: list[Any],
    *,
    stop_after: int | None = None,
    flaky: float = 0.0,
    error: InvalidRecordStateError | None = None,
) -> list[LedgerEvent]:
    """The events of one worker from its start to its end."""
    stopping = threading.Event()
    consumer = PreparedConsumer(polls, stopping)
    consumer.error = error

    @contextmanager
    def open_consumer() -> Iterator[PreparedConsumer]:
        yield consumer
        consumer.commit_sync()  # a consumer sends on close what has been said

    events: list[LedgerEvent] = []
    Worker(0, open_consumer, events.append, stopping, StopInTheMiddle(stop_after), TransientErrors(flaky, 1)).run()
    return events


def test_a_file_is_accepted_when_it_parses_and_rejected_when_not() -> None:
    assert run([[record(0, b"class A: pass"), record(1, b"def (")]]) == [
        Delivered(0, 0, 0, 1),
        Delivered(0, 0, 1, 1),
        Acknowledged(0, 0, 0, AcknowledgeType.ACCEPT, Definitions(classes=1)),
        Acknowledged(0, 0, 1, AcknowledgeType.REJECT, reason="SyntaxError"),
        OutcomeKnown(0, 0, 0, None),
        OutcomeKnown(0, 0, 1, None),
    ]


def test_a_record_is_released_when_a_transient_error_strikes() -> None:
    events = run([[record(0, b"class A: pass", delivery_count=2)]], flaky=1.0)
    assert events == [
        Delivered(0, 0, 0, 2),
        Acknowledged(0, 0, 0, AcknowledgeType.RELEASE),
        OutcomeKnown(0, 0, 0, None),
    ]


def test_the_error_is_told_when_an_acknowledgement_failed() -> None:
    events = run([[record(0, b"")]], error=InvalidRecordStateError("too late"))
    (outcome,) = [event for event in events if isinstance(event, OutcomeKnown)]
    assert outcome.error is not None
    assert "too late" in outcome.error


def test_the_rest_is_dropped_without_a_word_when_the_worker_is_stopped_in_the_middle() -> None:
    events = run([[record(0, b""), record(1, b""), record(2, b"")], [record(3, b"")]], stop_after=1)
    assert events == [
        Delivered(0, 0, 0, 1),
        Delivered(0, 0, 1, 1),
        Delivered(0, 0, 2, 1),
        Acknowledged(0, 0, 0, AcknowledgeType.ACCEPT),
        WorkerStopped(0),
        Dropped(0, 0, 1),
        Dropped(0, 0, 2),
        OutcomeKnown(0, 0, 0, None),
    ]


def test_damage_is_told_when_the_checksum_does_not_fit() -> None:
    assert DamageFound(0, 0, 0) in run([[record(0, b"x = 1", checksum=b"?")]])


def test_the_failure_is_told_when_a_poll_raises() -> None:
    assert run([RuntimeError("broken")]) == [WorkerFailed(0, "RuntimeError: broken")]


def test_the_worker_ends_quietly_when_it_is_woken_up() -> None:
    assert run([WakeupError("wakeup() was called")]) == []


def test_one_worker_alone_is_chosen_when_enough_records_were_taken_up() -> None:
    stop = StopInTheMiddle(2)
    assert [stop.claims_next() for _ in range(5)] == [False, False, True, False, False]


def test_nobody_is_chosen_when_no_worker_is_to_be_stopped() -> None:
    stop = StopInTheMiddle(None)
    assert not any(stop.claims_next() for _ in range(5))


def test_transient_errors_are_the_same_when_the_seed_is_the_same() -> None:
    def struck(seed: int) -> list[bool]:
        errors = TransientErrors(0.3, seed)
        return [errors.strike(b"%d.py" % number, count) for number in range(100) for count in (1, 2)]

    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
    assert 30 < sum(struck(1)) < 90


def test_transient_errors_strike_never_or_always_when_the_probability_says_so() -> None:
    assert not any(TransientErrors(0.0, 1).strike(b"a", count) for count in range(100))
    assert all(TransientErrors(1.0, 1).strike(b"a", count) for count in range(100))
