"""AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26) and TxnOffsetCommit (28).

- The transactional id has to be the producer's own: INVALID_PRODUCER_ID_MAPPING for another id, PRODUCER_FENCED for an
  old epoch (INVALID_PRODUCER_EPOCH for the versions that do not know that code). Another node's is NOT_COORDINATOR.
- Partitions are added all or none: beside one that does not exist the others are OPERATION_NOT_ATTEMPTED. From version
  4 on a request may carry several transactions, or only ask whether partitions have been added.
- Ending writes the markers at once, so there is never anything to wait for (CONCURRENT_TRANSACTIONS). The same end sent
  again is answered as the first time.
- Offsets count for readers once the transaction is committed. From EndTxn and TxnOffsetCommit 5 on the rules of
  KIP-890 hold: a group is added by its offsets, and every end raises the producer's epoch.

Versions: AddPartitionsToTxn (24) 0 to 5, AddOffsetsToTxn (25) 0 to 4, EndTxn (26) 0 to 5, TxnOffsetCommit (28) 0 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.broker.classic.committed_offsets import CommittedOffset, Key
from kafka_share.broker.handlers.committed_offsets import require_may_commit
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.errors import (
    InvalidGroupIdError,
    InvalidProducerEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.classic.transactions import Transaction
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition, Topic

_FENCED_SINCE_VERSION: Final = 2
_BATCHED_SINCE_VERSION: Final = 4
_SECOND_PROTOCOL_VERSION: Final = 5
_COMMITS_BY_ID_SINCE_VERSION: Final = 6

_TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Codes: TypeAlias = dict[tuple[str, int], int]
"""Error code of each topic's name and partition."""
_CommitTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic


def _code(context: RequestContext, refusal: Refusal) -> int:
    if refusal.code == ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_SINCE_VERSION:
        return InvalidProducerEpochError.code
    return refusal.code


def _owned(cluster: Cluster, context: RequestContext, transactional_id: str, producer: tuple[int, int]) -> Transaction:
    cluster.require_coordinator(context, transactional_id)
    return cluster.transactions.owned(transactional_id, producer)


# ---- AddPartitionsToTxn


def handle_add_partitions(
    cluster: Cluster, context: RequestContext, request: AddPartitionsToTxnRequest, now_ms: int
) -> AddPartitionsToTxnResponse:
    if context.api_version < _BATCHED_SINCE_VERSION:
        producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        name, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
        codes = _add(cluster, context, name, producer, topics, now_ms, verify_only=False)
        kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(kind, topics, codes))
    results = []
    for one in request.transactions:
        producer = (one.producer_id, one.producer_epoch)
        codes = _add(cluster, context, one.transactional_id, producer, one.topics, now_ms, verify_only=one.verify_only)
        topic_results = _results(_TransactionResult.AddPartitionsToTxnTopicResult, one.topics, codes)
        results.append(_TransactionResult(transactional_id=one.transactional_id, topic_results=topic_results))
    return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=results)


def _add(
    cluster: Cluster,
    context: RequestContext,
    transactional_id: str,
    producer: tuple[int, int],
    topics: Sequence[Any],
    now_ms: int,
    *,
    verify_only: bool,
) -> _Codes:
    asked = [
        (topic.name, index, _partition(cluster, topic.name, index)) for topic in topics for index in topic.partitions
    ]
    found = [(name, index, partition) for name, index, partition in asked if partition is not None]
    if len(found) < len(asked):
        missing, others = UnknownTopicOrPartitionError.code, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {(name, index): missing if partition is None else others for name, index, partition in asked}
    try:
        transaction = _owned(cluster, context, transactional_id, producer)
    except Refusal as refusal:
        return {(name, index): _code(context, refusal) for name, index, _ in asked}
    codes: _Codes = {}
    for name, index, partition in found:
        code = 0
        if not verify_only:
            cluster.transactions.add_partition(transaction, partition, now_ms)
        elif (partition.topic_id, index) not in transaction.partitions:
            code = ErrorCode.INVALID_TXN_STATE
        codes[name, index] = code
    return codes


def _partition(cluster: Cluster, name: str, index: int) -> Partition | None:
    topic = cluster.topics.by_name(name)
    return None if topic is None else topic.partition(index)


def _results(kind: type[Any], topics: Sequence[Any], codes: _Codes) -> list[Any]:
    """The schema has the same struct twice, once within a transaction and once without: `kind` is the one to make."""
    return [
        kind(
            name=topic.name,
            results_by_partition=[
                kind.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


# ---- AddOffsetsToTxn, EndTxn


def handle_add_offsets(
    cluster: Cluster, context: RequestContext, request: AddOffsetsToTxnRequest, now_ms: int
) -> AddOffsetsToTxnResponse:
    try:
        producer = (request.producer_id, request.producer_epoch)
        transaction = _owned(cluster, context, request.transactional_id, producer)
        if not request.group_id:
            raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
        cluster.transactions.add_group(transaction, request.group_id, now_ms)
    except Refusal as refusal:
        return AddOffsetsToTxnResponse(error_code=_code(context, refusal))
    return AddOffsetsToTxnResponse(error_code=0)


def handle_end(cluster: Cluster, context: RequestContext, request: EndTxnRequest, now_ms: int) -> EndTxnResponse:
    second = context.api_version >= _SECOND_PROTOCOL_VERSION
    try:
        cluster.require_coordinator(context, request.transactional_id)
        producer_id, epoch = cluster.transactions.end(
            request.transactional_id,
            (request.producer_id, request.producer_epoch),
            committed=request.committed,
            raise_epoch=second,
            now_ms=now_ms,
        )
    except Refusal as refusal:
        return EndTxnResponse(error_code=_code(context, refusal))
    return EndTxnResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch) if second else EndTxnResponse()


# ---- TxnOffsetCommit


def handle_commit_offsets(
    cluster: Cluster, context: RequestContext, request: TxnOffsetCommitRequest, now_ms: int
) -> TxnOffsetCommitResponse:
    code = 0
    try:
        _prepare_commit(cluster, context, request, now_ms)
    except Refusal as refusal:
        code = _code(context, refusal)
    offsets: dict[Key, CommittedOffset] = {}
    codes = {
        (number, one.partition_index): code or _check_offset(cluster, context, topic, one, offsets)
        for number, topic in enumerate(request.topics)
        for one in topic.partitions
    }
    try:
        producer = (request.producer_id, request.producer_epoch)
        cluster.offsets.commit_pending(request.group_id, producer, offsets, now_ms)
    except Refusal as refusal:
        codes = {key: known or refusal.code for key, known in codes.items()}
    return TxnOffsetCommitResponse(
        topics=[
            _CommitTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _CommitTopic.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=codes[number, one.partition_index]
                    )
                    for one in topic.partitions
                ],
            )
            for number, topic in enumerate(request.topics)
        ]
    )


def _prepare_commit(cluster: Cluster, context: RequestContext, request: TxnOffsetCommitRequest, now_ms: int) -> None:
    """Raises `Refusal` unless the member and the producer may commit within the open transaction."""
    cluster.require_coordinator(context, request.group_id)
    if not request.group_id:
        raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
    transaction = cluster.transactions.owned(request.transactional_id, (request.producer_id, request.producer_epoch))
    if context.api_version < _SECOND_PROTOCOL_VERSION and request.group_id not in transaction.groups:
        raise Refusal(ErrorCode.INVALID_TXN_STATE, "the group was not added to the transaction")
    named = [
        found.partition(one.partition_index)
        for topic in request.topics
        for one in topic.partitions
        if (found := _topic_of(cluster, context, topic)) is not None
    ]
    require_may_commit(
        cluster,
        request.group_id,
        (request.member_id or "", request.group_instance_id),
        request.generation_id_or_member_epoch,
        [(partition.topic_id, partition.partition) for partition in named if partition is not None],
        now_ms,
        api_version=None,
        missing=ErrorCode.ILLEGAL_GENERATION,
    )
    cluster.transactions.add_group(transaction, request.group_id, now_ms)


def _topic_of(cluster: Cluster, context: RequestContext, topic: Any) -> Topic | None:
    if context.api_version < _COMMITS_BY_ID_SINCE_VERSION:
        return cluster.topics.by_name(topic.name)
    return cluster.topics.by_id(topic.topic_id or NO_TOPIC_ID)


def _check_offset(
    cluster: Cluster, context: RequestContext, topic: Any, one: Any, offsets: dict[Key, CommittedOffset]
) -> int:
    """An error code, or 0: then the offset is among `offsets`."""
    found = _topic_of(cluster, context, topic)
    if found is None and context.api_version >= _COMMITS_BY_ID_SINCE_VERSION:
        return UnknownTopicIdError.code
    partition = None if found is None else found.partition(one.partition_index)
    if partition is None:
        return UnknownTopicOrPartitionError.code
    offset = CommittedOffset(one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "")
    try:
        cluster.classic_groups.require_metadata_fits(offset)
    except Refusal as refusal:
        return refusal.code
    offsets[partition.topic_id, partition.partition] = offset
    return 0
