"""InitProducerId (22): an id and an epoch for an idempotent or a transactional producer.

- Without a transactional id every request gets a new id with epoch 0; a producer that names its present id and epoch
  gets the same id with the next epoch (KIP-360).
- With one the id stays, and the epoch grows: who had the transactional id before is fenced, and its open transaction
  aborted. A producer that names an id and epoch that are not the present ones is itself fenced (PRODUCER_FENCED,
  INVALID_PRODUCER_EPOCH before version 4).

Versions: InitProducerId (22) 0 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.classic.transactions import MAX_PRODUCER_EPOCH
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import InvalidProducerEpochError
from kafka_share.protocol.transactions import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_FENCED_SINCE_VERSION: Final = 4


def handle(
    cluster: Cluster, context: RequestContext, request: InitProducerIdRequest, now_ms: int
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return _transactional(cluster, context, request, now_ms)
    if request.producer_id >= 0 and 0 <= request.producer_epoch < MAX_PRODUCER_EPOCH:
        return InitProducerIdResponse(
            error_code=0, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
        )
    return InitProducerIdResponse(error_code=0, producer_id=cluster.next_producer_id(), producer_epoch=0)


def _transactional(
    cluster: Cluster, context: RequestContext, request: InitProducerIdRequest, now_ms: int
) -> InitProducerIdResponse:
    assert request.transactional_id is not None
    try:
        cluster.require_coordinator(context, request.transactional_id)
        producer_id, epoch = cluster.transactions.initialise(
            request.transactional_id,
            request.transaction_timeout_ms,
            (request.producer_id, request.producer_epoch),
            now_ms,
        )
    except Refusal as refusal:
        code = refusal.code
        if code == ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_SINCE_VERSION:
            code = InvalidProducerEpochError.code
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)
