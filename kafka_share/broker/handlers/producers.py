"""DescribeProducers (61) and WriteTxnMarkers (27): what a partition's leader knows of producers, and ends for them.

- Only the leader of a partition answers. A producer is forgotten a day after its last records (`ProducerExpiry`);
  until then it is named with its last sequence number, the coordinator epoch of its last marker (-1 if there was none),
  and the first offset of its open transaction.
- A marker of an old producer epoch is INVALID_PRODUCER_EPOCH, one of an old coordinator epoch
  TRANSACTION_COORDINATOR_FENCED. The transaction coordinator is not told: an admin ends a transaction that hangs so,
  and the producer itself has to end it for its own. A marker in `__consumer_offsets` ends the offset commits of the
  transaction, too: they count, or are forgotten. There an old producer epoch is UNKNOWN_SERVER_ERROR.

Versions: WriteTxnMarkers (27) 1 to 2, DescribeProducers (61) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.storage.producers import MarkerVerdict
from kafka_share.broker.storage.topics import CONSUMER_OFFSETS
from kafka_share.errors import InvalidProducerEpochError, UnknownServerError
from kafka_share.protocol.producers import DescribeProducersRequest, DescribeProducersResponse
from kafka_share.protocol.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition

_Topic = DescribeProducersResponse.TopicResponse
_Partition = _Topic.PartitionResponse
_Producer = _Partition.ProducerState
_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
_MarkerTopic = _MarkerResult.WritableTxnMarkerTopicResult


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeProducersRequest, now_ms: int
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[_describe(cluster, context, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(cluster: Cluster, context: RequestContext, name: str, index: int) -> _Partition:
    try:
        partition = cluster.led_partition(context, cluster.topics.by_name(name), index, -1)
    except Refusal as refusal:
        return _Partition(partition_index=index, error_code=refusal.code, error_message=refusal.message)
    return _Partition(partition_index=index, error_code=0, active_producers=_active(partition))


def _active(partition: Partition) -> list[_Producer]:
    found = []
    for one in partition.producers.summaries():
        open_since = partition.log.open_since(one.producer_id)
        found.append(
            _Producer(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=-1 if open_since is None else open_since,
            )
        )
    return found


# ---- WriteTxnMarkers


def handle_markers(
    cluster: Cluster, context: RequestContext, request: WriteTxnMarkersRequest, now_ms: int
) -> WriteTxnMarkersResponse:
    results = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            partitions = [
                _MarkerTopic.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=_write(cluster, context, marker, topic.name, index, now_ms)
                )
                for index in topic.partition_indexes
            ]
            topics.append(_MarkerTopic(name=topic.name, partitions=partitions))
        results.append(_MarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results)


def _write(cluster: Cluster, context: RequestContext, marker: _Marker, name: str, index: int, now_ms: int) -> int:
    """Write the marker; returns an error code."""
    producer = (marker.producer_id, marker.producer_epoch)
    try:
        partition = cluster.led_partition(context, cluster.topics.by_name(name), index, -1)
    except Refusal as refusal:
        return refusal.code
    verdict = partition.producers.judge_marker(*producer, marker.coordinator_epoch)
    if verdict is MarkerVerdict.PRODUCER_FENCED:
        return (UnknownServerError if name == CONSUMER_OFFSETS else InvalidProducerEpochError).code
    if verdict is MarkerVerdict.COORDINATOR_FENCED:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    try:
        cluster.write_marker(
            partition,
            producer,
            committed=marker.transaction_result,
            now_ms=now_ms,
            coordinator_epoch=marker.coordinator_epoch,
        )
    except Refusal as refusal:
        return refusal.code
    if name == CONSUMER_OFFSETS:
        cluster.offsets.marker_written(index, marker.producer_id, committed=marker.transaction_result)
    return 0
