"""The auditor's eye on the brokers: holds, delivery counts, what is stored, start offsets, the size of the window.

It hears of every request and answer from `sim_broker`, and of every write from the share coordinator, whose methods it
wraps. After each step it looks at the borders of the windows, nothing else, so that it stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simulation.books import Book, BookKey, Books, Hold
from simulation.fault_profile import LOCK_LIMIT
from simulation.trace import ComplaintError, Trace

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.events import RequestContext
from kafka_share.broker.share.partition import SharePartition
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import StateKey
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

RENEW = 4
_FINISHED_STATES = (2, 4)


class BrokerAudit:
    """See the module's docstring. `largest_batch` is the most records that any producer puts into one batch."""

    def __init__(
        self, cluster: Cluster, now_ms: Callable[[], int], books: Books, trace: Trace, largest_batch: int
    ) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._books = books
        self._trace = trace
        self._window_limit = LOCK_LIMIT + largest_batch
        self._claims: dict[tuple[int, int], dict[BookKey, tuple[str | None, list[tuple[int, int, list[int]]]]]] = {}
        """Per request with acknowledgements: what it says, and why its sender must not say so."""
        self._since: dict[tuple[int, int], tuple[int, set[SharePartition]]] = {}
        """Per such request: when it came, and which share partitions its node had. Its answer may be late."""
        self._unheard: dict[tuple[int, int], tuple[int, int, str]] = {}
        """Of such fetches without an answer so far: when they came, to which node, for which group. What they have
        acquired is not known."""
        self._taken_back = int(cluster.behaviour.session_end_takes_deliveries_back)
        """How many deliveries less a release may be stored with."""
        self._write = cluster.share_states.write
        cluster.share_states.write = self._written  # type: ignore[method-assign]

    # ---- books

    def _book(self, group_id: str, topic_id: Any, partition: int) -> Book:
        key = BookKey(group_id, topic_id, partition)
        book = self._books.by_key.get(key)
        if book is None:
            book = self._books.by_key[key] = Book(self._cluster.topic_name(topic_id) or "?")
        return book

    def _owner(self, node_id: int, key: BookKey) -> SharePartition | None:
        return self._cluster.share_nodes[node_id].share_partition(*key)

    # ---- writes

    def _written(self, key: StateKey, *, start_offset: int, batches: Sequence[StateBatch], **rest: Any) -> None:
        self._write(key, start_offset=start_offset, batches=batches, **rest)
        book = self._book(*key)
        if start_offset >= 0:
            if start_offset < book.stored_start:
                raise ComplaintError(f"the stored start offset of {_name(key, book)} moved back to {start_offset}")
            book.stored_start = start_offset
        for batch in batches:
            is_end = batch.state in _FINISHED_STATES
            for offset in range(batch.first, batch.last + 1):
                if is_end:
                    book.finished.add(offset)
                elif offset in book.finished:
                    raise ComplaintError(f"{_name(key, book)}@{offset} had ended and is stored as available again")
                book.count_delivery(offset, batch.delivery_count)
                hold = book.holds.get(offset)
                if hold is not None and hold.count <= batch.delivery_count + self._taken_back:
                    del book.holds[offset]  # a write that is late may be about a delivery before this one

    # ---- requests

    def asked(self, context: RequestContext, request: Any) -> None:
        """A request arrives: are the offsets that it speaks about its sender's?"""
        if context.api_key not in (ShareFetchRequest.API_KEY, ShareAcknowledgeRequest.API_KEY):
            return
        claims: dict[BookKey, tuple[str | None, list[tuple[int, int, list[int]]]]] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                said = [(b.first_offset, b.last_offset, b.acknowledge_types) for b in partition.acknowledgement_batches]
                if said:
                    key = BookKey(request.group_id, topic.topic_id, partition.partition_index)
                    claims[key] = (self._objection(context.node_id, key, request.member_id, said), said)
        if claims:
            request_id = context.connection_id, context.correlation_id
            self._claims[request_id] = claims
            loaded = set(self._cluster.share_nodes[context.node_id].share_partitions())
            self._since[request_id] = self._now_ms(), loaded
            if context.api_key == ShareFetchRequest.API_KEY:
                self._unheard[request_id] = self._now_ms(), context.node_id, request.group_id

    def _objection(
        self, node_id: int, key: BookKey, member_id: str, said: Iterable[tuple[int, int, list[int]]]
    ) -> str | None:
        book, owner, now_ms = self._book(*key), self._owner(node_id, key), self._now_ms()
        start = owner.window.start_offset if owner is not None else 0
        for first, last, _ in said:
            for offset in range(max(first, start), last + 1):
                hold = book.may_hold(offset, owner, now_ms)
                if hold is None or hold.member_id != member_id:
                    return f"{_name(key, book)}@{offset} is not held by the member that acknowledged it"
        return None

    def answered(self, context: RequestContext, request: Any, response: Any) -> None:
        """An answer leaves: what was acknowledged, what was handed out."""
        if context.api_key == ShareFetchRequest.API_KEY:
            results = _fetch_results(request, response)
        elif context.api_key == ShareAcknowledgeRequest.API_KEY:
            results = _acknowledge_results(request, response)
        else:
            return
        request_id = context.connection_id, context.correlation_id
        claims = self._claims.pop(request_id, {})
        since_ms, loaded = self._since.pop(request_id, (self._now_ms(), None))
        self._unheard.pop(request_id, None)
        for key, (objection, said) in claims.items():
            if results.get(key) == 0:
                if objection is not None:
                    raise ComplaintError(objection)
                self._renew(key, said, since_ms)
            else:
                self._renew(key, said, since_ms, refused_to=request.member_id)
        if context.api_key == ShareFetchRequest.API_KEY and response.error_code == 0:
            for topic in response.responses:
                for found in topic.partitions:
                    key = BookKey(request.group_id, topic.topic_id, found.partition_index)
                    for acquired in found.acquired_records:
                        owner = self._owner(context.node_id, key)
                        is_sure = loaded is None or owner in loaded
                        self._acquired(key, request.member_id, acquired, owner, since_ms if is_sure else None)

    def _renew(
        self, key: BookKey, said: Iterable[tuple[int, int, list[int]]], at_ms: int, *, refused_to: str | None = None
    ) -> None:
        """Locks began again at `at_ms`, when the request came: what else it says may have been stored since."""
        book = self._book(*key)
        ends_at_ms = at_ms + self._cluster.group_settings(key.group_id).record_lock_duration_ms
        for first, last, types in said:
            if RENEW not in types:
                continue
            for offset in range(first, last + 1):
                kind = types[0] if len(types) == 1 else types[offset - first]
                hold = book.holds.get(offset)
                if kind != RENEW or hold is None:
                    continue
                if refused_to is None:
                    hold.ends_at_ms = max(hold.ends_at_ms, ends_at_ms)  # another delivery's may end later
                    self._trace.count("lock renewed")
                elif refused_to == hold.member_id:
                    hold.may_last_to_ms = max(hold.may_last_to_ms, ends_at_ms)

    def _acquired(
        self, key: BookKey, member_id: str, acquired: Any, owner: SharePartition | None, since_ms: int | None
    ) -> None:
        """Offsets were acquired at `since_ms` or later; None: or before `owner` was loaded.

        If their locks may have ended before the answer left, others may have done anything with them since.
        """
        book, now_ms = self._book(*key), self._now_ms()
        count = acquired.delivery_count
        counts = self._books.acquired.setdefault(member_id, {})
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            counts.setdefault((book.topic, key.partition, offset), set()).add(count)
        if owner is None:
            return  # dropped since; the locks went with it
        settings = self._cluster.group_settings(key.group_id)
        if not 1 <= count <= settings.delivery_count_limit:
            raise ComplaintError(f"{_name(key, book)}@{acquired.first_offset} is delivered for the {count}th time")
        lock_ms = settings.record_lock_duration_ms
        if since_ms is not None and since_ms + lock_ms <= now_ms:
            since_ms = None
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            book.count_delivery(offset, count)
            if since_ms is None and (offset in book.finished or book.hold(offset, owner, now_ms) is not None):
                continue
            if offset in book.finished:
                raise ComplaintError(f"{_name(key, book)}@{offset} is delivered after its end was stored")
            hold = book.hold(offset, owner, now_ms)
            if hold is not None:
                whom = "to its holder again" if hold.member_id == member_id else "to two members at once"
                raise ComplaintError(f"{_name(key, book)}@{offset} is handed out {whom}")
            old = book.holds.get(offset)
            if old is not None and old.owner is owner:
                self._trace.count("lock ran out")
            ends_at_ms = 0 if since_ms is None else since_ms + lock_ms
            book.holds[offset] = Hold(member_id, ends_at_ms, count, owner, now_ms + lock_ms)
        if count > 1:
            self._trace.count("records delivered again", acquired.last_offset - acquired.first_offset + 1)

    # ---- windows

    def stepped(self) -> None:
        """The cluster has done something: look at the borders of the windows."""
        for node in self._cluster.share_nodes.values():
            for partition in node.share_partitions():
                if not partition.active:
                    continue
                window = partition.window
                key = BookKey(*partition.key)
                book = self._books.by_key.get(key) or self._book(*key)
                if book.owner is partition and book.start == window.start_offset and book.end == window.end_offset:
                    continue
                self._moved(key, book, partition)

    def _moved(self, key: BookKey, book: Book, partition: SharePartition) -> None:
        window, name = partition.window, _name(key, book)
        start = window.start_offset
        if window.span >= self._window_limit:
            raise ComplaintError(f"{name} has {window.span} offsets in flight")
        if book.owner is partition:
            before = book.start
            if start < before:
                raise ComplaintError(f"the start offset of {name} moved back from {before} to {start}")
            self._passed(key, book, partition, before, start)
        elif book.stored_start >= 0:
            if start < book.stored_start:
                raise ComplaintError(f"{name} starts at {start} with {book.stored_start} stored")
            self._passed(key, book, partition, book.stored_start, start)
        book.owner, book.start, book.end = partition, start, window.end_offset
        book.highest_start = max(book.highest_start, start)

    def _passed(self, key: BookKey, book: Book, partition: SharePartition, before: int, start: int) -> None:
        found = self._cluster.partition(key.topic_id, key.partition)
        log_start = found.log.start_offset if found is not None else start
        for offset in range(max(before, log_start), start):
            if offset not in book.finished and not self._may_be_used_up(key, book, partition, offset):
                raise ComplaintError(f"the start offset of {_name(key, book)} moved past {offset}, which has not ended")

    def _may_be_used_up(self, key: BookKey, book: Book, partition: SharePartition, offset: int) -> bool:
        """Whether the lock of its last delivery has ended: that counts before it is stored, and if it cannot be.

        A fetch that has not been answered can have acquired it once, if it came so long ago that this lock, too, has
        ended.
        """
        settings, hold, now_ms = self._cluster.group_settings(key.group_id), book.holds.get(offset), self._now_ms()
        if hold is not None and hold.ends_at_ms > now_ms:
            return False
        if hold is not None and hold.count >= settings.delivery_count_limit:
            return True
        came_by_ms = now_ms - settings.record_lock_duration_ms
        unheard = sum(
            came_ms <= came_by_ms and group_id == key.group_id and self._owner(node_id, key) is partition
            for came_ms, node_id, group_id in self._unheard.values()
        )
        return unheard > 0 and book.deliveries.get(offset, 0) + unheard >= settings.delivery_count_limit


def _name(key: BookKey | StateKey, book: Book) -> str:
    return f"{key.group_id}/{book.topic}-{key.partition}"


def _fetch_results(request: Any, response: Any) -> dict[BookKey, int]:
    if response.error_code:
        return {}
    return {
        BookKey(request.group_id, topic.topic_id, found.partition_index): found.acknowledge_error_code
        for topic in response.responses
        for found in topic.partitions
    }


def _acknowledge_results(request: Any, response: Any) -> dict[BookKey, int]:
    if response.error_code:
        return {}
    return {
        BookKey(request.group_id, topic.topic_id, found.partition_index): found.error_code
        for topic in response.responses
        for found in topic.partitions
    }
