"""The record batch that a producer sends for a partition, checked in turns as a broker has to before it stores it.

Called by `appending`. A few bytes may decompress to a hundred megabytes or sixty million headers, so the check stops
again and again for others to get their turn; nothing large is opened before the first stop. It makes no objects of
records, unless some of them will be refused. Raises `Refusal` with the codes of Kafka 4.3.1 and nothing else.

Source: `ProduceRequest.validateRecords` and `LogValidator`, and what Kafka 4.3.1 answers to such batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from kafka_share.broker.refusals import ErrorCode, RecordsRefusedError, Refusal
from kafka_share.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError
from kafka_share.protocol.record_batches import (
    BatchTooLargeError,
    CorruptBatchError,
    RecordBatch,
    RecordBatchError,
    iter_batches,
)
from kafka_share.protocol.record_decoder import decode_records
from kafka_share.protocol.record_format import MAGIC
from kafka_share.protocol.record_walk import Seen, walk

if TYPE_CHECKING:
    from collections.abc import Generator

Checking: TypeAlias = "Generator[None, None, RecordBatch]"
"""Ends with the batch. It yields when others should get their turn."""

AT_ONCE_BYTES: Final = 1024 * 1024
"""What decompresses to no more is opened in the first turn; more than one such batch is open at a time, of larger ones
only one."""
AT_ONCE_RECORDS: Final = 20_000
"""Records, or headers of one record, that one turn looks at."""


MOST_RECORD_ERRORS: Final = 100
"""Records of a batch that a refusal names."""
_NO_TIMESTAMP: Final = -1


@attrs.frozen
class RecordRules:
    """What the settings of a topic ask of a batch and its records."""

    max_bytes: int
    needs_keys: bool = False
    """The topic is compacted."""
    timestamps: tuple[int, int] | None = None
    """The oldest and the newest that a record may have, if it has one; None: any will do."""


def checking(records: bytes, rules: RecordRules) -> Checking:
    """Check what a Produce request has for one partition: one whole batch of at most `max_bytes`.

    Bytes behind it that are no whole batch are ignored. Its checksum, its number of records and its offsets have to
    agree, without holes; it may not be a control batch, and an idempotent producer's has a sequence number.
    """
    max_bytes = rules.max_bytes
    try:
        batch = _only_batch(records)
        if len(batch.data) > max_bytes:
            raise Refusal(MessageTooLargeError, f"a batch of {len(batch.data)} bytes is over the limit of {max_bytes}")
        _check_header(batch)
        data, position = yield from _opened(batch)
        seen = yield from walk(data, position, batch.record_count, AT_ONCE_RECORDS)
        if _is_suspicious(batch, seen, rules):
            yield from _check_records(batch, data, position, rules)
    except RecordBatchError as error:
        raise Refusal(CorruptMessageError, str(error)) from None
    return batch


def _only_batch(records: bytes) -> RecordBatch:
    batches = iter_batches(records)
    first = next(batches, None)
    if first is None:
        raise Refusal(InvalidRecordError, "the record batch is missing or cut off")
    if first.magic != MAGIC:
        raise Refusal(InvalidRecordError, f"producers write record batches of format {MAGIC}, not {first.magic}")
    if next(batches, None) is not None:
        raise Refusal(InvalidRecordError, "a producer sends one record batch per partition and request")
    return first


def _check_header(batch: RecordBatch) -> None:
    batch.verify_crc()
    if batch.is_control:
        raise CorruptBatchError("producers may not write control batches")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise CorruptBatchError("a batch with a producer id needs a sequence number")
    if batch.last_offset - batch.base_offset + 1 != batch.record_count:
        raise CorruptBatchError(f"{batch!r} claims {batch.record_count} records")


def _opened(batch: RecordBatch) -> Generator[None, None, tuple[bytes, int]]:
    try:
        return batch.body(AT_ONCE_BYTES)
    except BatchTooLargeError:
        yield
        return batch.body()


def _is_suspicious(batch: RecordBatch, seen: Seen, rules: RecordRules) -> bool:
    """Whether there may be a record that the topic does not take."""
    if rules.needs_keys and seen.has_null_key:
        return True
    if rules.timestamps is None:
        return False
    oldest_ms, newest_ms = (timestamp - batch.base_timestamp for timestamp in rules.timestamps)
    return seen.lowest_timestamp_delta < oldest_ms or seen.highest_timestamp_delta > newest_ms


def _check_records(batch: RecordBatch, data: bytes, position: int, rules: RecordRules) -> Generator[None, None, None]:
    """Look at each record, and name those that are refused. Raises `RecordsRefusedError`."""
    errors: list[tuple[int, str]] = []
    is_untimely = False
    offsets = (batch.base_offset, batch.last_offset)
    for index, (_, timestamp, key, *_) in enumerate(
        decode_records(data, position, batch.record_count, offsets, batch.base_timestamp)
    ):
        if index and index % AT_ONCE_RECORDS == 0:
            yield
        if rules.needs_keys and key is None:
            problem = "a compacted topic takes no record without a key"
        elif not _is_timely(timestamp, rules):
            is_untimely = True
            problem = f"its timestamp, {timestamp}, is not within {rules.timestamps}"
        else:
            continue
        if len(errors) < MOST_RECORD_ERRORS:
            errors.append((index, problem))
    if errors:
        error = ErrorCode.INVALID_TIMESTAMP if is_untimely else InvalidRecordError
        raise RecordsRefusedError(error, f"record {errors[0][0]} of the batch: {errors[0][1]}", errors)


def _is_timely(timestamp: int, rules: RecordRules) -> bool:
    if timestamp == _NO_TIMESTAMP or rules.timestamps is None:
        return True
    oldest_ms, newest_ms = rules.timestamps
    return oldest_ms <= timestamp <= newest_ms
