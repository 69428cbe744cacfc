"""The client's half of one share session: its epoch, what the broker believes to be in it, and its requests.

Owned by `fetching.node_exchange`, one per broker. The broker keeps the list of partitions; after the first request only
differences travel. A session that was reset begins again at epoch 0 with the complete list and a new `session_id`:
what was acquired in the old one cannot be acknowledged any more (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import NamedTuple
from uuid import UUID

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged
from kafka_share.locks import DeliveryLimit, LockGeneration
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_values import FINAL_EPOCH, INITIAL_EPOCH, MAX_EPOCH, next_epoch
from kafka_share.records import AcknowledgeType, TopicIdPartition

Wanted = tuple[TopicIdPartition, ...]
Runs = Mapping[TopicIdPartition, list[AcknowledgementRun]]
"""Acknowledgements by partition; the runs do not overlap."""

_FetchPartition = ShareFetchRequest.FetchTopic.FetchPartition
_AcknowledgePartition = ShareAcknowledgeRequest.AcknowledgeTopic.AcknowledgePartition

_LONG_RUN = 10

_Key = tuple[int, int]
"""The number of a topic id, and a partition: the hash of a UUID is a function in Python, that of a number is not."""


def key_of(where: TopicIdPartition) -> _Key:
    return where.topic_id.int, where.partition


class AcknowledgementPiece(NamedTuple):
    """One AcknowledgementBatch of the wire: one type for all offsets, or one per offset."""

    first: int
    last: int
    types: list[int]


class ShareSession:
    """One generation after the other; `session_id` names the present one, and `session_ids` gives the next its name."""

    def __init__(
        self,
        config: ShareConsumerConfig,
        member_id: str,
        session_ids: Iterator[int],
        delivery_limit: DeliveryLimit | None = None,
    ) -> None:
        self._session_ids = session_ids
        self.session_id: int = next(session_ids)
        self.epoch: int = INITIAL_EPOCH
        self._config = config
        self._acquire_mode = 1 if config.has_record_limit else 0
        self._delivery_limit = delivery_limit
        self._member_id = member_id
        self._partitions: dict[_Key, TopicIdPartition] = {}
        self._locks: dict[_Key, tuple[TopicIdPartition, LockGeneration]] = {}
        self._synced: Wanted | None = None
        """The wanted partitions that `_partitions` was last made equal to."""

    @property
    def is_open(self) -> bool:
        return self.epoch > INITIAL_EPOCH

    def find(self, topic_id: UUID | None, partition: int) -> TopicIdPartition | None:
        """The partition of this session that an answer means, if there is one."""
        return None if topic_id is None else self._partitions.get((topic_id.int, partition))

    def differs_from(self, wanted: Wanted) -> bool:
        """Whether there are partitions that the broker has to add to the session or to forget."""
        if self.epoch <= INITIAL_EPOCH:
            return bool(wanted)
        if wanted is self._synced:
            return False
        return {key_of(p): p for p in wanted} != self._partitions

    def advance(self) -> None:
        """A request was answered without an error about the session itself."""
        if self.epoch != FINAL_EPOCH:
            self.epoch = next_epoch(self.epoch)

    def reset(self) -> None:
        self._lose_all_locks()
        self.session_id = next(self._session_ids)
        self.epoch = INITIAL_EPOCH
        self._partitions = {}
        self._synced = None

    # ---- locks

    @property
    def locked_partitions(self) -> list[TopicIdPartition]:
        """Where something was acquired in this session."""
        return [where for where, _ in self._locks.values()]

    def locks_of(self, where: TopicIdPartition) -> LockGeneration:
        key = where.topic_id.int, where.partition
        found = self._locks.get(key)
        if found is None:
            found = self._locks[key] = where, LockGeneration(self._delivery_limit)
        return found[1]

    def lose_locks(self, where: TopicIdPartition) -> None:
        """All that was acquired of the partition so far is not locked for us any more."""
        found = self._locks.pop(key_of(where), None)
        if found is not None:
            found[1].has_ended = True

    def _lose_all_locks(self) -> None:
        for _, locks in self._locks.values():
            locks.has_ended = True
        self._locks = {}

    # ---- requests

    def fetch(self, wanted: Wanted, runs: Runs, *, max_records: int, max_wait_ms: int) -> ShareFetchRequest:
        """A ShareFetch; without `max_records` all limits are zero, and it carries changes and acknowledgements only."""
        assert self.epoch > INITIAL_EPOCH or not runs, "acknowledgements cannot be sent at epoch 0"
        added, left = self._differences(wanted)
        # A partition that is listed for its acknowledgements joins the broker's session by that, wanted or not.
        in_session = self._partitions
        left += [p for p in runs if (p.topic_id.int, p.partition) not in in_session and p not in left]
        listed = [*runs.items()]
        if added:
            listed = [(p, runs.get(p, [])) for p in added] + [(p, own) for p, own in listed if p not in added]
        config = self._config
        is_real = max_records > 0
        return ShareFetchRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=max_wait_ms if is_real else 0,
            min_bytes=config.fetch_min_bytes if is_real else 0,
            max_bytes=config.fetch_max_bytes if is_real else 0,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=self._acquire_mode,
            topics=[
                ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=list(starmap(_fetch_partition, of_topic)))
                for topic_id, of_topic in _by_topic(listed)
            ],
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[p.partition for p, _ in of_topic])
                for topic_id, of_topic in _by_topic([(p, []) for p in left])
            ]
            if left
            else [],
        )

    def _differences(self, wanted: Wanted) -> tuple[list[TopicIdPartition], list[TopicIdPartition]]:
        """What to add and to forget; afterwards the session is taken to hold what is wanted.

        If the broker refuses the request, the epochs part and the next answer resets the session.
        """
        if wanted is self._synced:
            return [], []
        old = self._partitions
        new = {key_of(p): p for p in wanted}
        self._partitions = new
        self._synced = wanted
        return [p for key, p in new.items() if key not in old], [p for key, p in old.items() if key not in new]

    def acknowledge(self, runs: Runs, *, is_final: bool) -> ShareAcknowledgeRequest:
        """A ShareAcknowledge; a final one ends the session, and the broker releases what is still acquired in it."""
        assert self.is_open, "ShareAcknowledge is never sent at epoch 0"
        epoch = self.epoch
        if is_final:
            self.epoch = FINAL_EPOCH
            epoch = FINAL_EPOCH
            self._lose_all_locks()
        return ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=has_renewal(runs),
            topics=[
                ShareAcknowledgeRequest.AcknowledgeTopic(
                    topic_id=topic_id, partitions=list(starmap(_acknowledge_partition, of_topic))
                )
                for topic_id, of_topic in _by_topic([*runs.items()])
            ],
        )

    def check(self) -> None:
        assert FINAL_EPOCH <= self.epoch <= MAX_EPOCH
        assert self._synced is None or len(self._partitions) == len(self._synced), "a wanted partition is named twice"


def has_renewal(runs: Runs) -> bool:
    return any(run.type == AcknowledgeType.RENEW for of_one in runs.values() for run in of_one)


_Listed = tuple[TopicIdPartition, list[AcknowledgementRun]]


def _by_topic(listed: list[_Listed]) -> list[tuple[UUID, list[_Listed]]]:
    """Each topic, in the order of their first partitions, with its partitions."""
    if len(listed) == 1:  # the rule
        return [(listed[0][0].topic_id, listed)]
    topics: dict[int, list[_Listed]] = {}
    for one in listed:
        topics.setdefault(one[0].topic_id.int, []).append(one)
    return [(of_topic[0][0].topic_id, of_topic) for of_topic in topics.values()]


def _fetch_partition(where: TopicIdPartition, runs: list[AcknowledgementRun]) -> _FetchPartition:
    return _FetchPartition(
        partition_index=where.partition,
        acknowledgement_batches=[
            _FetchPartition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in encode_runs(runs)
        ],
    )


def _acknowledge_partition(where: TopicIdPartition, runs: list[AcknowledgementRun]) -> _AcknowledgePartition:
    return _AcknowledgePartition(
        partition_index=where.partition,
        acknowledgement_batches=[
            _AcknowledgePartition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in encode_runs(runs)
        ],
    )


def encode_runs(runs: Iterable[AcknowledgementRun]) -> list[AcknowledgementPiece]:
    """Runs that do not overlap → the AcknowledgementBatches of a request, ascending.

    The rule of Java's client, so that brokers see the requests they are used to: break at holes; a run of more than
    ten equal types is a piece of its own; what is left between has one type per offset, or one if they are all equal.
    """
    runs = list(runs)
    if len(runs) == 1:  # the rule
        return [AcknowledgementPiece(runs[0].first, runs[0].last, [runs[0].type])]
    pieces: list[AcknowledgementPiece] = []
    mixed: list[AcknowledgementRun] = []
    for run in merged(runs):
        is_long = run.last - run.first + 1 > _LONG_RUN
        if mixed and (is_long or mixed[-1].last + 1 != run.first):
            pieces.append(_piece(mixed))
            mixed = []
        if is_long:
            pieces.append(AcknowledgementPiece(run.first, run.last, [run.type]))
        else:
            mixed.append(run)
    if mixed:
        pieces.append(_piece(mixed))
    return pieces


def _piece(mixed: list[AcknowledgementRun]) -> AcknowledgementPiece:
    if len(mixed) == 1:
        return AcknowledgementPiece(mixed[0].first, mixed[0].last, [mixed[0].type])
    types = [run.type for run in mixed for _ in range(run.first, run.last + 1)]
    return AcknowledgementPiece(mixed[0].first, mixed[-1].last, types)
