"""Steps over the records of a batch that was produced, to see that they are records: makes no object of any.

Called by the broker before it stores a batch; takes bytes that are decompressed already. It refuses what
`record_decoder` refuses, and headers that are none; beyond that the offsets of the records have to have no holes, as
those of a producer do. Bytes that are no such records raise `CorruptBatchError` and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.record_decoder import headers_at
from kafka_share.protocol.record_format import SMALLEST_RECORD_BYTES, CorruptBatchError, RecordBatchError
from kafka_share.protocol.varint import MAX_UINT64, read_unsigned

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafka_share.protocol.record_headers import EncodedHeaders


@attrs.define
class Seen:
    """What was noticed on the way, 0 among the timestamps."""

    lowest_timestamp_delta: int = 0
    highest_timestamp_delta: int = 0
    has_null_key: bool = False


def walk(data: bytes, position: int, count: int, at_once: int) -> Generator[None, None, Seen]:
    """Step over the `count` records that fill `data` from `position` to its end; ends with what was noticed.

    Yields after every `at_once` records, and headers of one record, so that the caller can do something else first.
    """
    seen = Seen()
    if not 0 <= count * SMALLEST_RECORD_BYTES <= len(data) - position:
        raise CorruptBatchError(f"{count} records cannot be in {len(data) - position} bytes")
    try:
        for first in range(0, count, at_once):
            if first:
                yield
            position = yield from _step_over(data, position, range(first, min(first + at_once, count)), at_once, seen)
    except IndexError:
        raise CorruptBatchError("the batch ends inside a record") from None
    except RecordBatchError:
        raise
    except RemoteProtocolError as error:
        raise CorruptBatchError(str(error)) from None
    if position != len(data):
        raise CorruptBatchError(f"{len(data) - position} bytes follow the last record")
    return seen


def _step_over(data: bytes, position: int, deltas: range, at_once: int, seen: Seen) -> Generator[None, None, int]:
    """The position behind the records that have these offsets, counted from the batch's first one.

    Long, flat and inlined, as `record_decoder` is: it is run for every record that is produced.
    """
    timestamp_delta = 0
    for delta in deltas:
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
        if number & 1:
            raise CorruptBatchError("a record has an impossible length")

        # One byte is stepped over: the attributes of a record have no meaning yet. The timestamp can be any number.
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
            timestamp_delta = number
            number = (number >> 1) ^ -(number & 1)
            if number > seen.highest_timestamp_delta:
                seen.highest_timestamp_delta = number
            elif number < seen.lowest_timestamp_delta:
                seen.lowest_timestamp_delta = number

        number = data[position]
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high - 1) << 7
                position += 1
            else:
                number, position = read_unsigned(data, position - 1)
        if number != delta + delta:
            raise CorruptBatchError(f"the offset of record {delta + 1} is not the next one")

        length = data[position]
        position += 1
        if length == 1:
            seen.has_null_key = True
        else:
            if length >= 0x80:
                length, position = read_unsigned(data, position - 1)
            if length & 1:
                raise CorruptBatchError("a key has an impossible length")
            position += length >> 1

        length = data[position]
        position += 1
        if length != 1:
            if length >= 0x80:
                high = data[position]
                if high < 0x80:
                    length += (high - 1) << 7
                    position += 1
                else:
                    length, position = read_unsigned(data, position - 1)
            if length & 1:
                raise CorruptBatchError("a value has an impossible length")
            position += length >> 1

        if data[position]:
            headers = headers_at(data, position, record_end)
            if len(headers) < at_once:
                headers.check()
            else:
                yield from _check_in_turns(headers, at_once)
            position = record_end
        else:
            position += 1
            if position != record_end:
                raise CorruptBatchError("the fields of a record do not fill its length")
    return position


def _check_in_turns(headers: EncodedHeaders, at_once: int) -> Generator[None, None, None]:
    for number, _ in enumerate(headers):
        if number % at_once == 0:
            yield
