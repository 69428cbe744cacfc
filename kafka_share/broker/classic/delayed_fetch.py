"""Fetches of ordinary consumers that wait for data: delayed until enough bytes are there or their time is up.

Filled by the fetch handler; the cluster says which partition has moved and takes out what is due. No timer of its own
and no polling of logs: a delayed fetch costs nothing until its partition moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition
    from kafka_share.protocol.logs import FetchRequest


@attrs.frozen(eq=False)
class FetchedRange:
    """One partition of a delayed fetch."""

    partition: Partition
    offset: int
    max_bytes: int
    committed: bool

    def bytes_ready(self) -> int:
        log = self.partition.log
        end = log.last_stable_offset if self.committed else log.high_watermark
        if not log.start_offset <= self.offset < end:
            return 0
        return min(log.bytes_between(self.offset, end), self.max_bytes)


@attrs.frozen(eq=False)
class DelayedFetch:
    """A fetch that waits."""

    context: RequestContext
    request: FetchRequest
    expires_at_ms: int
    min_bytes: int
    ranges: tuple[FetchedRange, ...]

    def bytes_ready(self) -> int:
        """How many bytes an answer would carry now."""
        return sum(one.bytes_ready() for one in self.ranges)


class DelayedFetches:
    """All delayed fetches. A connection has one request in work at a time, so their number is that of connections."""

    def __init__(self) -> None:
        self._waiting: list[DelayedFetch] = []
        self._due: list[DelayedFetch] = []

    def add(self, fetch: DelayedFetch) -> None:
        self._waiting.append(fetch)

    def partition_moved(self, partition: Partition) -> None:
        """The partition's log has grown or lost its head, or it has another leader, or it is gone."""
        waiting = [f for f in self._waiting if any(one.partition is partition for one in f.ranges)]
        for fetch in waiting:
            gone = any(not _intact(one, fetch) for one in fetch.ranges if one.partition is partition)
            if gone or fetch.bytes_ready() >= fetch.min_bytes:
                self._waiting.remove(fetch)
                self._due.append(fetch)

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits for these answers any more."""
        self._waiting = [f for f in self._waiting if f.context.connection_id != connection_id]

    def take_due(self, now_ms: int) -> list[DelayedFetch]:
        """The fetches that have to be answered now; they wait no longer."""
        due, self._due = self._due, []
        expired = [f for f in self._waiting if f.expires_at_ms <= now_ms]
        if expired:
            self._waiting = [f for f in self._waiting if f.expires_at_ms > now_ms]
        return due + expired

    def wake_at_ms(self) -> int | None:
        """When the first delayed fetch expires, None if none waits."""
        return min((f.expires_at_ms for f in self._waiting), default=None)


def _intact(one: FetchedRange, fetch: DelayedFetch) -> bool:
    partition = one.partition
    topic_lives = partition.owner.partition(partition.partition) is partition
    return topic_lives and partition.leader_id == fetch.context.node_id and partition.log.start_offset <= one.offset
