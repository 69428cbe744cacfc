"""Write record batches of format 2: what producers send and what brokers store.

Called by the reference broker and its tests, through `record_batches`. Values that the format cannot hold raise
`LocalProtocolError`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kafka_share.errors import LocalProtocolError
from kafka_share.native import crc32c
from kafka_share.protocol.record_format import (
    CHECKED_FROM,
    CODEC_MASK,
    CODEC_NAMES,
    CODEC_NUMBERS,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    Codec,
)
from kafka_share.protocol.varint import zigzag
from kafka_share.records import TimestampType

if TYPE_CHECKING:
    from kafka_share.protocol.record_batch import RecordBatch

RecordToWrite: TypeAlias = "tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]"
"""A `RecordTuple`, but the headers may be any sequence."""


_NO_TIMESTAMP: Final = -1
_NO_DELTAS: Final = bytes(3)
"""Attributes, and the differences in time and offset, of a batch's first record."""
_MAX_TIMESTAMP_AT: Final = 35
"""Where the highest timestamp stands in a batch."""


def encode_batch(
    records: Sequence[RecordToWrite],
    *,
    base_offset: int = 0,
    codec: Codec = "none",
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = -1,
) -> bytes:
    """A batch of records as `RecordBatch.records` gives them: (offset, timestamp, key, value, headers).

    Offsets have to ascend from `base_offset` on; holes are allowed, as compaction leaves them. Raises
    `LocalProtocolError` for no records, offsets that do not ascend, and values that are too large or of a wrong type.
    """
    if not records:
        raise LocalProtocolError("a record batch needs at least one record")
    try:
        attributes = CODEC_NUMBERS[codec]
        if timestamp_type == TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_BIT
        if is_transactional:
            attributes |= TRANSACTIONAL_BIT
        if is_control:
            attributes |= CONTROL_BIT
        return _encode(
            records,
            attributes,
            (base_offset, records[-1][0]),
            (records[0][1], max([record[1] for record in records])),
            (producer_id, producer_epoch, base_sequence),
            partition_leader_epoch,
        )
    except (struct.error, TypeError, ValueError, AttributeError, KeyError) as error:
        raise LocalProtocolError(f"these records cannot be written as a batch: {error!r}") from error


def with_records(batch: RecordBatch, records: Sequence[RecordToWrite], delete_horizon_ms: int | None = None) -> bytes:
    """The batch with these of its records only, as the log cleaner leaves it; its offsets and sequence numbers stay.

    A batch without records is only a header. Source: Kafka's `MemoryRecords.filterTo`.
    """
    attributes = batch.attributes
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    elif batch.delete_horizon_ms is not None:
        delete_horizon_ms = batch.delete_horizon_ms
    if records:
        base_timestamp = records[0][1] if delete_horizon_ms is None else delete_horizon_ms
        max_timestamp = max(timestamp for _, timestamp, *_ in records)
    else:
        attributes &= ~(CODEC_MASK | DELETE_HORIZON_BIT)
        base_timestamp, max_timestamp = _NO_TIMESTAMP, batch.max_timestamp
    return _encode(
        records,
        attributes,
        (batch.base_offset, batch.last_offset),
        (base_timestamp, max_timestamp),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        batch.partition_leader_epoch,
    )


def _encode(
    records: Sequence[RecordToWrite],
    attributes: int,
    offsets: tuple[int, int],
    timestamps: tuple[int, int],
    producer: tuple[int, int, int],
    partition_leader_epoch: int,
) -> bytes:
    """A batch with these first and last offsets, base and highest timestamps, and producer id, epoch and sequence."""
    base_offset, last_offset = offsets
    body = _encode_records(records, base_offset, timestamps[0])
    codec = CODEC_NAMES[attributes & CODEC_MASK]
    if codec != "none":
        from kafka_share.protocol.compression import compress

        body = compress(codec, body)
    header = HEADER.pack(
        base_offset,
        HEADER.size - LENGTH_END + len(body),
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset - base_offset,
        *timestamps,
        *producer,
        len(records),
    )
    checked = header[CHECKED_FROM:] + body
    return b"".join((header[:CRC_AT], crc32c(checked).to_bytes(4, "big"), checked))


def control_batch(
    marker: Literal["commit", "abort"],
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    coordinator_epoch: int = 0,
) -> bytes:
    """The batch of one control record that ends a transaction (KIP-98; Kafka's `EndTransactionMarker`)."""
    key = struct.pack(">hh", 0, 1 if marker == "commit" else 0)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return encode_batch(
        [(base_offset, timestamp, key, value, [])],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def with_offsets(batch: bytes | memoryview, base_offset: int, partition_leader_epoch: int) -> bytes:
    """The bytes of one batch at another place of the log, as a broker sets it on append; the checksum stays right."""
    try:
        return b"".join(
            (
                struct.pack(">q", base_offset),
                batch[8:LENGTH_END],
                struct.pack(">i", partition_leader_epoch),
                batch[MAGIC_AT:],
            )
        )
    except struct.error as error:
        raise LocalProtocolError(f"offset {base_offset} or leader epoch {partition_leader_epoch}: {error}") from error


def with_append_time(batch: bytes | memoryview, at_ms: int) -> bytes:
    """The bytes of one batch whose records all have this time, as a broker sets it on append (`LogAppendTime`)."""
    attributes = int.from_bytes(batch[CHECKED_FROM : CHECKED_FROM + 2], "big") | LOG_APPEND_TIME_BIT
    checked = b"".join(
        (
            attributes.to_bytes(2, "big"),
            batch[CHECKED_FROM + 2 : _MAX_TIMESTAMP_AT],
            struct.pack(">q", at_ms),
            batch[_MAX_TIMESTAMP_AT + 8 :],
        )
    )
    return b"".join((batch[:CRC_AT], crc32c(checked).to_bytes(4, "big"), checked))


def _encode_records(records: Sequence[RecordToWrite], base_offset: int, base_timestamp: int) -> bytes:
    previous = base_offset - 1
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        if offset <= previous:
            raise LocalProtocolError(f"offset {offset} does not ascend from {previous}")
        previous = offset
        if offset == base_offset and timestamp == base_timestamp:
            fields = [_NO_DELTAS]
        else:
            fields = [b"\x00", zigzag(timestamp - base_timestamp), zigzag(offset - base_offset)]
        fields += _nullable(key)
        fields += _nullable(value)
        fields.append(zigzag(len(headers)) if headers else b"\x00")
        for name, header_value in headers:
            fields += _nullable(name.encode())
            fields += _nullable(header_value)
        record = b"".join(fields)
        parts += (zigzag(len(record)), record)
    return b"".join(parts)


def _nullable(value: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if value is None else (zigzag(len(value)), value)
