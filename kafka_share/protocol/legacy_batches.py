"""Read the messages of formats 0 and 1, which producers wrote until 2017 and brokers still serve from old logs.

Called by `record_batches`, which loads it when it meets one. A message holds one record, or a compressed set of
messages; either is shown as a batch. Nothing writes these formats. Source: Kafka's `LegacyRecord` and
`AbstractLegacyRecordBatch`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal

from kafka_share.protocol.record_batch import RecordBatch
from kafka_share.protocol.record_format import (
    CODEC_MASK,
    CODEC_NAMES,
    COUNTED_RECORD_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAX_BATCH_BYTES,
    SMALLEST_BATCH_BYTES,
    BatchTooLargeError,
    Codec,
    CorruptBatchError,
    RecordTuple,
    UnsupportedBatchError,
)
from kafka_share.records import TimestampType

_HEADS: Final = (struct.Struct(">qiIBb"), struct.Struct(">qiIBbq"))
"""By format: offset, length of what follows, crc, magic, attributes; in format 1 the timestamp."""
_CODEC_LIMIT: Final = CODEC_NAMES.index("zstd")
"""Zstandard came with format 2."""
_CHECKED_FROM: Final = 16
_NO_TIMESTAMP: Final = -1
_NULL: Final = -1
_LZ4_DESCRIPTOR_AT: Final = 4
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_HAS_DICTIONARY: Final = 0x01


class LegacyBatch(RecordBatch):
    """One message of format 0 or 1; `magic` says which. Records of format 0 have the timestamp -1 (none).

    `base_offset` of a compressed set is 0: its first offset is known only when it has been decompressed.
    """

    __slots__ = ()
    attributes: int
    base_offset: int
    base_timestamp: int
    codec: Codec | Literal["unknown"]
    crc: int
    last_offset: int
    magic: int
    max_timestamp: int

    def __init__(self, data: bytes | memoryview) -> None:
        """`data` has to be one whole message; `iter_batches` sees to that."""
        self.magic = data[_CHECKED_FROM]
        self.last_offset, _, self.crc, _, self.attributes, *timestamp = _HEADS[self.magic].unpack_from(data)
        self.base_timestamp = self.max_timestamp = timestamp[0] if timestamp else _NO_TIMESTAMP
        self.data = data
        codec = self.attributes & CODEC_MASK
        self.codec = CODEC_NAMES[codec] if codec < _CODEC_LIMIT else "unknown"
        self.base_offset = self.last_offset if self.codec == "none" else 0
        self.is_transactional = self.is_control = False
        is_appended = bool(timestamp) and bool(self.attributes & LOG_APPEND_TIME_BIT)
        self.timestamp_type = TimestampType.LOG_APPEND_TIME if is_appended else TimestampType.CREATE_TIME
        self.partition_leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.record_count = 1
        if self.last_offset < 0:
            raise CorruptBatchError(f"a message claims the offset {self.last_offset}")

    def verify_crc(self) -> None:
        computed = zlib.crc32(memoryview(self.data)[_CHECKED_FROM:])
        if computed != self.crc:
            raise CorruptBatchError(f"the stored checksum is {self.crc}, the computed one is {computed}")

    def iter_records(self, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[RecordTuple]:
        if self.codec == "unknown":
            raise UnsupportedBatchError(f"format {self.magic} has no codec {self.attributes & CODEC_MASK}")
        key, value = _key_and_value(bytes(self.data), _HEADS[self.magic].size, len(self.data))
        if self.codec == "none":
            return iter([(self.last_offset, self.base_timestamp, key, value, ())])
        if value is None:
            raise CorruptBatchError("a compressed set of messages is null")
        from kafka_share.protocol.compression import decompress

        if self.codec == "lz4" and self.magic == 0:
            value = _with_right_checksum(value)
        messages = list(self._messages(decompress(self.codec, value, max_bytes), max_bytes))
        return iter(self._placed(messages))

    def _messages(self, data: bytes, max_bytes: int) -> Iterator[RecordTuple]:
        """The messages in a compressed set, with the offsets that stand there."""
        head = _HEADS[self.magic]
        position = count = 0
        while position < len(data):
            if len(data) - position < head.size:
                raise CorruptBatchError("a compressed set of messages is cut off")
            offset, length, _, magic, attributes, *timestamp = head.unpack_from(data, position)
            if magic != self.magic or attributes & CODEC_MASK:
                raise CorruptBatchError("a message in a compressed set is of another format, or compressed itself")
            end = position + LENGTH_END + length
            if not position + SMALLEST_BATCH_BYTES[self.magic] <= end <= len(data):
                raise CorruptBatchError(f"a message in a compressed set has the impossible length {length}")
            count += 1
            if count * COUNTED_RECORD_BYTES > max_bytes:
                raise BatchTooLargeError(
                    f"its messages, which count as {COUNTED_RECORD_BYTES} bytes each at least, are more than the "
                    f"{max_bytes} bytes that are allowed"
                )
            key, value = _key_and_value(data, position + head.size, end)
            yield offset, timestamp[0] if timestamp else _NO_TIMESTAMP, key, value, ()
            position = end

    def _placed(self, messages: list[RecordTuple]) -> list[RecordTuple]:
        """With absolute offsets, and the broker's time if the wrapper has it.

        In format 1 the wrapper has the offset of the last message, and theirs count from the first one.
        """
        if not messages:
            raise CorruptBatchError("a compressed set of messages is empty")
        base = 0
        if self.magic == 1 and self.last_offset:  # some versions of librdkafka left the wrapper's offset at 0
            base = self.last_offset - messages[-1][0]
        offsets = [base + message[0] for message in messages]
        if base < 0 or offsets[0] < 0 or any(a >= b for a, b in pairwise(offsets)):
            raise CorruptBatchError("the offsets of the messages in a compressed set do not ascend")
        if self.last_offset and offsets[-1] > self.last_offset:
            raise CorruptBatchError(f"offset {offsets[-1]} is beyond the last offset {self.last_offset} of its set")
        own = self.timestamp_type is TimestampType.CREATE_TIME
        return [
            (offset, timestamp if own else self.max_timestamp, key, value, headers)
            for offset, (_, timestamp, key, value, headers) in zip(offsets, messages, strict=True)
        ]


def _key_and_value(data: bytes, position: int, end: int) -> tuple[bytes | None, bytes | None]:
    """What fills a message from `position` to `end`."""
    fields: list[bytes | None] = []
    for _ in range(2):
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if length < _NULL or position + max(length, 0) > end:
            raise CorruptBatchError("the key or value of a message has an impossible length")
        fields.append(None if length == _NULL else data[position : position + length])
        position += max(length, 0)
    if position != end:
        raise CorruptBatchError("the key and value of a message do not fill its length")
    return fields[0], fields[1]


def _with_right_checksum(frame: bytes) -> bytes:
    """An LZ4 frame of format 0, in which Java's old clients computed the header's checksum over the wrong bytes."""
    flags = frame[_LZ4_DESCRIPTOR_AT] if len(frame) > _LZ4_DESCRIPTOR_AT else 0
    size = 2 + (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
    end = _LZ4_DESCRIPTOR_AT + size
    if len(frame) <= end:
        return frame  # too short for LZ4 to read, either
    return frame[:end] + bytes((_xxh32_of_few(frame[_LZ4_DESCRIPTOR_AT:end]) >> 8 & 0xFF,)) + frame[end + 1 :]


def _xxh32_of_few(data: bytes) -> int:
    """The hash xxHash32, with seed 0, of less than 16 bytes."""
    word = 0xFFFFFFFF
    hashed = (374761393 + len(data)) & word
    at = 0
    while at + 4 <= len(data):
        hashed = (hashed + int.from_bytes(data[at : at + 4], "little") * 3266489917) & word
        hashed = ((hashed << 17 | hashed >> 15) & word) * 668265263 & word
        at += 4
    for byte in data[at:]:
        hashed = (hashed + byte * 374761393) & word
        hashed = ((hashed << 11 | hashed >> 21) & word) * 2654435761 & word
    hashed = (hashed ^ hashed >> 15) * 2246822519 & word
    hashed = (hashed ^ hashed >> 13) * 3266489917 & word
    return hashed ^ hashed >> 16
