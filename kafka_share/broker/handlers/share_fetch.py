"""ShareFetch (78) and ShareAcknowledge (79): acquire records, say what became of them.

- Answered by the share machines of the node that the connection belongs to, never by another one: a partition that
  another node leads is NOT_LEADER_OR_FOLLOWER with its leader in a ShareFetch, UNKNOWN_TOPIC_OR_PARTITION in a
  ShareAcknowledge.
- A topic id that no topic has fails a ShareFetch as a whole (Kafka 4.1 to 4.3), a ShareAcknowledge for its partitions.
- Partitions without a leader error carry the leader 0/0, as real brokers send it; records are empty, never null.
- A topic that the client may not read is TOPIC_AUTHORIZATION_FAILED in its partitions, as of this request.
- Not there: quotas.

Versions: ShareFetch (78) 1 to 2, ShareAcknowledge (79) 1 to 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.cluster_view import ClusterView
from kafka_share.broker.share.exchange import (
    NOTHING_FETCHED,
    SUCCESS,
    AcknowledgementBatch,
    FetchedData,
    Outcome,
    ShareAcknowledge,
    ShareFetch,
)
from kafka_share.broker.share.sessions import PartitionKey, SessionKey
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    UnsupportedVersionError,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse
from kafka_share.records import AcknowledgeType

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.exchange import AcknowledgeResult, FetchResult
    from kafka_share.broker.share.node import ShareNode
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
    from kafka_share.protocol.share_fetch import ShareFetchRequest
    from kafka_share.records import Node

MAX_MEMBER_ID_CHARS: Final = 36
"""Unless member ids are UUIDs."""
_KAFKA_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)
"""16 bytes in URL-safe base64."""
_RENEW_SINCE_VERSION: Final = 2
"""RENEW and the acquire mode exist from this version of both requests on."""
_WITH_LEADER: Final = frozenset((NotLeaderOrFollowerError.code, FencedLeaderEpochError.code))
"""The partition errors that come with the present leader."""

_FetchedTopic = ShareFetchResponse.ShareFetchableTopicResponse
_FetchedPartition = _FetchedTopic.PartitionData
_AcknowledgedTopic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_AcknowledgedPartition = _AcknowledgedTopic.PartitionData


class ShareCluster(ClusterView, Protocol):
    """What these handlers need of the cluster."""

    behaviour: Behaviour
    share_nodes: dict[int, ShareNode]


def handle_share_fetch(
    cluster: ShareCluster, context: RequestContext, request: ShareFetchRequest, now_ms: int
) -> ShareFetchResponse | None:
    """The answer to a request that is refused; any other one is answered by `fetch_answer`, at once or later."""
    node = cluster.share_nodes[context.node_id]
    try:
        acknowledge = _acknowledge(cluster, context, request)
        if acknowledge.is_renewal:
            _require_no_limits(request)
    except (Refusal, RequestFailedError) as refusal:
        node.request_refused(now_ms)
        return _failed_fetch(refusal.code)
    node.fetch(
        ShareFetch(
            acknowledge=acknowledge,
            named=[_key(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions],
            forgotten=[
                _key(topic.topic_id, one) for topic in request.forgotten_topics_data for one in topic.partitions
            ],
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            max_records=request.max_records,
            batch_size=request.batch_size,
            acquire_mode=request.share_acquire_mode,
        ),
        now_ms,
    )
    return None


def handle_share_acknowledge(
    cluster: ShareCluster, context: RequestContext, request: ShareAcknowledgeRequest, now_ms: int
) -> ShareAcknowledgeResponse | None:
    """The answer to a request that is refused; any other one is answered by `acknowledge_answer`, at once or later."""
    node = cluster.share_nodes[context.node_id]
    try:
        acknowledge = _acknowledge(cluster, context, request)
    except (Refusal, RequestFailedError) as refusal:
        node.request_refused(now_ms)
        return _failed_acknowledge(refusal.code)
    node.acknowledge(acknowledge, now_ms)
    return None


# ---- requests


def _acknowledge(
    cluster: ShareCluster, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> ShareAcknowledge:
    """What both requests have. Raises `Refusal`, or `RequestFailedError` for what the Kafka version does not expect."""
    if not cluster.share_enabled():
        raise Refusal(UnsupportedVersionError, "share groups are switched off")
    has_renewals = context.api_version >= _RENEW_SINCE_VERSION
    return ShareAcknowledge(
        context=context,
        owner=_owner(request, cluster.behaviour),
        epoch=request.share_session_epoch,
        batches={
            _key(topic.topic_id, entry.partition_index): [
                AcknowledgementBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
                for batch in entry.acknowledgement_batches
            ]
            for topic in request.topics
            for entry in topic.partitions
        },
        is_renewal=has_renewals and request.is_renew_ack,
        highest_type=AcknowledgeType.RENEW if has_renewals else AcknowledgeType.REJECT,
    )


def _owner(request: ShareFetchRequest | ShareAcknowledgeRequest, behaviour: Behaviour) -> SessionKey:
    """Whose request it is; a null group id or an impossible member id is refused."""
    if (request.group_id is None or request.member_id is None) and not behaviour.refuses_null_ids:
        raise RequestFailedError("a share request without a group id or a member id")
    if request.group_id is None:
        raise Refusal(InvalidRequestError, "a share request needs a group id")
    if behaviour.member_ids_are_uuids:
        if not request.member_id or not _KAFKA_UUID.fullmatch(request.member_id):
            raise RequestFailedError("a member id that is no UUID")
    elif not request.member_id or len(request.member_id) > MAX_MEMBER_ID_CHARS:
        raise Refusal(InvalidRequestError, f"a member id has 1 to {MAX_MEMBER_ID_CHARS} characters")
    return SessionKey(request.group_id, request.member_id)


def _require_no_limits(request: ShareFetchRequest) -> None:
    """A ShareFetch that renews locks fetches nothing, and has to say so."""
    if request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records:
        raise Refusal(InvalidRequestError, "a ShareFetch that renews locks has no wait time, bytes or records")


def _key(topic_id: UUID | None, partition: int) -> PartitionKey:
    return PartitionKey(topic_id or NO_TOPIC_ID, partition)


# ---- answers


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


def _failed_fetch(code: int, lock_ms: int = 0) -> ShareFetchResponse:
    """An error for the request as a whole."""
    return ShareFetchResponse(
        error_code=code, error_message=None, acquisition_lock_timeout_ms=lock_ms, responses=[], node_endpoints=[]
    )


def _failed_acknowledge(code: int) -> ShareAcknowledgeResponse:
    """An error for the request as a whole."""
    return ShareAcknowledgeResponse(
        error_code=code, error_message=None, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]
    )


def fetch_answer(cluster: ShareCluster, result: FetchResult) -> ShareFetchResponse:
    """One entry per partition that was fetched from or acknowledged."""
    if result.error_code:
        return _failed_fetch(result.error_code, result.lock_ms)
    leaders = _Leaders(cluster)
    topics: dict[UUID, list[_FetchedPartition]] = {}
    for partition in dict.fromkeys((*result.fetched, *result.acknowledged)):
        data = result.fetched.get(partition, NOTHING_FETCHED)
        outcome = result.acknowledged.get(partition, SUCCESS)
        if not cluster.behaviour.names_piggybacked_refusals:
            outcome = Outcome(outcome.code)
        leader = leaders.of(partition, data.error_code)
        entry = _fetched_partition(partition.partition, data, outcome, leader)
        topics.setdefault(partition.topic_id, []).append(entry)
    return ShareFetchResponse(
        error_code=0,
        error_message=None,
        acquisition_lock_timeout_ms=result.lock_ms,
        responses=[_FetchedTopic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
        node_endpoints=[
            ShareFetchResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in leaders.nodes.values()
        ],
    )


def _fetched_partition(
    index: int, data: FetchedData, acknowledged: Outcome, leader: tuple[int, int]
) -> _FetchedPartition:
    leader_id, leader_epoch = leader
    return _FetchedPartition(
        partition_index=index,
        error_code=data.error_code,
        error_message=None,
        acknowledge_error_code=acknowledged.code,
        acknowledge_error_message=acknowledged.message,
        current_leader=_FetchedPartition.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        records=data.records,
        acquired_records=[
            _FetchedPartition.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in data.acquired
        ],
    )


def acknowledge_answer(view: ClusterView, result: AcknowledgeResult) -> ShareAcknowledgeResponse:
    """One entry per partition that was acknowledged."""
    if result.error_code:
        return _failed_acknowledge(result.error_code)
    leaders = _Leaders(view)
    topics: dict[UUID, list[_AcknowledgedPartition]] = {}
    for partition, outcome in result.acknowledged.items():
        leader_id, leader_epoch = leaders.of(partition, outcome.code)
        topics.setdefault(partition.topic_id, []).append(
            _AcknowledgedPartition(
                partition_index=partition.partition,
                error_code=outcome.code,
                error_message=outcome.message,
                current_leader=_AcknowledgedPartition.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=0,
        error_message=None,
        acquisition_lock_timeout_ms=result.lock_ms,
        responses=[_AcknowledgedTopic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
        node_endpoints=[
            ShareAcknowledgeResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in leaders.nodes.values()
        ],
    )
