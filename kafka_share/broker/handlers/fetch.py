"""Fetch (1): record batches for ordinary consumers and followers of nothing: only the leader answers.

- No fetch sessions: every answer has session id 0, so clients send whole requests. A request that names a session gets
  FETCH_SESSION_ID_NOT_FOUND and starts again.
- Waits up to MaxWaitMs until MinBytes can be given; an error in a partition answers at once.
- MaxBytes counts over the partitions in request order; the first batch of the first partition with data always goes
  out, however big. read_committed ends at the last stable offset and names the aborted transactions.
- Topics by name up to version 12, by id from version 13 on.

Versions: Fetch (1) 4 to 18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.classic.delayed_fetch import DelayedFetch, FetchedRange
from kafka_share.broker.handlers.partitions import nodes_of_leaders
from kafka_share.broker.handlers.throttling import fetch_limit
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import NotLeaderOrFollowerError, OffsetOutOfRangeError, UnknownTopicIdError
from kafka_share.protocol.logs import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition, Topic

READ_COMMITTED: Final = 1
_IDS_SINCE_VERSION: Final = 13
_LEADER_SINCE_VERSION: Final = 12
_NODES_SINCE_VERSION: Final = 16

_PartitionData = FetchResponse.FetchableTopicResponse.PartitionData
_FetchTopic = FetchRequest.FetchTopic
_FetchPartition = FetchRequest.FetchTopic.FetchPartition


def handle(cluster: Cluster, context: RequestContext, request: FetchRequest, now_ms: int) -> FetchResponse | None:
    if request.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[])
    min_bytes = min(request.min_bytes, fetch_limit(cluster, context, request))
    if request.max_wait_ms <= 0 or min_bytes <= 0:
        return answer(cluster, context, request)
    ranges = _waited_for(cluster, context, request)
    delayed = DelayedFetch(context, request, now_ms + request.max_wait_ms, min_bytes, tuple(ranges or ()))
    if ranges is None or delayed.bytes_ready() >= min_bytes:
        return answer(cluster, context, request)
    cluster.fetches.add(delayed)
    return None


def _waited_for(cluster: Cluster, context: RequestContext, request: FetchRequest) -> list[FetchedRange] | None:
    """What the request can wait for; None if a partition is in error, which is answered at once."""
    committed = request.isolation_level == READ_COMMITTED
    ranges = []
    for topic in request.topics:
        found = _topic(cluster, context, topic)
        for asked in topic.partitions:
            try:
                partition = cluster.led_partition(context, found, asked.partition, asked.current_leader_epoch)
            except Refusal:
                return None
            if not partition.log.start_offset <= asked.fetch_offset <= partition.log.high_watermark:
                return None
            ranges.append(FetchedRange(partition, asked.fetch_offset, asked.partition_max_bytes, committed))
    return ranges


def _topic(cluster: Cluster, context: RequestContext, asked: _FetchTopic) -> Topic | None:
    if context.api_version < _IDS_SINCE_VERSION:
        return cluster.topics.by_name(asked.topic)
    return None if asked.topic_id is None else cluster.topics.by_id(asked.topic_id)


def answer(cluster: Cluster, context: RequestContext, request: FetchRequest) -> FetchResponse:
    """What the partitions have now."""
    committed = request.isolation_level == READ_COMMITTED
    left = fetch_limit(cluster, context, request)
    anything = False
    responses = []
    for topic in request.topics:
        found = _topic(cluster, context, topic)
        partitions = []
        for asked in topic.partitions:
            data = _read(cluster, context, found, asked, left if anything else max(left, 1), committed)
            size = len(data.records or b"")
            left, anything = left - size, anything or size > 0
            partitions.append(data)
        responses.append(
            FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)
        )
    told = [one.current_leader for topic in responses for one in topic.partitions]
    nodes = [
        FetchResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=None)
        for node in (nodes_of_leaders(cluster, told) if context.api_version >= _NODES_SINCE_VERSION else ())
    ]
    return FetchResponse(error_code=0, session_id=0, responses=responses, node_endpoints=nodes)


def _read(
    cluster: Cluster,
    context: RequestContext,
    topic: Topic | None,
    asked: _FetchPartition,
    max_bytes: int,
    committed: bool,
) -> _PartitionData:
    """`max_bytes` is at least 1 while nothing has been read, else what is left of the request's bytes."""
    try:
        if topic is None and context.api_version >= _IDS_SINCE_VERSION:
            raise Refusal(UnknownTopicIdError, "there is no topic of this id")
        partition = cluster.led_partition(context, topic, asked.partition, asked.current_leader_epoch)
    except Refusal as refusal:
        return _refused(context, topic, asked.partition, refusal.code)
    log = partition.log
    end = log.last_stable_offset if committed else log.high_watermark
    if not log.start_offset <= asked.fetch_offset <= log.high_watermark:
        return _data(partition, OffsetOutOfRangeError.code, b"", committed, asked.fetch_offset, asked.fetch_offset)
    batches = []
    if max_bytes > 0 and asked.fetch_offset < end:
        batches = list(log.read(asked.fetch_offset, min(max_bytes, max(asked.partition_max_bytes, 1)), end))
    last = batches[-1].last_offset if batches else asked.fetch_offset
    return _data(partition, 0, b"".join(batch.data for batch in batches), committed, asked.fetch_offset, last)


def _data(partition: Partition, code: int, records: bytes, committed: bool, first: int, last: int) -> _PartitionData:
    log = partition.log
    aborted = None
    if committed:
        aborted = [
            _PartitionData.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset, _ in (log.aborted_ranges(first, last) if records else ())
        ]
    failed = code != 0
    return _PartitionData(
        partition_index=partition.partition,
        error_code=code,
        high_watermark=-1 if failed else log.high_watermark,
        last_stable_offset=-1 if failed else log.last_stable_offset,
        log_start_offset=-1 if failed else log.start_offset,
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
    )


def _refused(context: RequestContext, topic: Topic | None, index: int, code: int) -> _PartitionData:
    partition = None if topic is None else topic.partition(index)
    can_tell = context.api_version >= _LEADER_SINCE_VERSION and code == NotLeaderOrFollowerError.code
    if partition is None or not can_tell:
        return _PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=b"")
    leader = _PartitionData.LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
    return _PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=b"", current_leader=leader)
