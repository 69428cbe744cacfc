"""The share coordinator on the wire, APIs 83 to 87: initialize, read, write, delete and summarise share-group state.

- Only tools and tests ask here: the share machines use the same coordinator directly.
- An empty group id is answered without results; each partition is answered for itself, in the order asked.
- Error entries carry state epoch 0 and start offset 0. Without the feature share.version a read is NOT_COORDINATOR.
- Not there: several coordinators.

Versions: InitializeShareGroupState (83) 0, ReadShareGroupState (84) 0, WriteShareGroupState (85) 0 to 1,
DeleteShareGroupState (86) 0, ReadShareGroupStateSummary (87) 0 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.share_coordinator import StateSummary, StoredState
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import StateKey
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.errors import NotCoordinatorError
from kafka_share.protocol.share_state import (
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.protocol.share_state import (
        DeleteShareGroupStateRequest,
        InitializeShareGroupStateRequest,
        ReadShareGroupStateRequest,
        ReadShareGroupStateSummaryRequest,
        WriteShareGroupStateRequest,
    )


def handle_initialize(
    cluster: Cluster, context: RequestContext, request: InitializeShareGroupStateRequest, now_ms: int
) -> InitializeShareGroupStateResponse:
    result = InitializeShareGroupStateResponse.InitializeStateResult

    def initialize(key: StateKey, asked: Any) -> Any:
        cluster.share_states.initialize(key, asked.state_epoch, asked.start_offset, now_ms)
        return result.PartitionResult(partition=key.partition, error_code=0, error_message=None)

    return InitializeShareGroupStateResponse(results=_each(cluster, request, result, initialize))


def handle_read(
    cluster: Cluster, context: RequestContext, request: ReadShareGroupStateRequest, now_ms: int
) -> ReadShareGroupStateResponse:
    result = ReadShareGroupStateResponse.ReadStateResult

    def read(key: StateKey, asked: Any) -> Any:
        state = cluster.share_states.read(key, asked.leader_epoch, now_ms)
        return _read_result(key.partition, state)

    return ReadShareGroupStateResponse(results=_each(cluster, request, result, read))


def _read_result(partition: int, state: StoredState) -> ReadShareGroupStateResponse.ReadStateResult.PartitionResult:
    result = ReadShareGroupStateResponse.ReadStateResult.PartitionResult
    return result(
        partition=partition,
        error_code=0,
        error_message=None,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            result.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in state.batches
        ],
    )


def handle_write(
    cluster: Cluster, context: RequestContext, request: WriteShareGroupStateRequest, now_ms: int
) -> WriteShareGroupStateResponse:
    result = WriteShareGroupStateResponse.WriteStateResult

    def write(key: StateKey, asked: Any) -> Any:
        cluster.share_states.write(
            key,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=asked.delivery_complete_count,
            batches=[
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in asked.state_batches
            ],
            now_ms=now_ms,
        )
        return result.PartitionResult(partition=key.partition, error_code=0, error_message=None)

    return WriteShareGroupStateResponse(results=_each(cluster, request, result, write))


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteShareGroupStateRequest, now_ms: int
) -> DeleteShareGroupStateResponse:
    result = DeleteShareGroupStateResponse.DeleteStateResult

    def delete(key: StateKey, asked: Any) -> Any:
        cluster.share_states.delete(key, now_ms)
        return result.PartitionResult(partition=key.partition, error_code=0, error_message=None)

    return DeleteShareGroupStateResponse(results=_each(cluster, request, result, delete))


def handle_read_summary(
    cluster: Cluster, context: RequestContext, request: ReadShareGroupStateSummaryRequest, now_ms: int
) -> ReadShareGroupStateSummaryResponse:
    result = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult

    def summarise(key: StateKey, asked: Any) -> Any:
        return _summary_result(key.partition, cluster.share_states.summary(key))

    return ReadShareGroupStateSummaryResponse(results=_each(cluster, request, result, summarise))


def _summary_result(
    partition: int, summary: StateSummary
) -> ReadShareGroupStateSummaryResponse.ReadStateSummaryResult.PartitionResult:
    return ReadShareGroupStateSummaryResponse.ReadStateSummaryResult.PartitionResult(
        partition=partition,
        error_code=0,
        error_message=None,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )


def _each(cluster: Cluster, request: Any, result: Any, answer: Callable[[StateKey, Any], Any]) -> list[Any]:
    """Ask `answer` about each partition; what it refuses becomes an error entry."""
    if not request.group_id:
        return []
    topics = []
    for topic in request.topics:
        entries = []
        for asked in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id or NO_TOPIC_ID, asked.partition)
            try:
                if not cluster.share_enabled():
                    raise Refusal(NotCoordinatorError, "share groups are switched off")
                entries.append(answer(key, asked))
            except Refusal as refusal:
                entries.append(
                    result.PartitionResult(
                        partition=key.partition, error_code=refusal.code, error_message=refusal.message
                    )
                )
        topics.append(result(topic_id=topic.topic_id, partitions=entries))
    return topics
