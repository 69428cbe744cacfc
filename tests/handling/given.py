"""What the tests of a worker's rules share: records with a lock that tests end, and a table of what was commanded."""

from __future__ import annotations

from typing import Any

from kafka_share.handling.jobs import Cancel, Command, Job, Jobs, Settle, Start, Tell
from kafka_share.handling.policy import OnError, Policy
from kafka_share.locks import AcquisitionLock, DeliveryLimit, LockGeneration
from kafka_share.records import ShareRecord, TimestampType


def record(offset: int, delivery_count: int = 1, limit: int | None = 5, error: Any = None) -> ShareRecord[Any, Any]:
    generation = LockGeneration(DeliveryLimit())
    generation.delivery_limit.value = limit
    lock = AcquisitionLock(1 << 60, generation, lambda: 0)
    kind = TimestampType.CREATE_TIME
    return ShareRecord("t", 0, offset, 0, kind, None, b"", (), None, delivery_count, error=error, lock=lock)


def jobs(
    on_error: OnError | None = None, *, max_deliveries: int | None = None, concurrency: int = 2, lease_ms: int = 100_000
) -> Jobs:
    policy = Policy(on_error, max_deliveries)
    return Jobs(policy, concurrency=concurrency, max_lease_ms=lease_ms, drain_timeout_ms=10_000)


class Driven:
    """A machine with what it has commanded so far. Acknowledgements succeed at once, unless `outcome` is set."""

    def __init__(self, machine: Jobs) -> None:
        self.jobs = machine
        self.outcome: Any = None
        self.running: dict[int, Job] = {}
        """By offset."""
        self.started: list[int] = []
        self.settled: list[tuple[int, str, int]] = []
        """(offset, type, delay)"""
        self.told: list[tuple[int, str]] = []
        self.cancelled: list[int] = []

    def poll(self, now_ms: int) -> None:
        self.jobs.check()
        for command in self.jobs.poll(now_ms):
            self._perform(command)
        self.jobs.check()

    def _perform(self, command: Command) -> None:
        job, offset = command.job, command.job.record.offset
        if isinstance(command, Start):
            self.running[offset] = job
            self.started.append(offset)
        elif isinstance(command, Settle):
            self.settled.append((offset, command.kind.name, command.delay_ms))
            self.jobs.settled(job, self.outcome)
        elif isinstance(command, Tell):
            self.told.append((offset, command.event.name))
        else:
            assert isinstance(command, Cancel)
            self.cancelled.append(offset)

    def arrive(self, *records: ShareRecord[Any, Any], now_ms: int = 0) -> None:
        self.jobs.arrived(records, now_ms)
        self.poll(now_ms)

    def finish(self, offset: int, error: BaseException | None = None, now_ms: int = 0) -> None:
        self.jobs.finished(self.running.pop(offset), error, now_ms)
        self.poll(now_ms)

    def succeed_with_another(self, offset: int, now_ms: int) -> None:
        """What fails next is not taken for an outage."""
        self.arrive(record(offset), now_ms=now_ms)
        self.finish(offset, now_ms=now_ms)
