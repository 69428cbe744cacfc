"""The share half of one node: its share sessions, its share partitions, and the ShareFetches that wait.

The cluster owns one per node and calls it for each ShareFetch and ShareAcknowledge, for ended connections, and when a
log or the leadership of a partition changes. Answers come out of `poll`, at once or later. Membership and assignments
are not looked at: any member id may open a session and acquire from any partition that is initialised (as in Kafka).

When a waiting ShareFetch looks again, which is all that "being woken" means:

- the log of one of its partitions has grown, or the partition has been loaded;
- a lock of its group in one of its partitions has ended;
- somebody acknowledged, were it in vain, or ended a session in one of its partitions: but *before* that is stored, so
  what was just released is not seen; afterwards only if the start offset moved;
- another fetch of such a partition has ended: at once if that was answered by a request, and again *before* what that
  request itself changes is stored; with the node's next request if its wait had run out (Kafka leaves the news to the
  thread that handles the next request).

A share partition is loaded after the request that needs it first has had its first look, one partition after the
other: so a request that does not wait misses it, and one that waits is answered by the first one that brings records.
A connection that ends while its ShareFetch waits counts as ended once that fetch is over.

Source: KIP-932, Kafka 4.3's `KafkaApis`, `SharePartitionManager` and `DelayedShareFetch`, and running brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.events import Reply
from kafka_share.broker.handlers.share_answers import (
    SUCCESS,
    Outcome,
    acknowledge_answer,
    failed_acknowledge,
    failed_fetch,
    fetch_answer,
)
from kafka_share.broker.handlers.share_requests import (
    acknowledgements,
    forgotten_partitions,
    is_renewal,
    named_partitions,
    require_no_limits,
    require_well_formed,
    session_key,
)
from kafka_share.broker.kafka_version import KAFKA_4_3
from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.acquisition import AcquireMode
from kafka_share.broker.share.delayed_fetch import DelayedShareFetch, FetchLimits, FetchSource
from kafka_share.broker.share.delayed_fetches import DelayedShareFetches
from kafka_share.broker.share.partition import SharePartition
from kafka_share.broker.share.reset_policy import start_offset_by_policy
from kafka_share.broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    ShareSessions,
    next_epoch,
    rotated,
)
from kafka_share.broker.share.share_coordinator import StateKey
from kafka_share.errors import (
    FencedStateEpochError,
    GroupIdNotFoundError,
    InvalidRequestError,
    InvalidShareSessionEpochError,
    NotLeaderOrFollowerError,
    ShareSessionLimitReachedError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.handlers.share_requests import Acknowledgements
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.cluster_view import ClusterView, PartitionView
    from kafka_share.broker.share.partition import PendingChange
    from kafka_share.broker.share.sessions import SessionKey, ShareSession
    from kafka_share.broker.share.share_coordinator import ShareCoordinator
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
    from kafka_share.protocol.share_fetch import ShareFetchRequest

_DROPPING: Final = frozenset(
    error.code
    for error in (
        NotLeaderOrFollowerError,
        FencedStateEpochError,
        GroupIdNotFoundError,
        UnknownTopicOrPartitionError,
    )
)
"""A write that fails with one of these shows that the share partition is out of date: it is dropped and loaded anew."""


class ShareNode:
    """One node's share machines. Requests are messages of `kafka_share.protocol`, times milliseconds since 1970."""

    def __init__(
        self, node_id: int, view: ClusterView, coordinator: ShareCoordinator, behaviour: Behaviour = KAFKA_4_3
    ) -> None:
        self.node_id = node_id
        self._view = view
        self._coordinator = coordinator
        self._behaviour = behaviour
        self._sessions = ShareSessions(old_connections_end_sessions=behaviour.old_connections_end_sessions)
        self._partitions: dict[StateKey, SharePartition] = {}
        self._delayed = DelayedShareFetches()
        self._touched: dict[StateKey, None] = {}
        """Where fetches have ended since others last looked."""
        self._closing: dict[int, None] = {}
        """Connections that ended while a fetch of theirs waits."""
        self._outputs: list[Reply] = []

    # ---- requests

    def share_fetch(self, context: RequestContext, request: ShareFetchRequest, now_ms: int) -> None:
        """Take a ShareFetch; exactly one `Reply` follows from `poll`, unless the connection ends before."""
        self._pass_time(now_ms)
        try:
            self._fetch(context, request, now_ms)
        except Refusal as refusal:
            if refusal.code == ShareSessionLimitReachedError.code and request.max_wait_ms > 0:
                self._delayed.refuse_later(context, now_ms + request.max_wait_ms)
            else:
                self._reply(context, failed_fetch(refusal.code))
        except RequestFailedError:
            self._reply(context, failed_fetch(UnknownServerError.code))
        self._look_where_fetches_ended(now_ms)

    def share_acknowledge(self, context: RequestContext, request: ShareAcknowledgeRequest, now_ms: int) -> None:
        """Take a ShareAcknowledge; its `Reply` follows from the next `poll`."""
        self._pass_time(now_ms)
        try:
            self._reply(context, self._acknowledge(context, request, now_ms))
        except Refusal as refusal:
            self._reply(context, failed_acknowledge(refusal.code))
        except RequestFailedError:
            self._reply(context, failed_acknowledge(UnknownServerError.code))
        self._look_where_fetches_ended(now_ms)

    def _fetch(self, context: RequestContext, request: ShareFetchRequest, now_ms: int) -> None:
        self._require_enabled()
        owner = session_key(request, self._behaviour)
        # The place for authorization: READ on the group, else GROUP_AUTHORIZATION_FAILED for the request.
        renewal = is_renewal(request, context.api_version)
        if renewal:
            require_no_limits(request)
        session = self._session_for(context, request, owner)
        fetch = self._new_fetch(context, request, owner, session, now_ms)
        partitions = self._partitions_to_fetch(request, session)
        named = acknowledgements(request)
        if not any(named.values()):
            named = {}
        if request.share_session_epoch == FINAL_EPOCH or renewal or not partitions:
            fetch.is_fetched = True
        changes = self._begin_acknowledgements(owner, named, fetch.acknowledged, context, renewal, now_ms)
        try:
            if not fetch.is_fetched:
                self._start_fetch(fetch, partitions, request.share_acquire_mode, now_ms)
        finally:
            self._look_where_fetches_ended(now_ms)
            self._complete_acknowledgements(changes, fetch.acknowledged, now_ms)
        fetch.is_acknowledged = True
        self._finish(fetch)
        if request.share_session_epoch == FINAL_EPOCH:
            self._end_session(owner, now_ms)

    def _acknowledge(self, context: RequestContext, request: ShareAcknowledgeRequest, now_ms: int) -> object:
        self._require_enabled()
        owner = session_key(request, self._behaviour)
        # The place for authorization: READ on the group, else GROUP_AUTHORIZATION_FAILED for the request.
        epoch = request.share_session_epoch
        if epoch == INITIAL_EPOCH:
            raise Refusal(InvalidShareSessionEpochError, "an acknowledgement needs an open share session")
        session = self._sessions.existing(owner)
        if epoch != FINAL_EPOCH:
            session.advance(epoch)
        results: dict[PartitionKey, Outcome] = {}
        renewal = is_renewal(request, context.api_version)
        changes = self._begin_acknowledgements(owner, acknowledgements(request), results, context, renewal, now_ms)
        self._look_where_fetches_ended(now_ms)
        self._complete_acknowledgements(changes, results, now_ms)
        if epoch == FINAL_EPOCH:
            self._end_session(owner, now_ms)
        return acknowledge_answer(self._view, results, self._lock_ms(owner.group_id))

    def _require_enabled(self) -> None:
        if not self._view.share_enabled():
            raise Refusal(UnsupportedVersionError, "share groups are switched off")

    def _lock_ms(self, group_id: str) -> int:
        return self._view.group_settings(group_id).record_lock_duration_ms

    # ---- sessions

    def _session_for(
        self, context: RequestContext, request: ShareFetchRequest, owner: SessionKey
    ) -> ShareSession | None:
        """Open, advance or look up the session; None if the request opened it."""
        epoch = request.share_session_epoch
        if epoch == FINAL_EPOCH:
            return self._sessions.existing(owner)
        if epoch == INITIAL_EPOCH:
            if any(acknowledgements(request).values()):
                raise Refusal(InvalidRequestError, "a request that opens a session cannot acknowledge")
            self._sessions.remove(owner)  # its records stay acquired: the member may still acknowledge them
            partitions = named_partitions(request)
            if len(set(partitions)) < len(partitions):
                raise RequestFailedError
            self._sessions.open(owner, context.connection_id, partitions, self._view.max_share_sessions())
            return None
        session = self._sessions.existing(owner)
        session.advance(epoch)
        session.update(named_partitions(request), forgotten_partitions(request))
        return session

    @staticmethod
    def _partitions_to_fetch(request: ShareFetchRequest, session: ShareSession | None) -> list[PartitionKey]:
        if request.share_session_epoch == FINAL_EPOCH:
            return []
        return list(session.partitions) if session is not None else named_partitions(request)

    def _end_session(self, owner: SessionKey, now_ms: int) -> None:
        session = self._sessions.remove(owner)
        if session is not None:
            self._release(session, now_ms)

    def _release(self, session: ShareSession, now_ms: int) -> None:
        """Give back what the member holds in the partitions that its session has at its end."""
        changes = []
        for partition in session.partitions:
            found = self._partitions.get(StateKey(session.key.group_id, *partition))
            if found is not None:
                changes.append((partition, found, found.release(session.key.member_id)))
        # Only then: a fetch of its own that still waits would take records here that are given back there.
        for _, found, _ in changes:
            self._look_again(found.key, now_ms)
        self._look_where_fetches_ended(now_ms)
        self._complete_acknowledgements(changes, {}, now_ms)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The connection has ended. The session that was opened on it last ends, and its records come back."""
        self._pass_time(now_ms)
        self._delayed.forget_refusals(connection_id)
        if self._delayed.holds_up(connection_id):
            self._closing[connection_id] = None
        else:
            self._end_connection(connection_id, now_ms)

    def _end_connection(self, connection_id: int, now_ms: int) -> None:
        end = self._sessions.connection_closed(connection_id)
        if end is None:
            return
        if end.session is not None:
            self._release(end.session, now_ms)
        if end.group_is_empty:
            for key in [key for key in self._partitions if key.group_id == end.group_id]:
                self._drop(key)

    # ---- acknowledging

    def _begin_acknowledgements(
        self,
        owner: SessionKey,
        named: Acknowledgements,
        results: dict[PartitionKey, Outcome],
        context: RequestContext,
        renewal: bool,
        now_ms: int,
    ) -> list[tuple[PartitionKey, SharePartition, PendingChange]]:
        """Check each partition and begin its change; what failed stands in `results`."""
        changes = []
        for partition, batches in named.items():
            try:
                if self._view.topic_name(partition.topic_id) is None:
                    raise Refusal(UnknownTopicIdError, "no topic has this id")
                if not batches:
                    continue
                require_well_formed(batches, api_version=context.api_version, renewal=renewal)
                # The place for authorization: READ on the topic, else TOPIC_AUTHORIZATION_FAILED for the partition.
                found = self._partitions.get(StateKey(owner.group_id, *partition))
                if found is None or self._view.partition(*partition) is None:
                    raise Refusal(UnknownTopicOrPartitionError, "the share partition is not loaded on this node")
                try:
                    changes.append((partition, found, found.acknowledge(owner.member_id, batches, now_ms)))
                except Refusal:
                    self._look_again(found.key, now_ms)
                    raise
                self._look_again(found.key, now_ms)
            except Refusal as refusal:
                results[partition] = Outcome.of(refusal)
            except RequestFailedError:
                self._complete_acknowledgements(changes, results, now_ms)
                raise
        return changes

    def _complete_acknowledgements(
        self,
        changes: Iterable[tuple[PartitionKey, SharePartition, PendingChange]],
        results: dict[PartitionKey, Outcome],
        now_ms: int,
    ) -> None:
        """Store what was begun."""
        for partition, found, change in changes:
            results[partition] = SUCCESS
            try:
                if found.complete(change):
                    self._look_again(found.key, now_ms)
            except Refusal as refusal:
                results[partition] = Outcome.of(refusal)
                if refusal.code in _DROPPING:
                    self._drop(found.key)

    # ---- fetching

    def _new_fetch(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        owner: SessionKey,
        session: ShareSession | None,
        now_ms: int,
    ) -> DelayedShareFetch:
        limits = FetchLimits(
            min_bytes=min(request.min_bytes, request.max_bytes),
            max_bytes=request.max_bytes,
            max_records=request.max_records,
            batch_size=request.batch_size,
            mode=AcquireMode.BATCH_OPTIMIZED,
            read_committed=self._view.group_settings(owner.group_id).read_committed,
        )
        return DelayedShareFetch(
            context=context,
            owner=owner,
            epoch=request.share_session_epoch,
            session=session,
            limits=limits,
            expires_at_ms=now_ms + max(0, request.max_wait_ms),
        )

    def _start_fetch(self, fetch: DelayedShareFetch, partitions: list[PartitionKey], mode: int, now_ms: int) -> None:
        """The fetch's first look; if that is not enough it waits, unless its time is up."""
        known = []
        for partition in partitions:
            # The place for authorization: READ on the topic, else TOPIC_AUTHORIZATION_FAILED for the partition.
            if self._view.partition(*partition) is not None:
                known.append(partition)
            else:
                self._fail_unknown(fetch, partition)
        fetch.is_fetched = not known
        if not known:
            return
        if mode not in tuple(AcquireMode):
            raise RequestFailedError
        fetch.limits = fetch.limits.with_mode(AcquireMode(mode))
        no_room = fetch.limits.max_records == 0 or fetch.limits.max_bytes == 0
        if no_room and self._behaviour.zero_limits_end_fetches:
            fetch.is_fetched = True
            return
        to_load = self._find_sources(fetch, rotated(known, fetch.epoch))
        if not fetch.sources:
            fetch.is_fetched = True
            return
        self._look(fetch, now_ms)
        if not fetch.is_fetched and fetch.expires_at_ms <= now_ms:
            self._expire(fetch, now_ms)
        if not fetch.is_fetched:
            self._delayed.add(fetch)
        for share_partition in to_load:
            self._load(share_partition, fetch, now_ms)

    def _fail_unknown(self, fetch: DelayedShareFetch, partition: PartitionKey) -> None:
        """There is no such partition; a topic id that nobody knows may fail the whole fetch."""
        code = UnknownTopicOrPartitionError.code
        if self._view.topic_name(partition.topic_id) is None:
            fetch.is_doomed |= self._behaviour.unknown_topics_fail_fetches
            was_known = fetch.session is not None and partition.topic_id in fetch.session.deleted_topics
            code = code if was_known else UnknownTopicIdError.code
        fetch.fail(partition, code)

    def _find_sources(self, fetch: DelayedShareFetch, partitions: list[PartitionKey]) -> list[SharePartition]:
        """Fill the fetch's sources; answers the share partitions that were made for it and have to be loaded."""
        to_load = []
        for partition in partitions:
            found = self._view.partition(*partition)
            assert found is not None
            if found.leader_id != self.node_id:
                fetch.fail(partition, NotLeaderOrFollowerError.code)
                continue
            key = StateKey(fetch.owner.group_id, *partition)
            share_partition = self._partitions.get(key)
            if share_partition is None:
                share_partition = self._make_partition(key, found)
                to_load.append(share_partition)
            fetch.sources.append(FetchSource(partition, share_partition, found.log))
        return to_load

    def _make_partition(self, key: StateKey, found: PartitionView) -> SharePartition:
        group_id, view = key.group_id, self._view
        self._partitions[key] = SharePartition(
            key, found.leader_epoch, self._coordinator, lambda: view.group_settings(group_id), self._behaviour
        )
        return self._partitions[key]

    def _load(self, partition: SharePartition, fetch: DelayedShareFetch, now_ms: int) -> None:
        """Load a share partition for the fetch that needed it first; if that fails the fetch waits on, and says so."""
        key = partition.key
        found = self._view.partition(key.topic_id, key.partition)
        assert found is not None
        log = found.log
        try:
            policy = partition.settings().auto_offset_reset
            partition.load(lambda: start_offset_by_policy(policy, log, now_ms))
        except Refusal as refusal:
            self._drop(key)
            if not fetch.is_fetched:
                fetch.fail(PartitionKey(key.topic_id, key.partition), refusal.code)
        self._look_again(key, now_ms)

    def _look(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if fetch.try_round(now_ms):
            self._touched.update((source.partition.key, None) for source in fetch.sources)

    def _expire(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if fetch.complete(now_ms):
            self._touched.update((source.partition.key, None) for source in fetch.sources)

    def _finish(self, fetch: DelayedShareFetch) -> None:
        """Answer the fetch if both halves of it are there."""
        if not (fetch.is_fetched and fetch.is_acknowledged):
            return
        self._delayed.remove(fetch)
        if fetch.is_doomed:
            self._reply(fetch.context, failed_fetch(UnknownServerError.code))
            return
        lock_ms = self._lock_ms(fetch.owner.group_id)
        fetched = fetch.fetched
        if fetch.session is not None and fetch.epoch != FINAL_EPOCH:
            if fetch.session.epoch != next_epoch(fetch.epoch):
                # another connection has used the session while this fetch waited
                self._reply(fetch.context, failed_fetch(InvalidShareSessionEpochError.code, lock_ms))
                return
            fetched = {
                key: data
                for key, data in fetched.items()
                if fetch.session.must_list(key, bool(data.records), data.error_code != 0)
            }
        acknowledged = fetch.acknowledged
        if not self._behaviour.names_piggybacked_refusals:
            acknowledged = {key: Outcome(outcome.code) for key, outcome in acknowledged.items()}
        self._reply(fetch.context, fetch_answer(self._view, fetched, acknowledged, lock_ms))

    # ---- waking

    def _look_again(self, key: StateKey, now_ms: int) -> None:
        """Let the group's waiting fetches of this partition look."""
        self._look_all(PartitionKey(key.topic_id, key.partition), now_ms, lambda f: f.owner.group_id == key.group_id)

    def _look_all(self, partition: PartitionKey, now_ms: int, of: Callable[[DelayedShareFetch], bool]) -> None:
        for fetch in self._delayed.watching(partition):
            if not fetch.is_fetched and of(fetch):
                self._look(fetch, now_ms)
                self._after_wait(fetch, now_ms)

    def _after_wait(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        if not fetch.is_fetched:
            return
        self._finish(fetch)
        connection_id = fetch.context.connection_id
        if connection_id in self._closing and not self._delayed.holds_up(connection_id):
            del self._closing[connection_id]
            self._end_connection(connection_id, now_ms)

    def _look_where_fetches_ended(self, now_ms: int) -> None:
        """A fetch that ended may have left records to those that wait. Ends, because every round answers a fetch."""
        while self._touched:
            key = next(iter(self._touched))
            del self._touched[key]
            self._look_again(key, now_ms)
            self._look_all(PartitionKey(key.topic_id, key.partition), now_ms, lambda _: True)

    def log_advanced(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """The partition's high watermark or last stable offset has moved."""
        self._pass_time(now_ms)
        self._look_all(PartitionKey(topic_id, partition), now_ms, lambda _: True)
        self._look_where_fetches_ended(now_ms)

    def log_start_moved(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Records were deleted. Share partitions find that out when they read next, as in Kafka: nothing to do now."""
        self._pass_time(now_ms)

    # ---- partitions that go

    def topic_deleted(self, topic_id: UUID, now_ms: int) -> None:
        """The topic is gone. Fetches that wait for it are not woken: they end with their time, empty."""
        self._pass_time(now_ms)
        self._sessions.topic_deleted(topic_id)
        for key in [key for key in self._partitions if key.topic_id == topic_id]:
            self._drop(key)

    def leadership_lost(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Another node leads the partition now; fetches that wait for it are answered with the new leader."""
        self._pass_time(now_ms)
        moved = PartitionKey(topic_id, partition)
        for key in [key for key in self._partitions if key[1:] == moved]:
            self._drop(key)
        for fetch in self._delayed.watching(moved):
            fetch.fail(moved, NotLeaderOrFollowerError.code)
            self._expire(fetch, now_ms)
            self._after_wait(fetch, now_ms)
        self._look_where_fetches_ended(now_ms)

    def _drop(self, key: StateKey) -> None:
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.fence()

    # ---- time

    def poll(self, now_ms: int) -> list[Reply]:
        """Let time pass up to `now_ms`; answers what has to be sent."""
        self._pass_time(now_ms)
        outputs, self._outputs = self._outputs, []
        return outputs

    def wake_at_ms(self) -> int | None:
        """When the next lock or wait ends."""
        times = [at_ms for p in self._partitions.values() if (at_ms := p.next_lock_end_at_ms()) is not None]
        deadline_at_ms = self._delayed.next_deadline_at_ms()
        if deadline_at_ms is not None:
            times.append(deadline_at_ms)
        return min(times, default=None)

    def _pass_time(self, now_ms: int) -> None:
        for partition in list(self._partitions.values()):
            at_ms = partition.next_lock_end_at_ms()
            if at_ms is not None and at_ms <= now_ms and partition.expire_locks(now_ms):
                self._look_again(partition.key, now_ms)
                partition.advance_start()
        while (due := self._delayed.take_due(now_ms)) is not None:
            if isinstance(due, DelayedShareFetch):
                self._expire(due, now_ms)
                self._after_wait(due, now_ms)
            else:
                self._reply(due, failed_fetch(ShareSessionLimitReachedError.code))

    def _reply(self, context: RequestContext, response: object) -> None:
        if context.connection_id not in self._closing:
            self._outputs.append(Reply(context, response))

    # ---- inspection

    def share_partition(self, group_id: str, topic_id: UUID, partition: int) -> SharePartition | None:
        """A loaded share partition, to look at its `snapshot()`; None if this node has none."""
        return self._partitions.get(StateKey(group_id, topic_id, partition))

    def session_count(self) -> int:
        """How many share sessions the node holds."""
        return len(self._sessions)

    def check(self) -> None:
        """Assert the invariants of everything this node keeps."""
        self._sessions.check()
        for key, partition in self._partitions.items():
            assert partition.key == key
            partition.check()
        self._delayed.check()
