"""A log for a share coordinator that stands alone: topics in memory, without a cluster around them."""

from __future__ import annotations

from random import Random

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.share_coordinator import ShareCoordinator
from kafka_share.broker.share.state_records import StateRecord, decode
from kafka_share.broker.storage.internal_topic import InternalTopic
from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.topics import SHARE_GROUP_STATE, Partition, Topic, Topics
from kafka_share.errors import CoordinatorNotAvailableError

PARTITIONS = 5


class LogHost:
    """A `TopicHost`; `broken` makes it refuse what is appended."""

    def __init__(self) -> None:
        self.topics = Topics([1], Random(0), lambda topic, index: Log())
        self.broken = False

    def internal_topic(self, name: str) -> Topic | None:
        return self.topics.by_name(name)

    def make_internal_topic(self, name: str, partitions: int) -> Topic:
        return self.topics.create(name, self.topics.place(partitions, 1))

    def append_batch_of_coordinator(self, partition: Partition, batch: bytes, now_ms: int) -> int:
        if self.broken:
            raise Refusal(CoordinatorNotAvailableError, "the log is broken")
        return partition.log.append(batch, partition.leader_epoch, now_ms)[0]

    def delete_records(self, partition: Partition, before_offset: int, now_ms: int) -> int:
        return partition.log.delete_records(before_offset)


def state_topic(host: LogHost | None = None) -> InternalTopic:
    return InternalTopic(SHARE_GROUP_STATE, PARTITIONS, host or LogHost())


def records_of(topic: InternalTopic) -> list[StateRecord]:
    """All records of all partitions."""
    return [decode(one.key, one.value) for index in range(topic.partition_count) for one in topic.records(index)]


def contents(coordinator: ShareCoordinator) -> dict[object, object]:
    """All that a coordinator knows of each state, but for the number of updates since a snapshot was due."""
    return {
        key: (
            state.home, state.snapshot_epoch, state.state_epoch, state.highest_state_epoch, state.start_offset,
            state.delivery_complete_count, state.leader_epoch, state.fence, state.created_at_ms, state.written_at_ms,
            state.snapshot_at, tuple(state.batches),
        )
        for key, state in coordinator.states()
    }  # fmt: skip
