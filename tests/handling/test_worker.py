"""ShareWorker on a reference broker, with handlers on threads and as tasks."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest
from handling.conftest import GROUP, LOCK_MS, Running, until_ended, until_true
from support.event_loop import until
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidArgumentError,
    RecordDeserializationError,
    UnsupportedVersionError,
)
from kafka_share.handling.leasing import Leasing
from kafka_share.handling.threads import ThreadDriver
from kafka_share.worker import Lease, Reject, Release, Retry, ShareWorker


class TransientError(Exception):
    """Passes by itself."""


class PermanentError(Exception):
    """Never passes."""


def produce(broker: ReferenceBroker, count: int) -> None:
    broker.produce_batch("t", [b"%d" % number for number in range(count)])


def states_of(broker: ReferenceBroker) -> Any:
    return broker.share_partition(GROUP, "t")


# ---- work


def test_every_record_is_handled_once_and_accepted(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 300)
    with Running(form, broker, lambda record, lease: None) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 300)
        assert states_of(broker).start_offset == 300
    assert running.handled == dict.fromkeys(range(300), 1)
    counts = running.worker.inspect().counts
    assert (counts.received, counts.redelivered, counts.unknown, counts.lost) == (300, 0, 0, 0)


def test_records_are_fetched_many_at_a_time(form: str, broker: ReferenceBroker) -> None:
    """Not one whenever a handler returns: the broker would send the whole batch that the record is in each time."""
    produce(broker, 200)

    def take_a_while(record: Any, lease: Lease) -> Any:
        return time.sleep(0.005) if form == "threads" else asyncio.sleep(0.005)

    with Running(form, broker, take_a_while, concurrency=1, window_records=41) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 200)
        fetched = running.worker.metrics()["consumer-share-fetch-manager-metrics"]
    # At least twenty each, beside those of a machine that is slow: the worker polls once a second in any case.
    assert fetched["fetch-total"] < 100


def test_no_more_handlers_run_than_allowed_and_no_more_records_are_acquired_than_fit(
    form: str, broker: ReferenceBroker
) -> None:
    produce(broker, 50)
    go_on = threading.Event()

    def handle(record: Any, lease: Lease) -> Any:
        return until_true(form, go_on.is_set)

    with Running(form, broker, handle, concurrency=3, window_records=8) as running:
        running.wait_for(lambda: running.worker.inspect().ready == 5)
        state = running.worker.inspect()
        assert len(state.running) == 3
        assert state.counts.received == 8
        assert running.worker.is_healthy()
        go_on.set()
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 50)


def test_a_handler_needs_no_lease_and_deserializers_run(broker: ReferenceBroker) -> None:
    broker.produce("t", b'{"id": 7}')
    broker.produce("t", b"no json")
    seen: list[Any] = []
    worker: ShareWorker[Any, Any] = ShareWorker(
        ["t"],
        lambda record: seen.append(record.value["id"]),
        on_error={ValueError: Reject(), Exception: Reject()},
        value_deserializer=json.loads,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
    )
    running = threading.Thread(target=worker.run)
    running.start()
    wait_until(lambda: worker.inspect().counts.accepted == 1 and worker.inspect().counts.failed == 1)
    worker.stop()
    running.join(patience_s())
    assert seen == [7]


def test_no_result_waits_for_another_handler(form: str, broker: ReferenceBroker) -> None:
    """However many end together: the only one that goes on waits until all others are accepted."""
    produce(broker, 200)

    def handle(record: Any, lease: Lease) -> Any:
        if record.offset != 100:
            return None
        return until_true(form, lambda: running.worker.inspect().counts.accepted == 199)

    running = Running(form, broker, handle, concurrency=2, window_records=20)
    with running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 200)
    assert running.worker.inspect().counts.failed == 0


def test_results_are_told_together(form: str, broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are asked less often than handlers end."""
    produce(broker, 300)
    heard: list[int] = []
    settle_all = Leasing.settle_all

    def settle(self: Leasing, settled: Any) -> None:
        heard.append(len(settled))
        settle_all(self, settled)

    monkeypatch.setattr(Leasing, "settle_all", settle)
    with Running(form, broker, lambda *_: None, concurrency=10, window_records=100) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 300)
    assert sum(heard) == 300
    assert max(heard) > 1


def test_who_lets_go_of_the_rules_tells_what_others_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler ends while the loop has the lock, and does not wait for it."""
    driver = ShareWorker[Any, Any]("t", print, bootstrap_servers="localhost:1", group_id=GROUP)._driver
    assert isinstance(driver, ThreadDriver)
    result: Any = object()
    heard: list[Any] = []

    def look() -> bool:
        driver._results.append(result)
        driver._tell_ended()  # as the handler's thread does
        assert not heard
        return False

    monkeypatch.setattr(driver, "_look", look)
    monkeypatch.setattr(driver, "_take_ended", lambda: heard.append(driver._results.popleft()))
    assert not driver._look_locked()
    assert heard == [result]


# ---- failures


@pytest.mark.timeout(120)  # a thousand records, on a machine that may be busy
def test_a_thousand_records_end_as_the_policy_says(form: str, broker: ReferenceBroker) -> None:
    """5 % fail twice and then succeed, 1 % fail for ever and are rejected. No delivery is spent on that."""
    produce(broker, 1_000)
    tries: Counter[int] = Counter()

    def handle(record: Any, lease: Lease) -> None:
        tries[record.offset] += 1
        assert lease.tries == tries[record.offset]
        if record.offset % 100 == 0:
            raise PermanentError(record.offset)
        if record.offset % 20 == 1 and tries[record.offset] < 3:
            raise TransientError(record.offset)

    policy = {TransientError: Retry(attempts=10, backoff_ms=5), PermanentError: Reject()}
    with Running(form, broker, handle, on_error=policy) as running:
        running.wait_for(lambda: states_of(broker) is not None and states_of(broker).start_offset == 1_000)
    counts = running.worker.inspect().counts
    assert (counts.received, counts.accepted, counts.rejected, counts.released) == (1_000, 990, 10, 0)
    assert (counts.failed, counts.retried, counts.redelivered) == (10 + 100, 100, 0)
    assert running.handled == {offset: 1 for offset in range(1_000) if offset % 100}
    assert {count for _, count in running.deliveries} == {1}


def test_a_release_with_a_delay_is_delivered_again_and_the_last_failure_is_a_rejection(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.set_group_config(GROUP, {"share.delivery.count.limit": 3})
    produce(broker, 1)

    def handle(record: Any, lease: Lease) -> None:
        raise PermanentError("for ever")

    policy = {PermanentError: Release(delay_ms=10)}
    with Running(form, broker, handle, on_error=policy, release_backoff_ms=0) as running:
        running.wait_for(lambda: running.worker.inspect().counts.rejected == 1)
    assert running.deliveries == {(0, 1): 1, (0, 2): 1, (0, 3): 1}
    assert running.worker.inspect().counts.released == 2
    last = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert [entry.name for entry in last] == ["kafka_share.worker"]
    assert "t-0@0 (delivery 3): its handler failed on its last delivery" in last[0].getMessage()
    assert last[0].exc_info is not None


def test_a_record_that_cannot_be_deserialized_is_not_told_as_a_failure_of_the_handler(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce("t", b"no JSON")
    policy = {RecordDeserializationError: Reject()}
    with Running(form, broker, lambda record, lease: None, on_error=policy, value_deserializer=json.loads) as running:
        running.wait_for(lambda: running.worker.inspect().counts.rejected == 1)
    (told,) = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert "t-0@0 (delivery 1): it could not be deserialized and it is rejected" in told


def test_the_first_failure_of_its_kind_is_told_with_its_traceback_and_its_repetitions_are_not(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs that set up no logging show warnings only."""
    caplog.set_level(logging.INFO, "kafka_share.worker")
    produce(broker, 4)

    def handle(record: Any, lease: Lease) -> None:
        if lease.tries <= 2:
            raise (TransientError if record.offset % 2 else PermanentError)("once more")

    with Running(form, broker, handle, on_error={Exception: Retry(backoff_ms=1)}) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 4)
    told = [entry for entry in caplog.records if "is called again" in entry.getMessage()]
    first = [entry for entry in told if entry.levelno == logging.WARNING]
    assert len(told) == 8
    assert sorted(entry.exc_info[0].__name__ for entry in first if entry.exc_info and entry.exc_info[0]) == [
        "PermanentError",
        "TransientError",
    ]
    assert {entry.levelno for entry in told if entry not in first} == {logging.INFO}


# ---- leases


@pytest.mark.usefixtures("short_locks")
def test_a_handler_that_takes_several_lock_times_is_delivered_once(form: str, broker: ReferenceBroker) -> None:
    """The worker renews the lock, of records that wait behind it too."""
    produce(broker, 2)
    deadlines: set[float | None] = set()

    def has_renewed(record: Any) -> bool:
        deadlines.add(record.lock_deadline)
        return len(deadlines) > 3

    def handle(record: Any, lease: Lease) -> Any:
        if record.offset:
            return None
        return until_true(form, lambda: has_renewed(record))

    with Running(form, broker, handle, concurrency=1, window_records=2) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 2)
    assert running.deliveries == {(0, 1): 1, (1, 1): 1}


@pytest.mark.usefixtures("short_locks")
def test_a_record_whose_session_was_lost_is_ended_and_handled_again(form: str, broker: ReferenceBroker) -> None:
    """Its handler is cancelled or told, and is not said to have handled it."""
    produce(broker, 1)
    leases: list[Lease] = []

    def handle(record: Any, lease: Lease) -> Any:
        leases.append(lease)
        return until_ended(form, lease) if len(leases) == 1 else None

    with Running(form, broker, handle) as running:
        running.wait_for(lambda: leases)
        broker.drop_connections()
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
        running.wait_for(lambda: leases[0].ended.is_set())
    assert leases[0].reason == "its lock was lost"
    assert leases[0].remaining_ms() == 0
    assert running.deliveries == {(0, 1): 1, (0, 2): 1}
    assert running.handled[0] == (2 if form == "threads" else 1)
    counts = running.worker.inspect().counts
    assert (counts.accepted, counts.lost, counts.redelivered) == (1, 1, 1)


@pytest.mark.usefixtures("short_locks")
def test_a_lease_ends_when_it_has_lasted_long_enough(form: str, broker: ReferenceBroker) -> None:
    """A handler that hangs keeps its record no longer than that; the lock then ends by itself."""
    produce(broker, 1)
    leases: list[Lease] = []

    def handle(record: Any, lease: Lease) -> Any:
        leases.append(lease)
        return until_ended(form, lease) if len(leases) == 1 else None

    with Running(form, broker, handle, max_lease_ms=10) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
        running.wait_for(lambda: leases[0].ended.is_set())
    assert running.deliveries == {(0, 1): 1, (0, 2): 1}


@pytest.mark.usefixtures("short_locks")
def test_a_handler_knows_its_deadline_when_locks_cannot_be_renewed(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """One WARNING says so; the record comes again when its lock has ended."""
    broker.set_group_config(GROUP, {"share.renew.acknowledge.enable": "false"})
    produce(broker, 1)
    leases: list[Lease] = []
    remaining: list[int] = []

    def handle(record: Any, lease: Lease) -> Any:
        leases.append(lease)
        remaining.append(lease.remaining_ms())
        return until_ended(form, lease) if len(leases) < 3 else None

    with Running(form, broker, handle) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
        running.wait_for(lambda: leases[1].ended.is_set())
    assert all(0 < span_ms <= LOCK_MS for span_ms in remaining)
    assert running.deliveries == {(0, 1): 1, (0, 2): 1, (0, 3): 1}
    refused = [entry for entry in caplog.records if "renewals-refused" in entry.getMessage()]
    assert len(refused) == 1


# ---- the end


def test_sigterm_under_load_loses_nothing_and_handles_nothing_twice(form: str, broker: ReferenceBroker) -> None:
    """Records that had not begun are released, and handled by the next worker on their second delivery."""
    produce(broker, 300)
    before = signal.getsignal(signal.SIGTERM)
    calls: Counter[int] = Counter()

    def handle(record: Any, lease: Lease) -> None:
        calls[record.offset] += 1
        if calls.total() == 100:
            os.kill(os.getpid(), signal.SIGTERM)

    async def handle_as_task(record: Any) -> None:
        await asyncio.sleep(0)
        handle(record, Lease.__new__(Lease))

    worker: ShareWorker[Any, Any] = ShareWorker(
        "t",
        handle if form == "threads" else handle_as_task,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        window_records=40,
        concurrency=4,
    )
    worker.run()  # on the main thread, which handles signals
    assert signal.getsignal(signal.SIGTERM) is before
    counts = worker.inspect().counts
    assert 100 <= counts.accepted < 300
    assert counts.received == counts.accepted + counts.released
    assert worker.inspect().phase == "stopped"
    with Running(form, broker, lambda record, lease: calls.update([record.offset])) as second:
        second.wait_for(lambda: calls.total() >= 300)
    assert calls == dict.fromkeys(range(300), 1)
    redelivered = second.worker.inspect().counts.redelivered
    assert counts.released <= redelivered <= 40, "beside those, what was fetched and not yet taken from the consumer"


def test_a_handler_that_is_too_slow_is_cancelled_when_the_drain_is_over(form: str, broker: ReferenceBroker) -> None:
    produce(broker, 1)
    leases: list[Lease] = []

    def handle(record: Any, lease: Lease) -> Any:
        leases.append(lease)
        return until_ended(form, lease)

    with Running(form, broker, handle, drain_timeout_ms=1) as running:
        running.wait_for(lambda: leases)
    assert leases[0].reason == "the worker stops"
    counts = running.worker.inspect().counts
    assert (counts.accepted, counts.released) == ((1, 0) if form == "threads" else (0, 1))


def test_a_second_stop_waits_for_no_handler(form: str, broker: ReferenceBroker) -> None:
    """What it leaves behind is released for others, and its late result is not accepted."""
    produce(broker, 1)
    go_on, has_begun = threading.Event(), threading.Event()

    def handle(record: Any, lease: Lease) -> Any:
        has_begun.set()
        if form == "tasks":
            return asyncio.sleep(patience_s())
        assert go_on.wait(patience_s())
        return None

    with Running(form, broker, handle) as running:
        running.wait_for(has_begun.is_set)
        running.worker.stop()
        running.worker.stop()
        running.join()
        assert running.worker.inspect().counts.accepted == 0
        go_on.set()
    wait_until(lambda: not running.worker.inspect().running)
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("kafka-share handler")])
    with Running(form, broker, lambda record, lease: None) as second:
        second.wait_for(lambda: second.worker.inspect().counts.accepted == 1)
    assert second.deliveries == {(0, 2): 1}


def test_a_worker_that_is_stopped_before_it_runs_ends_at_once(form: str, broker: ReferenceBroker) -> None:
    running = Running(form, broker, lambda record, lease: None)
    running.worker.stop()
    assert running.worker.inspect().phase == "new"
    assert not running.worker.is_healthy()
    with running:
        running.join()
    assert running.error is None
    with pytest.raises(IllegalStateError, match="runs once"):
        running.worker.run()


def test_being_woken_often_leaves_nothing_behind(broker: ReferenceBroker) -> None:
    """While the loop polls, nobody hears the bell: a worker that runs for months must not collect its rings."""
    worker: ShareWorker[Any, Any] = ShareWorker("t", print, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP)
    driver = worker._driver
    assert isinstance(driver, ThreadDriver)
    for _ in range(100):
        driver._wake()
    assert driver._bell.qsize() == 1


_CRASHES = """
import os, signal, sys
from kafka_share.worker import ShareWorker
def handle(record):
    os.kill(os.getpid(), signal.SIGKILL)
ShareWorker("t", handle, bootstrap_servers=sys.argv[1], group_id=sys.argv[2]).run()
"""


def test_the_records_of_a_process_that_died_come_back(broker: ReferenceBroker) -> None:
    produce(broker, 20)
    command = [sys.executable, "-c", _CRASHES, broker.bootstrap_servers, GROUP]
    assert subprocess.run(command, check=False, timeout=patience_s()).returncode == -signal.SIGKILL
    with Running("threads", broker, lambda record, lease: None) as running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 20)
    assert running.handled == dict.fromkeys(range(20), 1)
    assert running.deliveries[0, 2] == 1


def test_cancelling_the_task_that_runs_it_releases_what_is_in_work(broker: ReferenceBroker) -> None:
    produce(broker, 1)
    ended: list[BaseException] = []

    async def handle(record: Any) -> None:
        try:
            await asyncio.sleep(patience_s())
        except asyncio.CancelledError as error:
            ended.append(error)
            raise

    async def main() -> ShareWorker[Any, Any]:
        worker: ShareWorker[Any, Any] = ShareWorker(
            "t", handle, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP
        )
        life = asyncio.create_task(worker.run_async())
        await until(lambda: worker.inspect().running)
        life.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life
        return worker

    worker = asyncio.run(main())
    assert len(ended) == 1
    assert worker.inspect().phase == "stopped"
    with Running("tasks", broker, lambda record, lease: None) as second:
        second.wait_for(lambda: second.worker.inspect().counts.accepted == 1)


# ---- mistakes


def test_what_lasts_ends_the_worker_and_is_raised(form: str) -> None:
    """The strict record limit needs Kafka 4.2."""
    with ReferenceBroker(kafka_version="4.1") as old:
        old.create_topic("t")
        running = Running(form, old, lambda record, lease: None)
        with running:
            wait_until(lambda: running.error)
        assert isinstance(running.error, UnsupportedVersionError)
        assert not running.worker.is_healthy()


def test_kafka_4_1_works_with_whole_batches(form: str) -> None:
    with ReferenceBroker(kafka_version="4.1") as old:
        old.create_topic("t")
        old.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        produce(old, 30)
        nothing = lambda record, lease: None  # noqa: E731
        with Running(form, old, nothing, share_acquire_mode="batch_optimized", concurrency=2) as running:
            running.wait_for(lambda: running.worker.inspect().counts.accepted == 30)


def test_a_plain_handler_that_returns_a_coroutine_ends_the_worker(broker: ReferenceBroker) -> None:
    """Nobody would await it, and the record must not be accepted."""
    produce(broker, 1)

    async def coroutine() -> None:
        """Never awaited."""

    worker: ShareWorker[Any, Any] = ShareWorker(
        "t", lambda _: coroutine(), bootstrap_servers=broker.bootstrap_servers, group_id=GROUP
    )
    with pytest.raises(TypeError, match="async def"):
        worker.run()
    assert worker.inspect().counts.accepted == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share_acknowledgement_mode": "implicit"}, "sets it itself"),
        ({"explicit.window.records": 3}, "use window_records"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": "3"}, "without quotes"),
        ({"concurrency": 3, "window_records": 2}, "at least concurrency, 3"),
        ({"window_records": 0}, "at least concurrency"),
        ({"max_lease_ms": 0}, "max_lease_ms is 0"),
        ({"drain_timeout_ms": -1}, "drain_timeout_ms is -1"),
        ({"max_deliveries": 0}, "max_deliveries"),
        ({"on_error": {ValueError: Reject}}, r"Reject\(\)"),
        ({"on_error": {"ValueError": Reject()}}, "classes of exceptions"),
        ({"group_idd": "g"}, "group_id"),
        ({"concurency": 3}, "concurency is not a setting of a worker; did you mean concurrency"),
        ({"drain_timeout": 3}, "did you mean drain_timeout_ms"),
        ({"group_instance_id": "g"}, "cannot be set"),
    ],
)
def test_a_mistake_is_refused_when_the_worker_is_made(settings: dict[str, Any], message: str) -> None:
    known = {"bootstrap_servers": "localhost:1", "group_id": "g"}
    with pytest.raises(ConfigurationError, match=message):
        ShareWorker("t", lambda record: None, **{**known, **settings})


@pytest.mark.parametrize("handler", [lambda: None, lambda a, b, c: None, "module:handler"])
def test_a_handler_takes_one_or_two_arguments(handler: Any) -> None:
    with pytest.raises(ConfigurationError, match="handler"):
        ShareWorker("t", handler, bootstrap_servers="localhost:1", group_id="g")


@pytest.mark.parametrize("topics", [[], "", [1], 5])
def test_topics_are_names(topics: Any) -> None:
    with pytest.raises((ConfigurationError, InvalidArgumentError)):
        ShareWorker(topics, print, bootstrap_servers="localhost:1", group_id="g")
