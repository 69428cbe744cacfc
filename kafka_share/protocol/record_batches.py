"""Record batches of format 2: walk, check, decode and write them. The entrance to everything about records.

Called by the client (decoding what was fetched) and by the broker (checking and storing what was produced). Works on
bytes in memory; does not know partitions, offsets in demand or transactions. Bytes that are no valid batch raise
`CorruptBatchError`, a `RemoteProtocolError`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kafka_share.protocol.crc import crc32c
from kafka_share.protocol.record_decoder import decode_records
from kafka_share.protocol.record_encoder import control_batch, encode_batch, with_offsets
from kafka_share.protocol.record_format import (
    CHECKED_FROM,
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_BIT,
    HEADER,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_DECOMPRESSED_BYTES,
    TRANSACTIONAL_BIT,
    Codec,
    CorruptBatchError,
    RecordTuple,
)
from kafka_share.records import TimestampType

__all__ = [
    "CorruptBatchError",
    "RecordBatch",
    "RecordTuple",
    "control_batch",
    "encode_batch",
    "iter_batches",
    "validate_produced",
    "with_offsets",
]


class RecordBatch:
    """One record batch: its header's fields, and its records on demand.

    Attributes: `data` (the whole batch, bytes or a view of them), `base_offset` and `last_offset` (int, both included),
    `partition_leader_epoch` (int, -1 if unknown), `magic` (int, 2), `crc` (int, as stored), `attributes` (int, the
    bits), `codec` (str: "none", "gzip", "snappy", "lz4", "zstd", or "unknown"), `is_transactional`, `is_control`,
    `timestamp_type`, `base_timestamp` and `max_timestamp` (int, milliseconds since 1970), `producer_id`,
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
        self.last_offset: int = self.base_offset + last_offset_delta
        codec = self.attributes & CODEC_MASK
        self.codec: Codec | Literal["unknown"] = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else "unknown"
        self.is_transactional = bool(self.attributes & TRANSACTIONAL_BIT)
        self.is_control = bool(self.attributes & CONTROL_BIT)
        self.timestamp_type = (
            TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME
        )
        if self.base_offset < 0 or last_offset_delta < 0:
            raise CorruptBatchError(f"a batch claims the offsets {self.base_offset} to {self.last_offset}")

    def verify_crc(self) -> None:
        """Raise `CorruptBatchError` if the stored checksum is not that of the batch."""
        computed = crc32c(memoryview(self.data)[CHECKED_FROM:])
        if computed != self.crc:
            raise CorruptBatchError(f"the stored checksum is {self.crc}, the computed one is {computed}")

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[RecordTuple]:
        """The records as (offset, timestamp, key, value, headers), offsets ascending.

        With the timestamp type LOG_APPEND_TIME every record has the batch's `max_timestamp`. `max_bytes` bounds what
        compressed records may grow to. Raises `CorruptBatchError`; does not look at the checksum.
        """
        if self.codec == "unknown":
            raise CorruptBatchError(f"the codec {self.attributes & CODEC_MASK} is not known")
        if self.codec == "none":
            # The one copy of a batch that was a view: its keys and values are cut out of bytes.
            data, position = bytes(self.data), HEADER.size
        else:
            from kafka_share.protocol.compression import decompress

            data, position = decompress(self.codec, memoryview(self.data)[HEADER.size :], max_bytes), 0
        records = decode_records(
            data, position, self.record_count, self.base_offset, self.last_offset, self.base_timestamp
        )
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = self.max_timestamp
            return [(offset, timestamp, key, value, headers) for offset, _, key, value, headers in records]
        return records

    def __repr__(self) -> str:
        return f"<RecordBatch {self.base_offset}-{self.last_offset} {self.codec} {len(self.data)} bytes>"


def iter_batches(data: bytes | memoryview) -> Iterator[RecordBatch]:
    """The batches in some bytes, one after the other; a batch that is cut off at the end is left out.

    The batches of a memoryview are views of it: nothing is copied.

    Raises `CorruptBatchError` at the first batch with an impossible length or offset or of another format than 2:
    nothing behind it can be told apart.
    """
    position, end = 0, len(data)
    while end - position > MAGIC_AT:
        length = int.from_bytes(data[position + 8 : position + LENGTH_END], "big", signed=True)
        magic = data[position + MAGIC_AT]
        if magic != MAGIC:
            raise CorruptBatchError(
                f"the record batch at byte {position} has format {magic}; only {MAGIC} is supported"
            )
        stop = position + LENGTH_END + length
        if stop < position + HEADER.size:
            raise CorruptBatchError(f"the record batch at byte {position} has the impossible length {length}")
        if stop > end:
            return
        yield RecordBatch(data[position:stop])
        position = stop


def validate_produced(data: bytes | memoryview) -> list[RecordBatch]:
    """The batches of a Produce request for one partition, checked as a broker has to before it stores them.

    Source: Kafka's `LogValidator`. Every byte has to belong to a whole batch; checksums, numbers of records and offsets
    have to agree, offsets inside a batch have no holes, and clients may not write control batches. Raises
    `CorruptBatchError`.
    """
    batches = list(iter_batches(data))
    if not batches or sum(len(batch.data) for batch in batches) != len(data):
        raise CorruptBatchError("the record batch is missing or cut off")
    for batch in batches:
        batch.verify_crc()
        if batch.is_control:
            raise CorruptBatchError("producers may not write control batches")
        if batch.producer_id >= 0 and batch.base_sequence < 0:
            raise CorruptBatchError("a batch with a producer id needs a sequence number")
        if not batch.last_offset - batch.base_offset + 1 == batch.record_count == len(batch.records()):
            raise CorruptBatchError(f"{batch!r} claims {batch.record_count} records")
    return batches
