"""Everything between record batches that somebody produced and a partition's log: checks, sequence numbers, timestamps.

Called by the produce handler and by `ReferenceBroker.produce`. Raises `Refusal` and then has changed nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.produced_batch import RecordRules, checking
from kafka_share.broker.storage.producers import NO_COORDINATOR, AppendedBatch, SequenceVerdict
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


def check(configs: Configs, partition: Partition, records: bytes, now_ms: int) -> Checking:
    """Check in turns what a producer has sent for the partition; ends with the batch. Raises `Refusal`."""
    settings = configs.append_settings(partition.topic)
    timestamps = (now_ms - settings.before_max_ms, now_ms + settings.after_max_ms)
    rules = RecordRules(settings.max_bytes, settings.needs_keys, None if settings.has_append_times else timestamps)
    return checking(records, rules)


def check_at_once(configs: Configs, partition: Partition, records: bytes, now_ms: int) -> RecordBatch:
    """The same in one go, for records that a test writes."""
    turns = check(configs, partition, records, now_ms)
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
    if configs.append_settings(partition.topic).has_append_times:
        data, append_time_ms = with_append_time(data, now_ms), now_ms
    base_offset, _ = partition.log.append(data, partition.leader_epoch, now_ms)
    if batch.producer_id >= 0:
        timestamp = batch.max_timestamp if append_time_ms == NO_APPEND_TIME else append_time_ms
        _remember(partition, batch, base_offset, timestamp)
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


def require_known_or_new(partition: Partition, batch: RecordBatch) -> None:
    """Of the second protocol of transactions: who is not remembered here begins with 0. Raises `Refusal`."""
    if batch.base_sequence != 0 and not partition.producers.knows(batch.producer_id):
        raise Refusal(
            OutOfOrderSequenceNumberError,
            f"nothing is known of producer {batch.producer_id}, and {batch.base_sequence} is no first sequence number",
        )


def _remember(partition: Partition, batch: RecordBatch, base_offset: int, timestamp: int) -> None:
    appended = AppendedBatch(batch.base_sequence, _last_sequence(batch), base_offset)
    partition.producers.appended(batch.producer_id, batch.producer_epoch, appended, timestamp)


def restore(partition: Partition, batch: RecordBatch) -> None:
    """Remember the producer of a batch that the log has had since before the broker started."""
    if batch.is_control:
        coordinator_epoch = NO_COORDINATOR
        if batch.record_count:  # the log cleaner may have left nothing but the epoch of the producer
            _, coordinator_epoch = _MARKER_VALUE.unpack_from(batch.records()[0][3] or b"")
        partition.producers.transaction_ended(
            batch.producer_id, batch.producer_epoch, coordinator_epoch, batch.max_timestamp, restored=True
        )
    elif batch.producer_id >= 0 and batch.base_sequence >= 0:
        _remember(partition, batch, batch.base_offset, batch.max_timestamp)


def _last_sequence(batch: RecordBatch) -> int:
    """Compaction takes records out of a batch, and leaves its offsets."""
    last: int = (batch.base_sequence + batch.last_offset - batch.base_offset) % _SEQUENCES
    return last
