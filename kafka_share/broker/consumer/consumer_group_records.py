"""What is written of a consumer group besides its epochs and target: members, and what patterns stood for.

Called by `ConsumerGroups`. Pure functions. Source: KIP-848, Kafka 4.3's `GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.consumer.consumer_group import ConsumerGroup, ResolvedPattern
from kafka_share.broker.consumer.consumer_member import ClassicProtocol, ConsumerMember, MemberState
from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.broker.server_assigned_records import CommonRecords, records_of
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_share.broker.group_journal import Held, Record
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition

COMMON: Final = CommonRecords(
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
)
_PATTERN: Final = (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue)
KEYS: Final = (
    COMMON.current[0], COMMON.target[0], COMMON.target_epoch[0], COMMON.member[0], _PATTERN[0], COMMON.epoch[0],
)  # fmt: skip

_Struct = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_Classic = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata


def of_member(group: ConsumerGroup, member_id: str) -> Iterable[Record]:
    """What a member said of itself, and how far it has come."""
    member = group.members.get(member_id)
    if member is None:
        return COMMON.of_member(group.id, member_id, None)
    said = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic(member.classic),
    )
    told = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_structs(member.assigned),
        partitions_pending_revocation=_structs(member.revoking),
    )
    return COMMON.of_member(group.id, member_id, (said, told))


def _classic(said: ClassicProtocol) -> _Classic:
    protocols = [_Classic.ClassicProtocol(name=name, metadata=metadata) for name, metadata in said.protocols]
    return _Classic(session_timeout_ms=said.session_timeout_ms, supported_protocols=protocols)


def _classic_in(said: _Classic | None) -> ClassicProtocol | None:
    if said is None:
        return None
    protocols = tuple((one.name, bytes(one.metadata)) for one in said.supported_protocols)
    return ClassicProtocol(said.session_timeout_ms, protocols)


def _structs(partitions: Mapping[Partition, int]) -> list[_Struct]:
    return [
        _Struct(
            topic_id=topic_id, partitions=indexes, assignment_epochs=[partitions[topic_id, index] for index in indexes]
        )
        for topic_id, indexes in by_topic(partitions).items()
    ]


def _partitions(structs: Iterable[_Struct], epoch: int) -> dict[Partition, int]:
    """With the member epochs of their assignment; `epoch` where older versions of Kafka have not written them."""
    return {
        (one.topic_id or NO_TOPIC_ID, index): one.assignment_epochs[at] if one.assignment_epochs else epoch
        for one in structs
        for at, index in enumerate(one.partitions)
    }


def of_pattern(group: ConsumerGroup, pattern: str) -> Record:
    """What a pattern stands for."""
    key = ConsumerGroupRegularExpressionKey(group_id=group.id, regular_expression=pattern)
    resolved = group.patterns.get(pattern)
    if resolved is None:
        return key, None
    return key, ConsumerGroupRegularExpressionValue(
        topics=list(resolved.topics), version=resolved.topics_version, timestamp=resolved.at_ms
    )


def made_of(group_id: str, held: Held, behaviour: Behaviour) -> ConsumerGroup:
    """The group without its epochs and target."""
    group = ConsumerGroup.new(group_id, behaviour)
    for member_id, said, current in COMMON.members(held):
        group.put(
            ConsumerMember(
                id=member_id,
                instance_id=said.instance_id,
                rack_id=said.rack_id,
                client_id=said.client_id,
                client_host=said.client_host,
                rebalance_timeout_ms=said.rebalance_timeout_ms,
                subscribed=tuple(said.subscribed_topic_names),
                pattern=said.subscribed_topic_regex or "",
                assignor=said.server_assignor,
                epoch=current.member_epoch,
                previous_epoch=current.previous_member_epoch,
                state=MemberState(current.state),
                assigned=_partitions(current.assigned_partitions, current.member_epoch),
                revoking=_partitions(current.partitions_pending_revocation, current.member_epoch),
                classic=_classic_in(said.classic_member_metadata),
            )
        )
    for key, resolved in records_of(held, _PATTERN):
        if group.uses_of(key.regular_expression):
            pattern = ResolvedPattern(tuple(resolved.topics), resolved.timestamp, resolved.version)
            group.set_pattern(key.regular_expression, pattern)
    return group
