"""When to fetch, from which nodes, and what becomes of the answers; also when acknowledgements go by themselves.

Owned by `ShareConsumerCore`. Records are fetched only while a poll waits: what is acquired has its locks running, so
nothing is read ahead unless the application has asked for it (`fetching.ahead`). Each node with something to do has a
`NodeExchange`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

import attrs

from kafka_share.core.context import CoreContext
from kafka_share.core.events import (
    AcknowledgementsGathered,
    Channel,
    CommitRequested,
    Deliver,
    FetchedBatch,
    FetchedPartition,
    GatherAcknowledgements,
    GatheredAcknowledgements,
    Output,
    PollStarted,
    Reclaim,
    SessionReturned,
    SessionUsed,
    WorkBegun,
)
from kafka_share.core.fetching.acknowledgements import Acknowledgements
from kafka_share.core.fetching.ahead import FetchingAhead
from kafka_share.core.fetching.last_deliveries import LastDeliveries
from kafka_share.core.fetching.lending import SHORTEST_LOCK_MS, Lending
from kafka_share.core.fetching.losses import LossNotes
from kafka_share.core.fetching.node_exchange import NodeExchange
from kafka_share.core.fetching.offsets import AcknowledgementRun, count_of
from kafka_share.core.fetching.release_pause import ReleasePause
from kafka_share.core.fetching.share_session import ShareSession, Wanted
from kafka_share.core.fetching.waits import ANSWER_MS, before_the_end_ms, within_the_lock_ms
from kafka_share.core.fetching.wanted_partitions import WantedPartitions
from kafka_share.core.membership import Membership
from kafka_share.core.metadata import Metadata
from kafka_share.errors import NotLeaderOrFollowerError, OutcomeUnknownError
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS, AcquiredRange
from kafka_share.records import AcknowledgeType, Node, TopicIdPartition

GATHER_PAUSE_MS: Final = 50
"""The application's side is not asked again sooner, even if a broker names a lock of no time."""
ACKNOWLEDGE_LINGER_MS: Final = 5
"""How long acknowledgements that were announced between polls wait for company."""


class Fetching:
    """See the module's docstring.

    batch_optimized: every node that leads an assigned partition is asked, in parallel. record_limit: one node per
    round is asked for records, in turn; the others get a request only to carry acknowledgements or changes.
    """

    def __init__(self, context: CoreContext, metadata: Metadata, membership: Membership, *, lends: bool) -> None:
        self._last_deliveries = LastDeliveries(context)
        self.acknowledgements: Acknowledgements = Acknowledgements(context, self._last_deliveries)
        self._context = context
        self._config = context.config
        self._has_window = context.config.has_window
        self._has_record_limit = context.config.has_record_limit
        self._outputs = context.outputs
        self._metadata = metadata
        self._membership = membership
        self._exchanges: dict[int, NodeExchange] = {}
        self._untaken = UntakenBatches()
        self._sends_ahead = context.config.send_ahead
        self._ahead = FetchingAhead(is_on=self._sends_ahead)
        may_lend = context.config.empty_window_has_room and not self._has_record_limit
        self._lending = Lending(context, self.acknowledgements, is_on=lends and may_lend)
        self._lock_ms = 0
        """How long locks last, as the latest answer says that brought records."""
        self._session_ids = itertools.count(1)
        self._batch_ids = itertools.count(1)
        self._poll_ends_at_ms: int | None = None
        """Until when a poll waits for records; None: none does."""
        self._is_poll_new = False
        """Even a poll without time asks each idle node once."""
        self._max_records = context.config.max_poll_records
        """How many the present poll has room for."""
        self._gather_at_ms: int | None = None
        """When the application's side is asked for what was acknowledged between two polls."""
        self._lock_ms = DEFAULT_LOCK_MS
        """Of the latest batch."""
        self._held_until_ms = 0
        """Until when the application holds records, if it says nothing else."""
        self._gather_latest_at_ms: int | None = None
        """When it is asked for the latest batch, whatever it was asked before: it may not have taken the batch then."""
        self._lost = LossNotes("records-lost", context.outputs)
        self._pause = ReleasePause(context.config.release_backoff_ms, context.source)
        self._wanted = WantedPartitions(metadata, membership)
        self._last_asked = -1
        self._moves_checked = 0
        self._checked_version = 0
        """Of the metadata: for which the conversations with nodes are in order."""
        self._closing_until_ms: int | None = None
        self.next_at_ms: int | None = None
        """When to poll again, even if nothing happens."""

    # ---- commands

    def poll_started(self, event: PollStarted, now_ms: int) -> None:
        self.acknowledgements.add(event.acknowledgements, now_ms, is_urgent=False)
        self._pause.acknowledged(event.acknowledgements)
        if event.wants_records:
            self._pause.poll_started(now_ms)
        if self._sends_ahead:
            self._ahead.poll_started(now_ms)
        self._untaken.taken_up_to(event.taken_batch_id)
        limit = self._config.max_poll_records
        self._max_records = limit if event.max_records is None else min(limit, event.max_records)
        self._is_poll_new = event.wants_records
        self._poll_ends_at_ms = event.deadline_at_ms if event.wants_records else None

    def poll_ended(self) -> None:
        self._poll_ends_at_ms = None
        self._ahead.stop()

    def work_begun(self, event: WorkBegun, now_ms: int) -> None:
        """A poll returns records, perhaps not those of the latest answer: that one came when nobody waited for it."""
        self._poll_ends_at_ms = None
        self._is_poll_new = False
        self._pause.poll_started(now_ms)
        self._untaken.taken_up_to(event.taken_batch_id)
        self._ahead.work_begun(now_ms, has_more=event.has_more)
        for exchange in self._exchanges.values():
            self._lend(exchange, now_ms)

    def acknowledgements_made(self, now_ms: int) -> None:
        """Ask for them after a moment, in which more are made: a request for each would cost more than it gains."""
        self._gather_by(now_ms + ACKNOWLEDGE_LINGER_MS)

    def acknowledgements_gathered(self, event: AcknowledgementsGathered, now_ms: int) -> None:
        self.acknowledgements.add(event.acknowledgements, now_ms, is_urgent=False)
        self._pause.acknowledged(event.acknowledgements)
        for lost in event.lost:
            self._lost.add(lost.partition, lost.runs)
            self._context.measurements.records_lost(count_of(lost.runs), now_ms)
        self._held_until_ms = 0 if event.again_at_ms is None else now_ms + self._lock_ms
        if event.again_at_ms is not None:
            self._gather_by(max(event.again_at_ms, now_ms + GATHER_PAUSE_MS))

    def _gather_by(self, at_ms: int) -> None:
        self._gather_at_ms = at_ms if self._gather_at_ms is None else min(at_ms, self._gather_at_ms)

    def commit(self, event: CommitRequested) -> None:
        self._pause.acknowledged(event.acknowledgements)
        self.acknowledgements.commit(event)

    def batch_reclaimed(self, batch_id: int, now_ms: int) -> None:
        for release in self._untaken.reclaimed(batch_id):
            self.acknowledgements.release(release, now_ms)

    def connection_lost(self, node_id: int, channel: Channel) -> None:
        exchange = self._exchanges.get(node_id)
        if exchange is not None and channel is Channel.DATA:
            exchange.connection_lost()

    def session_returned(self, event: SessionReturned, now_ms: int) -> None:
        if self._lending.returned(event, now_ms):
            self.acknowledgements.flush(now_ms)
            self._ahead.returned(event)
            if event.fetched_at_ms is not None:
                self._fetched_directly(now_ms)

    def session_used(self, event: SessionUsed, now_ms: int) -> None:
        if self._lending.used(event, now_ms):
            self._fetched_directly(now_ms)

    def _fetched_directly(self, now_ms: int) -> None:
        self._pause.poll_started(now_ms)
        self._membership.poll_ended(now_ms)
        if self._has_window:
            self._held_until_ms = now_ms + self._lock_ms
            self._gather_by(now_ms + within_the_lock_ms(self._lock_ms))
        elif self._config.protect_locks:
            self._gather_by(now_ms + self._lock_ms // 3)

    def close(self, deadline_at_ms: int) -> None:
        """Send what is queued with the end of each session; `is_closed` is true when all have ended."""
        self._closing_until_ms = deadline_at_ms
        self._ahead.stop()
        self._poll_ends_at_ms = None
        self._is_poll_new = False

    @property
    def is_closed(self) -> bool:
        return not any(exchange.is_busy or exchange.session.is_open for exchange in self._exchanges.values())

    def abandon(self, now_ms: int) -> None:
        """Time is up: everything gets its outcome now."""
        for exchange in self._exchanges.values():
            exchange.abandon(OutcomeUnknownError("the consumer was closed before the broker answered"))
        never_sent = NotLeaderOrFollowerError("the consumer was closed before the acknowledgement could be sent")
        for node_id in list(self.acknowledgements.queues):
            self.acknowledgements.fail_queued(node_id, lambda _: never_sent)
        self.acknowledgements.flush(now_ms)
        self._lost.poll(now_ms, is_last=True)
        self._last_deliveries.poll(now_ms, is_last=True)

    # ---- time

    def poll(self, now_ms: int) -> bool:
        """Send what is due. True if a waiting poll has got what it waited for: records that were renewed."""
        # This runs at every step, so what has nothing to do is not asked: that would cost as much as the work itself.
        if self._checked_version != self._metadata.version:
            self._look_at_metadata()
        if self._lending.loans:
            self._look_at_lent(now_ms)
        if self.acknowledgements.queues:
            self._fail_unsendable()
        is_closing = self._closing_until_ms is not None
        if self._gather_at_ms is not None and now_ms >= self._gather_at_ms and not is_closing:
            self._gather(now_ms)
        self.next_at_ms = None if is_closing else self._gather_at_ms
        if self._lending.loans:
            self._wake(self._lending.wake_at_ms())
        if self._lost.places:
            self._lost.poll(now_ms)
            self._wake(self._lost.wake_at_ms())
        if not self._last_deliveries.is_idle:
            self._last_deliveries.poll(now_ms)
            self._wake(self._last_deliveries.wake_at_ms())
        if self._closing_until_ms is not None:
            self._close_sessions(now_ms, self._closing_until_ms)
        else:
            if self._untaken.waiting:
                is_abandoned = self._membership.is_abandoned
                if is_abandoned or now_ms >= self._untaken.reclaim_at_ms:
                    self._outputs.add(*self._untaken.reclaim(now_ms, is_abandoned=is_abandoned))
                self._wake(self._untaken.reclaim_at_ms if self._untaken.waiting else None)
            self._send_due(now_ms)
        self._wake(self.acknowledgements.poll(now_ms))
        return self.acknowledgements.has_renewed and self._end_poll_after_renewal()

    def _look_at_lent(self, now_ms: int) -> None:
        is_needed = bool(
            self.acknowledgements.queues
            or self._poll_ends_at_ms is not None
            or self._is_poll_new
            or self._closing_until_ms is not None
            or self._membership.is_abandoned
            or self._checked_version != self._metadata.version
        )
        self._lending.look(self._exchanges, self._wanted.now(), now_ms, is_needed=is_needed)

    def _gather(self, now_ms: int) -> None:
        latest_at_ms = self._gather_latest_at_ms
        self._gather_at_ms = latest_at_ms if latest_at_ms is not None and latest_at_ms > now_ms else None
        self._outputs.add(GatherAcknowledgements())

    def _wake(self, at_ms: int | None) -> None:
        if at_ms is not None and (self.next_at_ms is None or at_ms < self.next_at_ms):
            self.next_at_ms = at_ms

    def _end_poll_after_renewal(self) -> bool:
        self.acknowledgements.has_renewed = False
        if self._has_window:
            return False
        self._poll_ends_at_ms = None
        return True

    def _send_due(self, now_ms: int) -> None:
        if self.acknowledgements.has_renewed and not self._has_window:
            self._poll_ends_at_ms = None  # the poll returns with the renewed records: no new ones for it
        is_polled = self._is_poll_new or self._left_ms(now_ms) > (ANSWER_MS if self._has_window else 0)
        # What came too late for the last poll is there for this one: with more on the way, locks would run for nobody.
        is_polled = is_polled and not self._untaken.waiting
        is_waiting = is_polled or self._ahead.is_wanted
        if not is_waiting and not self.acknowledgements.queues:
            return
        if is_waiting and now_ms < self._pause.ready_at_ms:
            is_waiting = False
            self._wake(self._pause.ready_at_ms)
        wanted = self._wanted.now() if is_waiting else {}
        asked = self._next_in_turn(wanted, now_ms) if self._has_record_limit else None
        for node_id in sorted({**dict.fromkeys(self._exchanges), **wanted}):
            exchange = self._exchanges.get(node_id) or self._exchange(node_id)
            if exchange is None or exchange.is_busy:
                continue
            is_real = node_id in wanted and (not self._has_record_limit or node_id == asked)
            if not is_polled and not (self._ahead.may_ask(node_id) and not self._untaken.has_parked(node_id)):
                is_real = False
            self._drive(exchange, wanted, is_real, now_ms)
            if self._sends_ahead and exchange.is_fetching:
                self._ahead.asked(node_id)
        self._is_poll_new = False

    def _drive(self, exchange: NodeExchange, wanted: dict[int, Wanted], is_real: bool, now_ms: int) -> None:
        """Send the one request that an idle node is due."""
        node_id = exchange.node.id
        acknowledge_at_ms, is_urgent = self.acknowledgements.due(node_id, now_ms)
        may_acknowledge = acknowledge_at_ms is not None and acknowledge_at_ms <= now_ms
        here = wanted.get(node_id, ())
        is_changed = bool(wanted) and exchange.session.differs_from(here)
        must_fetch = is_real or is_changed or (bool(here) and may_acknowledge)
        if not must_fetch and not may_acknowledge:
            self._wake(acknowledge_at_ms)
            return
        is_bare = not is_changed and not may_acknowledge
        ready_at_ms = exchange.bare_fetch_ready_at_ms() if is_bare else exchange.ready_at_ms()
        if ready_at_ms > now_ms:
            self._wake(ready_at_ms)
            if not may_acknowledge:
                self._wake(acknowledge_at_ms)
        elif may_acknowledge and (is_urgent or not here):
            exchange.acknowledge(is_final=False, timeout_ms=self._config.request_timeout_ms, now_ms=now_ms)
        elif must_fetch:
            if self._has_record_limit and is_real:
                self._last_asked = node_id
            max_records = self._max_records if is_real else 0
            max_wait_ms = self._broker_may_wait_ms(len(wanted) or 1, now_ms)
            exchange.fetch(here, max_records=max_records, max_wait_ms=max_wait_ms, now_ms=now_ms)

    def _broker_may_wait_ms(self, nodes: int, now_ms: int) -> int:
        """How long a fetch that is sent now may be held back."""
        max_wait_ms, left_ms = self._config.fetch_max_wait_ms, self._left_ms(now_ms)
        if self._has_window and left_ms > 0:
            # What comes after its poll has no holder while its locks run, so the answer is to be here before.
            max_wait_ms = min(max_wait_ms, before_the_end_ms(left_ms))
            if now_ms < self._held_until_ms:
                max_wait_ms = min(max_wait_ms, within_the_lock_ms(self._lock_ms))
        if self._has_record_limit and max_wait_ms:
            # One node is asked at a time, so a round over all of them takes no longer than the wait; but not no time.
            return max(1, max_wait_ms // nodes)
        return max_wait_ms

    def _left_ms(self, now_ms: int) -> int:
        """How long the present poll goes on waiting."""
        return 0 if self._poll_ends_at_ms is None else max(0, self._poll_ends_at_ms - now_ms)

    def _next_in_turn(self, wanted: dict[int, Wanted], now_ms: int) -> int | None:
        """record_limit: the node whose turn it is, leaving out those that cannot be asked now."""
        if any(exchange.is_fetching for exchange in self._exchanges.values()):
            return None
        node_ids = sorted(wanted)
        later = [node_id for node_id in node_ids if node_id > self._last_asked]
        for node_id in (*later, *node_ids):
            exchange = self._exchange(node_id)
            if exchange is None or exchange.is_busy:
                continue
            ready_at_ms = exchange.bare_fetch_ready_at_ms()
            if ready_at_ms <= now_ms:
                return node_id
            self._wake(ready_at_ms)
        return None

    # ---- nodes and partitions

    def _exchange(self, node_id: int) -> NodeExchange | None:
        """The conversation with a node, begun if need be; None for a node without an address."""
        node = self._metadata.node(node_id)
        exchange = self._exchanges.get(node_id)
        if exchange is None and node is not None:
            exchange = self._exchanges[node_id] = self._new_exchange(node)
        elif exchange is not None and node is not None and not exchange.is_busy:
            exchange.node = node
        return exchange

    def _new_exchange(self, node: Node) -> NodeExchange:
        session = ShareSession(self._config, self._context.member_id, self._session_ids, self._context.delivery_limit)
        return NodeExchange(
            self._context, node, session, self._metadata, self.acknowledgements, self._batch_ids, self._fetched
        )

    def _look_at_metadata(self) -> None:
        """What is known of the cluster has changed."""
        is_done = self._drop_departed()
        is_new = self._moves_checked != self._metadata.version
        self._moves_checked = self._metadata.version
        for node_id, exchange in self._exchanges.items():
            if is_new:
                exchange.lose_moved()
            self._exchange(node_id)  # its address, which does not change under a request
            is_done = is_done and not exchange.is_busy
        if is_done:
            self._checked_version = self._metadata.version

    def _drop_departed(self) -> bool:
        """End the conversations with nodes that have left the cluster. False: look again when requests have ended."""
        if not self._metadata.knows_brokers:
            return True
        departed = [node_id for node_id in self._exchanges if self._metadata.node(node_id) is None]
        busy = [node_id for node_id in departed if self._exchanges[node_id].is_busy]
        for node_id in departed:
            if node_id not in busy:
                self._exchanges.pop(node_id).leave()
        return not busy

    def _fail_unsendable(self) -> None:
        for node_id, queue in list(self.acknowledgements.queues.items()):
            exchange = self._exchanges.get(node_id)
            if exchange is None:
                gone = NotLeaderOrFollowerError(f"there is no share session with node {node_id}")
                self.acknowledgements.fail_queued(node_id, lambda _, gone=gone: gone)  # type: ignore[misc]
            elif exchange.has_unsendable(queue):
                exchange.fail_unsendable()

    # ---- answers

    def _fetched(self, batch: FetchedBatch, now_ms: int) -> None:
        """Hand records over; those that nobody wants any more go back to the broker."""
        if self._closing_until_ms is not None:
            return  # the end of the session releases them
        topics = frozenset() if self._membership.is_fatal else self._membership.subscription
        unwanted = [p for p in batch.partitions if p.partition.topic not in topics]
        if unwanted:
            for release in releases(places_of(unwanted)):
                self.acknowledgements.release(release, now_ms)
            kept = tuple(p for p in batch.partitions if p.partition.topic in topics)
            batch = attrs.evolve(batch, partitions=kept)
        if batch.partitions:
            is_awaited = self._is_poll_new or self._left_ms(now_ms) > 0
            self._outputs.add(Deliver(batch))
            count = sum([count_of(p.acquired) for p in batch.partitions])
            self._pause.brought(count)
            self._last_deliveries.delivered(batch)
            if self._config.protect_locks or self._has_window:
                self._lock_ms = batch.acquisition_lock_timeout_ms or DEFAULT_LOCK_MS
                self._held_until_ms = now_ms + self._lock_ms
                self._gather_latest_at_ms = now_ms + self._lock_ms // 3
                self._gather_by(self._gather_latest_at_ms)
            self._untaken.delivered(batch, now_ms, is_awaited=is_awaited)
            if self._sends_ahead:
                self._ahead.delivered(batch, now_ms, is_awaited=is_awaited)
            self._poll_ends_at_ms = None
            self._is_poll_new = False
            self._membership.poll_ended(now_ms)
            self._lock_ms = batch.acquisition_lock_timeout_ms
            is_more_than_a_poll = self._has_window and count > self._config.max_poll_records
            if (is_awaited or self._lending.loans) and not is_more_than_a_poll:
                self._lend(self._exchanges[batch.partitions[0].node_id], now_ms)

    def _lend(self, exchange: NodeExchange, now_ms: int) -> None:
        """Unless there is something to be done first."""
        if not self._lending.is_on or self._pause.ready_at_ms > now_ms:
            return
        if self._lock_ms < SHORTEST_LOCK_MS or (self._sends_ahead and not self._ahead.is_wanted):
            return
        self._lending.lend(exchange, self._exchanges, self._wanted.now(), self._membership.subscription, now_ms)

    # ---- the end

    def _close_sessions(self, now_ms: int, deadline_at_ms: int) -> None:
        for exchange in self._exchanges.values():
            if exchange.is_busy or not exchange.session.is_open:
                continue
            ready_at_ms = exchange.ready_at_ms()
            if ready_at_ms > now_ms:
                self._wake(ready_at_ms)
                continue
            timeout_ms = min(self._config.request_timeout_ms, max(1, deadline_at_ms - now_ms))
            is_final = not self.acknowledgements.needs_another_request(exchange.node.id)
            exchange.acknowledge(is_final=is_final, timeout_ms=timeout_ms, now_ms=now_ms)

    def check(self) -> None:
        self.acknowledgements.check()
        self._lending.check()
        for exchange in self._exchanges.values():
            exchange.check()
        real = [exchange for exchange in self._exchanges.values() if exchange.is_fetching]
        assert len(real) <= 1 or not self._config.has_record_limit, "two nodes are asked for records at a time"


# ---- what no poll has taken


_Place = tuple[TopicIdPartition, int, int, tuple[AcquiredRange, ...]]
"""What is remembered of a fetched partition: where it is, its node, its session, and the offsets."""


class UntakenBatches:
    """Batches that were put into the mailbox and that perhaps no poll has taken.

    An answer may come after its poll has ended; its records then wait with their locks running. If no poll comes within
    half the lock time they are taken back and released, so that another member gets them; at once if the consumer has
    left its group meanwhile. Remembers offsets, not records; bounded by the nodes, as no fetch is sent while nobody
    polls.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[list[_Place], int]] = {}
        """By batch: what it has, and when to take it back; others only look."""
        self.reclaim_at_ms: int = 0
        """The first such time, if there is one."""
        self._parked: dict[int, None] = {}
        """Those of them that came when no poll waited."""
        self._reclaiming: dict[int, list[_Place]] = {}

    def has_parked(self, node_id: int) -> bool:
        """Whether a batch of this node waits, and the next poll will find it at hand."""
        return any(self.waiting[batch_id][0][0][1] == node_id for batch_id in self._parked)

    def delivered(self, batch: FetchedBatch, now_ms: int, *, is_awaited: bool) -> None:
        if not is_awaited:
            self._parked[batch.batch_id] = None
        lock_ms = batch.acquisition_lock_timeout_ms
        reclaim_at_ms = now_ms + (lock_ms or DEFAULT_LOCK_MS) // 2
        self.reclaim_at_ms = min(self.reclaim_at_ms, reclaim_at_ms) if self.waiting else reclaim_at_ms
        self.waiting[batch.batch_id] = places_of(batch.partitions), reclaim_at_ms

    def taken_up_to(self, last_batch_id: int) -> None:
        """A poll has taken these, in their order; what came behind them waits for another one."""
        if not self.waiting:
            return
        self.waiting = {batch_id: b for batch_id, b in self.waiting.items() if batch_id > last_batch_id}
        self._parked = {batch_id: None for batch_id in self._parked if batch_id > last_batch_id}
        self.reclaim_at_ms = min((at_ms for _, at_ms in self.waiting.values()), default=0)

    def reclaim(self, now_ms: int, *, is_abandoned: bool) -> list[Output]:
        """What has to be taken back now: what is due, and everything if no poll is expected."""
        due = [batch_id for batch_id, (_, at_ms) in self.waiting.items() if is_abandoned or now_ms >= at_ms]
        if due:
            # The driver answers at once; what it has not answered by the next time was not in the mailbox any more.
            self._reclaiming = {batch_id: self.waiting.pop(batch_id)[0] for batch_id in due}
            self._parked = {batch_id: None for batch_id in self._parked if batch_id in self.waiting}
            self.reclaim_at_ms = min((at_ms for _, at_ms in self.waiting.values()), default=0)
        return [Reclaim(batch_id) for batch_id in due]

    def reclaimed(self, batch_id: int) -> tuple[GatheredAcknowledgements, ...]:
        """The mailbox gave the batch back: what has to be sent."""
        waiting, _ = self.waiting.pop(batch_id, ([], 0))
        self._parked.pop(batch_id, None)
        return releases(self._reclaiming.pop(batch_id, waiting))


def places_of(partitions: Iterable[FetchedPartition]) -> list[_Place]:
    return [(p.partition, p.node_id, p.session_id, p.acquired) for p in partitions]


def releases(places: Iterable[_Place]) -> tuple[GatheredAcknowledgements, ...]:
    """RELEASE for everything that was acquired of these."""
    return tuple(
        GatheredAcknowledgements(
            where,
            node_id,
            session_id,
            tuple(AcknowledgementRun(r.first, r.last, AcknowledgeType.RELEASE) for r in acquired),
        )
        for where, node_id, session_id, acquired in places
    )
