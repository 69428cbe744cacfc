"""How acknowledgements of a request, and the end of a session, reach the share partitions.

Used by `ShareNode`. A change has two steps, because Kafka stores it in between: `begin` and `release` check and make it
pending, `complete` stores it, which may take its time. Waiting fetches look at each partition after the first step, so
*before* the result is stored, and once that has ended only if the start offset moved.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.exchange import SUCCESS, Outcome
from kafka_share.broker.share.persister import CountDown
from kafka_share.errors import (
    FencedStateEpochError,
    GroupIdNotFoundError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.records import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_share.broker.share.cluster_view import ClusterView
    from kafka_share.broker.share.delayed_fetches import DelayedShareFetches
    from kafka_share.broker.share.exchange import AcknowledgementBatch, ShareAcknowledge
    from kafka_share.broker.share.loaded_partitions import LoadedPartitions
    from kafka_share.broker.share.partition import PendingChange, SharePartition
    from kafka_share.broker.share.sessions import PartitionKey, ShareSession
    from kafka_share.broker.share.share_counts import ShareCounts

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


class BegunChange(NamedTuple):
    """What has to be stored for one partition."""

    partition: PartitionKey
    found: SharePartition
    change: PendingChange
    acknowledged: Sequence[AcknowledgementBatch] = ()
    """What a request asked for; nothing if the end of a session is the reason."""


class Acknowledging:
    """The changes of one node's share partitions. `delayed` is told where fetches have to look again."""

    def __init__(
        self, view: ClusterView, partitions: LoadedPartitions, delayed: DelayedShareFetches, counts: ShareCounts
    ) -> None:
        self._view = view
        self._counts = counts
        self._partitions = partitions
        self._delayed = delayed

    def begin(self, asked: ShareAcknowledge, outcomes: dict[PartitionKey, Outcome], now_ms: int) -> list[BegunChange]:
        """Check each partition and begin its change; what failed stands in `outcomes`.

        Raises `RequestFailedError`; what had been begun by then is stored, and nobody is told how that ended.
        """
        begun: list[BegunChange] = []
        for partition, batches in asked.batches.items():
            try:
                found = self._acknowledged(asked, partition, batches)
                if found is not None:
                    begun.append(self._begin_one(asked, partition, found, now_ms))
            except Refusal as refusal:
                outcomes[partition] = Outcome.of(refusal)
            except RequestFailedError:
                self.complete(begun, {}, now_ms, _nobody_waits)
                raise
        return begun

    def _acknowledged(
        self, asked: ShareAcknowledge, partition: PartitionKey, batches: Sequence[AcknowledgementBatch]
    ) -> SharePartition | None:
        """The share partition, None if nothing is acknowledged in it. Raises `Refusal`."""
        if self._view.topic_name(partition.topic_id) is None:
            raise Refusal(UnknownTopicIdError, "no topic has this id")
        require_well_formed(batches, asked.highest_type, renewal=asked.is_renewal)
        if not self._view.may_read(asked.context, partition.topic_id):
            raise Refusal(TopicAuthorizationFailedError, "the client may not read this topic")
        if not batches:
            return None
        found = self._partitions.find(asked.owner.group_id, partition)
        if found is None or self._view.partition(*partition) is None:
            raise Refusal(UnknownTopicOrPartitionError, "the share partition is not loaded on this node")
        return found

    def _begin_one(
        self, asked: ShareAcknowledge, partition: PartitionKey, found: SharePartition, now_ms: int
    ) -> BegunChange:
        try:
            change = found.acknowledge(asked.owner.member_id, asked.batches[partition], now_ms)
        except Refusal:
            self._delayed.look_again(found, now_ms)
            raise
        self._delayed.look_again(found, now_ms)
        return BegunChange(partition, found, change, asked.batches[partition])

    def complete(
        self,
        begun: Sequence[BegunChange],
        outcomes: dict[PartitionKey, Outcome],
        now_ms: int,
        then: Callable[[int], None],
    ) -> None:
        """Store what was begun, if that is anything; `then` is told when the last of it has ended.

        By then `outcomes` says how.
        """
        for one in begun:
            outcomes[one.partition] = SUCCESS  # in their order, whichever is stored first
        ended = then if len(begun) == 1 else CountDown(len(begun), then).ended
        for one in begun:
            one.found.complete(one.change, now_ms, partial(self._completed, one, outcomes, ended))

    def _completed(
        self,
        one: BegunChange,
        outcomes: dict[PartitionKey, Outcome],
        ended: Callable[[int], None],
        moved: bool | Refusal,
        now_ms: int,
    ) -> None:
        partition, found, _, acknowledged = one
        if isinstance(moved, Refusal):
            outcomes[partition] = Outcome.of(moved)
            if moved.code in _DROPPING:
                self._partitions.drop(found)
        else:
            if moved:
                self._delayed.look_again(found, now_ms)
            else:
                self._delayed.came_free_unseen(found)
            self._counts.acknowledged_batches(acknowledged)
        ended(now_ms)

    def release(self, session: ShareSession, now_ms: int) -> None:
        """Give back what the member holds in the partitions that its session has at its end."""
        begun = []
        for partition in session.partitions:
            found = self._partitions.find(session.key.group_id, partition)
            if found is not None:
                begun.append(BegunChange(partition, found, found.release(session.key.member_id)))
        # Only then: a fetch of its own that still waits would take records here that are given back there.
        for _, found, _, _ in begun:
            self._delayed.look_again(found, now_ms)
        self._delayed.look_where_fetches_ended(now_ms)
        self.complete(begun, {}, now_ms, _nobody_waits)


def _nobody_waits(now_ms: int) -> None:
    """Nobody is to be told that something is stored."""


def require_well_formed(
    batches: Sequence[AcknowledgementBatch], highest_type: AcknowledgeType, *, renewal: bool
) -> None:
    """Raises `Refusal` (INVALID_REQUEST, for this partition) unless ranges ascend and types fit them.

    Two ranges that share just their border pass here and fail at the records.
    """
    previous_last = -1
    for first, last, types in batches:
        if first > last or first < previous_last:
            raise Refusal(InvalidRequestError, "acknowledgement ranges have to ascend")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise Refusal(InvalidRequestError, "an acknowledgement range needs one type, or one for each offset")
        if any(not 0 <= kind <= highest_type for kind in types):
            raise Refusal(InvalidRequestError, "unknown acknowledgement type")
        if not renewal and AcknowledgeType.RENEW in types:
            raise Refusal(InvalidRequestError, "RENEW in a request that is not marked as a renewal")
        previous_last = last
