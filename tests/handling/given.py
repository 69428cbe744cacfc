"""What the tests of a worker's rules share: records with a lock that tests end, and a table of what was commanded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_share.handling.job import Call, Copy, Job
from kafka_share.handling.jobs import Cancel, Command, Jobs, Produce, Settle, Start, Tell
from kafka_share.handling.policy import DeadLetter, OnError, Policy, Reject
from kafka_share.handling.turns import Turns
from kafka_share.locks import AcquisitionLock, DeliveryLimit, LockGeneration
from kafka_share.records import ShareRecord, TimestampType


def record(
    offset: int, delivery_count: int = 1, limit: int | None = 5, error: Any = None, key: Any = None
) -> ShareRecord[Any, Any]:
    generation = LockGeneration(DeliveryLimit())
    generation.delivery_limit.value = limit
    lock = AcquisitionLock(1 << 60, generation, lambda: 0)
    kind = TimestampType.CREATE_TIME
    return ShareRecord("t", 0, offset, 0, kind, key, b"", (), None, delivery_count, error=error, lock=lock)


def jobs(
    on_error: OnError | None = None,
    turns: Turns | None = None,
    *,
    max_deliveries: int | None = None,
    on_last_delivery: Reject | DeadLetter | None = None,
    concurrency: int = 2,
    enough_records: int = 0,
    lease_ms: int = 100_000,
    expected_ms: int | None = None,
) -> Jobs:
    policy = Policy(on_error, max_deliveries, on_last_delivery)
    return Jobs(
        policy,
        turns,
        concurrency=concurrency,
        enough_records=enough_records,
        max_lease_ms=lease_ms,
        drain_timeout_ms=10_000,
        expected_ms=expected_ms,
    )


class Driven:
    """A machine with what it has commanded so far. Acknowledgements succeed at once, unless `outcome` is set."""

    def __init__(self, machine: Jobs) -> None:
        self.jobs = machine
        self.outcome: Any = None
        self.running: dict[int, Call] = {}
        """By the offset of their first record."""
        self.started: list[int] = []
        """Offsets, in the order in which their calls began."""
        self.calls: list[list[int]] = []
        """The offsets of each call."""
        self.settled: list[tuple[int, str, int]] = []
        """(offset, type, delay)"""
        self.told: list[tuple[int, str]] = []
        self.tells: list[Tell] = []
        self.cancelled: list[int] = []
        self.producing: dict[int, Job] = {}
        self.written: set[int] = set()
        """Offsets of records whose copy was written."""
        self.copies: list[Copy] = []
        self.produced: list[tuple[int, str]] = []
        """(offset, topic), each time that a copy was to be written"""

    def is_stocked(self) -> bool:
        return self.jobs.is_stocked

    def poll(self, now_ms: int) -> None:
        self.jobs.check()
        for command in self.jobs.poll(now_ms):
            self._perform(command)
        self.jobs.check()

    def _perform(self, command: Command) -> None:
        if isinstance(command, (Start, Cancel)):
            self._begin_or_cancel(command)
            return
        job, offset = command.job, command.job.record.offset
        if isinstance(command, Produce):
            self.producing[offset] = job
            self.copies.append(command.copy)
            self.produced.append((offset, command.copy.topic))
        elif isinstance(command, Settle):
            self.settled.append((offset, command.kind.name, command.delay_ms))
            self.jobs.settled(job, self.outcome)
        else:
            self.told.append((offset, command.event.name))
            self.tells.append(command)

    def _begin_or_cancel(self, command: Start | Cancel) -> None:
        offsets = [one.offset for one in command.call.records]
        if isinstance(command, Cancel):
            self.cancelled += offsets
            return
        self.running[offsets[0]] = command.call
        self.started += offsets
        self.calls.append(offsets)

    def arrive(self, *records: ShareRecord[Any, Any], now_ms: int = 0, wall_ms: int | None = None) -> None:
        self.jobs.arrived(records, now_ms, wall_ms)
        self.poll(now_ms)

    def finish(self, offset: int, error: BaseException | None = None, now_ms: int = 0) -> None:
        self.jobs.finished(self.running.pop(offset), error, now_ms)
        self.poll(now_ms)

    def write(self, offset: int, error: Exception | None = None, now_ms: int = 0) -> None:
        """The copy was written, or this is why not."""
        self.written |= {offset} if error is None else set()
        self.jobs.produced(self.producing.pop(offset), error, now_ms)
        self.poll(now_ms)

    def drain(self, now_ms: int, written: Callable[[], Exception | None] = lambda: None) -> None:
        """To its end: what runs succeeds, and this is what becomes of each copy."""
        self.jobs.drain(now_ms)
        self.poll(now_ms)
        while not self.jobs.is_done(now_ms):
            self.poll(now_ms)
            for number in sorted(self.running):
                self.finish(number, None, now_ms)
            for number in sorted(self.producing):
                self.write(number, written(), now_ms)
            now_ms += 500

    def check_ends(self, count: int) -> None:
        """Each of so many records was settled once, or its lock was lost."""
        ended = [number for number, _, _ in self.settled]
        assert len(ended) == len(set(ended))
        lost = {number for number, event in self.told if event == "LOCK_LOST"}
        assert {*ended, *lost} == {*range(count)}

    def succeed_with_another(self, offset: int, now_ms: int) -> None:
        """What fails next is not taken for an outage."""
        self.arrive(record(offset), now_ms=now_ms)
        self.finish(offset, now_ms=now_ms)
