"""Acknowledgements that were handed over and whose outcome is not known: which lock each is about, who waits for it.

Owned by `core.in_flight_records`. An outcome names a partition and offsets; of two acknowledgements of one offset and
type (its delivery ended, it was delivered again) the older one is meant, because outcomes come in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import attrs

from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import (
    FencedLeaderEpochError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaShareError,
    NotLeaderOrFollowerError,
    OutcomeUnknownError,
    ShareSessionNotFoundError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.records import AcknowledgeType, AcquisitionLock, TopicIdPartition

OnOutcome: TypeAlias = Callable[[KafkaShareError | None], None]
"""Told once how an acknowledgement ended."""
Notice: TypeAlias = tuple[OnOutcome, KafkaShareError | None]
"""A call to be made as soon as no lock is held."""
Waiting: TypeAlias = dict[int, list[OnOutcome]]
"""By offset."""

LOST: tuple[type[KafkaShareError], ...] = (
    InvalidRecordStateError,
    NotLeaderOrFollowerError,
    FencedLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    ShareSessionNotFoundError,
    InvalidShareSessionEpochError,
    OutcomeUnknownError,
)
"""Outcomes after which this consumer has no lock of the record: it is another's, or the session that had it ended."""


@attrs.define(eq=False)
class _HandedOver:
    runs: Sequence[AcknowledgementRun]
    lock: AcquisitionLock | None
    waiting: Waiting


class UnderWay:
    """Bounded by what the application has acknowledged and no broker has answered."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicIdPartition, list[_HandedOver]] = {}

    def add(self, said: GatheredAcknowledgements, lock: AcquisitionLock | None, waiting: Waiting) -> None:
        self._by_partition.setdefault(said.partition, []).append(_HandedOver(said.runs, lock, waiting))

    def settle(self, outcome: AcknowledgementOutcome, lock_ms: int) -> list[Notice]:
        """End what an outcome is about: renew and lose locks; answers whom to tell."""
        open_ones = self._by_partition.get(outcome.partition, [])
        left: Sequence[AcknowledgementRun] = outcome.runs
        notices: list[Notice] = []
        for handed_over in list(open_ones):
            ended = _common(handed_over.runs, left)
            if ended:
                handed_over.runs, left = _without(handed_over.runs, ended), _without(left, ended)
                notices += _end(handed_over, ended, outcome, lock_ms)
            if not handed_over.runs:
                open_ones.remove(handed_over)
            if not left:
                break
        if not open_ones:
            self._by_partition.pop(outcome.partition, None)
        return notices

    def abandon(self, error: KafkaShareError) -> list[Notice]:
        """No outcome will come any more: whoever waits gets this error."""
        handed_over = [one for ones in self._by_partition.values() for one in ones]
        self._by_partition.clear()
        return [(told, error) for one in handed_over for waiting in one.waiting.values() for told in waiting]

    def check(self) -> None:
        for ones in self._by_partition.values():
            assert ones, "an empty list is kept"
            for one in ones:
                assert one.runs, "an acknowledgement that has ended is kept"
                offsets = {o for run in one.runs for o in range(run.first, run.last + 1)}
                assert offsets >= one.waiting.keys(), "somebody waits for what has ended"


def _end(
    handed_over: _HandedOver, ended: Sequence[AcknowledgementRun], outcome: AcknowledgementOutcome, lock_ms: int
) -> Iterator[Notice]:
    lock, waiting = handed_over.lock, handed_over.waiting
    is_renewed = outcome.error is None and outcome.sent_at_ms is not None
    for run in ended:
        if lock is not None and isinstance(outcome.error, LOST):
            lock.lose(run.first, run.last)
        elif lock is not None and is_renewed and run.type == AcknowledgeType.RENEW:
            lock.renew(run.first, run.last, (outcome.sent_at_ms or 0) + lock_ms)
        if waiting:
            for offset in range(run.first, run.last + 1):
                for told in waiting.pop(offset, ()):
                    yield told, outcome.error


def _common(one: Sequence[AcknowledgementRun], other: Sequence[AcknowledgementRun]) -> Sequence[AcknowledgementRun]:
    """What two lists of ascending, disjoint runs both have, with the same type."""
    if one == other:
        return one
    found: list[AcknowledgementRun] = []
    left, right = iter(one), iter(other)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        first, last = max(a.first, b.first), min(a.last, b.last)
        if first <= last and a.type == b.type:
            found.append(AcknowledgementRun(first, last, a.type))
        if a.last <= b.last:
            a = next(left, None)
        else:
            b = next(right, None)
    return found


def _without(runs: Sequence[AcknowledgementRun], ended: Sequence[AcknowledgementRun]) -> list[AcknowledgementRun]:
    """The runs without those parts of them that have ended."""
    if runs == ended:
        return []
    rest: list[AcknowledgementRun] = []
    parts = iter(ended)
    part = next(parts, None)
    for run in runs:
        first = run.first
        while part is not None and part.first <= run.last:
            if part.first > first:
                rest.append(AcknowledgementRun(first, part.first - 1, run.type))
            first = part.last + 1
            part = next(parts, None)
        if first <= run.last:
            rest.append(AcknowledgementRun(first, run.last, run.type))
    return rest
