"""One delivery of a record on its way through a worker, and one call of the handler: values, without rules.

`Jobs` changes them; `Turns` and the drivers hold them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import attrs

from kafka_share.errors import BatchError
from kafka_share.records import AcknowledgeType, ShareRecord

Record: TypeAlias = ShareRecord[Any, Any]
_partition_of = attrgetter("topic", "partition")
_place_of = attrgetter("topic", "partition", "offset")


def places_of(records: Iterable[Record]) -> str:
    """Where they are, such as "t-0@3,7-9 t-1@0", for logs and names: never the payload."""
    shown = []
    for (topic, partition), here in groupby(sorted(records, key=_place_of), _partition_of):
        spans: list[list[int]] = []
        for offset in [record.offset for record in here]:
            if spans and offset <= spans[-1][1] + 1:
                spans[-1][1] = offset
            else:
                spans.append([offset, offset])
        offsets = ",".join([f"{first}-{last}" if first < last else f"{first}" for first, last in spans])
        shown.append(f"{topic}-{partition}@{offsets}")
    return " ".join(shown)


class Stage(enum.Enum):
    """Where a record is on its way."""

    READY = "waits for its turn"
    RUNNING = "its handler runs"
    WAITING = "waits to be tried again"
    PRODUCING = "its copy is written to another topic"
    SETTLING = "acknowledged, without an outcome yet"


@attrs.frozen
class Copy:
    """What is to be written before a record is accepted."""

    topic: str
    error: Exception
    """Why it goes there."""
    attempt: int = 0
    """Which copy in a retry topic it is, from 1; 0: a dead letter."""
    delay_ms: int = 0
    """How long after its writing a copy in a retry topic is to be tried."""
    max_bytes: int | None = None
    """A dead letter that would be larger has no copy of the record."""


@attrs.define(eq=False)
class Job:
    """One delivery of a record, from its receipt to the outcome of its acknowledgement."""

    record: Record
    lease_ends_at_ms: int
    successes_seen: int
    """How many handlers had succeeded at the receipt or the latest failure."""
    stage: Stage = Stage.READY
    tries: int = 0
    faults: int = 0
    """Failures between which other records succeeded."""
    since_ms: int = 0
    """RUNNING: when this try began."""
    due_at_ms: int = 0
    """WAITING: when to try again."""
    is_lost: bool = False
    is_overdue: bool = False
    """The lease has ended while the handler runs."""
    copy: Copy | None = None
    """The record is given up when this is written."""
    copies_failed: int = 0
    is_early: bool = False
    """WAITING: it comes from a retry topic, and its time has not come."""
    kind: AcknowledgeType | None = None
    """SETTLING: how it was acknowledged."""

    @property
    def place(self) -> str:
        """For logs: never the payload."""
        return f"{self.record.topic}-{self.record.partition}@{self.record.offset}"


@attrs.define(eq=False)
class Call:
    """One call of the handler: with one record, or with a batch."""

    jobs: tuple[Job, ...]
    since_ms: int
    is_cancelled: bool = False

    @property
    def place(self) -> str:
        """For logs and names: never the payload."""
        return self.jobs[0].place if len(self.jobs) == 1 else places_of(self.records)

    @property
    def tries(self) -> int:
        """Which call of the handler this is for these deliveries. Records of a batch are all new."""
        return self.jobs[0].tries

    @property
    def records(self) -> list[Record]:
        return [job.record for job in self.jobs]

    @property
    def is_lost(self) -> bool:
        """Whether no record is left whose result counts."""
        return all(job.is_lost for job in self.jobs)

    def outcomes(self, error: BaseException) -> list[BaseException | None]:
        """What the failure of the call means for each of its records."""
        if not isinstance(error, BatchError):
            return [error] * len(self.jobs)
        failures = {(one.topic, one.partition, one.offset): failure for one, failure in error.failures.items()}
        outcomes: list[BaseException | None] = [
            failures.pop((one.topic, one.partition, one.offset), None) for one in self.records
        ]
        if failures:
            error.add_note(
                f"{len(failures)} of its records were not in the batch, so all of the batch counts as failed"
            )
            return [error] * len(self.jobs)
        return outcomes
