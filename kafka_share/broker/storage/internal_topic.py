"""An internal topic: where a coordinator keeps its state as records, one partition for each part of its keys.

Called by a coordinator and by the cluster. The topic is made when the first record is written. Which partition a key
belongs to is Kafka's choice, so that tools and other brokers look for it in the same place. The records of one change
are appended as one batch, all or none. It must not know what the records mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafka_share.broker.storage.appending import marker
from kafka_share.protocol.record_batches import encode_batch, iter_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_share.broker.storage.topics import Partition, Topic
    from kafka_share.protocol.record_batches import RecordBatch

_READ_BYTES: Final = 1 << 20
_HASH_MASK: Final = 2**32 - 1
_SIGN: Final = 2**31


class InternalRecord(NamedTuple):
    """A record as it lies in the log."""

    offset: int
    key: bytes
    value: bytes | None


class TopicHost(Protocol):
    """What an internal topic asks of the cluster."""

    def internal_topic(self, name: str) -> Topic | None:
        """The topic, None if it has not been made."""

    def make_internal_topic(self, name: str, partitions: int) -> Topic:
        """Make the topic. Raises `Refusal`."""

    def append_batch_of_coordinator(self, partition: Partition, batch: bytes, now_ms: int) -> int:
        """Append a batch and wake who waits for it; returns its first offset. Raises `Refusal`, with nothing done."""

    def delete_records(self, partition: Partition, before_offset: int, now_ms: int) -> int:
        """Raise the log's start; returns the new one."""


class InternalTopic:
    """One internal topic. `partition_count` holds until the topic is there; then it is what the topic has."""

    def __init__(self, name: str, partition_count: int, host: TopicHost) -> None:
        self.name = name
        self._configured_count = partition_count
        self._host = host

    @property
    def partition_count(self) -> int:
        topic = self._host.internal_topic(self.name)
        return self._configured_count if topic is None else len(topic.partitions)

    def partition_for(self, key: str) -> int:
        """The index of the partition that the state of this key belongs to."""
        return abs(_java_hash(key)) % self.partition_count

    def append(
        self,
        index: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        *,
        producer: tuple[int, int] | None = None,
    ) -> int:
        """Append (key, value) pairs, all or none; returns the offset of the first. Raises `Refusal`.

        With a producer (id, epoch) they belong to its transaction.
        """
        producer_id, producer_epoch = producer or (-1, -1)
        batch = encode_batch(
            [(number, now_ms, key, value, ()) for number, (key, value) in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer is not None,
        )
        first = self._append(index, batch, now_ms)
        topic = self._host.internal_topic(self.name)
        if producer is not None and topic is not None:
            topic.partitions[index].producers.wrote(*producer)
        return first

    def append_marker(self, index: int, producer: tuple[int, int], *, committed: bool, now_ms: int) -> None:
        """Append the end of a producer's transaction. Raises `Refusal`."""
        self._append(index, marker(*producer, committed=committed, coordinator_epoch=0, now_ms=now_ms), now_ms)

    def _append(self, index: int, batch: bytes, now_ms: int) -> int:
        topic = self._host.internal_topic(self.name)
        if topic is None:
            topic = self._host.make_internal_topic(self.name, self._configured_count)
        return self._host.append_batch_of_coordinator(topic.partitions[index], batch, now_ms)

    def records(self, index: int) -> Iterator[InternalRecord]:
        """All records of a partition, from the start of its log on."""
        for batch in self.batches(index):
            yield from self.records_of(index, batch)

    def batches(self, index: int) -> Iterator[RecordBatch]:
        """All batches of a partition, the end of transactions too; the first may begin before the start of the log."""
        topic = self._host.internal_topic(self.name)
        if topic is None:
            return
        log = topic.partitions[index].log
        offset, end = log.start_offset, log.high_watermark
        while offset < end:
            for stored in list(log.read(offset, _READ_BYTES, end)):
                yield from iter_batches(stored.data)
                offset = stored.last_offset + 1

    def records_of(self, index: int, batch: RecordBatch) -> Iterator[InternalRecord]:
        """The records of one of its batches."""
        start_offset = self.start_offset(index)
        for offset, _, key, value, *_ in batch.records():
            if offset >= start_offset and key is not None:
                yield InternalRecord(offset, key, value)

    def start_offset(self, index: int) -> int:
        """The first offset that a partition still has."""
        topic = self._host.internal_topic(self.name)
        return 0 if topic is None else topic.partitions[index].log.start_offset

    def end_offset(self, index: int) -> int:
        """The offset that a partition's next record gets."""
        topic = self._host.internal_topic(self.name)
        return 0 if topic is None else topic.partitions[index].log.high_watermark

    def stable_offset(self, index: int) -> int:
        """Where the first transaction begins that is open, or the end."""
        topic = self._host.internal_topic(self.name)
        return 0 if topic is None else topic.partitions[index].log.last_stable_offset

    def prune(self, index: int, before_offset: int, now_ms: int) -> None:
        """Delete the records of a partition below an offset: others have taken their place."""
        topic = self._host.internal_topic(self.name)
        if topic is not None and topic.partitions[index].log.start_offset < before_offset:
            self._host.delete_records(topic.partitions[index], before_offset, now_ms)


def _java_hash(text: str) -> int:
    """Java's hash of a string, over its UTF-16 code units; 0 for the one number that has no absolute value there."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8) + data[at + 1]) & _HASH_MASK
    if value == _SIGN:
        return 0
    return value - 2 * _SIGN if value > _SIGN else value
