"""Batches that were put into the mailbox and that perhaps no poll has taken.

An answer may come after its poll has ended; its records then wait with their locks running. If no poll comes within
half the lock time they are taken back and released, so that another member gets them; at once if the consumer has left
its group meanwhile. Owned by `fetching.fetcher`.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kafka_share.core.events import FetchedBatch, FetchedPartition, GatheredAcknowledgements, Output, Reclaim
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS
from kafka_share.records import AcknowledgeType


@attrs.frozen
class _Untaken:
    releases: tuple[GatheredAcknowledgements, ...]
    reclaim_at_ms: int


class UntakenBatches:
    """Remembers offsets, not records; bounded by the nodes, as no fetch is sent while nobody polls."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Untaken] = {}
        self._reclaiming: dict[int, _Untaken] = {}

    def delivered(self, batch: FetchedBatch, now_ms: int) -> None:
        lock_ms = batch.acquisition_lock_timeout_ms
        reclaim_at_ms = now_ms + (lock_ms or DEFAULT_LOCK_MS) // 2
        self._waiting[batch.batch_id] = _Untaken(releases(batch.partitions), reclaim_at_ms)

    def poll_started(self) -> None:
        """The poll takes what waits; what is being taken back may still come back."""
        self._waiting.clear()

    def poll(self, now_ms: int, *, is_abandoned: bool) -> list[Output]:
        """What has to be taken back now: what is due, and everything if no poll is expected."""
        due = [batch_id for batch_id, b in self._waiting.items() if is_abandoned or now_ms >= b.reclaim_at_ms]
        if due:
            # The driver answers at once; what it has not answered by the next time was not in the mailbox any more.
            self._reclaiming = {batch_id: self._waiting.pop(batch_id) for batch_id in due}
        return [Reclaim(batch_id) for batch_id in due]

    def reclaimed(self, batch_id: int) -> tuple[GatheredAcknowledgements, ...]:
        """The mailbox gave the batch back: what has to be sent."""
        untaken = self._reclaiming.pop(batch_id, None) or self._waiting.pop(batch_id, None)
        return () if untaken is None else untaken.releases

    def wake_at_ms(self) -> int | None:
        return min((untaken.reclaim_at_ms for untaken in self._waiting.values()), default=None)


def releases(partitions: Iterable[FetchedPartition]) -> tuple[GatheredAcknowledgements, ...]:
    """RELEASE for everything that was acquired of these."""
    return tuple(
        GatheredAcknowledgements(
            fetched.partition,
            fetched.node_id,
            fetched.session_id,
            tuple(AcknowledgementRun(r.first, r.last, AcknowledgeType.RELEASE) for r in fetched.acquired),
        )
        for fetched in partitions
    )
