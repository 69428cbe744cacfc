"""Everything between record batches that somebody produced and a partition's log: checks, sequence numbers, timestamps.

Called by the produce handler and by `ReferenceBroker.produce`. Raises `Refusal` and then has changed nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.producers import AppendedBatch, SequenceVerdict
from kafka_share.errors import (
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidRecordError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
)
from kafka_share.protocol.record_batches import RecordBatchError, encode_batch, validate_produced
from kafka_share.records import TimestampType

if TYPE_CHECKING:
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.storage.topics import Partition
    from kafka_share.protocol.record_batches import RecordBatch

_SEQUENCES: Final = 2**31
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
NO_APPEND_TIME: Final = -1


def append(configs: Configs, partition: Partition, records: bytes, now_ms: int) -> tuple[int, int]:
    """Append the batches; answers (base offset, append time, -1 if the topic keeps the producer's times).

    A repeated batch of an idempotent producer is not appended again and gets the offset of the first time.
    """
    batches = _checked(configs, partition, records)
    topic = partition.topic
    if batches[0].producer_id >= 0:
        duplicate = _check_sequence(partition, batches[0])
        if duplicate is not None:
            return duplicate.base_offset, NO_APPEND_TIME
    append_time_ms = NO_APPEND_TIME
    if configs.topic_value(topic, "message.timestamp.type") == "LogAppendTime":
        append_time_ms = now_ms
        records = b"".join(_with_append_time(batch, now_ms) for batch in batches)
    base_offset, _ = partition.log.append(records, partition.leader_epoch, now_ms)
    if batches[0].producer_id >= 0:
        _remember(partition, batches[0], base_offset)
    return base_offset, append_time_ms


def marker(producer_id: int, producer_epoch: int, *, committed: bool, now_ms: int) -> bytes:
    """The control batch that ends a producer's transaction in a partition."""
    key = _MARKER_KEY.pack(0, _COMMIT if committed else _ABORT)
    return encode_batch(
        [(0, now_ms, key, _MARKER_VALUE.pack(0, 0), [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _checked(configs: Configs, partition: Partition, records: bytes) -> list[RecordBatch]:
    limit = int(configs.topic_value(partition.topic, "max.message.bytes"))
    try:
        batches = validate_produced(records)
    except RecordBatchError as error:
        raise Refusal(CorruptMessageError, str(error)) from None
    for batch in batches:
        if len(batch.data) > limit:
            raise Refusal(MessageTooLargeError, f"a batch of {len(batch.data)} bytes is over the limit of {limit}")
    if len(batches) > 1 and any(batch.producer_id >= 0 for batch in batches):
        raise Refusal(InvalidRecordError, "an idempotent producer sends one batch per partition and request")
    return batches


def _check_sequence(partition: Partition, batch: RecordBatch) -> AppendedBatch | None:
    verdict, duplicate = partition.producers.judge(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, _last_sequence(batch)
    )
    if verdict is SequenceVerdict.FENCED:
        raise Refusal(InvalidProducerEpochError, f"producer {batch.producer_id} has a newer epoch")
    if verdict is SequenceVerdict.OUT_OF_ORDER:
        raise Refusal(
            OutOfOrderSequenceNumberError,
            f"sequence number {batch.base_sequence} of producer {batch.producer_id} is not the next one",
        )
    return duplicate


def _remember(partition: Partition, batch: RecordBatch, base_offset: int) -> None:
    appended = AppendedBatch(batch.base_sequence, _last_sequence(batch), base_offset)
    partition.producers.appended(batch.producer_id, batch.producer_epoch, appended)


def _last_sequence(batch: RecordBatch) -> int:
    last: int = (batch.base_sequence + batch.record_count - 1) % _SEQUENCES
    return last


def _with_append_time(batch: RecordBatch, now_ms: int) -> bytes:
    assert batch.codec != "unknown", "a batch that was checked can be opened"
    return encode_batch(
        [(offset, now_ms, key, value, headers) for offset, _, key, value, headers in batch.records()],
        base_offset=batch.base_offset,
        codec=batch.codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
