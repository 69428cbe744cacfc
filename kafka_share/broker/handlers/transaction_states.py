"""DescribeTransactions (65) and ListTransactions (66): the transactional ids that this node coordinates.

- The states are Empty, Ongoing, CompleteCommit and CompleteAbort: markers are written at once, so none is on its way.
- An unknown id is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST, another node's NOT_COORDINATOR.
- Filters of ListTransactions: by state (in Kafka's spelling; others are named in the answer and match nothing), by
  producer, by how long ago the transaction was opened, and by a regular expression for whole ids (KIP-1152). One that
  is none is INVALID_REGULAR_EXPRESSION, and so is any without google-re2 (the extra `broker-patterns`).

Versions: DescribeTransactions (65) 0, ListTransactions (66) 0 to 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.name_pattern import NamePattern, PatternError
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import InvalidRequestError
from kafka_share.protocol.producers import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.classic.transactions import Transaction
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_STATES: Final = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)
"""The names that a filter may have."""

_Described = DescribeTransactionsResponse.TransactionState


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeTransactionsRequest, now_ms: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(cluster, context, one) for one in request.transactional_ids]
    )


def _describe(cluster: Cluster, context: RequestContext, transactional_id: str) -> _Described:
    try:
        found = _find(cluster, context, transactional_id)
    except Refusal as refusal:
        return _Described(error_code=refusal.code, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for partition in found.partitions.values():
        topics.setdefault(partition.topic, []).append(partition.partition)
    return _Described(
        error_code=0,
        transactional_id=found.id,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_at_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[_Described.TopicData(topic=name, partitions=sorted(indexes)) for name, indexes in topics.items()],
    )


def _find(cluster: Cluster, context: RequestContext, transactional_id: str) -> Transaction:
    if not transactional_id:
        raise Refusal(InvalidRequestError, "a transactional id cannot be empty")
    cluster.require_coordinator(context, transactional_id)
    found = cluster.transactions.find(transactional_id)
    if found is None:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
    return found


def handle_list(
    cluster: Cluster, context: RequestContext, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    try:
        pattern = NamePattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternError:
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, unknown_state_filters=[], transaction_states=[]
        )
    unknown = [state for state in request.state_filters if state not in _STATES]
    found = [
        one
        for one in cluster.transactions.all()
        if cluster.coordinator_of(one.id).id == context.node_id
        and (not request.state_filters or one.state.value in request.state_filters)
        and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
        and (pattern is None or pattern.matches(one.id))
        and (request.duration_filter < 0 or now_ms - one.started_at_ms > request.duration_filter)
    ]
    return ListTransactionsResponse(
        error_code=0,
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=one.id, producer_id=one.producer_id, transaction_state=one.state.value
            )
            for one in found
        ],
    )
