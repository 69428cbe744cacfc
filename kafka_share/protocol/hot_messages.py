"""ShareFetch and ShareAcknowledge, which travel with every batch of records, encoded and decoded by hand.

Asked by `messages`, before the codec that is made from the schemas. Here is only what nearly all of these messages look
like: no texts of errors, no tagged fields, lists of less than 127 elements. For everything else the functions return
None, and the general codec does the work and raises the errors. What they do return is the same to the last byte and
field; it costs a third.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.protocol.uuids import uuid_of
from kafka_share.protocol.varint import read_unsigned

ShortEncoder: TypeAlias = "Callable[[Any, int, str | None], bytes | None]"
"""Takes the request, its correlation id and the client id; returns the whole frame."""
ShortDecoder: TypeAlias = "Callable[[bytes | memoryview], tuple[int, ApiMessage] | None]"
"""Takes a frame without its length; returns the correlation id and the response."""

_MOST: Final = 126
"""The length of the longest list, and of the longest text, whose length takes one byte."""
_MOST_PARTITIONS: Final = 1_000
"""Topics and partitions of an answer together: those with the longest lists of ranges take 20 MB."""
_REMEMBERED: Final = 1_000
"""Group and member ids."""
_TOPIC_ID_BYTES: Final = 16
_NO_NODES_AND_TAGS: Final = b"\x01\0"

_REFUSED: Final = (struct.error, AttributeError, TypeError, ValueError)
"""What values of a wrong kind or range raise; the general codec says what is wrong with them."""
_UNUSUAL: Final = (struct.error, IndexError, ValueError, RemoteProtocolError)
"""What bytes raise that are not of the common kind; the general codec reads them, or says what is wrong with them."""

_FETCH_1: Final = struct.Struct(">iiiiii").pack
_FETCH_2: Final = struct.Struct(">iiiiiib?").pack
_ONE_TYPE: Final = struct.Struct(">qqbbb").pack
_NUMBER: Final = struct.Struct(">i").pack
_FRAME: Final = struct.Struct(">ihhi").pack
_FRAME_HEAD_BYTES: Final = 8
"""Key, version and correlation id."""

_FETCH_ANSWER: Final = struct.Struct(">ibihbi").unpack_from
"""Correlation id, tagged fields of the header, throttle time, error, its text, lock time."""
_FETCH_ANSWER_BYTES: Final = 16
_ACKNOWLEDGE_ANSWER: Final = struct.Struct(">ibihb").unpack_from
"""Correlation id, tagged fields of the header, throttle time, error, its text."""
_ACKNOWLEDGE_ANSWER_BYTES: Final = 12
_READ_NUMBER: Final = struct.Struct(">i").unpack_from
_FETCHED: Final = struct.Struct(">ihbhbiib").unpack_from
"""Partition, error, its text, error of the acknowledgements, its text, leader, its epoch, tagged fields of those."""
_FETCHED_BYTES: Final = 19
_ACQUIRED: Final = struct.Struct(">qqhb").unpack_from
_ACQUIRED_BYTES: Final = 19
_ACKNOWLEDGED: Final = struct.Struct(">ihbiibb").unpack_from
"""Partition, error, its text, leader, its epoch, tagged fields of those, and of the partition."""
_ACKNOWLEDGED_BYTES: Final = 17

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Data = _Topic.PartitionData
_AcknowledgedTopic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_AcknowledgedData = _AcknowledgedTopic.PartitionData
_new: Final = object.__new__


# ---- requests


@functools.lru_cache(_REMEMBERED)
def _text(value: str) -> bytes:
    """A text with its length before it."""
    content = value.encode()
    if len(content) > _MOST:
        raise ValueError
    return bytes((len(content) + 1,)) + content


@functools.lru_cache(_REMEMBERED)
def _client(client_id: str) -> bytes:
    """The end of a request's header."""
    content = client_id.encode()
    return struct.pack(">h", len(content)) + content + b"\0"


def _count(elements: Any) -> bytes:
    if len(elements) > _MOST:
        raise ValueError
    return bytes((len(elements) + 1,))


def _add_acknowledgements(topics: Any, parts: list[bytes]) -> None:
    """The topics of a request, with their partitions and acknowledgements. Raises `_REFUSED`."""
    parts.append(_count(topics))
    for topic in topics:
        if topic.unknown_tags:
            raise ValueError
        parts += topic.topic_id.bytes, _count(topic.partitions)
        for partition in topic.partitions:
            if partition.unknown_tags:
                raise ValueError
            batches = partition.acknowledgement_batches
            parts += _NUMBER(partition.partition_index), _count(batches)
            for batch in batches:
                types = batch.acknowledge_types
                if batch.unknown_tags:
                    raise ValueError
                if len(types) == 1:
                    parts.append(_ONE_TYPE(batch.first_offset, batch.last_offset, 2, types[0], 0))
                else:
                    layout = f">qqc{len(types)}bb"
                    parts.append(struct.pack(layout, batch.first_offset, batch.last_offset, _count(types), *types, 0))
            parts.append(b"\0")
        parts.append(b"\0")


def _frame(request: ApiMessage, version: int, correlation_id: int, parts: list[bytes]) -> bytes:
    """The frame of a request, whose body and end of the header are `parts`."""
    body = b"".join(parts)
    return _FRAME(len(body) + _FRAME_HEAD_BYTES, request.API_KEY, version, correlation_id) + body


def _encode_fetch(version: int, request: Any, correlation_id: int, client_id: str | None) -> bytes | None:
    try:
        if request.unknown_tags or client_id is None or (version == 1 and request.is_renew_ack):
            return None
        if request.forgotten_topics_data != []:
            return None
        parts = [_client(client_id), _text(request.group_id), _text(request.member_id)]
        numbers = (
            request.share_session_epoch, request.max_wait_ms, request.min_bytes, request.max_bytes,
            request.max_records, request.batch_size,
        )  # fmt: skip
        if version == 1:
            parts.append(_FETCH_1(*numbers))
        else:
            parts.append(_FETCH_2(*numbers, request.share_acquire_mode, request.is_renew_ack))
        _add_acknowledgements(request.topics, parts)
        parts.append(b"\x01\0")
        return _frame(request, version, correlation_id, parts)
    except _REFUSED:
        return None


def _encode_acknowledge(version: int, request: Any, correlation_id: int, client_id: str | None) -> bytes | None:
    try:
        if request.unknown_tags or client_id is None or (version == 1 and request.is_renew_ack):
            return None
        parts = [
            _client(client_id),
            _text(request.group_id),
            _text(request.member_id),
            _NUMBER(request.share_session_epoch),
        ]
        if version >= 2:
            parts.append(b"\x01" if request.is_renew_ack else b"\0")
        _add_acknowledgements(request.topics, parts)
        parts.append(b"\0")
        return _frame(request, version, correlation_id, parts)
    except _REFUSED:
        return None


SHORT_ENCODERS: Final[Mapping[tuple[type, int], ShortEncoder]] = MappingProxyType(
    {
        (message, version): functools.partial(encode, version)
        for message, encode in ((ShareFetchRequest, _encode_fetch), (ShareAcknowledgeRequest, _encode_acknowledge))
        for version in (1, 2)
    }
)


# ---- answers


def _read_topic_id(frame: bytes | memoryview, position: int) -> UUID | None:
    content = bytes(frame[position : position + _TOPIC_ID_BYTES])
    if len(content) < _TOPIC_ID_BYTES:
        raise ValueError
    return uuid_of(content)


def _read_length(frame: bytes | memoryview, position: int) -> tuple[int, int]:
    """A length, -1 for null, and the position behind it. Raises `_UNUSUAL`."""
    size = frame[position]
    if size < 0x80:
        return size - 1, position + 1
    value, position = read_unsigned(frame, position)
    return value - 1, position


def _decode_topics(
    frame: bytes | memoryview, position: int, topic_class: Any, decode: Callable[[bytes | memoryview, int, Any], int]
) -> list[Any]:
    """The topics, from their number on; nothing follows them. `decode` adds a partition. Raises `_UNUSUAL`."""
    topics: list[Any] = []
    left = _MOST_PARTITIONS
    count, position = _read_length(frame, position)
    for _ in range(count):
        topic = _new(topic_class)
        topic.unknown_tags = None
        topic.topic_id = _read_topic_id(frame, position)
        here, position = _read_length(frame, position + _TOPIC_ID_BYTES)
        left -= here + 1
        if here < 0 or left < 0:
            raise ValueError
        topic.partitions = []
        for _ in range(here):
            position = decode(frame, position, topic.partitions)
        if frame[position]:
            raise ValueError
        position += 1
        topics.append(topic)
    if count < 0 or frame[position:] != _NO_NODES_AND_TAGS:
        raise ValueError
    return topics


def _decode_fetch(frame: bytes | memoryview) -> tuple[int, ApiMessage] | None:
    try:
        correlation_id, tags, throttle_ms, error, text, lock_ms = _FETCH_ANSWER(frame)
        if tags or text:
            return None
        topics = _decode_topics(frame, _FETCH_ANSWER_BYTES, _Topic, _decode_fetched)
    except _UNUSUAL:
        return None
    return correlation_id, _answer(ShareFetchResponse, throttle_ms, error, lock_ms, topics)


def _decode_fetched(frame: bytes | memoryview, position: int, partitions: list[_Data]) -> int:
    """Adds one partition; returns where the next one begins. Raises `_UNUSUAL`."""
    data = _new(_Data)
    leader = data.current_leader = _new(_Data.LeaderIdAndEpoch)
    (
        data.partition_index, data.error_code, text, data.acknowledge_error_code, acknowledge_text,
        leader.leader_id, leader.leader_epoch, leader_tags,
    ) = _FETCHED(frame, position)  # fmt: skip
    data.unknown_tags = leader.unknown_tags = data.error_message = data.acknowledge_error_message = None
    size, position = _read_length(frame, position + _FETCHED_BYTES)
    stop = position + size
    ranges = frame[stop] - 1
    if text or acknowledge_text or leader_tags or size < 0 or not 0 <= ranges <= _MOST:
        raise ValueError
    data.records = memoryview(frame)[position:stop].toreadonly()
    acquired = data.acquired_records = []
    position = stop + 1
    for _ in range(ranges):
        one = _new(_Data.AcquiredRecords)
        one.unknown_tags = None
        one.first_offset, one.last_offset, one.delivery_count, tags = _ACQUIRED(frame, position)
        if tags:
            raise ValueError
        acquired.append(one)
        position += _ACQUIRED_BYTES
    if frame[position]:
        raise ValueError
    partitions.append(data)
    return position + 1


def _decode_acknowledge(version: int, frame: bytes | memoryview) -> tuple[int, ApiMessage] | None:
    try:
        correlation_id, tags, throttle_ms, error, text = _ACKNOWLEDGE_ANSWER(frame)
        if tags or text:
            return None
        position, lock_ms = _ACKNOWLEDGE_ANSWER_BYTES, 0
        if version >= 2:
            (lock_ms,) = _READ_NUMBER(frame, position)
            position += 4
        topics = _decode_topics(frame, position, _AcknowledgedTopic, _decode_acknowledged)
    except _UNUSUAL:
        return None
    return correlation_id, _answer(ShareAcknowledgeResponse, throttle_ms, error, lock_ms, topics)


def _decode_acknowledged(frame: bytes | memoryview, position: int, partitions: list[_AcknowledgedData]) -> int:
    """The same for a ShareAcknowledge."""
    data = _new(_AcknowledgedData)
    leader = data.current_leader = _new(_AcknowledgedData.LeaderIdAndEpoch)
    data.unknown_tags = leader.unknown_tags = data.error_message = None
    (
        data.partition_index, data.error_code, text, leader.leader_id, leader.leader_epoch, leader_tags, tags,
    ) = _ACKNOWLEDGED(frame, position)  # fmt: skip
    if text or leader_tags or tags:
        raise ValueError
    partitions.append(data)
    return position + _ACKNOWLEDGED_BYTES


def _answer(kind: Any, throttle_ms: int, error_code: int, lock_ms: int, topics: list[Any]) -> ApiMessage:
    response: Any = _new(kind)
    response.unknown_tags = response.error_message = None
    response.throttle_time_ms = throttle_ms
    response.error_code = error_code
    response.acquisition_lock_timeout_ms = lock_ms
    response.responses = topics
    response.node_endpoints = []
    answer: ApiMessage = response
    return answer


SHORT_DECODERS: Final[Mapping[tuple[int, int], ShortDecoder]] = MappingProxyType(
    {
        **{(ShareFetchRequest.API_KEY, version): _decode_fetch for version in (1, 2)},
        **{
            (ShareAcknowledgeRequest.API_KEY, version): functools.partial(_decode_acknowledge, version)
            for version in (1, 2)
        },
    }
)
"""By API key and version."""
