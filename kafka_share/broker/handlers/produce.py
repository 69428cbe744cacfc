"""Produce (0): append record batches to the logs of partitions that this node leads.

- acks 1 and -1 are the same here, since replicas share one log; with acks 0 the driver throws the answer away. Other
  values are INVALID_REQUIRED_ACKS.
- For each partition there is one batch, checked as by Kafka: format 2, CRC, compression that can be opened, size within
  `max.message.bytes`. A topic that is compacted takes no record without a key, and timestamps have to be within
  `message.timestamp.before.max.ms` and `after.max.ms` of now; the answer names such records. Where all that takes long,
  others get their turn meanwhile, and the answer comes later.
- An idempotent producer's sequence numbers are checked; a repeated batch is answered with the offset that it has got.
  Of a producer that the partition does not know, or not any more, any number is taken; of a transactional one only 0,
  from version 12 on.
- A transactional batch needs the producer's open transaction; the partition has been added to it, or is added by this
  request from version 12 on (KIP-890). The request has to name the transactional id, and only then may it have such
  batches (INVALID_RECORD). Control records are the broker's own (INVALID_RECORD).
- Nobody but its coordinator writes to an internal topic (INVALID_TOPIC_EXCEPTION).
- Topics by name up to version 12, by id from version 13 on. Versions 0 to 2 are offered, as Kafka does for the sake of
  old clients that look for them, and cannot be used.

Versions: Produce (0) 0 to 13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kafka_share.broker.handlers.partitions import nodes_of_leaders, require_public
from kafka_share.broker.handlers.throttling import throttle_produce
from kafka_share.broker.refusals import RecordsRefusedError, Refusal
from kafka_share.broker.storage.appending import require_known_or_new
from kafka_share.errors import (
    InvalidRecordError,
    InvalidRequiredAcksError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from kafka_share.protocol.logs import ProduceRequest, ProduceResponse
from kafka_share.protocol.record_batches import RecordBatchError, iter_batches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition, Topic
    from kafka_share.protocol.record_batches import RecordBatch

_LEADER_SINCE_VERSION: Final = 10
_IMPLICIT_SINCE_VERSION: Final = 12
_IDS_SINCE_VERSION: Final = 13

_ACKS: Final = (-1, 0, 1)
_PARTITIONS_AT_ONCE: Final = 8
"""Checked in one turn at most."""

_PartitionAnswer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


_Checked: TypeAlias = "list[RecordBatch | Refusal]"
"""For each partition of the request, in order."""


def handle(cluster: Cluster, context: RequestContext, request: ProduceRequest, now_ms: int) -> ProduceResponse | None:
    """The answer, also where the producer wants none; None while records that take long are checked."""

    def finish(checked: _Checked, finished_at_ms: int) -> ProduceResponse:
        response = _append_all(cluster, context, request, iter(checked), finished_at_ms)
        throttle_produce(cluster, context, request, response, finished_at_ms)
        return response

    return cluster.produces.begin(context, _check_all(cluster, context, request, now_ms), finish, now_ms)


def _check_all(
    cluster: Cluster, context: RequestContext, request: ProduceRequest, now_ms: int
) -> Generator[None, None, _Checked]:
    checked: _Checked = []
    for topic in request.topic_data:
        found = _topic(cluster, context, topic)
        for data in topic.partition_data:
            records = bytes(data.records or b"")
            if len(checked) % _PARTITIONS_AT_ONCE == _PARTITIONS_AT_ONCE - 1:
                yield
            try:
                batches = _batches(records)
                partition = _writable(cluster, context, request, found, data.index, batches, now_ms)
                checked.append((yield from cluster.check_produced(partition, records, now_ms)))
            except Refusal as refusal:
                checked.append(refusal)
    return checked


def _append_all(
    cluster: Cluster,
    context: RequestContext,
    request: ProduceRequest,
    checked: Iterator[RecordBatch | Refusal],
    now_ms: int,
) -> ProduceResponse:
    responses = []
    for topic in request.topic_data:
        found = _topic(cluster, context, topic)
        partitions = [
            _append(cluster, context, request, found, data.index, next(checked), now_ms)
            for data in topic.partition_data
        ]
        responses.append(
            ProduceResponse.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    told = [one.current_leader for topic in responses for one in topic.partition_responses]
    nodes = [
        ProduceResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=None)
        for node in (nodes_of_leaders(cluster, told) if context.api_version >= _LEADER_SINCE_VERSION else ())
    ]
    return ProduceResponse(responses=responses, node_endpoints=nodes)


def _batches(records: bytes) -> list[RecordBatch]:
    try:
        return list(iter_batches(records))
    except RecordBatchError:
        return []  # the check looks closer and says what is wrong


def _topic(cluster: Cluster, context: RequestContext, asked: ProduceRequest.TopicProduceData) -> Topic | None:
    if context.api_version < _IDS_SINCE_VERSION:
        return cluster.topics.by_name(asked.name)
    return None if asked.topic_id is None else cluster.topics.by_id(asked.topic_id)


def _writable(
    cluster: Cluster,
    context: RequestContext,
    request: ProduceRequest,
    topic: Topic | None,
    index: int,
    batches: Sequence[RecordBatch],
    now_ms: int,
) -> Partition:
    """The partition, if this producer may write there now. Raises `Refusal`."""
    if request.acks not in _ACKS:
        raise Refusal(InvalidRequiredAcksError, f"acks must be -1, 0 or 1, not {request.acks}")
    if topic is None and context.api_version >= _IDS_SINCE_VERSION:
        raise Refusal(UnknownTopicIdError, "there is no topic of this id")
    partition = cluster.led_partition(context, topic, index, -1)
    require_public(topic)
    _require_transaction(cluster, context, request, partition, batches, now_ms)
    return partition


def _append(
    cluster: Cluster,
    context: RequestContext,
    request: ProduceRequest,
    topic: Topic | None,
    index: int,
    checked: RecordBatch | Refusal,
    now_ms: int,
) -> _PartitionAnswer:
    try:
        if isinstance(checked, Refusal):
            raise checked
        # Once more: leader and transaction may have changed while the records were checked.
        partition = _writable(cluster, context, request, topic, index, [checked], now_ms)
        base_offset, append_time_ms = cluster.append_batch(partition, checked, now_ms)
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
    batches: Sequence[RecordBatch],
    now_ms: int,
) -> None:
    """Raises `Refusal` for transactional batches outside of their producer's transaction."""
    for batch in batches:
        if batch.is_control:
            raise Refusal(InvalidRecordError, "a producer does not write control records")
        if batch.is_transactional != (request.transactional_id is not None):
            raise Refusal(InvalidRecordError, "transactional batches and the request's transactional id do not match")
        if request.transactional_id is not None:
            is_implicit = context.api_version >= _IMPLICIT_SINCE_VERSION
            cluster.transactions.require_writable(
                request.transactional_id,
                (batch.producer_id, batch.producer_epoch),
                partition,
                add=is_implicit,
                now_ms=now_ms,
            )
            if is_implicit:
                require_known_or_new(partition, batch)


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
    if partition is not None and isinstance(refusal, RecordsRefusedError):
        answer.log_start_offset = partition.log.start_offset
        answer.record_errors = [
            _PartitionAnswer.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=problem)
            for at, problem in refusal.errors
        ]
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
