"""FindCoordinator (10): which node coordinates a group, a transaction or a group's share state.

- Key type 0 (group): any key, the empty one too. 1 (transaction): as a group. 2 (share): version 6 and later, key
  `group:topicId:partition` with the id in URL-safe base64; read from the right, since a group id may contain colons
  (Kafka 4.1 refuses those).
  The topic need not exist. Anything else is INVALID_REQUEST.
- Without the feature share.version, key type 2 is COORDINATOR_NOT_AVAILABLE.
- Versions 0 to 3 carry a single key.

Versions: FindCoordinator (10) 0 to 6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import CoordinatorNotAvailableError, InvalidRequestError
from kafka_share.protocol.cluster import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.records import Node

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_SHARE_SINCE_VERSION: Final = 6
_BATCHED_SINCE_VERSION: Final = 4
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[-+]?\d{1,10}", re.DOTALL | re.ASCII)

_Coordinator = FindCoordinatorResponse.Coordinator


def handle(
    cluster: Cluster, context: RequestContext, request: FindCoordinatorRequest, now_ms: int
) -> FindCoordinatorResponse:
    if context.api_version >= _BATCHED_SINCE_VERSION:
        answers = [_find(cluster, context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=answers)
    one = _find(cluster, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(cluster: Cluster, context: RequestContext, key_type: int, key: str) -> _Coordinator:
    try:
        node = _node(cluster, context, key_type, key)
    except Refusal as refusal:
        return _Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=refusal.code, error_message=refusal.message
        )
    return _Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_code=0, error_message="")


def _node(cluster: Cluster, context: RequestContext, key_type: int, key: str) -> Node:
    if key_type == SHARE:
        if context.api_version < _SHARE_SINCE_VERSION:
            raise Refusal(InvalidRequestError, f"key type {SHARE} came with version {_SHARE_SINCE_VERSION}")
        if not cluster.share_enabled():
            raise Refusal(CoordinatorNotAvailableError, "share groups are switched off")
        group_id = key.rsplit(":", 2)[0]
        has_colons = ":" in group_id and not cluster.behaviour.share_keys_may_hold_colons
        if has_colons or not _SHARE_KEY.fullmatch(key):
            raise Refusal(InvalidRequestError, f"{key!r} does not have the form group:topicId:partition")
    elif key_type not in (GROUP, TRANSACTION):
        raise Refusal(InvalidRequestError, f"there is no key type {key_type}")
    return cluster.coordinator_of(key)
