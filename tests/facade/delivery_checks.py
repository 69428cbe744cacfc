"""What the tests of acknowledgement ask again and again: what is left for others, what the callback got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from support.consumers import Consumer, Record
from support.waiting import poll_until

from kafka_share import KafkaShareError, TopicIdPartition, TopicPartition
from kafka_share.broker import ReferenceBroker

SENTINEL = b"nothing is left before this"


def left_for_others(
    broker: ReferenceBroker, make_consumer: Callable[..., Consumer], *topics: str, partitions: int = 1
) -> list[Record]:
    """The records that a fresh member of the group gets of these topics.

    A sentinel is written behind each partition's records: once all of them have come, whatever was available before
    them has come too, so "nothing is left" needs no waiting for nothing. Other members must have ended, or the fresh
    member would not get every partition.
    """
    awaited = {TopicPartition(topic, partition) for topic in topics for partition in range(partitions)}
    for topic, partition in sorted(awaited):
        broker.produce(topic, SENTINEL, partition=partition)
    fresh = make_consumer(*topics)
    left: list[Record] = []
    while awaited:
        for record in poll_until(fresh, 1):
            if record.value == SENTINEL:
                awaited.discard(TopicPartition(record.topic, record.partition))
            else:
                left.append(record)
    fresh.close()
    return left


class Outcomes:
    """An acknowledgement commit callback that remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[TopicIdPartition, frozenset[int]], KafkaShareError | None]] = []

    def __call__(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        self.calls.append((dict(offsets), error))

    @property
    def succeeded(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of everything reported without an error; sorted, repetitions kept."""
        return sorted(
            (partition.topic, partition.partition, offset)
            for reported, error in self.calls
            if error is None
            for partition, offsets in reported.items()
            for offset in offsets
        )

    @property
    def failed(self) -> list[tuple[int, type[KafkaShareError]]]:
        """Offset and kind of error of everything reported with an error; sorted by offset."""
        return sorted(
            (
                (offset, type(error))
                for reported, error in self.calls
                if error is not None
                for offsets in reported.values()
                for offset in offsets
            ),
            key=lambda pair: pair[0],
        )

    @property
    def errors(self) -> list[KafkaShareError]:
        return [error for _, error in self.calls if error is not None]


def outcomes_of(consumer: Consumer) -> Outcomes:
    """What this consumer's callback is told from now on."""
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    return outcomes


def produce_values(broker: ReferenceBroker, topic: str, count: int, *, partitions: Iterable[int] = (0,)) -> None:
    """Write `count` records into each of these partitions, each in a batch of its own."""
    for partition in partitions:
        for number in range(count):
            broker.produce(topic, b"value %d" % number, partition=partition)


def only_result(results: Mapping[TopicIdPartition, Any]) -> Any:
    """The outcome of a commit that touched one partition."""
    if len(results) != 1:
        pytest.fail(f"one partition was to be committed, not {results}")
    return next(iter(results.values()))


def produce_one_batch(broker: ReferenceBroker, topic: str, count: int, *, partition: int = 0) -> None:
    """Write `count` records as one record batch."""
    broker.produce_batch(topic, [b"value %d" % number for number in range(count)], partition=partition)


def start_offset(broker: ReferenceBroker, topic: str) -> int:
    """Where the share partition of partition 0 begins, in the memory of its leader."""
    partition = broker.share_partition("g", topic, 0)
    assert partition is not None, "the share partition is not loaded"
    return partition.start_offset


def counted(records: list[Record]) -> list[tuple[int, int]]:
    """(offset, delivery count) of each record."""
    return [(record.offset, record.delivery_count) for record in records]
