"""The ShareFetches of a node that wait: who waits for which partition, until when, and when each looks again.

Owned by `ShareNode`. What waits is bounded by the connections of the node, because answers keep the order of a
connection's requests. When a waiting ShareFetch looks again, which is all that "being woken" means:

- the log of one of its partitions has grown, or the partition has been loaded;
- a lock of its group in one of its partitions has ended;
- somebody acknowledged, were it in vain, or ended a session in one of its partitions: but *before* that is stored, so
  what was just released is not seen; afterwards only if the start offset moved;
- another fetch of such a partition has ended: at once if that was answered by a request, and again *before* what that
  request itself changes is stored; with the node's next request if its wait had run out (Kafka leaves the news to the
  thread that handles the next request).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kafka_share.broker.share.sessions import PartitionKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.share.delayed_fetch import DelayedShareFetch
    from kafka_share.broker.share.share_coordinator import StateKey


class DelayedShareFetches:
    """Waiting fetches by partition and by time, and requests that wait only to be refused.

    `ended(fetch, now_ms)` is called for each fetch that had waited and is fetched now.
    """

    def __init__(self, ended: Callable[[DelayedShareFetch, int], None]) -> None:
        self._ended = ended
        self._fetches: dict[int, DelayedShareFetch] = {}
        self._watchers: dict[PartitionKey, dict[int, DelayedShareFetch]] = {}
        self._refused: dict[int, RequestContext] = {}
        self._deadlines: list[tuple[int, int]] = []
        """Heap of (time, id); ids that wait no more are skipped."""
        self._next_id = 0
        self._touched: dict[StateKey, None] = {}
        """Where fetches have ended since others last looked."""

    # ---- who waits

    def add(self, fetch: DelayedShareFetch) -> None:
        """Let a fetch wait until its time is up."""
        id_ = self._add_deadline(fetch.expires_at_ms)
        self._fetches[id_] = fetch
        fetch.waiting_id = id_
        for source in fetch.sources:
            self._watchers.setdefault(source.key, {})[id_] = fetch

    def remove(self, fetch: DelayedShareFetch) -> None:
        """The fetch waits no more, or never did."""
        id_, fetch.waiting_id = fetch.waiting_id, None
        if id_ is None:
            return
        del self._fetches[id_]
        for source in fetch.sources:
            watchers = self._watchers[source.key]
            del watchers[id_]
            if not watchers:
                del self._watchers[source.key]

    def refuse_later(self, context: RequestContext, at_ms: int) -> None:
        """Let a request wait for its refusal."""
        self._refused[self._add_deadline(at_ms)] = context

    def _add_deadline(self, at_ms: int) -> int:
        self._next_id += 1
        heapq.heappush(self._deadlines, (at_ms, self._next_id))
        return self._next_id

    def _watching(self, partition: PartitionKey) -> list[DelayedShareFetch]:
        """The fetches that wait for this partition, in the order in which they came."""
        return list(self._watchers.get(partition, {}).values())

    def holds_up(self, connection_id: int) -> bool:
        """Whether a fetch of this connection waits."""
        return any(fetch.context.connection_id == connection_id for fetch in self._fetches.values())

    def forget_refusals(self, connection_id: int) -> None:
        """The connection has ended: nobody is there to be refused."""
        self._refused = {
            id_: context for id_, context in self._refused.items() if context.connection_id != connection_id
        }

    # ---- looking

    def look(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        """Let a fetch look at its partitions; it is fetched if that was enough."""
        if fetch.try_round(now_ms):
            self._touch(fetch)

    def expire(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        """Complete a fetch with whatever there is."""
        if fetch.complete(now_ms):
            self._touch(fetch)

    def _touch(self, fetch: DelayedShareFetch) -> None:
        self._touched.update((source.partition.key, None) for source in fetch.sources)

    def look_again(self, key: StateKey, now_ms: int) -> None:
        """Let the group's waiting fetches of this partition look."""
        for fetch in self._watching(PartitionKey(key.topic_id, key.partition)):
            if fetch.owner.group_id == key.group_id:
                self._look_again(fetch, now_ms)

    def look_all(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Let all waiting fetches of this partition look."""
        for fetch in self._watching(PartitionKey(topic_id, partition)):
            self._look_again(fetch, now_ms)

    def _look_again(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if not fetch.is_fetched:
            self.look(fetch, now_ms)
            self._after_wait(fetch, now_ms)

    def _after_wait(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if fetch.is_fetched:
            self._ended(fetch, now_ms)

    def look_where_fetches_ended(self, now_ms: int) -> None:
        """A fetch that ended may have left records to those that wait. Ends, because every round answers a fetch."""
        while self._touched:
            key = next(iter(self._touched))
            del self._touched[key]
            self.look_again(key, now_ms)
            self.look_all(key.topic_id, key.partition, now_ms)

    def fail_all(self, partition: PartitionKey, code: int, now_ms: int) -> None:
        """End all fetches that wait for this partition; their answers carry the code for it."""
        for fetch in self._watching(partition):
            fetch.fail(partition, code)
            self.expire(fetch, now_ms)
            self._after_wait(fetch, now_ms)

    # ---- time

    def next_deadline_at_ms(self) -> int | None:
        while self._deadlines and not self._is_waiting(self._deadlines[0][1]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def pass_time(self, now_ms: int) -> list[RequestContext]:
        """End the fetches whose time is up; returns the requests that have to be refused now."""
        refused = []
        while (at_ms := self.next_deadline_at_ms()) is not None and at_ms <= now_ms:
            _, id_ = heapq.heappop(self._deadlines)
            fetch = self._fetches.get(id_)
            if fetch is None:
                refused.append(self._refused.pop(id_))
            else:
                self.expire(fetch, now_ms)
                self._after_wait(fetch, now_ms)
        return refused

    def _is_waiting(self, id_: int) -> bool:
        return id_ in self._fetches or id_ in self._refused

    def check(self) -> None:
        """Assert the invariants."""
        deadlines = {id_ for _, id_ in self._deadlines}
        for id_, fetch in self._fetches.items():
            assert fetch.waiting_id == id_
            assert id_ in deadlines
            assert not fetch.is_fetched, "a fetch is done but not answered"
            assert all(id_ in self._watchers[source.key] for source in fetch.sources)
        for watchers in self._watchers.values():
            assert watchers
            assert watchers.keys() <= self._fetches.keys()
