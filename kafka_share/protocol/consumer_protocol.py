"""What consumers send each other through a classic group: subscriptions and assignments (Kafka's ConsumerProtocol).

Called by the reference broker where it has to understand them: migration of groups (KIP-848), deletion of offsets. The
bytes begin with a version (int16). As in Kafka a version that is newer than those here is read as the newest, and what
follows is ignored.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.api_message import MessageStruct, VersionedMessage, field
from kafka_share.protocol.decoder import decoder_of, new_budget
from kafka_share.protocol.encoder import encoder_of

_VERSION: Final = struct.Struct(">h")


class ConsumerProtocolSubscription(VersionedMessage, versions="0-3"):
    """What a member says for an assignor when it joins."""

    class TopicPartition(MessageStruct):
        topic: str = field("string", default="")
        partitions: list[int] = field("[]int32", factory=list)

    topics: list[str] = field("[]string", factory=list)
    user_data: bytes | None = field("bytes", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = field("[]TopicPartition", "1+", factory=list, ignorable=True)
    generation_id: int = field("int32", "2+", default=-1, ignorable=True)
    rack_id: str | None = field("string", "3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignment(VersionedMessage, versions="0-3"):
    """What the leader assigns to a member."""

    class TopicPartition(MessageStruct):
        topic: str = field("string", default="")
        partitions: list[int] = field("[]int32", factory=list)

    assigned_partitions: list[TopicPartition] = field("[]TopicPartition", factory=list)
    user_data: bytes | None = field("bytes", default=None, nullable="0+")


MessageT = TypeVar("MessageT", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def decode(kind: type[MessageT], data: bytes, *, version: int | None = None) -> MessageT:
    """The subscription or assignment in these bytes, or what `version` has of it: each begins as those before it.

    Raises `RemoteProtocolError`.
    """
    found = version_in(data)
    try:
        message, _ = decoder_of(kind, found if version is None else version)(data, _VERSION.size, new_budget())
    except (IndexError, struct.error):
        raise RemoteProtocolError(f"{kind.__name__} ends too early: {len(data)} bytes") from None
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{kind.__name__} has a string that is not UTF-8: {error}") from None
    assert isinstance(message, kind)
    return message


def encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """The bytes of a subscription or assignment in this version."""
    parts = [_VERSION.pack(version)]
    encoder_of(type(message), version)(message, parts.append)
    return b"".join(parts)


def version_in(data: bytes) -> int:
    """The version of these bytes, or the newest that is known here. Raises `RemoteProtocolError`."""
    if len(data) < _VERSION.size:
        raise RemoteProtocolError(f"{len(data)} bytes are too few for a subscription or an assignment")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise RemoteProtocolError(f"{version} is no version of a subscription or an assignment")
    return min(version, ConsumerProtocolSubscription.valid_versions[1])
