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

Kafka lets all of them look each time. Here the looks end as soon as they can find nothing any more, so that a record
costs the same however many wait: the partition has nothing to give, and nothing came free *unseen* in another one of
the group. What came free without anybody being woken is unseen, such as a release that has been stored; the next look
finds it, whatever that look is for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.share.sessions import PartitionKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.share.delayed_fetch import DelayedShareFetch, FetchSource
    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.share.share_counts import ShareCounts


@attrs.frozen(eq=False)
class _Watched:
    """A share partition that fetches wait for, in the order in which they came."""

    source: FetchSource
    fetches: dict[int, DelayedShareFetch] = attrs.Factory(dict)

    def has_something(self) -> bool:
        """Whether one of the fetches might find something here."""
        partition = self.source.partition
        return self.source.has_something(read_committed=partition.settings().read_committed)


class DelayedShareFetches:
    """Waiting fetches by partition and by time, and requests that wait only to be refused.

    `ended(fetch, now_ms)` is called for each fetch that had waited and is fetched now.
    """

    def __init__(self, ended: Callable[[DelayedShareFetch, int], None], counts: ShareCounts) -> None:
        self._ended = ended
        self._counts = counts
        self._fetches: dict[int, DelayedShareFetch] = {}
        self._watched: dict[SharePartition, _Watched] = {}
        self._shares: dict[PartitionKey, dict[SharePartition, None]] = {}
        """The share partitions of `_watched` by the partition that they share."""
        self._connections: Counter[int] = Counter()
        """How many fetches of a connection wait."""
        self._refused: dict[int, RequestContext] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._last_id = 0
        self._touched: dict[SharePartition, None] = {}
        """Where fetches have ended since others last looked."""
        self._unseen: dict[SharePartition, None] = {}
        """Where something came free that no waiting fetch has looked for."""

    # ---- who waits

    def __len__(self) -> int:
        return len(self._fetches)

    def add(self, fetch: DelayedShareFetch) -> None:
        """Let a fetch wait until its time is up."""
        fetch.waiting_id = id_ = self._add_deadline(fetch.expires_at_ms)
        self._fetches[id_] = fetch
        self._connections[fetch.context.connection_id] += 1
        for source in fetch.sources:
            watched = self._watched.get(source.partition)
            if watched is None:
                watched = self._watched[source.partition] = _Watched(source)
                self._shares.setdefault(source.key, {})[source.partition] = None
            watched.fetches[id_] = fetch

    def remove(self, fetch: DelayedShareFetch) -> None:
        """The fetch waits no more, or never did."""
        id_, fetch.waiting_id = fetch.waiting_id, None
        if id_ is None:
            return
        del self._fetches[id_]
        self._deadlines.discard(id_)
        connection_id = fetch.context.connection_id
        self._connections[connection_id] -= 1
        if not self._connections[connection_id]:
            del self._connections[connection_id]
        for source in fetch.sources:
            watched = self._watched[source.partition]
            del watched.fetches[id_]
            if not watched.fetches:
                self._forget(source)

    def _forget(self, source: FetchSource) -> None:
        """Nobody waits for this share partition any more."""
        del self._watched[source.partition]
        self._unseen.pop(source.partition, None)
        shares = self._shares[source.key]
        del shares[source.partition]
        if not shares:
            del self._shares[source.key]

    def refuse_later(self, context: RequestContext, at_ms: int) -> None:
        """Let a request wait for its refusal."""
        self._refused[self._add_deadline(at_ms)] = context

    def _add_deadline(self, at_ms: int) -> int:
        self._last_id += 1
        self._deadlines.set(self._last_id, at_ms)
        return self._last_id

    def holds_up(self, connection_id: int) -> bool:
        """Whether a fetch of this connection waits."""
        return connection_id in self._connections

    def forget_refusals(self, connection_id: int) -> None:
        """The connection has ended: nobody is there to be refused."""
        for id_ in [id_ for id_, context in self._refused.items() if context.connection_id == connection_id]:
            del self._refused[id_]
            self._deadlines.discard(id_)

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
        for source in fetch.sources:
            self._touched[source.partition] = None

    def came_free_unseen(self, partition: SharePartition) -> None:
        """There may be something to fetch in this share partition, and those who wait for it do not look now."""
        if partition in self._watched:
            self._unseen[partition] = None

    def look_again(self, partition: SharePartition, now_ms: int) -> None:
        """Let the fetches that wait for this share partition look: the first one, and the others while they may find
        something."""
        watched = self._watched.get(partition)
        if watched is None:
            return
        first = next(iter(watched.fetches.values()))
        self._look_again(first, now_ms)
        if self._is_settled(watched):
            return
        for fetch in list(watched.fetches.values()):
            if fetch is not first:
                self._look_again(fetch, now_ms)
                if self._is_settled(watched):
                    return

    def look_all(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Let the fetches of all groups that wait for this partition look."""
        for share_partition in list(self._shares.get(PartitionKey(topic_id, partition), ())):
            self.look_again(share_partition, now_ms)

    def _look_again(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if not fetch.is_fetched:
            self.look(fetch, now_ms)
            self._after_wait(fetch, now_ms)

    def _after_wait(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if fetch.is_fetched:
            self._ended(fetch, now_ms)

    def _is_settled(self, watched: _Watched) -> bool:
        """Whether more looks, which this share partition is the reason of, would be in vain."""
        group_id = watched.source.partition.key.group_id
        return not watched.has_something() and not any(
            partition.key.group_id == group_id for partition in self._still_unseen()
        )

    def _still_unseen(self) -> list[SharePartition]:
        for partition in list(self._unseen):
            if not self._watched[partition].has_something():
                del self._unseen[partition]
        return list(self._unseen)

    def look_where_fetches_ended(self, now_ms: int) -> None:
        """A fetch that ended may have left records to those that wait. Ends, because every round answers a fetch."""
        if not self._watched:
            self._touched.clear()  # nobody waits
        while self._touched:
            partition = next(iter(self._touched))
            del self._touched[partition]
            self.look_again(partition, now_ms)
            if (
                self._unseen and self._still_unseen()
            ):  # what ended was of one group: others can only find what they have not seen
                self.look_all(partition.key.topic_id, partition.key.partition, now_ms)

    def fail_all(self, partition: PartitionKey, code: int, now_ms: int) -> None:
        """End all fetches that wait for this partition; their answers carry the code for it."""
        waiting = [self._watched[share_partition] for share_partition in self._shares.get(partition, ())]
        for fetch in [fetch for watched in waiting for fetch in watched.fetches.values()]:
            if not fetch.is_fetched:
                fetch.fail(partition, code)
                self.expire(fetch, now_ms)
                self._after_wait(fetch, now_ms)

    # ---- time

    def next_deadline_at_ms(self) -> int | None:
        return self._deadlines.next_at_ms()

    def pass_time(self, now_ms: int) -> list[RequestContext]:
        """End the fetches whose time is up; returns the requests that have to be refused now."""
        refused = []
        for id_ in self._deadlines.take_due(now_ms):
            fetch = self._fetches.get(id_)
            if fetch is None:
                refused.append(self._refused.pop(id_))
            else:
                self._counts.expired_fetches += 1
                self.expire(fetch, now_ms)
                self._after_wait(fetch, now_ms)
        return refused

    def check(self) -> None:
        """Assert the invariants."""
        for id_, fetch in self._fetches.items():
            assert fetch.waiting_id == id_
            assert self._deadlines.at_ms(id_) == fetch.expires_at_ms
            assert not fetch.is_fetched, "a fetch is done but not answered"
            assert all(id_ in self._watched[source.partition].fetches for source in fetch.sources)
        for partition, watched in self._watched.items():
            assert watched.fetches
            assert watched.fetches.keys() <= self._fetches.keys()
            assert partition in self._shares[watched.source.key]
        assert self._unseen.keys() <= self._watched.keys()
        assert self._connections.total() == len(self._fetches)
