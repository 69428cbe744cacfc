"""The answers to ShareFetch and ShareAcknowledge, built from what the share machines found out.

Called by `ShareNode` only. Partitions without a leader error carry the leader 0/0, as real brokers send it; records are
empty, never null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from kafka_share.broker.refusals import Refusal
    from kafka_share.broker.share.acquisition import AcquiredRange
    from kafka_share.broker.share.cluster_view import ClusterView
    from kafka_share.broker.share.sessions import PartitionKey
    from kafka_share.records import Node

_FetchedTopic = ShareFetchResponse.ShareFetchableTopicResponse
_FetchedPartition = _FetchedTopic.PartitionData
_AcknowledgedTopic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_AcknowledgedPartition = _AcknowledgedTopic.PartitionData

_WITH_LEADER: Final = frozenset((NotLeaderOrFollowerError.code, FencedLeaderEpochError.code))
"""The partition errors that tell who leads now."""


@attrs.frozen
class Outcome:
    """How something ended for one partition: an error code, 0 for none, and a text."""

    code: int = 0
    message: str | None = None

    @classmethod
    def of(cls, refusal: Refusal) -> Outcome:
        return cls(refusal.code, refusal.message)


SUCCESS: Final = Outcome()


@attrs.frozen
class FetchedData:
    """What a fetch found in one partition."""

    error_code: int = 0
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()


NOTHING_FETCHED: Final = FetchedData()


class _Leaders:
    """Collects the leaders that an answer has to name."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.nodes: dict[int, Node] = {}

    def of(self, partition: PartitionKey, error_code: int) -> tuple[int, int]:
        """Leader id and epoch for a partition entry of this error code."""
        if error_code not in _WITH_LEADER:
            return 0, 0
        found = self._view.partition(partition.topic_id, partition.partition)
        if found is None:
            return -1, -1
        node = self._view.node(found.leader_id)
        if node is not None:
            self.nodes[node.id] = node
        return found.leader_id, found.leader_epoch


def failed_fetch(code: int, lock_ms: int = 0) -> ShareFetchResponse:
    """An error for the request as a whole."""
    return ShareFetchResponse(
        error_code=code, error_message=None, acquisition_lock_timeout_ms=lock_ms, responses=[], node_endpoints=[]
    )


def failed_acknowledge(code: int) -> ShareAcknowledgeResponse:
    """An error for the request as a whole."""
    return ShareAcknowledgeResponse(
        error_code=code, error_message=None, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]
    )


def fetch_answer(
    view: ClusterView,
    fetched: Mapping[PartitionKey, FetchedData],
    acknowledged: Mapping[PartitionKey, Outcome],
    lock_ms: int,
) -> ShareFetchResponse:
    """One entry per partition that was fetched from or acknowledged."""
    leaders = _Leaders(view)
    topics: dict[UUID, list[_FetchedPartition]] = {}
    for partition in dict.fromkeys((*fetched, *acknowledged)):
        data = fetched.get(partition, NOTHING_FETCHED)
        result = acknowledged.get(partition, SUCCESS)
        leader_id, leader_epoch = leaders.of(partition, data.error_code)
        topics.setdefault(partition.topic_id, []).append(
            _FetchedPartition(
                partition_index=partition.partition,
                error_code=data.error_code,
                error_message=None,
                acknowledge_error_code=result.code,
                acknowledge_error_message=result.message,
                current_leader=_FetchedPartition.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
                records=data.records,
                acquired_records=[
                    _FetchedPartition.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in data.acquired
                ],
            )
        )
    return ShareFetchResponse(
        error_code=0,
        error_message=None,
        acquisition_lock_timeout_ms=lock_ms,
        responses=[_FetchedTopic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
        node_endpoints=[
            ShareFetchResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in leaders.nodes.values()
        ],
    )


def acknowledge_answer(
    view: ClusterView, acknowledged: Mapping[PartitionKey, Outcome], lock_ms: int
) -> ShareAcknowledgeResponse:
    """One entry per partition that something was said about."""
    leaders = _Leaders(view)
    topics: dict[UUID, list[_AcknowledgedPartition]] = {}
    for partition, result in acknowledged.items():
        leader_id, leader_epoch = leaders.of(partition, result.code)
        topics.setdefault(partition.topic_id, []).append(
            _AcknowledgedPartition(
                partition_index=partition.partition,
                error_code=result.code,
                error_message=result.message,
                current_leader=_AcknowledgedPartition.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=0,
        error_message=None,
        acquisition_lock_timeout_ms=lock_ms,
        responses=[_AcknowledgedTopic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
        node_endpoints=[
            ShareAcknowledgeResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in leaders.nodes.values()
        ],
    )
