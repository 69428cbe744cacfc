"""Records on their last delivery: says so in the log when one is released or lost, since no member gets it again.

Owned by `fetching.fetcher`; `fetching.acknowledgements` tells what is queued and how it ends. Remembers ranges of
offsets, and only those whose delivery count has come to the group's limit: usually none.
"""

from __future__ import annotations

import attrs

from kafka_share.core.context import CoreContext
from kafka_share.core.events import FetchedBatch, GatheredAcknowledgements
from kafka_share.core.fetching.losses import LossNotes
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import KafkaShareError
from kafka_share.locks import LockGeneration
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS
from kafka_share.records import AcknowledgeType, TopicIdPartition


@attrs.define(eq=False)
class _Last:
    """A range of offsets on its last delivery."""

    where: TopicIdPartition
    session_id: int
    locks: LockGeneration
    first: int
    last: int
    ends_at_ms: int
    is_awaited: bool = False
    """Accepted or rejected; the outcome is not known."""

    def is_lost(self, now_ms: int) -> bool:
        return not self.is_awaited and (self.locks.has_ended or now_ms >= self.ends_at_ms)


class LastDeliveries:
    def __init__(self, context: CoreContext) -> None:
        self._limit = context.delivery_limit
        self._notes = LossNotes("last-delivery-spent", context.outputs)
        self._open: list[_Last] = []

    def delivered(self, batch: FetchedBatch) -> None:
        """Records were acquired."""
        limit = self._limit.value
        if limit is None:
            return
        ends_at_ms = batch.acquired_at_ms + (batch.acquisition_lock_timeout_ms or DEFAULT_LOCK_MS)
        for fetched in batch.partitions:
            for first, last, count in fetched.acquired:
                if count >= limit:
                    where, locks = fetched.partition, fetched.locks
                    self._open.append(_Last(where, fetched.session_id, locks, first, last, ends_at_ms))

    def queued(self, gathered: GatheredAcknowledgements) -> None:
        """Acknowledgements are on their way."""
        if not self._open:
            return
        for run in gathered.runs:
            if run.type == AcknowledgeType.RENEW:
                continue
            for part in self._cut(gathered, run):
                if run.type == AcknowledgeType.RELEASE:
                    self._notes.add(part.where, [AcknowledgementRun(part.first, part.last, 0)])
                else:
                    part.is_awaited = True
                    self._open.append(part)

    def ended(
        self, gathered: GatheredAcknowledgements, error: KafkaShareError | None, new_lock: tuple[int, int] | None
    ) -> None:
        """They have their outcome; a new lock is (from when it counts, its length)."""
        if not self._open:
            return
        for run in gathered.runs:
            if run.type == AcknowledgeType.RENEW and (error is not None or new_lock is None):
                continue
            for part in self._cut(gathered, run):
                if run.type == AcknowledgeType.RENEW and new_lock is not None:
                    part.ends_at_ms = max(part.ends_at_ms, sum(new_lock))
                    self._open.append(part)
                elif error is not None:
                    self._notes.add(part.where, [AcknowledgementRun(part.first, part.last, 0)])

    def _cut(self, gathered: GatheredAcknowledgements, run: AcknowledgementRun) -> list[_Last]:
        """Take out what the run is about; the rest of each range stays."""
        found: list[_Last] = []
        kept: list[_Last] = []
        for one in self._open:
            is_meant = one.where == gathered.partition and one.session_id == gathered.session_id
            if not is_meant or one.last < run.first or run.last < one.first:
                kept.append(one)
                continue
            found.append(attrs.evolve(one, first=max(one.first, run.first), last=min(one.last, run.last)))
            if one.first < run.first:
                kept.append(attrs.evolve(one, last=run.first - 1))
            if run.last < one.last:
                kept.append(attrs.evolve(one, first=run.last + 1))
        self._open = kept
        return found

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to look for, and nothing to log."""
        return not self._open and not self._notes.places

    def poll(self, now_ms: int, *, is_last: bool = False) -> None:
        """Look for locks that have been lost, and log what there is; `is_last`: the consumer ends."""
        if self._open:
            for lost in (one for one in self._open if one.is_lost(now_ms)):
                self._notes.add(lost.where, [AcknowledgementRun(lost.first, lost.last, 0)])
            self._open = [one for one in self._open if not one.is_lost(now_ms)]
        self._notes.poll(now_ms, is_last=is_last)

    def wake_at_ms(self) -> int | None:
        times = [one.ends_at_ms for one in self._open if not one.is_awaited]
        noted = self._notes.wake_at_ms()
        return min([*times, *(() if noted is None else (noted,))], default=None)
