"""What the records of share groups and of consumer groups (KIP-848) have in common: epochs, targets, that of members.

Called by the modules that know the rest of the records of either type. Pure functions. Source: Kafka 4.3's
`GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.broker.storage.topics import NO_TOPIC_ID

if TYPE_CHECKING:
    from kafka_share.broker.group_journal import Held, Record
    from kafka_share.broker.server_assigned_group import Partition, ServerAssignedGroup
    from kafka_share.protocol.api_message import RecordMessage

MessageT = TypeVar("MessageT", bound="RecordMessage")


@attrs.frozen
class CommonRecords:
    """The classes of a type of groups, keys and values in turns."""

    epoch: tuple[type[Any], type[Any]]
    target_epoch: tuple[type[Any], type[Any]]
    target: tuple[type[Any], type[Any]]
    member: tuple[type[Any], type[Any]]
    """What it said of itself."""
    current: tuple[type[Any], type[Any]]
    """What it was told."""

    def of_group(self, group: ServerAssignedGroup) -> list[Record]:
        """The epochs of the group; that of the target once there was one."""
        key, value = self.epoch
        records: list[Record] = [
            (key(group_id=group.id), value(epoch=group.epoch, metadata_hash=group.metadata_hash)),
        ]
        if group.assigned_at_ms is not None:
            key, value = self.target_epoch
            metadata = value(assignment_epoch=group.assignment_epoch, assignment_timestamp=group.assigned_at_ms)
            records.append((key(group_id=group.id), metadata))
        return records

    def of_target(self, group: ServerAssignedGroup, member_id: str) -> Record:
        """The target assignment of a member, none if it has gone."""
        key, value = self.target
        target = group.target.get(member_id)
        name = key(group_id=group.id, member_id=member_id)
        if target is None:
            return name, None
        topics = [
            value.TopicPartition(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(target).items()
        ]
        return name, value(topic_partitions=topics)

    def of_member(self, group_id: str, member_id: str, state: tuple[Any, Any] | None) -> list[Record]:
        """What a member said of itself and what it was told; None if it has gone."""
        said_key = self.member[0](group_id=group_id, member_id=member_id)
        told_key = self.current[0](group_id=group_id, member_id=member_id)
        if state is None:
            return [(told_key, None), (said_key, None)]
        return [(said_key, state[0]), (told_key, state[1])]

    def members(self, held: Held) -> list[tuple[str, Any, Any]]:
        """The id of each member, what it said of itself, and what it was told, if only by the defaults."""
        told = values(held, self.current)
        return [
            (key.member_id, said, told.get(key.member_id) or self.current[1]())
            for key, said in records_of(held, self.member)
        ]

    def restore(self, group: ServerAssignedGroup, held: Held, member_ids: Iterable[str]) -> None:
        """Give the group its epochs, and these members their targets."""
        for epoch in values(held, self.epoch).values():
            group.epoch, group.metadata_hash = epoch.epoch, epoch.metadata_hash
            group.assignment_epoch = min(group.assignment_epoch, group.epoch)
        for metadata in values(held, self.target_epoch).values():
            group.assignment_epoch = metadata.assignment_epoch
            group.assigned_at_ms = metadata.assignment_timestamp
        members = set(member_ids)
        for key, value in records_of(held, self.target):
            if key.member_id in members:
                group.target[key.member_id] = frozenset(partitions_in(value.topic_partitions))
        group.written()


def partitions_in(topics: Iterable[Any]) -> list[Partition]:
    """The partitions that structs with a topic id and partitions stand for."""
    return [(topic.topic_id or NO_TOPIC_ID, index) for topic in topics for index in topic.partitions]


def records_of(held: Held, classes: tuple[type[Any], type[Any]]) -> list[tuple[Any, Any]]:
    """Those that have this class of keys."""
    return [(key, value) for key, value in held if isinstance(key, classes[0])]


def values(held: Held, classes: tuple[type[Any], type[Any]]) -> Mapping[str, Any]:
    """The values of those that have this class of keys, by member, or by "" for those of the group itself."""
    return {getattr(key, "member_id", ""): value for key, value in records_of(held, classes)}
