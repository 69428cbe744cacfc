"""The forms of a handler on a reference broker: batches, order by key, and what is said of slow and lost ones."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Any

import pytest
from handling.conftest import Running, until_ended, until_true
from handling.given import record
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    BatchError,
    ConfigurationError,
    InvalidRecordStateError,
    KafkaShareError,
    LockLostError,
)
from kafka_share.handling.jobs import Settle, Start
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.worker import Lease, Reject, ShareWorker


class PermanentError(Exception):
    """Never passes."""


def produce(broker: ReferenceBroker, count: int) -> None:
    broker.produce_batch("t", [b"%d" % number for number in range(count)])


# ---- order by key


def test_records_of_a_key_are_handled_one_after_another_and_keys_at_the_same_time(
    form: str, broker: ReferenceBroker
) -> None:
    """The handlers of all keys meet, which they could not if one waited for another."""
    for number in range(30):
        broker.produce("t", b"%d" % number, key=b"%d" % (number % 3))
    order: dict[bytes, list[int]] = {b"0": [], b"1": [], b"2": []}
    running: Counter[bytes] = Counter()
    begun: set[bytes] = set()

    def handle(record: Any, lease: Lease) -> Any:
        running[record.key] += 1
        assert running[record.key] == 1
        begun.add(record.key)
        order[record.key].append(record.offset)

        def finish() -> bool:
            if len(begun) == 3:
                running[record.key] -= 1
            return len(begun) == 3

        return until_true(form, finish)

    with Running(form, broker, handle, ordered_by="key", concurrency=10) as worker:
        worker.wait_for(lambda: worker.worker.inspect().counts.accepted == 30)
    assert order == {b"%d" % key: list(range(key, 30, 3)) for key in range(3)}
    assert worker.worker.inspect().counts.failed == 0


def test_a_function_may_make_the_key(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 20)
    running: Counter[str] = Counter()

    def handle(record: Any, lease: Lease) -> None:
        running["handlers"] += 1
        assert running["handlers"] == 1
        running["handlers"] -= 1

    with Running(form, broker, handle, ordered_by=lambda record: "all") as worker:
        worker.wait_for(lambda: worker.worker.inspect().counts.accepted == 20)
    assert worker.worker.inspect().counts.failed == 0


# ---- batches


class Batches:
    """A worker whose handler gets lists of records."""

    def __init__(self, form: str, broker: ReferenceBroker, handle: Any, **settings: Any) -> None:
        self.sizes: list[int] = []

        def on_thread(records: Any, lease: Lease) -> None:
            self.sizes.append(len(records))
            handle(records, lease)

        async def as_task(records: Any, lease: Lease) -> None:
            self.sizes.append(len(records))
            result = handle(records, lease)
            if result is not None:
                await result

        servers: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "workers"}
        self.worker: ShareWorker[Any, Any] = ShareWorker(
            "t", on_thread if form == "threads" else as_task, **{**servers, **settings}
        )
        self._thread = threading.Thread(target=self.worker.run)

    def __enter__(self) -> Batches:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self._thread.join(patience_s())
        assert not self._thread.is_alive()


def test_a_handler_of_batches_gets_lists_and_all_of_them_are_accepted(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 100)
    seen: Counter[int] = Counter()

    def handle(records: Any, lease: Lease) -> None:
        seen.update(record.offset for record in records)
        assert lease.tries == 1
        assert lease.remaining_ms() > 0

    with Batches(form, broker, handle, batch_records=20, batch_wait_ms=20) as batches:
        wait_until(lambda: batches.worker.inspect().counts.accepted == 100)
    assert seen == dict.fromkeys(range(100), 1)
    assert max(batches.sizes) == 20


def test_a_batch_error_has_the_records_that_failed_treated_by_the_policy(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 10)

    def handle(records: Any, lease: Lease) -> None:
        if failures := {record: PermanentError() for record in records if record.offset % 5 == 0}:
            raise BatchError(failures)

    settings: dict[str, Any] = {"batch_records": 10, "on_error": {PermanentError: Reject()}}
    with Batches(form, broker, handle, **settings) as batches:
        wait_until(lambda: batches.worker.inspect().counts.accepted == 8)
        wait_until(lambda: batches.worker.inspect().counts.rejected == 2)
    assert batches.worker.inspect().counts.failed == 2


@pytest.mark.usefixtures("short_locks")
def test_a_batch_keeps_its_locks_and_is_ended_when_all_are_lost(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 3)
    leases: list[Lease] = []
    deadlines: set[float] = set()

    def has_renewed(records: Any) -> bool:
        deadlines.add(records[0].lock_deadline)
        return len(deadlines) > 2

    def handle(records: Any, lease: Lease) -> Any:
        leases.append(lease)
        if len(leases) == 1:
            return until_ended(form, lease)
        return until_true(form, lambda: has_renewed(records))

    with Batches(form, broker, handle, batch_records=3, batch_wait_ms=1_000) as batches:
        wait_until(lambda: len(batches.worker.inspect().running) == 3)
        broker.drop_connections()
        wait_until(lambda: batches.worker.inspect().counts.accepted == 3)
    assert leases[0].reason == "its lock was lost"
    assert batches.worker.inspect().counts.lost >= 3


def test_each_record_of_a_batch_that_is_given_up_is_named(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line, with one traceback: nothing disappears without a word."""
    produce(broker, 5)

    def handle(records: Any, lease: Lease) -> None:
        raise PermanentError("for ever")

    with Batches(form, broker, handle, batch_records=5, on_error={PermanentError: Reject()}) as batches:
        wait_until(lambda: batches.worker.inspect().counts.rejected == 5)
    (line,) = [one for one in caplog.records if "is rejected" in one.getMessage()]
    assert "t-0@0-4 (5 records of a batch, each)" in line.getMessage()
    assert line.exc_info is not None


# ---- the window by bytes


def test_a_window_by_bytes_bounds_what_is_here_and_what_is_asked_for(form: str, broker: ReferenceBroker) -> None:
    """Records of a kilobyte in batches of one, and 5,000 bytes: ten at most are here at a time, of thirty."""
    for _ in range(30):
        broker.produce("t", bytes(1_000))
    go_on = threading.Event()

    def handle(record: Any, lease: Lease) -> Any:
        return until_true(form, go_on.is_set)

    settings: dict[str, Any] = {"window_bytes": 5_000, "fetch.max.bytes": 9_000_000}
    with Running(form, broker, handle, concurrency=50, **settings) as running:
        running.wait_for(lambda: running.worker.inspect().counts.received >= 5)
        running.wait_for(lambda: {one.max_bytes for one in fetches(broker)} == {5_000})
        received = running.worker.inspect().counts.received
        assert received <= 10
        go_on.set()
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 30)


def fetches(broker: ReferenceBroker) -> list[Any]:
    """The requests for records so far."""
    requests: list[Any] = [request for _, request in broker.requests(ShareFetchRequest.API_KEY)]
    return [request for request in requests if request.max_bytes]


# ---- slow and lost


def test_a_slow_handler_is_named_and_shown(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, 1)
    go_on = threading.Event()

    def handle(record: Any, lease: Lease) -> Any:
        return until_true(form, go_on.is_set)

    with Running(form, broker, handle, expected_ms=10) as running:
        running.wait_for(lambda: any("longer than expected" in one.getMessage() for one in caplog.records))
        (shown,) = running.worker.inspect().running
        assert shown.is_slow
        go_on.set()
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
    slow = [one for one in caplog.records if "longer than expected" in one.getMessage()]
    assert slow[0].levelno == logging.WARNING
    name = "on_thread" if form == "threads" else "as_task"
    assert f"{name} t-0@0 (delivery 1): its handler takes longer than expected" in slow[0].getMessage()


@pytest.mark.usefixtures("short_locks")
def test_a_result_that_comes_after_the_lock_was_lost_is_reported(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not accepted, the application is told with a LockLostError, and what that raises does no harm."""
    produce(broker, 1)
    told: list[tuple[Any, KafkaShareError]] = []
    leases: list[Lease] = []

    def handle(record: Any, lease: Lease) -> None:
        leases.append(lease)
        if len(leases) == 1:
            assert lease.ended.wait(patience_s())

    def on_not_accepted(record: Any, error: KafkaShareError) -> None:
        told.append((record, error))
        raise PermanentError

    with Running("threads", broker, handle, on_not_accepted=on_not_accepted) as running:
        running.wait_for(lambda: leases)
        broker.drop_connections()
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
    ((record, error),) = told
    assert (record.offset, record.delivery_count) == (0, 1)
    assert isinstance(error, LockLostError)
    assert running.worker.inspect().counts.late == 1
    assert any("LockLostError" in one.getMessage() for one in caplog.records)
    assert any("on_not_accepted raised for t-0@0" in one.getMessage() for one in caplog.records)


def test_a_result_that_is_refused_while_the_consumer_closes_is_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    told: list[KafkaShareError] = []
    worker: ShareWorker[Any, Any] = ShareWorker(
        "t",
        print,
        bootstrap_servers="localhost:1",
        group_id="g",
        on_not_accepted=lambda record, error: told.append(error),
    )
    driver = worker._driver
    driver.jobs.arrived([record(0)], 0)
    (start,) = driver.jobs.poll(0)
    assert isinstance(start, Start)
    driver.jobs.finished(start.call, None, 0)
    driver.jobs.drain(0)
    (settle,) = driver.jobs.poll(0)
    assert isinstance(settle, Settle)
    driver._on_outcome(settle.job, InvalidRecordStateError("gone"))
    driver._closed()
    assert [type(error) for error in told] == [LockLostError]
    assert any("LockLostError" in one.getMessage() for one in caplog.records)


# ---- mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_records": 0}, "batch_records is 0"),
        ({"batch_wait_ms": -1}, "batch_wait_ms is -1"),
        ({"window_bytes": 0}, "window_bytes is 0"),
        ({"window_bytes": -1}, "explicit_window_bytes is -1"),
        ({"explicit_window_bytes": 1}, "use window_bytes"),
        ({"batch_records": 50, "window_records": 20}, "at least batch_records, 50"),
        ({"batch_records": 5, "ordered_by": "key"}, "exclude each other"),
        ({"ordered_by": "value"}, 'ordered_by is "key"'),
        ({"ordered_by": True}, 'ordered_by is "key"'),
        ({"expected_ms": 0}, "expected_ms is 0"),
        ({"on_not_accepted": "log"}, "on_not_accepted is a function"),
        ({"processes": 0}, "processes is 0"),
        ({"processes": 2, "window_records": 1}, "at least processes, 2"),
    ],
)
def test_a_mistake_is_refused_when_the_worker_is_made(settings: dict[str, Any], message: str) -> None:
    known = {"bootstrap_servers": "localhost:1", "group_id": "g"}
    with pytest.raises(ConfigurationError, match=message):
        ShareWorker("t", print, **{**known, **settings})
