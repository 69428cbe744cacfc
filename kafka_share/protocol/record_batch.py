"""One record batch of format 2: the fields of its header, its checksum, and its records on demand.

Made by `record_batches` alone, which has cut it out; `legacy_batches` shows the messages of old formats in its shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kafka_share.native import crc32c
from kafka_share.protocol.record_decoder import decode_records
from kafka_share.protocol.record_format import (
    CHECKED_FROM,
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_BIT,
    COUNTED_RECORD_BYTES,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_APPEND_TIME_BIT,
    MAX_BATCH_BYTES,
    TRANSACTIONAL_BIT,
    BatchTooLargeError,
    Codec,
    CorruptBatchError,
    RecordTuple,
    UnsupportedBatchError,
)
from kafka_share.records import TimestampType


class RecordBatch:
    """One record batch: its header's fields, and its records on demand.

    Attributes: `data` (the whole batch, bytes or a view of them), `base_offset` and `last_offset` (int, both included),
    `partition_leader_epoch` (int, -1 if unknown), `magic` (int, the format), `crc` (int, as stored), `attributes`
    (int, the bits), `codec` (str: "none", "gzip", "snappy", "lz4", "zstd", or "unknown"), `is_transactional`,
    `is_control`, `timestamp_type`, `base_timestamp` and `max_timestamp` (int, milliseconds since 1970), `producer_id`,
    `producer_epoch` and `base_sequence` (int, -1 if the producer is not idempotent), `record_count` (int).
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "codec",
        "crc",
        "data",
        "is_control",
        "is_transactional",
        "last_offset",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "timestamp_type",
    )
    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    codec: Codec | Literal["unknown"]
    crc: int
    data: bytes | memoryview
    is_control: bool
    is_transactional: bool
    last_offset: int
    magic: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int
    record_count: int
    timestamp_type: TimestampType

    def __init__(self, data: bytes | memoryview) -> None:
        """`data` has to be one whole batch of format 2; `iter_batches` sees to that."""
        (
            self.base_offset,
            _,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(data)
        self.data = data
        self.last_offset = self.base_offset + last_offset_delta
        codec = self.attributes & CODEC_MASK
        self.codec = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else "unknown"
        self.is_transactional = bool(self.attributes & TRANSACTIONAL_BIT)
        self.is_control = bool(self.attributes & CONTROL_BIT)
        self.timestamp_type = (
            TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME
        )
        if self.base_offset < 0 or last_offset_delta < 0:
            raise CorruptBatchError(f"a batch claims the offsets {self.base_offset} to {self.last_offset}")

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the log cleaner may drop the tombstones or the marker in it; None while it has noted no time."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def verify_crc(self) -> None:
        """Raise `CorruptBatchError` if the stored checksum is not that of the batch."""
        computed = crc32c(memoryview(self.data)[CHECKED_FROM:])
        if computed != self.crc:
            raise CorruptBatchError(f"the stored checksum is {self.crc}, the computed one is {computed}")

    def records(self, max_bytes: int = MAX_BATCH_BYTES) -> list[RecordTuple]:
        """The records as (offset, timestamp, key, value, headers), offsets ascending; see `iter_records`."""
        return list(self.iter_records(max_bytes))

    def iter_records(self, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[RecordTuple]:
        """The same, one by one.

        With the timestamp type LOG_APPEND_TIME every record has the batch's `max_timestamp`. Raises `CorruptBatchError`
        on the way, and `UnsupportedBatchError` for an unknown codec, `BatchTooLargeError` for records of more than
        `max_bytes` (each counted as `COUNTED_RECORD_BYTES` at least). Does not look at the checksum.
        """
        data, position = self.body(max_bytes)
        records = decode_records(
            data, position, self.record_count, (self.base_offset, self.last_offset), self.base_timestamp
        )
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = self.max_timestamp
            return ((offset, timestamp, key, value, headers) for offset, _, key, value, headers in records)
        return records

    def body(self, max_bytes: int = MAX_BATCH_BYTES) -> tuple[bytes, int]:
        """Bytes that are decompressed, and where the records begin in them. Raises as `iter_records` does at once."""
        data, position = self._decompressed(max_bytes)
        # A number that cannot be true is damage, which is found when one goes over the records.
        if max_bytes < self.record_count * COUNTED_RECORD_BYTES and self.record_count <= len(data):
            raise BatchTooLargeError(
                f"its {self.record_count} records, which count as {COUNTED_RECORD_BYTES} bytes each at least, are more "
                f"than the {max_bytes} bytes that are allowed"
            )
        return data, position

    def _decompressed(self, max_bytes: int) -> tuple[bytes, int]:
        if self.codec == "unknown":
            raise UnsupportedBatchError(f"the codec {self.attributes & CODEC_MASK} is not known")
        if self.codec == "none":
            # The one copy of a batch that was a view: its keys and values are cut out of bytes.
            return bytes(self.data), HEADER.size
        from kafka_share.protocol.compression import decompress

        return decompress(self.codec, memoryview(self.data)[HEADER.size :], max_bytes), 0

    def __repr__(self) -> str:
        return f"<RecordBatch {self.base_offset}-{self.last_offset} {self.codec} {len(self.data)} bytes>"
