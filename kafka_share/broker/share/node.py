"""The share half of one node: its share sessions, its share partitions, and the requests that wait.

The cluster owns one per node. Handlers call it for each ShareFetch and ShareAcknowledge; the cluster calls it for ended
connections, and when a log or the leadership of a partition changes. What became of a request comes out of `poll`, at
once, or when its records are there and what it acknowledges is stored. Membership and assignments are not looked at:
any member id may open a session and acquire from any partition that is initialised (as in Kafka). It must not know wire
messages.

A share partition is loaded after the request that needs it first has had its first look, one partition after the
other: so a request that does not wait misses it, and one that waits is answered by the first one that brings records.
A connection that ends while its request waits counts as ended once that is over.

Source: KIP-932, Kafka 4.3's `KafkaApis`, `SharePartitionManager` and `DelayedShareFetch`, and running brokers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafka_share.broker.kafka_version import KAFKA_4_3
from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.acknowledging import Acknowledging
from kafka_share.broker.share.delayed_fetch import DelayedShareFetch, FetchLimits, FetchSource
from kafka_share.broker.share.delayed_fetches import DelayedShareFetches
from kafka_share.broker.share.exchange import AcknowledgeResult, AcquireMode, FetchResult
from kafka_share.broker.share.loaded_partitions import LoadedPartitions
from kafka_share.broker.share.sessions import PartitionKey, ShareSessions, rotated
from kafka_share.broker.share.share_counts import ShareCounts
from kafka_share.errors import (
    InvalidRequestError,
    InvalidShareSessionEpochError,
    NotLeaderOrFollowerError,
    ShareSessionLimitReachedError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.share_values import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.acknowledging import BegunChange
    from kafka_share.broker.share.cluster_view import ClusterView, PartitionView
    from kafka_share.broker.share.dead_letter import DeadLetter
    from kafka_share.broker.share.exchange import Outcome, ShareAcknowledge, ShareFetch, ShareResult
    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.share.persister import Persister
    from kafka_share.broker.share.sessions import SessionKey, ShareSession


class ShareNode:
    """One node's share machines. Times are milliseconds since 1970."""

    def __init__(self, node_id: int, view: ClusterView, persister: Persister, behaviour: Behaviour = KAFKA_4_3) -> None:
        self.node_id = node_id
        self._view = view
        self._behaviour = behaviour
        self.counts: ShareCounts = ShareCounts()
        self._sessions = ShareSessions(old_connections_end_sessions=behaviour.old_connections_end_sessions)
        self._persister = persister
        self._partitions = LoadedPartitions(view, persister, behaviour)
        self._delayed = DelayedShareFetches(self._wait_ended, self.counts)
        self._acknowledging = Acknowledging(view, self._partitions, self._delayed, self.counts)
        self._closing: dict[int, None] = {}
        """Connections that ended while a request of theirs waits."""
        self._storing: dict[int, int] = {}
        """How many requests of a connection wait until what they acknowledged is stored."""
        self._results: list[ShareResult] = []

    # ---- requests

    def fetch(self, asked: ShareFetch, now_ms: int) -> None:
        """Take a ShareFetch; exactly one result follows from `poll`, unless the connection ends before."""
        self._pass_time(now_ms)
        try:
            self._fetch(asked, now_ms)
        except Refusal as refusal:
            if refusal.code == ShareSessionLimitReachedError.code and asked.max_wait_ms > 0:
                self._delayed.refuse_later(asked.context, now_ms + asked.max_wait_ms)
            else:
                self._answer(FetchResult(asked.context, refusal.code))
        except RequestFailedError as failure:
            self._answer(FetchResult(asked.context, failure.code))
        self._delayed.look_where_fetches_ended(now_ms)

    def acknowledge(self, asked: ShareAcknowledge, now_ms: int) -> None:
        """Take a ShareAcknowledge; exactly one result follows from `poll`, unless the connection ends before."""
        self._pass_time(now_ms)
        try:
            self._acknowledge(asked, now_ms)
        except (Refusal, RequestFailedError) as refusal:
            self._answer(AcknowledgeResult(asked.context, refusal.code, 0, {}))
        self._delayed.look_where_fetches_ended(now_ms)

    def request_refused(self, now_ms: int) -> None:
        """A request came that was refused unseen. It lets fetches look that the node's next request is to wake."""
        self._pass_time(now_ms)
        self._delayed.look_where_fetches_ended(now_ms)

    def _fetch(self, asked: ShareFetch, now_ms: int) -> None:
        session = self._session_for(asked)
        fetch = self._new_fetch(asked, session, now_ms)
        partitions = self._partitions_to_fetch(asked, session)
        if asked.epoch == FINAL_EPOCH or asked.acknowledge.is_renewal or not partitions:
            fetch.is_fetched = True
        begun = []
        if not asked.acknowledge.is_empty:
            begun = self._acknowledging.begin(asked.acknowledge, fetch.acknowledged, now_ms)
        failure = None
        try:
            if not fetch.is_fetched:
                self._start_fetch(fetch, partitions, asked.acquire_mode, now_ms)
        except RequestFailedError as error:
            failure = error
        self._delayed.look_where_fetches_ended(now_ms)

        def stored(at_ms: int) -> None:
            self._count_acknowledgements(asked.acknowledge, fetch.acknowledged)
            if failure is None:
                fetch.is_acknowledged = True
                self._finish(fetch)
            if asked.epoch == FINAL_EPOCH:
                self.end_session(asked.owner, at_ms)

        if begun:
            self._store(begun, fetch.acknowledged, fetch.context.connection_id, now_ms, stored)
        else:
            stored(now_ms)
        if failure is not None:
            raise failure

    def _acknowledge(self, asked: ShareAcknowledge, now_ms: int) -> None:
        if asked.epoch == INITIAL_EPOCH:
            raise Refusal(InvalidShareSessionEpochError, "an acknowledgement needs an open share session")
        session = self._sessions.existing(asked.owner)
        if asked.epoch != FINAL_EPOCH:
            session.advance(asked.epoch)
        outcomes: dict[PartitionKey, Outcome] = {}
        begun = self._acknowledging.begin(asked, outcomes, now_ms)
        self._delayed.look_where_fetches_ended(now_ms)

        def stored(at_ms: int) -> None:
            self._count_acknowledgements(asked, outcomes)
            lock_ms = self._view.group_settings(asked.owner.group_id).record_lock_duration_ms
            self._answer(AcknowledgeResult(asked.context, 0, lock_ms, outcomes))
            if asked.epoch == FINAL_EPOCH:
                self.end_session(asked.owner, at_ms)

        if begun:
            self._store(begun, outcomes, asked.context.connection_id, now_ms, stored)
        else:
            stored(now_ms)

    def _store(
        self,
        begun: Sequence[BegunChange],
        outcomes: dict[PartitionKey, Outcome],
        connection_id: int,
        now_ms: int,
        then: Callable[[int], None],
    ) -> None:
        """Store what a request has begun; its connection does not end before `then` has been called."""
        self._storing[connection_id] = self._storing.get(connection_id, 0) + 1

        def stored(at_ms: int) -> None:
            left = self._storing.pop(connection_id) - 1
            if left:
                self._storing[connection_id] = left
            then(at_ms)
            if self._closing:
                self._request_ended(connection_id, at_ms)

        self._acknowledging.complete(begun, outcomes, now_ms, stored)

    def _count_acknowledgements(self, asked: ShareAcknowledge, outcomes: Mapping[PartitionKey, Outcome]) -> None:
        if not asked.is_empty:
            failed = [partition for partition, outcome in outcomes.items() if outcome.code]
            named = [partition for partition, batches in asked.batches.items() if batches]
            self.counts.acknowledging(self._topics_of(named), self._topics_of(failed))

    def _topics_of(self, partitions: Iterable[PartitionKey]) -> list[UUID]:
        """Each topic once; those that do not exist are left out."""
        ids = dict.fromkeys(partition.topic_id for partition in partitions)
        return [topic_id for topic_id in ids if self._view.topic_name(topic_id) is not None]

    # ---- sessions

    def _session_for(self, asked: ShareFetch) -> ShareSession | None:
        """Open, advance or look up the session; None if the request opened it."""
        if asked.epoch == FINAL_EPOCH:
            return self._sessions.existing(asked.owner)
        if asked.epoch == INITIAL_EPOCH:
            if not asked.acknowledge.is_empty:
                raise Refusal(InvalidRequestError, "a request that opens a session cannot acknowledge")
            self._sessions.remove(asked.owner)  # its records stay acquired: the member may still acknowledge them
            if len(set(asked.named)) < len(asked.named):
                raise RequestFailedError
            limit = self._view.max_share_sessions()
            self._sessions.open(asked.owner, asked.context.connection_id, asked.named, limit)
            return None
        session = self._sessions.existing(asked.owner)
        session.advance(asked.epoch)
        session.update(asked.named, asked.forgotten)
        return session

    @staticmethod
    def _partitions_to_fetch(asked: ShareFetch, session: ShareSession | None) -> Sequence[PartitionKey]:
        if asked.epoch == FINAL_EPOCH:
            return []
        return list(session.partitions) if session is not None else asked.named

    def end_session(self, owner: SessionKey, now_ms: int) -> None:
        """End the session, if there is one, and release what its member holds here."""
        session = self._sessions.remove(owner)
        if session is not None:
            self._acknowledging.release(session, now_ms)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The connection has ended. The session that was opened on it last ends, and its records come back."""
        self._pass_time(now_ms)
        self._delayed.forget_refusals(connection_id)
        if self._is_waited_for(connection_id):
            self._closing[connection_id] = None
        else:
            self._end_connection(connection_id, now_ms)

    def _is_waited_for(self, connection_id: int) -> bool:
        return self._delayed.holds_up(connection_id) or connection_id in self._storing

    def _request_ended(self, connection_id: int, now_ms: int) -> None:
        if connection_id in self._closing and not self._is_waited_for(connection_id):
            del self._closing[connection_id]
            self._end_connection(connection_id, now_ms)

    def _end_connection(self, connection_id: int, now_ms: int) -> None:
        end = self._sessions.connection_closed(connection_id)
        if end is None:
            return
        if end.session is not None:
            self.counts.evicted_sessions += 1
            self._acknowledging.release(end.session, now_ms)
        if end.group_is_empty:
            self._partitions.drop_all(lambda key: key.group_id == end.group_id)

    # ---- fetching

    def _new_fetch(self, asked: ShareFetch, session: ShareSession | None, now_ms: int) -> DelayedShareFetch:
        limits = FetchLimits(
            min_bytes=min(asked.min_bytes, asked.max_bytes),
            max_bytes=asked.max_bytes,
            max_records=asked.max_records,
            batch_size=asked.batch_size,
            mode=AcquireMode.BATCH_OPTIMIZED,
            read_committed=self._view.group_settings(asked.owner.group_id).read_committed,
        )
        return DelayedShareFetch(
            context=asked.context,
            owner=asked.owner,
            epoch=asked.epoch,
            session=session,
            limits=limits,
            expires_at_ms=now_ms + max(0, asked.max_wait_ms),
        )

    def _start_fetch(
        self, fetch: DelayedShareFetch, partitions: Sequence[PartitionKey], mode: int, now_ms: int
    ) -> None:
        """The fetch's first look; if that is not enough it waits, unless its time is up."""
        known = self._known_partitions(fetch, partitions)
        if not known:
            fetch.is_fetched = True
            return
        if mode not in tuple(AcquireMode):
            raise RequestFailedError
        fetch.limits = fetch.limits.with_mode(AcquireMode(mode))
        no_space = fetch.limits.max_records == 0 or fetch.limits.max_bytes == 0
        if no_space and self._behaviour.zero_limits_end_fetches:
            fetch.is_fetched = True
            return
        to_load = self._find_sources(fetch, rotated(known, fetch.epoch))
        if not fetch.sources:
            fetch.is_fetched = True
            return
        self.counts.fetched(dict.fromkeys(source.key.topic_id for source in fetch.sources))
        self._delayed.look(fetch, now_ms)
        if not fetch.is_fetched and fetch.expires_at_ms <= now_ms:
            self._delayed.expire(fetch, now_ms)
        if not fetch.is_fetched:
            self._delayed.add(fetch)
        for share_partition in to_load:
            self._load(share_partition, fetch, now_ms)

    def _known_partitions(
        self, fetch: DelayedShareFetch, partitions: Sequence[PartitionKey]
    ) -> list[tuple[PartitionKey, PartitionView]]:
        """Those that exist; the others fail, and a topic id that nobody knows may fail the whole fetch."""
        known = []
        for partition in partitions:
            if not self._view.may_read(fetch.context, partition.topic_id):
                fetch.fail(partition, TopicAuthorizationFailedError.code)
                continue
            found = self._view.partition(*partition)
            if found is not None:
                known.append((partition, found))
                continue
            code = UnknownTopicOrPartitionError.code
            if self._view.topic_name(partition.topic_id) is None:
                fetch.is_doomed |= self._behaviour.unknown_topics_fail_fetches
                was_known = fetch.session is not None and partition.topic_id in fetch.session.deleted_topics
                code = code if was_known else UnknownTopicIdError.code
            fetch.fail(partition, code)
        return known

    def _find_sources(
        self, fetch: DelayedShareFetch, partitions: Sequence[tuple[PartitionKey, PartitionView]]
    ) -> list[SharePartition]:
        """Fill the fetch's sources; returns the share partitions that were made for it and have to be loaded."""
        to_load = []
        for partition, found in partitions:
            if found.leader_id != self.node_id:
                fetch.fail(partition, NotLeaderOrFollowerError.code)
                continue
            share_partition = self._partitions.find(fetch.owner.group_id, partition)
            if share_partition is None:
                share_partition = self._partitions.make(fetch.owner.group_id, partition, found)
                to_load.append(share_partition)
            fetch.sources.append(FetchSource(partition, share_partition, found.log))
        return to_load

    def _load(self, partition: SharePartition, fetch: DelayedShareFetch, now_ms: int) -> None:
        """Load a share partition for the fetch that needed it first; if that fails its answer names the error.

        Others that have come to wait for it by then learn nothing, as in Kafka; their next fetch loads it anew.
        """

        def loaded(refusal: Refusal | None, at_ms: int) -> None:
            if refusal is not None and not fetch.is_fetched:
                fetch.fail(PartitionKey(partition.key.topic_id, partition.key.partition), refusal.code)
            self._delayed.look_again(partition, at_ms)

        self._partitions.load(partition, now_ms, loaded)

    def _wait_ended(self, fetch: DelayedShareFetch, now_ms: int) -> None:
        self._finish(fetch)
        self._request_ended(fetch.context.connection_id, now_ms)

    def _finish(self, fetch: DelayedShareFetch) -> None:
        """Answer the fetch if both halves of it are there."""
        if fetch.is_fetched:
            self._delayed.remove(fetch)
        if not (fetch.is_fetched and fetch.is_acknowledged):
            return
        failed = [partition for partition, data in fetch.fetched.items() if data.error_code]
        if failed:
            self.counts.fetch_failed(self._topics_of(failed))
        if fetch.is_doomed:
            self._answer(FetchResult(fetch.context, UnknownServerError.code))
            return
        lock_ms = self._view.group_settings(fetch.owner.group_id).record_lock_duration_ms
        fetched = fetch.fetched
        if fetch.session is not None and fetch.epoch != FINAL_EPOCH:
            if fetch.session.epoch != next_epoch(fetch.epoch):
                # another connection has used the session while this fetch waited
                self._answer(FetchResult(fetch.context, InvalidShareSessionEpochError.code, lock_ms))
                return
            fetched = {
                key: data
                for key, data in fetched.items()
                if fetch.session.must_list(key, bool(data.records), data.error_code != 0)
            }
        self._answer(FetchResult(fetch.context, 0, lock_ms, fetched, fetch.acknowledged))

    def _answer(self, result: ShareResult) -> None:
        if result.context.connection_id not in self._closing:
            self._results.append(result)

    # ---- dead letters

    def take_dead_letters(self) -> list[tuple[SharePartition, DeadLetter]]:
        """The dead letters to be written; `buried` has to follow for each."""
        letters, self._partitions.dead_letters = self._partitions.dead_letters, []
        return letters

    def buried(self, partition: SharePartition, letter: DeadLetter, now_ms: int) -> None:
        """The dead letter was written, or cannot be."""

        def stored(moved: bool, at_ms: int) -> None:
            if moved:
                self._delayed.look_again(partition, at_ms)
                self._delayed.look_where_fetches_ended(at_ms)

        partition.buried(letter, now_ms, stored)

    # ---- what happens to partitions

    def log_advanced(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """The partition's high watermark or last stable offset has moved."""
        self._pass_time(now_ms)
        self._delayed.look_all(topic_id, partition, now_ms)
        self._delayed.look_where_fetches_ended(now_ms)

    def log_start_moved(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Records were deleted. Share partitions find that out when they read next, as in Kafka: nobody looks now."""
        self._pass_time(now_ms)
        for share_partition in self._partitions.of(topic_id, partition):
            self._delayed.came_free_unseen(share_partition)

    def topic_deleted(self, topic_id: UUID, now_ms: int) -> None:
        """The topic is gone. Fetches that wait for it are not woken: they end with their time, empty."""
        self._pass_time(now_ms)
        self._sessions.topic_deleted(topic_id)
        self.counts.topics.pop(topic_id, None)
        self._partitions.drop_all(lambda key: key.topic_id == topic_id)

    def leadership_lost(self, topic_id: UUID, partition: int, now_ms: int) -> None:
        """Another node leads the partition now; fetches that wait for it are answered with the new leader."""
        self._pass_time(now_ms)
        moved = PartitionKey(topic_id, partition)
        self._partitions.drop_all(lambda key: key[1:] == moved)
        self._delayed.fail_all(moved, NotLeaderOrFollowerError.code, now_ms)
        self._delayed.look_where_fetches_ended(now_ms)

    # ---- time

    def poll(self, now_ms: int) -> list[ShareResult]:
        """Let time pass up to `now_ms`; returns the results that have to be sent."""
        self._pass_time(now_ms)
        results, self._results = self._results, []
        return results

    def wake_at_ms(self) -> int | None:
        """When the next lock or wait ends, or the share coordinator is reached."""
        times = [self._partitions.next_lock_end_at_ms(), self._delayed.next_deadline_at_ms()]
        if self._persister.waiting:
            times.append(self._persister.wake_at_ms())
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _pass_time(self, now_ms: int) -> None:
        if self._persister.waiting:
            self._persister.poll(now_ms)
        for partition in self._partitions.take_locks_ended(now_ms):
            is_stored = partition.expire_locks(now_ms, partial(self._lock_end_stored, partition))
            self._delayed.look_again(partition, now_ms)
            if is_stored:
                self._lock_end_stored(partition, now_ms)
        for context in self._delayed.pass_time(now_ms):
            self._answer(FetchResult(context, ShareSessionLimitReachedError.code))

    def _lock_end_stored(self, partition: SharePartition, now_ms: int) -> None:
        partition.advance_start()
        self._delayed.came_free_unseen(partition)

    # ---- inspection

    def share_partition(self, group_id: str, topic_id: UUID, partition: int) -> SharePartition | None:
        """A loaded share partition, to look at; None if this node has none."""
        return self._partitions.find(group_id, PartitionKey(topic_id, partition))

    def share_partitions(self) -> list[SharePartition]:
        """All loaded share partitions, to look at."""
        return list(self._partitions)

    def unload(self, partition: SharePartition) -> None:
        """Drop a share partition from memory; the next request that names it loads its stored state."""
        self._partitions.drop(partition)

    def waiting_fetches(self) -> int:
        """How many ShareFetches wait for records."""
        return len(self._delayed)

    def partitions_in_sessions(self) -> int:
        """How many partitions all share sessions have together."""
        return self._sessions.partition_count()

    def session_keys(self) -> list[SessionKey]:
        """Who has a share session on this node."""
        return self._sessions.keys()

    def check(self) -> None:
        """Assert the invariants of everything this node keeps."""
        self._sessions.check()
        self._partitions.check()
        self._delayed.check()
        self._persister.check()
