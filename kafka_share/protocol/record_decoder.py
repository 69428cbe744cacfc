"""Decode the records of a batch in one pass: the hottest loop of the client, so it is long, flat and inlined.

Called by `RecordBatch.records`. Every number that nearly always fits one or two bytes is read in place; the rest goes
through `varint`. Nothing is trusted: lengths are checked by where each record must end, and reading beyond the data
raises IndexError, which is turned into `CorruptBatchError`.
"""

from __future__ import annotations

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.record_format import SMALLEST_RECORD_BYTES, CorruptBatchError, RecordTuple
from kafka_share.protocol.varint import MAX_UINT64, read_unsigned, unzigzag
from kafka_share.records import RecordHeaders


def decode_records(
    data: bytes, position: int, count: int, base_offset: int, last_offset: int, base_timestamp: int
) -> list[RecordTuple]:
    """The `count` records that fill `data` from `position` to its end, in order.

    Raises `CorruptBatchError` for anything that is not exactly that: offsets have to ascend from `base_offset` to at
    most `last_offset`.
    """
    if not 0 <= count * SMALLEST_RECORD_BYTES <= len(data) - position:
        raise CorruptBatchError(f"{count} records cannot be in {len(data) - position} bytes")
    try:
        records = _decode(data, position, count, base_offset, base_timestamp)
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


def _decode(data: bytes, position: int, count: int, base_offset: int, base_timestamp: int) -> list[RecordTuple]:
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
