"""The rules of a worker with real client cores and broker machines, under virtual time: slow handlers, failures, death.

What a driver does with threads or tasks is done here by looking at the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from simulation.client import SimulatedClient
from simulation.facade import SimulatedFacade, Steps
from simulation.fault_profile import LOCK_LIMIT
from simulation.scene import TOPIC, Scene

from kafka_share.core.log_events import LOG_EVENTS, WARNING
from kafka_share.errors import ProduceError
from kafka_share.handling.driver import LOOK_EVERY_MS
from kafka_share.handling.job import Call
from kafka_share.handling.jobs import Cancel, Command, Jobs, Produce, Settle, Start
from kafka_share.handling.policy import DeadLetter, OnError, Policy, Reject, Retry
from kafka_share.records import ShareRecord

Record = ShareRecord[Any, Any]
LOCK_MS = 30_000
LIMIT = "group.share.partition.max.record.locks"
WINDOW: dict[str, Any] = {"explicit": True, "window_records": 50, "record_limit": True}


class TransientError(Exception):
    """Passes by itself."""


class PermanentError(Exception):
    """Never passes."""


class SimulatedWorker:
    """A life of a client. `handle` returns how long a handler takes; what it raises, the handler raises at once.

    It ends when `is_over` says so, by draining, or without a word if it `crashes`.
    """

    def __init__(
        self,
        handle: Callable[[Record, int], int],
        is_over: Callable[[SimulatedWorker], bool],
        on_error: OnError | None = None,
        *,
        crashes: bool = False,
        concurrency: int = 10,
        writes_from_ms: int = 0,
    ) -> None:
        """`writes_from_ms`: before this time, copies cannot be written."""
        self.jobs = Jobs(
            Policy(on_error),
            concurrency=concurrency,
            enough_records=2 * concurrency,
            max_lease_ms=900_000,
            drain_timeout_ms=25_000,
        )
        self.handled: Counter[int] = Counter()
        self.calls: Counter[tuple[int, int]] = Counter()
        """By offset and delivery count."""
        self.now_ms = 0
        self._handle, self._is_over, self._crashes = handle, is_over, crashes
        self._running: dict[Call, tuple[int, Exception | None]] = {}
        self.letters: Counter[int] = Counter()
        self._writes_from_ms = writes_from_ms

    def __call__(self, client: SimulatedClient) -> Steps[None]:
        facade, now_ms = client.facade, client.driver.now_ms
        facade.subscribe(frozenset({TOPIC}))
        facade.side.leased = lambda: self.jobs.leased(now_ms())
        polls_at_ms = 0
        while not self.jobs.is_done(now_ms()):
            self.now_ms = now_ms()
            if self._is_over(self):
                if self._crashes:
                    facade.side.leased = tuple
                    yield from facade.sleep(10 * LOCK_MS)
                    break
                self.jobs.drain(now_ms())
            self._look(facade, now_ms())
            wakes = [at_ms for at_ms, _ in self._running.values()]
            wakes.append(self.jobs.wake_at_ms() or now_ms() + 1_000)
            wait_ms = max(1, min(1_000, min(wakes) - now_ms()))
            is_stocked = self.jobs.is_stocked and now_ms() < polls_at_ms
            if self.jobs.wants_records and not is_stocked:
                records = yield from facade.poll(wait_ms)
                polls_at_ms = now_ms() + LOOK_EVERY_MS
                self.jobs.arrived(records, now_ms())
                self._look(facade, now_ms())
            else:
                yield from facade.sleep(wait_ms)
        yield from facade.close(10_000)

    def _look(self, facade: SimulatedFacade, now_ms: int) -> None:
        for job in self.jobs.unsettled():
            if job.record.lock_lost:
                self.jobs.lock_lost(job)
        commands = self.jobs.poll(now_ms)
        while commands or any(at_ms <= now_ms for at_ms, _ in self._running.values()):
            for command in commands:
                self._perform(facade, command, now_ms)
            for call, (at_ms, error) in list(self._running.items()):
                if at_ms <= now_ms:
                    del self._running[call]
                    if error is None and not call.is_lost:
                        self.handled[call.records[0].offset] += 1
                    self.jobs.finished(call, error, now_ms)
            self.jobs.check()
            commands = self.jobs.poll(now_ms)

    def _perform(self, facade: SimulatedFacade, command: Command, now_ms: int) -> None:
        if isinstance(command, Start):
            (record,) = command.call.records
            self.calls[record.offset, record.delivery_count] += 1
            try:
                self._running[command.call] = now_ms + self._handle(record, command.call.tries), None
            except Exception as error:  # noqa: BLE001 - the rules decide about it
                self._running[command.call] = now_ms, error
        elif isinstance(command, Settle):
            job = command.job
            if command.delay_ms:
                facade.release(job.record, command.delay_ms)
            else:
                facade.acknowledge(job.record, command.kind)
            self.jobs.settled(job, None)
        elif isinstance(command, Cancel):
            self._running[command.call] = now_ms, None
        elif isinstance(command, Produce):
            is_written = now_ms >= self._writes_from_ms
            self.letters[command.job.record.offset] += is_written
            self.jobs.produced(command.job, None if is_written else ProduceError("no broker"), now_ms)


def warnings_of(client: SimulatedClient) -> list[str]:
    return [name for name, _ in client.driver.logs if LOG_EVENTS[name].level >= WARNING]


@pytest.mark.parametrize("lock_ms", [1_000, LOCK_MS])
def test_a_handler_ten_times_as_long_as_the_lock_is_delivered_once(lock_ms: int) -> None:
    """So are the records that wait behind it. The client renews their locks by itself, and no fetch is in the way."""
    name = "group.share.{}record.lock.duration.ms"
    scene = Scene(30, {name.format("min."): lock_ms, name.format(""): lock_ms})
    worker = SimulatedWorker(lambda record, tries: 10 * lock_ms, lambda it: it.handled.total() == 30)
    client = scene.join(worker, **WINDOW)
    scene.run(limit_ms=3_000_000)
    assert worker.handled == dict.fromkeys(range(30), 1)
    assert {count for _, count in worker.calls} == {1}
    assert worker.jobs.counts.lost == 0
    assert scene.finished == 30
    assert not warnings_of(client)


def test_ten_thousand_records_end_as_the_policy_says() -> None:
    """5 % fail twice and then succeed, 1 % fail for ever and are rejected: each is delivered once."""
    scene = Scene(100, {LIMIT: LOCK_LIMIT}, batches=100)

    def handle(record: Record, tries: int) -> int:
        if record.offset % 100 == 0:
            raise PermanentError
        if record.offset % 20 == 1 and tries < 3:
            raise TransientError
        return 0

    def is_over(it: SimulatedWorker) -> bool:
        return it.jobs.counts.accepted + it.jobs.counts.rejected == 10_000

    policy: OnError = {TransientError: Retry(attempts=5, backoff_ms=100), PermanentError: Reject()}
    worker = SimulatedWorker(handle, is_over, policy)
    client = scene.join(worker, **WINDOW)
    scene.run()
    counts = worker.jobs.counts
    assert (counts.received, counts.accepted, counts.rejected, counts.released) == (10_000, 9_900, 100, 0)
    assert (counts.redelivered, counts.lost, counts.retried) == (0, 0, 1_000)
    assert scene.finished == 10_000
    assert not warnings_of(client)


def test_an_outage_of_ten_minutes_spends_no_delivery() -> None:
    """Nothing succeeds, so the records that are here stay here, and no others are fetched."""
    scene = Scene(200)
    began_at_ms: list[int] = []

    def handle(record: Record, tries: int) -> int:
        began_at_ms.append(worker.now_ms)
        if worker.now_ms - began_at_ms[0] < 600_000:
            raise TransientError
        return 0

    worker = SimulatedWorker(handle, lambda it: it.handled.total() == 200)
    client = scene.join(worker, **WINDOW)
    scene.run(limit_ms=1_000_000)
    assert worker.handled == dict.fromkeys(range(200), 1)
    assert {count for _, count in worker.calls} == {1}
    assert worker.jobs.counts.released == 0
    assert not warnings_of(client)


def test_bad_records_stop_a_full_partition_for_five_minutes_at_most() -> None:
    """Behind them the broker's limit of records in flight is reached, so nothing succeeds. That is no outage."""
    scene = Scene(100, {LIMIT: LOCK_LIMIT}, batches=20)

    def handle(record: Record, tries: int) -> int:
        if record.offset % 20 == 7 and record.offset < 100:
            raise PermanentError
        return 10

    def is_over(it: SimulatedWorker) -> bool:
        return it.jobs.counts.rejected + it.jobs.counts.accepted == 2_000

    worker = SimulatedWorker(handle, is_over)
    scene.join(worker, **WINDOW)
    scene.run(limit_ms=400_000)
    assert worker.handled == {offset: 1 for offset in range(2_000) if offset % 20 != 7 or offset > 100}
    assert scene.finished == 2_000


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_the_records_of_a_worker_that_died_come_back(version: str) -> None:
    """Their locks end, nobody renews them; what it had accepted does not come back."""
    scene = Scene(100, kafka_version=version)
    dies = SimulatedWorker(lambda record, tries: 200, lambda it: it.handled.total() >= 30, crashes=True)
    scene.join(dies, **WINDOW)
    takes_over = SimulatedWorker(lambda record, tries: 200, lambda it: it.handled.total() + dies.handled.total() >= 100)
    scene.join(takes_over, **WINDOW)
    scene.run()
    assert dies.handled + takes_over.handled == dict.fromkeys(range(100), 1)
    again = {offset for offset, count in takes_over.calls if count > 1}
    assert again, "some records were in the hands of the dead"
    assert {count for _, count in takes_over.calls} == {1, 2}


def test_draining_under_load_loses_nothing_and_handles_nothing_twice() -> None:
    scene = Scene(500)
    first = SimulatedWorker(lambda record, tries: 100, lambda it: it.handled.total() >= 100)
    second = SimulatedWorker(lambda record, tries: 100, lambda it: it.handled.total() + first.handled.total() >= 500)
    scene.join(first, **WINDOW)
    scene.join(second, **WINDOW)
    scene.run()
    assert first.handled + second.handled == dict.fromkeys(range(500), 1)
    assert first.jobs.counts.released > 0
    assert first.jobs.counts.received == first.jobs.counts.accepted + first.jobs.counts.released
    assert {count for _, count in second.calls} <= {1, 2}


def test_an_outage_of_the_producer_longer_than_a_lease_costs_no_dead_letter_a_delivery() -> None:
    """Their locks are renewed all the time, and each is written once."""
    outage_ms = 1_000_000

    def handle(record: Record, tries: int) -> int:
        if record.offset % 10 == 3:
            raise PermanentError
        return 5

    policy: OnError = {PermanentError: DeadLetter()}
    worker = SimulatedWorker(
        handle, lambda it: it.letters.total() == 10 and it.handled.total() == 90, policy, writes_from_ms=outage_ms
    )
    scene = Scene(100)
    scene.join(worker, **WINDOW)
    scene.run(limit_ms=3 * outage_ms)
    assert worker.now_ms > outage_ms
    assert worker.letters == dict.fromkeys(range(3, 100, 10), 1)
    assert {count for _, count in worker.calls} == {1}
    counts = worker.jobs.counts
    assert (counts.dead_lettered, counts.accepted, counts.lost, counts.failed) == (10, 90, 0, 10)
    assert scene.finished == 100
