"""The requests of a node that wait: which ShareFetches watch which partition, and when each has waited long enough.

Owned by `ShareNode`. It only keeps them; looking, answering and waking are the node's business. What waits is bounded
by the connections of the node, because answers keep the order of a connection's requests.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.share.delayed_fetch import DelayedShareFetch
    from kafka_share.broker.share.sessions import PartitionKey


class DelayedShareFetches:
    """Waiting fetches by partition and by time, and requests that wait only to be refused."""

    def __init__(self) -> None:
        self._fetches: dict[int, DelayedShareFetch] = {}
        self._watchers: dict[PartitionKey, dict[int, DelayedShareFetch]] = {}
        self._refused: dict[int, RequestContext] = {}
        self._deadlines: list[tuple[int, int]] = []
        """Heap of (time, id); ids that wait no more are skipped."""
        self._next_id = 0

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

    def watching(self, partition: PartitionKey) -> list[DelayedShareFetch]:
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

    def next_deadline_at_ms(self) -> int | None:
        while self._deadlines and not self._is_waiting(self._deadlines[0][1]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def take_due(self, now_ms: int) -> DelayedShareFetch | RequestContext | None:
        """The next one whose time is up: a fetch, still waiting, or a request to be refused; None if there is none."""
        at_ms = self.next_deadline_at_ms()
        if at_ms is None or at_ms > now_ms:
            return None
        _, id_ = heapq.heappop(self._deadlines)
        return self._fetches[id_] if id_ in self._fetches else self._refused.pop(id_)

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
