"""What a test of the main flows has at hand: a topic, a group that reads it from its start, and members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from support.consumers import Record

from kafka_share import KafkaShareConsumer, KafkaShareError, TopicIdPartition

Member = KafkaShareConsumer[Any, Any]
Keep = Callable[[Member], Member]
Outcomes = list[tuple[int, KafkaShareError | None]]
"""(offset, error), as the acknowledgement commit callback was told them."""


@attrs.frozen
class Flow:
    """One test's corner of a target."""

    target: Target
    admin: Admin
    topic: str
    group: str
    keep: Keep

    def member(self, *topics: str, **config: Any) -> Member:
        """A consumer of the group, subscribed to the topic unless others are named."""
        servers = self.target.bootstrap_servers
        subscribed = topics or (self.topic,)
        return self.keep(KafkaShareConsumer(*subscribed, bootstrap_servers=servers, group_id=self.group, **config))

    def explicit(self, **config: Any) -> Member:
        return self.member(share_acknowledgement_mode="explicit", **config)

    def produce(self, *values: bytes, partition: int = 0) -> None:
        self.admin.produce(self.topic, values, partition=partition)


def begin(target: Target, admin: Admin, unique: Callable[[str], str], keep: Keep, partitions: int = 1) -> Flow:
    flow = Flow(target, admin, unique("t"), unique("g"), keep)
    admin.create_topic(flow.topic, partitions=partitions)
    admin.set_group_config(flow.group, {"share.auto.offset.reset": "earliest"})
    return flow


def values(records: Iterable[Record]) -> list[Any]:
    return [record.value for record in records]


def counts(records: Iterable[Record]) -> list[tuple[Any, int]]:
    return [(record.value, record.delivery_count) for record in records]


def outcomes_of(consumer: Member) -> Outcomes:
    """Where the acknowledgement commit callback of this consumer will put what it is told."""
    told: Outcomes = []

    def callback(offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        told.extend((offset, error) for of_partition in offsets.values() for offset in sorted(of_partition))

    consumer.set_acknowledgement_commit_callback(callback)
    return told
