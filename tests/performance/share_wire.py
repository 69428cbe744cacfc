"""The two messages that every batch of records goes through, read and written by hand.

Used by the stub broker, which has to cost less than any client: the general codec of `kafka_share.protocol` takes
several times as long. Both messages are of version 1 or 2, and speak of one topic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import attrs
from performance.replayed_group import Acknowledgement, Acquired

from kafka_share.protocol.varint import read_unsigned, unsigned

_LOCK_TIMEOUT_MS: Final = 30_000
_HEADER: Final = struct.Struct(">hhih")
_LIMITS: Final = struct.Struct(">iiiii")
_PARTITION: Final = struct.Struct(">i")
_RANGE: Final = struct.Struct(">qq")
_RECORD_FREE: Final = b"\x01\x01"
"""Records that are empty, not null (librdkafka refuses those), and no acquired range."""
_END_OF_STRUCT: Final = b"\x00"


@attrs.define
class ShareRequest:
    """A ShareFetch or a ShareAcknowledge. The limits of the latter are zero."""

    group_id: str
    member_id: str
    epoch: int
    max_wait_ms: int
    max_bytes: int
    max_records: int
    named: list[int]
    """The partitions that it mentions."""
    acknowledgements: list[Acknowledgement]
    forgotten: list[int]


class _Reader:
    def __init__(self, frame: memoryview, position: int) -> None:
        self.frame = frame
        self.position = position

    def number(self) -> int:
        byte = self.frame[self.position]
        if byte < 0x80:
            self.position += 1
            return byte
        value, self.position = read_unsigned(self.frame, self.position)
        return value

    def text(self) -> str:
        length = self.number() - 1
        begin = self.position
        self.position = begin + length
        return str(self.frame[begin : begin + length], "utf-8")

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self.frame, self.position)
        self.position += layout.size
        return found

    def end_struct(self) -> None:
        for _ in range(self.number()):
            self.number()
            self.position += self.number()


_USUAL: Final = struct.Struct(">iiiiiibbB16sBiBqqBbBBBBB")
"""From the epoch of a ShareFetch 2 on, if it acknowledges one range of one partition with one type."""
_USUAL_COUNTS: Final = (2, 2, 2, 2, 0, 0, 0, 1, 0)
"""The lengths of its lists, plus 1, and its tagged fields: one topic, partition, range and type, nothing forgotten."""
_NAMES_AT: Final = 8
"""Behind API key, version and correlation id."""
Names = tuple[str, str, int]
"""Group, member, and where the rest of the request begins."""


def _names(frame: memoryview, known: dict[bytes, Names]) -> Names:
    for beginning, names in known.items():
        if frame[_NAMES_AT : names[2]] == beginning:
            return names
    _, _, _, client_id_length = _HEADER.unpack_from(frame)
    reader = _Reader(frame, _HEADER.size + max(0, client_id_length))
    reader.end_struct()
    names = reader.text(), reader.text(), reader.position
    known[bytes(frame[_NAMES_AT : reader.position])] = names
    return names


def read_share_request(frame: memoryview, known: dict[bytes, Names], *, is_fetch: bool) -> ShareRequest:
    """A whole request without its length. `known`: how the requests of its connection begin."""
    version = int.from_bytes(frame[2:4], "big")
    group_id, member_id, rest = _names(frame, known)
    if is_fetch and version == 2 and len(frame) - rest == _USUAL.size:
        (
            epoch, max_wait_ms, _, max_bytes, max_records, _, _, _, topics, _, partitions, partition, ranges,
            first, last, types, kind, *others,
        ) = _USUAL.unpack_from(frame, rest)  # fmt: skip
        if (topics, partitions, ranges, types, *others) == _USUAL_COUNTS:
            acknowledged = [(partition, first, last, bytes((kind,)))]
            return ShareRequest(
                group_id, member_id, epoch, max_wait_ms, max_bytes, max_records, [partition], acknowledged, []
            )
    reader = _Reader(frame, rest)
    (epoch,) = reader.fixed(_PARTITION)
    max_wait_ms = max_bytes = max_records = 0
    if is_fetch:
        max_wait_ms, _, max_bytes, max_records, _ = reader.fixed(_LIMITS)
    if version >= 2:
        reader.position += 2 if is_fetch else 1  # the acquire mode; whether locks are renewed
    named, acknowledgements = _topics(reader)
    forgotten = _forgotten(reader) if is_fetch else []
    return ShareRequest(
        group_id, member_id, epoch, max_wait_ms, max_bytes, max_records, named, acknowledgements, forgotten
    )


def _topics(reader: _Reader) -> tuple[list[int], list[Acknowledgement]]:
    named: list[int] = []
    found: list[Acknowledgement] = []
    for _ in range(reader.number() - 1):
        reader.position += 16
        for _ in range(reader.number() - 1):
            (partition,) = reader.fixed(_PARTITION)
            named.append(partition)
            for _ in range(reader.number() - 1):
                first, last = reader.fixed(_RANGE)
                length = reader.number() - 1
                types = bytes(reader.frame[reader.position : reader.position + length])
                reader.position += length
                reader.end_struct()
                found.append((partition, first, last, types))
            reader.end_struct()
        reader.end_struct()
    return named, found


def _forgotten(reader: _Reader) -> list[int]:
    found: list[int] = []
    for _ in range(reader.number() - 1):
        reader.position += 16
        found += [reader.fixed(_PARTITION)[0] for _ in range(reader.number() - 1)]
        reader.end_struct()
    return found


_ANSWER: Final = struct.Struct(">iibihbib16sbihbhbiib")
"""Length, header and beginning of an answer with one partition, up to the length of its records."""
_ANSWER_END: Final = struct.Struct(">bqqhbbbbb")
"""What is behind them, with one acquired range."""


def fetch_answer(
    correlation_id: int, topic_id: UUID, acknowledged: Iterable[int], acquired: list[Acquired]
) -> list[bytes | memoryview]:
    """The parts of a frame, its length included. A partition that only was acknowledged is in it without records."""
    if len(acquired) == 1 and all(partition == acquired[0].partition for partition in acknowledged):  # the rule
        (one,) = acquired
        size = unsigned(len(one.records) + 1)
        head = _ANSWER.pack(
            _ANSWER.size - 4 + len(size) + len(one.records) + _ANSWER_END.size, correlation_id, 0, 0, 0, 0,
            _LOCK_TIMEOUT_MS, 2, topic_id.bytes, 2, one.partition, 0, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip
        return [head + size, one.records, _ANSWER_END.pack(2, one.first, one.last, one.delivery_count, 0, 0, 0, 1, 0)]
    with_records = {one.partition for one in acquired}
    bare = [partition for partition in acknowledged if partition not in with_records]
    parts: list[bytes | memoryview] = [b"", struct.pack(">ibihbi", correlation_id, 0, 0, 0, 0, _LOCK_TIMEOUT_MS)]
    partitions = len(acquired) + len(bare)
    if partitions:
        parts.append(b"\x02" + topic_id.bytes + unsigned(partitions + 1))
        for one in acquired:
            head = struct.pack(">ihbhbiib", one.partition, 0, 0, 0, 0, 0, 0, 0)
            ranges = struct.pack(">bqqhb", 2, one.first, one.last, one.delivery_count, 0)
            parts += (head + unsigned(len(one.records) + 1), one.records, ranges + _END_OF_STRUCT)
        parts += [struct.pack(">ihbhbiib", p, 0, 0, 0, 0, 0, 0, 0) + _RECORD_FREE + _END_OF_STRUCT for p in bare]
        parts.append(_END_OF_STRUCT)
    else:
        parts.append(b"\x01")
    parts.append(b"\x01" + _END_OF_STRUCT)
    parts[0] = struct.pack(">i", sum(map(len, parts)))
    return parts


def acknowledge_answer(correlation_id: int, version: int, topic_id: UUID, named: list[int]) -> list[bytes | memoryview]:
    """As `fetch_answer`, for a ShareAcknowledge."""
    lock = struct.pack(">i", _LOCK_TIMEOUT_MS) if version >= 2 else b""
    parts = [struct.pack(">ibihb", correlation_id, 0, 0, 0, 0), lock]
    if named:
        parts.append(b"\x02" + topic_id.bytes + unsigned(len(named) + 1))
        parts += [struct.pack(">ihbiibb", partition, 0, 0, 0, 0, 0, 0) for partition in named]
        parts.append(_END_OF_STRUCT)
    else:
        parts.append(b"\x01")
    body = b"".join([*parts, b"\x01" + _END_OF_STRUCT])
    return [struct.pack(">i", len(body)), body]
