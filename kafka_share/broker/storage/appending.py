"""Everything between record batches that somebody produced and a partition's log: checks, sequence numbers, timestamps.

Called by the produce handler and by `ReferenceBroker.produce`. Raises `Refusal` and then has changed nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.produced_batch import checking
from kafka_share.broker.storage.producers import AppendedBatch, SequenceVerdict
from kafka_share.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
)
from kafka_share.protocol.record_batches import encode_batch, with_append_time

if TYPE_CHECKING:
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.storage.produced_batch import Checking
    from kafka_share.broker.storage.topics import Partition
    from kafka_share.protocol.record_batches import RecordBatch

_SEQUENCES: Final = 2**31
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
NO_APPEND_TIME: Final = -1


def check(configs: Configs, partition: Partition, records: bytes) -> Checking:
    """Check in turns what a producer has sent for the partition; ends with the batch. Raises `Refusal`."""
    return checking(records, int(configs.topic_value(partition.topic, "max.message.bytes")))


def check_at_once(configs: Configs, partition: Partition, records: bytes) -> RecordBatch:
    """The same in one go, for records that a test writes."""
    turns = check(configs, partition, records)
    while True:
        try:
            next(turns)
        except StopIteration as done:
            batch: RecordBatch = done.value
            return batch


def append(configs: Configs, partition: Partition, batch: RecordBatch, now_ms: int) -> tuple[int, int]:
    """Append a batch that was checked; returns (base offset, append time, -1 if the topic keeps the producer's times).

    A repeated batch of an idempotent producer is not appended again and gets the offset of the first time.
    """
    if batch.producer_id >= 0:
        duplicate = _check_sequence(partition, batch)
        if duplicate is not None:
            return duplicate.base_offset, NO_APPEND_TIME
    data, append_time_ms = bytes(batch.data), NO_APPEND_TIME
    if configs.topic_value(partition.topic, "message.timestamp.type") == "LogAppendTime":
        data, append_time_ms = with_append_time(data, now_ms), now_ms
    base_offset, _ = partition.log.append(data, partition.leader_epoch, now_ms)
    if batch.producer_id >= 0:
        _remember(partition, batch, base_offset)
    return base_offset, append_time_ms


def marker(producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    """The control batch that ends a producer's transaction in a partition."""
    key = _MARKER_KEY.pack(0, _COMMIT if committed else _ABORT)
    return encode_batch(
        [(0, now_ms, key, _MARKER_VALUE.pack(0, coordinator_epoch), [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def is_commit(batch: RecordBatch) -> bool:
    """Whether this control batch commits the transaction that it ends."""
    (_, _, key, *_), *_ = batch.records()
    return key is not None and _MARKER_KEY.unpack_from(key)[1] == _COMMIT


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
    partition.producers.appended(batch.producer_id, batch.producer_epoch, appended, batch.max_timestamp)


def restore(partition: Partition, batch: RecordBatch) -> None:
    """Remember the producer of a batch that the log has had since before the broker started."""
    if batch.is_control:
        value = batch.records()[0][3] or b""
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
        partition.producers.transaction_ended(
            batch.producer_id, batch.producer_epoch, coordinator_epoch, batch.max_timestamp
        )
    elif batch.producer_id >= 0 and batch.base_sequence >= 0:
        _remember(partition, batch, batch.base_offset)


def _last_sequence(batch: RecordBatch) -> int:
    last: int = (batch.base_sequence + batch.record_count - 1) % _SEQUENCES
    return last
