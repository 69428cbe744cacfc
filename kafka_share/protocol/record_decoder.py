"""Decode the records of one batch of format 2. The hottest loop of the client.

Called by `record_batches`; takes bytes that are decompressed already. Bytes that are no records raise
`CorruptBatchError` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.record_format import SMALLEST_RECORD_BYTES, CorruptBatchError, RecordBatchError, RecordTuple
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.protocol.varint import MAX_UINT64, read_unsigned

if TYPE_CHECKING:
    from kafka_share.records import RecordHeaders


def decode_records(
    data: bytes, position: int, count: int, offsets: tuple[int, int], base_timestamp: int
) -> Iterator[RecordTuple]:
    """The `count` records that fill `data` from `position` to its end, one by one.

    Their offsets have to ascend from the first of `offsets` to at most the last.
    """
    if not 0 <= count * SMALLEST_RECORD_BYTES <= len(data) - position:
        raise CorruptBatchError(f"{count} records cannot be in {len(data) - position} bytes")
    try:
        yield from _decode(data, position, count, offsets, base_timestamp)
    except IndexError:
        raise CorruptBatchError("the batch ends inside a record") from None
    except RecordBatchError:
        raise
    except RemoteProtocolError as error:
        raise CorruptBatchError(str(error)) from None


def _decode(
    data: bytes, position: int, count: int, offsets: tuple[int, int], base_timestamp: int
) -> Iterator[RecordTuple]:
    """Long, flat and inlined, because it is run for every record.

    Every number that nearly always fits one or two bytes is read in place; the rest goes through `varint`. Nothing is
    trusted: lengths are checked by where each record must end, and reading beyond the data raises `IndexError`.
    """
    end = len(data)
    base_offset, last_offset = offsets
    last_delta = 2 * (last_offset - base_offset)
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
        if number > last_delta:
            raise CorruptBatchError(
                f"offset {base_offset + (number >> 1)} is beyond the batch's last offset {last_offset}"
            )
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
            headers = headers_at(data, position, record_end)
        else:
            headers = ()  # the one empty tuple: nothing is made for it
            # A key or value that reaches too far was cut off above; it is noticed here.
            if position + 1 != record_end:
                raise CorruptBatchError("the fields of a record do not fill its length")
        position = record_end
        yield base_offset + (previous >> 1), timestamp, key, value, headers
    if position != end:
        raise CorruptBatchError(f"{end - position} bytes follow the last record")


def headers_at(data: bytes, position: int, end: int) -> EncodedHeaders:
    """The rest of a record, undecoded; only the number of headers is looked at. Raises `CorruptBatchError`."""
    number, behind = read_unsigned(data, position)
    if number & 1 or number > end - behind:  # a header has two bytes at least, and `number` is twice what it stands for
        raise CorruptBatchError("a record has an impossible number of headers")
    return EncodedHeaders(data[position:end])
