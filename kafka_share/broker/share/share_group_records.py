"""What is written of a share group besides its epochs and target: members, and partitions whose state is initialised.

Called by `ShareGroups`. Pure functions. Source: KIP-932, Kafka 4.3's `GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.broker.server_assigned_records import CommonRecords, partitions_in, records_of, values
from kafka_share.broker.share.share_group import Member, ShareGroup
from kafka_share.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kafka_share.broker.group_journal import Held, Record
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.storage.topics import Topics

COMMON: Final = CommonRecords(
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
)
_PARTITIONS: Final = (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue)
KEYS: Final = (
    COMMON.current[0], COMMON.target[0], COMMON.member[0], COMMON.target_epoch[0], COMMON.epoch[0], _PARTITIONS[0],
)  # fmt: skip
_STABLE: Final = 0
_TopicPartitionsInfo = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo


def of_member(group: ShareGroup, member_id: str) -> Iterable[Record]:
    """What a member said of itself, and what it was told."""
    member = group.members.get(member_id)
    if member is None:
        return COMMON.of_member(group.id, member_id, None)
    said = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed),
    )
    struct = ShareGroupCurrentMemberAssignmentValue.TopicPartitions
    told = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            struct(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic(member.assigned).items()
        ],
    )
    return COMMON.of_member(group.id, member_id, (said, told))


def of_partitions(group: ShareGroup, topics: Topics) -> Record:
    """The partitions whose state is initialised, those where that is being done, and the topics that are going."""
    key = ShareGroupStatePartitionMetadataKey(group_id=group.id)
    if not (group.initialised or group.initialising or group.deleting):
        return key, None
    value = ShareGroupStatePartitionMetadataValue

    def name(topic_id: UUID) -> str:
        topic = topics.by_id(topic_id)
        return "<UNKNOWN>" if topic is None else topic.name

    def infos(partitions: Mapping[UUID, Iterable[int]]) -> list[_TopicPartitionsInfo]:
        return [
            _TopicPartitionsInfo(topic_id=topic_id, topic_name=name(topic_id), partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
        ]

    state = value(
        initializing_topics=infos(by_topic(group.initialising)),
        initialized_topics=infos(group.initialised),
        deleting_topics=[value.TopicInfo(topic_id=one, topic_name=name(one)) for one in group.deleting],
    )
    return key, state


def made_of(group_id: str, held: Held, behaviour: Behaviour) -> ShareGroup:
    """The group without its epochs and target. What was being initialised or deleted has to be done again."""
    group = ShareGroup.new(group_id, behaviour)
    for member_id, said, current in COMMON.members(held):
        member = Member(member_id, said.client_id, said.client_host, said.rack_id)
        member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
        member.assigned = frozenset(partitions_in(current.assigned_partitions))
        group.members[member.id] = member
        group.subscribe(member, tuple(said.subscribed_topic_names))
    for state in values(held, _PARTITIONS).values():
        for topic_id, index in partitions_in(state.initialized_topics):
            group.initialised.setdefault(topic_id, set()).add(index)
    targets = [partitions_in(target.topic_partitions) for _, target in records_of(held, COMMON.target)]
    assigned = {partition for target in targets for partition in target}
    assignable = {(topic_id, index) for topic_id, indexes in group.initialised.items() for index in indexes}
    group.pending_partitions = not assignable <= assigned
    return group
