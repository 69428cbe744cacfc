"""The keys and values of the records by which coordinators keep their state, as bytes.

Called by the reference broker. A key begins with the type of the record, a value with its version (both int16); the
bodies are messages as those of requests. A record without a value is a tombstone. Source: Kafka's
`CoordinatorRecordSerde`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.api_message import RecordMessage, VersionedMessage
from kafka_share.protocol.decoder import decoder_of, new_budget
from kafka_share.protocol.encoder import encoder_of

RecordTypes: TypeAlias = "Mapping[int, tuple[type[RecordMessage], type[RecordMessage]]]"
"""The classes of the keys and values that a topic holds, by the type of the record."""

_PREFIX: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


def encode_key(key: RecordMessage) -> bytes:
    """The key of a record. Raises `LocalProtocolError` or what Python raises for values of a wrong type."""
    return _encode(key, key.API_KEY, _KEY_VERSION)


def encode_value(value: RecordMessage, version: int) -> bytes:
    """The value of a record. Raises `LocalProtocolError` or what Python raises for values of a wrong type."""
    return _encode(value, version, version)


def decode_key(key: bytes, types: RecordTypes) -> RecordMessage:
    """The key of a record. Raises `RemoteProtocolError`, also for a type that is not among `types`."""
    kind = _prefix(key)
    if kind not in types:
        raise RemoteProtocolError(f"no record of type {kind} is known here")
    return _decode(types[kind][0], _KEY_VERSION, key)


def decode_value(kind: int, value: bytes, types: RecordTypes) -> RecordMessage:
    """The value of a record of this type. Raises `RemoteProtocolError`, also for a version that is not known."""
    return _decode(types[kind][1], _prefix(value), value)


def _encode(message: RecordMessage, prefix: int, version: int) -> bytes:
    parts = [_PREFIX.pack(prefix)]
    encoder_of(type(message), version)(message, parts.append)
    return b"".join(parts)


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise RemoteProtocolError(f"{len(data)} bytes are too few for a record of a coordinator")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix


def _decode(message_class: type[RecordMessage], version: int, data: bytes) -> RecordMessage:
    name = message_class.__name__
    lowest, highest = message_class.valid_versions
    if not lowest <= version <= highest:
        raise RemoteProtocolError(f"{name} has no version {version}")
    message: VersionedMessage
    try:
        message, position = decoder_of(message_class, version)(data, _PREFIX.size, new_budget())
    except (IndexError, struct.error):
        raise RemoteProtocolError(f"{name} v{version} ends too early: {len(data)} bytes") from None
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{name} v{version} has a string that is not UTF-8: {error}") from None
    if position != len(data):
        raise RemoteProtocolError(f"{len(data) - position} bytes follow {name} v{version}")
    assert isinstance(message, message_class)
    return message
