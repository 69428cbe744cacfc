"""The rules that a ShareFetch or ShareAcknowledge has to meet before anything is done with it.

Called by `ShareNode`. Pure functions of the request: no sessions, no partitions. Source: Kafka 4.3's request handling
(`KafkaApis`); where versions differ the rule says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.partition import AcknowledgementBatch
from kafka_share.broker.share.sessions import PartitionKey, SessionKey
from kafka_share.errors import InvalidRequestError
from kafka_share.records import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
    from kafka_share.protocol.share_fetch import ShareFetchRequest

MAX_MEMBER_ID_CHARS: Final = 36
"""Unless member ids are UUIDs."""
_KAFKA_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)
"""16 bytes in URL-safe base64."""
RENEW_SINCE_VERSION: Final = 2
"""RENEW and the acquire mode exist from this version of both requests on."""

NO_TOPIC_ID: Final = UUID(int=0)
"""The id that no topic has."""

Acknowledgements: TypeAlias = dict[PartitionKey, list[AcknowledgementBatch]]


def session_key(request: ShareFetchRequest | ShareAcknowledgeRequest, behaviour: Behaviour) -> SessionKey:
    """Whose request it is. Raises `Refusal` (INVALID_REQUEST) for a null group id or an impossible member id.

    Raises `RequestFailedError` for those that the Kafka version does not expect.
    """
    if (request.group_id is None or request.member_id is None) and not behaviour.refuses_null_ids:
        raise RequestFailedError("a share request without a group id or a member id")
    if request.group_id is None:
        raise Refusal(InvalidRequestError, "a share request needs a group id")
    if behaviour.member_ids_are_uuids:
        if not request.member_id or not _KAFKA_UUID.fullmatch(request.member_id):
            raise RequestFailedError("a member id that is no UUID")
    elif not request.member_id or len(request.member_id) > MAX_MEMBER_ID_CHARS:
        raise Refusal(InvalidRequestError, f"a member id has 1 to {MAX_MEMBER_ID_CHARS} characters")
    return SessionKey(request.group_id, request.member_id)


def is_renewal(request: ShareFetchRequest | ShareAcknowledgeRequest, api_version: int) -> bool:
    return api_version >= RENEW_SINCE_VERSION and request.is_renew_ack


def require_no_limits(request: ShareFetchRequest) -> None:
    """A ShareFetch that renews locks fetches nothing, and has to say so. Raises `Refusal` (INVALID_REQUEST)."""
    if request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records:
        raise Refusal(InvalidRequestError, "a ShareFetch that renews locks has no wait time, bytes or records")


def named_partitions(request: ShareFetchRequest) -> list[PartitionKey]:
    """The partitions that the request names, in order; may hold one twice."""
    return [_key(topic.topic_id, entry.partition_index) for topic in request.topics for entry in topic.partitions]


def forgotten_partitions(request: ShareFetchRequest) -> list[PartitionKey]:
    return [_key(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]


def acknowledgements(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Acknowledgements:
    """What the request says about each partition; partitions without batches are there with an empty list."""
    return {
        _key(topic.topic_id, entry.partition_index): [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
            for batch in entry.acknowledgement_batches
        ]
        for topic in request.topics
        for entry in topic.partitions
    }


def require_well_formed(batches: Sequence[AcknowledgementBatch], *, api_version: int, renewal: bool) -> None:
    """Raises `Refusal` (INVALID_REQUEST, for this partition) unless ranges ascend and types fit them.

    Two ranges that share just their border pass here and fail at the records.
    """
    highest = AcknowledgeType.RENEW if api_version >= RENEW_SINCE_VERSION else AcknowledgeType.REJECT
    previous_last = -1
    for first, last, types in batches:
        if first > last or first < previous_last:
            raise Refusal(InvalidRequestError, "acknowledgement ranges have to ascend")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise Refusal(InvalidRequestError, "an acknowledgement range needs one type, or one for each offset")
        if any(not 0 <= kind <= highest for kind in types):
            raise Refusal(InvalidRequestError, "unknown acknowledgement type")
        if not renewal and AcknowledgeType.RENEW in types:
            raise Refusal(InvalidRequestError, "RENEW in a request that is not marked as a renewal")
        previous_last = last


def _key(topic_id: UUID | None, partition: int) -> PartitionKey:
    return PartitionKey(topic_id or NO_TOPIC_ID, partition)
