"""The layout of record batches, above all of format 2, and the errors for bytes that cannot be read.

Source: KIP-98 and Kafka's `DefaultRecordBatch`. Shared by the reading and the writing side; holds no logic.
"""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from kafka_share.errors import RemoteProtocolError
from kafka_share.records import RecordHeaders

RecordTuple: TypeAlias = "tuple[int, int, bytes | None, bytes | None, RecordHeaders]"
"""(offset, timestamp in milliseconds since 1970, key, value, headers)."""

Codec: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]

CODEC_NAMES: Final[tuple[Codec, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
"""A codec's name at the index that stands in the attributes."""

CODEC_NUMBERS: Final = MappingProxyType({name: number for number, name in enumerate(CODEC_NAMES)})

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""base offset, length of what follows, partition leader epoch, magic, crc, attributes, last offset delta, base
timestamp, max timestamp, producer id, producer epoch, base sequence, number of records."""

LENGTH_END: Final = 12
"""The batch length counts from here."""
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CHECKED_FROM: Final = 21
"""The checksum covers everything from the attributes on: a broker sets offset and leader epoch without touching it."""

MAGIC: Final = 2
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
"""The base timestamp is a time from which on the log cleaner may drop tombstones or the marker (KIP-534)."""

MAX_BATCH_BYTES: Final = 128 * 1024 * 1024
"""How large the records of one batch may be once they are decompressed, unless `max_record_batch_bytes` says otherwise.
Brokers accept about 1 MB of compressed bytes by default."""

COUNTED_RECORD_BYTES: Final = 128
"""A smaller record counts as so large: about the memory that it takes here at least."""

SMALLEST_BATCH_BYTES: Final = (26, 34, HEADER.size)
"""By format; one of format 0 or 1 is a message with null key and value."""

SMALLEST_RECORD_BYTES: Final = 7
"""Length, attributes, timestamp, offset, key length, value length, number of headers: a byte each at least."""


class RecordBatchError(RemoteProtocolError):
    """A record batch cannot be read."""


class CorruptBatchError(RecordBatchError):
    """It is damaged: nobody can read it."""


class UnsupportedBatchError(RecordBatchError):
    """It may be sound, and is nothing for us: an unknown codec or format."""


class BatchTooLargeError(UnsupportedBatchError):
    """Its records are more bytes than we allow."""
