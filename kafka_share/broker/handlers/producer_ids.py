"""InitProducerId (22): an id for an idempotent producer.

- Every request gets a new id with epoch 0; a producer that names its present id and epoch gets the same id with the
  next epoch (KIP-360).
- A transactional id is refused: this broker has no transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.protocol.classic import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_MAX_EPOCH: Final = 2**15 - 2


def handle(
    cluster: Cluster, context: RequestContext, request: InitProducerIdRequest, now_ms: int
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        # No client retries this code, and it is the one that says "not you, not here" about transactions.
        return InitProducerIdResponse(
            error_code=_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
        )
    if request.producer_id >= 0 and 0 <= request.producer_epoch < _MAX_EPOCH:
        return InitProducerIdResponse(
            error_code=0, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
        )
    return InitProducerIdResponse(error_code=0, producer_id=cluster.next_producer_id(), producer_epoch=0)
