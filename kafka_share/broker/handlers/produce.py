"""Produce (0): append record batches to the logs of partitions that this node leads.

- acks 1 and -1 are the same here, since replicas share one log; acks 0 gets no answer at all. Other values are
  INVALID_REQUIRED_ACKS.
- Batches are checked as by Kafka: format 2, CRC, compression that can be opened, size within `max.message.bytes`.
- An idempotent producer's sequence numbers are checked; a repeated batch is answered with the offset that it has got.
- A transactional batch needs the producer's open transaction; the partition has been added to it, or is added by this
  request from version 12 on (KIP-890). The request has to name the transactional id, and only then may it have such
  batches (INVALID_RECORD). Control records are the broker's own (INVALID_RECORD).
- Topics by name up to version 12, by id from version 13 on. Versions 0 to 2 are offered, as Kafka does for the sake of
  old clients that look for them, and cannot be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import (
    InvalidRecordError,
    InvalidRequiredAcksError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from kafka_share.protocol.logs import ProduceRequest, ProduceResponse
from kafka_share.protocol.record_batches import RecordBatchError, iter_batches

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition, Topic

_LEADER_SINCE_VERSION: Final = 10
_IMPLICIT_SINCE_VERSION: Final = 12
_IDS_SINCE_VERSION: Final = 13

_ACKS: Final = (-1, 0, 1)

_PartitionAnswer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


def handle(cluster: Cluster, context: RequestContext, request: ProduceRequest, now_ms: int) -> ProduceResponse | None:
    responses = []
    for topic in request.topic_data:
        found = _topic(cluster, context, topic)
        partitions = [
            _produce(cluster, context, request, found, data.index, bytes(data.records or b""), now_ms)
            for data in topic.partition_data
        ]
        responses.append(
            ProduceResponse.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    if request.acks == 0:
        return None
    return ProduceResponse(responses=responses)


def _topic(cluster: Cluster, context: RequestContext, asked: ProduceRequest.TopicProduceData) -> Topic | None:
    if context.api_version < _IDS_SINCE_VERSION:
        return cluster.topics.by_name(asked.name)
    return None if asked.topic_id is None else cluster.topics.by_id(asked.topic_id)


def _produce(
    cluster: Cluster,
    context: RequestContext,
    request: ProduceRequest,
    topic: Topic | None,
    index: int,
    records: bytes,
    now_ms: int,
) -> _PartitionAnswer:
    try:
        if request.acks not in _ACKS:
            raise Refusal(InvalidRequiredAcksError, f"acks must be -1, 0 or 1, not {request.acks}")
        if topic is None and context.api_version >= _IDS_SINCE_VERSION:
            raise Refusal(UnknownTopicIdError, "there is no topic of this id")
        partition = cluster.led_partition(context, topic, index, -1)
        _require_transaction(cluster, context, request, partition, records, now_ms)
        base_offset, append_time_ms = cluster.append(partition, records, now_ms)
    except Refusal as refusal:
        return _refused(context, topic, index, refusal)
    return _PartitionAnswer(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=partition.log.start_offset,
        record_errors=[],
    )


def _require_transaction(
    cluster: Cluster,
    context: RequestContext,
    request: ProduceRequest,
    partition: Partition,
    records: bytes,
    now_ms: int,
) -> None:
    """Raises `Refusal` for transactional batches outside of their producer's transaction."""
    try:
        batches = list(iter_batches(records))
    except RecordBatchError:
        # Appending looks closer and says what is wrong.
        return
    for batch in batches:
        if batch.is_control:
            raise Refusal(InvalidRecordError, "a producer does not write control records")
        if batch.is_transactional != (request.transactional_id is not None):
            raise Refusal(InvalidRecordError, "transactional batches and the request's transactional id do not match")
        if request.transactional_id is not None:
            cluster.transactions.require_writable(
                request.transactional_id,
                (batch.producer_id, batch.producer_epoch),
                partition,
                add=context.api_version >= _IMPLICIT_SINCE_VERSION,
                now_ms=now_ms,
            )


def _refused(context: RequestContext, topic: Topic | None, index: int, refusal: Refusal) -> _PartitionAnswer:
    answer = _PartitionAnswer(
        index=index,
        error_code=refusal.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[],
        error_message=refusal.message,
    )
    partition = None if topic is None else topic.partition(index)
    can_tell = context.api_version >= _LEADER_SINCE_VERSION and refusal.code == NotLeaderOrFollowerError.code
    if partition is None or not can_tell:
        return answer
    return _PartitionAnswer(
        index=index,
        error_code=refusal.code,
        base_offset=-1,
        record_errors=[],
        error_message=refusal.message,
        current_leader=_PartitionAnswer.LeaderIdAndEpoch(
            leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
        ),
    )
