"""ListOffsets (2): the start, the end, or the first record not older than a time.

- Timestamp -1 is the end (for read_committed the last stable offset), -2 the start, -3 the record with the highest
  timestamp, -4 the local start (the same as the start). -5 and -6 (tiered storage) have no offset: -1.
- Only the leader answers; the epoch that the client names is checked.
- A waiting is never needed: everything is in memory.

Versions: ListOffsets (2) 1 to 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.handlers.fetch import READ_COMMITTED
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError
from kafka_share.protocol.logs import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
_TIERED: Final = (-5, -6)
_EPOCH_SINCE_VERSION: Final = 4
_NONE: Final = (-1, -1)

_PartitionAnswer = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse


def handle(cluster: Cluster, context: RequestContext, request: ListOffsetsRequest, now_ms: int) -> ListOffsetsResponse:
    committed = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(cluster, context, topic.name, asked, committed) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    cluster: Cluster,
    context: RequestContext,
    name: str,
    asked: ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    committed: bool,
) -> _PartitionAnswer:
    try:
        topic = cluster.topics.by_name(name)
        partition = cluster.led_partition(context, topic, asked.partition_index, asked.current_leader_epoch)
        offset, timestamp = find_offset(partition, asked.timestamp, committed=committed)
    except Refusal as refusal:
        return _PartitionAnswer(partition_index=asked.partition_index, error_code=refusal.code, timestamp=-1, offset=-1)
    if context.api_version < _EPOCH_SINCE_VERSION or offset < 0:
        return _PartitionAnswer(partition_index=asked.partition_index, error_code=0, timestamp=timestamp, offset=offset)
    return _PartitionAnswer(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.leader_epoch,
    )


def find_offset(partition: Partition, timestamp: int, *, committed: bool) -> tuple[int, int]:
    """(offset, timestamp) of what `timestamp` asks for, both -1 where there is nothing. Raises `Refusal`."""
    log = partition.log
    if timestamp == LATEST:
        return (log.last_stable_offset if committed else log.high_watermark), -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if timestamp == MAX_TIMESTAMP:
        highest = log.max_timestamp
        return _NONE if highest is None else log.offset_for_timestamp(highest) or _NONE
    if timestamp in _TIERED:
        return _NONE
    if timestamp < 0:
        raise Refusal(InvalidRequestError, f"timestamp {timestamp} asks for nothing that exists")
    return log.offset_for_timestamp(timestamp) or _NONE
