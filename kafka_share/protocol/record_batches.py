"""Record batches of format 2: walk, check, decode and write them. The entrance to everything about records.

Called by the client (decoding what was fetched) and by the broker (checking and storing what was produced). Works on
bytes in memory; does not know partitions, offsets in demand or transactions. Bytes that are no valid batch raise
`CorruptBatchError`, a `RemoteProtocolError`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.crc import crc32c
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
    SMALLEST_RECORD_BYTES,
    TRANSACTIONAL_BIT,
    Codec,
    CorruptBatchError,
    RecordTuple,
)
from kafka_share.protocol.varint import MAX_UINT64, read_unsigned, unzigzag
from kafka_share.records import RecordHeaders, TimestampType

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
        records = _decode_records(
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


def _decode_records(
    data: bytes, position: int, count: int, base_offset: int, last_offset: int, base_timestamp: int
) -> list[RecordTuple]:
    """The `count` records that fill `data` from `position` to its end, in order.

    Raises `CorruptBatchError` for anything that is not exactly that: offsets have to ascend from `base_offset` to at
    most `last_offset`.
    """
    if not 0 <= count * SMALLEST_RECORD_BYTES <= len(data) - position:
        raise CorruptBatchError(f"{count} records cannot be in {len(data) - position} bytes")
    try:
        records = _decode_in_one_pass(data, position, count, base_offset, base_timestamp)
    except IndexError:
        raise CorruptBatchError("the batch ends inside a record") from None
    except UnicodeDecodeError as error:
        raise CorruptBatchError(f"the name of a header is not UTF-8: {error}") from None
    except CorruptBatchError:
        raise
    except RemoteProtocolError as error:
        raise CorruptBatchError(str(error)) from None
    if records and records[-1][0] > last_offset:
        raise CorruptBatchError(f"offset {records[-1][0]} is beyond the batch's last offset {last_offset}")
    return records


def _decode_in_one_pass(
    data: bytes, position: int, count: int, base_offset: int, base_timestamp: int
) -> list[RecordTuple]:
    """The hottest loop of the client, so it is long, flat and inlined.

    Every number that nearly always fits one or two bytes is read in place; the rest goes through `varint`. Nothing is
    trusted: lengths are checked by where each record must end, and reading beyond the data raises `IndexError`.
    """
    records: list[RecordTuple] = []
    append = records.append
    end = len(data)
    previous = -1
    timestamp_delta, timestamp = 0, base_timestamp
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    for _ in range(count):
        number = data[position]
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high - 1) << 7
                position += 1
            else:
                number, position = read_unsigned(data, position - 1)
        # Signed numbers are zigzag encoded: an odd one is negative, an even one is twice what it stands for.
        record_end = position + (number >> 1)
        if number & 1 or record_end > end:
            raise CorruptBatchError("a record has an impossible length")

        # One byte is stepped over: the attributes of a record have no meaning yet.
        number = data[position + 1]
        position += 2
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high - 1) << 7
                position += 1
            else:
                number, position = read_unsigned(data, position - 1, MAX_UINT64)
        if number != timestamp_delta:
            # Producers that are worth a fast loop make many records within one millisecond.
            timestamp_delta = number
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))

        number = data[position]
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high - 1) << 7
                position += 1
            else:
                number, position = read_unsigned(data, position - 1)
        if number & 1 or number <= previous:
            raise CorruptBatchError("the offsets of the records do not ascend")
        previous = number

        length = data[position]
        position += 1
        if length == 1:
            key = None
        else:
            if length >= 0x80:
                length, position = read_unsigned(data, position - 1)
            if length & 1:
                raise CorruptBatchError("a key has an impossible length")
            start = position
            position += length >> 1
            key = data[start:position]

        length = data[position]
        position += 1
        if length == 1:
            value = None
        else:
            if length >= 0x80:
                high = data[position]
                if high < 0x80:
                    length += (high - 1) << 7
                    position += 1
                else:
                    length, position = read_unsigned(data, position - 1)
            if length & 1:
                raise CorruptBatchError("a value has an impossible length")
            start = position
            position += length >> 1
            value = data[start:position]

        if data[position]:
            headers, position = _decode_headers(data, position, record_end)
        else:
            headers = ()  # the one empty tuple: nothing is made for it
            position += 1
        # A key or value that reaches too far was cut off above; it is noticed here.
        if position != record_end:
            raise CorruptBatchError("the fields of a record do not fill its length")
        append((base_offset + (previous >> 1), timestamp, key, value, headers))
    if position != end:
        raise CorruptBatchError(f"{end - position} bytes follow the last record")
    return records


def _decode_headers(data: bytes, position: int, end: int) -> tuple[RecordHeaders, int]:
    number, position = read_unsigned(data, position)
    count = unzigzag(number)
    if not 0 <= 2 * count <= end - position:
        raise CorruptBatchError("a record has an impossible number of headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length = data[position]
        position += 1
        if length >= 0x80:
            length, position = read_unsigned(data, position - 1)
        if length & 1:
            raise CorruptBatchError("the name of a header has an impossible length")
        start = position
        position += length >> 1
        name = data[start:position].decode()

        length = data[position]
        position += 1
        if length == 1:
            headers.append((name, None))
            continue
        if length >= 0x80:
            length, position = read_unsigned(data, position - 1)
        if length & 1:
            raise CorruptBatchError("the value of a header has an impossible length")
        start = position
        position += length >> 1
        headers.append((name, data[start:position]))
    return tuple(headers), position
