"""Fetches of ordinary consumers that wait for data: delayed until enough bytes are there or their time is up.

Filled by the fetch handler; the cluster says which partition has moved and takes out what is due. No timer of its own
and no polling of logs: a delayed fetch costs nothing until its partition moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from kafka_share.broker.deadlines import Deadlines

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition
    from kafka_share.protocol.logs import FetchRequest

T = TypeVar("T")


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
    """All delayed fetches: by partition, by connection and by time. Nothing here looks at all of them."""

    def __init__(self) -> None:
        self._waiting: dict[int, DelayedFetch] = {}
        self._by_partition: dict[Partition, dict[int, None]] = {}
        self._by_connection: dict[int, dict[int, None]] = {}
        self._expiries: Deadlines[int] = Deadlines()
        self._due: list[DelayedFetch] = []
        self._last_number = 0

    def add(self, fetch: DelayedFetch) -> None:
        self._last_number = number = self._last_number + 1
        self._waiting[number] = fetch
        for one in fetch.ranges:
            self._by_partition.setdefault(one.partition, {})[number] = None
        self._by_connection.setdefault(fetch.context.connection_id, {})[number] = None
        self._expiries.set(number, fetch.expires_at_ms)

    def _take(self, number: int) -> DelayedFetch:
        """The fetch, which waits no longer."""
        fetch = self._waiting.pop(number)
        for one in fetch.ranges:
            _remove(self._by_partition, one.partition, number)
        _remove(self._by_connection, fetch.context.connection_id, number)
        self._expiries.discard(number)
        return fetch

    def partition_moved(self, partition: Partition) -> None:
        """The partition's log has grown or lost its head, or it has another leader, or it is gone."""
        for number in list(self._by_partition.get(partition, ())):
            fetch = self._waiting[number]
            gone = any(not _intact(one, fetch) for one in fetch.ranges if one.partition is partition)
            if gone or fetch.bytes_ready() >= fetch.min_bytes:
                self._due.append(self._take(number))

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits for these answers any more."""
        for number in list(self._by_connection.get(connection_id, ())):
            self._take(number)

    def take_due(self, now_ms: int) -> list[DelayedFetch]:
        """The fetches that have to be answered now; they wait no longer."""
        due, self._due = self._due, []
        return due + [self._take(number) for number in self._expiries.take_due(now_ms)]

    def wake_at_ms(self) -> int | None:
        """When the first delayed fetch expires, None if none waits."""
        return self._expiries.next_at_ms()


def _remove(numbers: dict[T, dict[int, None]], key: T, number: int) -> None:
    """One that is not there any more was named twice."""
    found = numbers.get(key, {})
    found.pop(number, None)
    if not found:
        numbers.pop(key, None)


def _intact(one: FetchedRange, fetch: DelayedFetch) -> bool:
    partition = one.partition
    topic_lives = partition.owner.partition(partition.partition) is partition
    return topic_lives and partition.leader_id == fetch.context.node_id and partition.log.start_offset <= one.offset
