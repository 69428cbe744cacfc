"""Turns a classic group into a consumer group of the same members, and back (KIP-848's online migration).

Called by `ConsumerGroups`, which decides when, writes the result and answers. Here the embedded subscriptions and
assignments of classic members are read and written. No function changes the group that it is given.

Source: Kafka 4.3's `ConsumerGroup.fromClassicGroup` and `ClassicGroup.fromConsumerGroup`, and brokers 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafka_share.broker.classic.classic_group import GroupMember, Join
from kafka_share.broker.consumer.consumer_group import ConsumerGroup
from kafka_share.broker.consumer.consumer_member import ClassicProtocol, ConsumerMember
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.errors import GroupIdNotFoundError, RemoteProtocolError, UnknownServerError
from kafka_share.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode,
    encode,
    version_in,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafka_share.broker.classic.classic_group import ClassicGroup
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topics

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of classic groups that can be migrated."""

_Struct = TypeVar("_Struct", ConsumerProtocolSubscription.TopicPartition, ConsumerProtocolAssignment.TopicPartition)


def subscription_of(protocols: tuple[tuple[str, bytes], ...]) -> ConsumerProtocolSubscription:
    """What a member says for the protocol that it prefers. Raises `Refusal`."""
    try:
        return decode(ConsumerProtocolSubscription, protocols[0][1])
    except RemoteProtocolError as error:
        raise Refusal(UnknownServerError, f"the embedded subscription is malformed: {error}") from None


def partitions_in(structs: Iterable[_Struct], topics: Topics) -> frozenset[Partition]:
    """The partitions that these structs name, of topics that exist."""
    found = ((topics.by_name(one.topic), one.partitions) for one in structs)
    return frozenset((topic.id, index) for topic, indexes in found if topic is not None for index in indexes)


def assignment_of(partitions: Iterable[Partition], protocol: bytes, topics: Topics) -> bytes:
    """The embedded assignment for a member that has sent this subscription, in the version of that."""
    named = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic.name, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if (topic := topics.by_id(topic_id)) is not None
    ]
    return encode(ConsumerProtocolAssignment(assigned_partitions=named), version_in(protocol))


def upgraded(group: ClassicGroup, topics: Topics, behaviour: Behaviour) -> ConsumerGroup:
    """The consumer group of the members of a classic one: all in its generation, with what they are assigned.

    Raises `Refusal` if the members' bytes are not what consumers send, or if there has been no generation yet.
    """
    if group.protocol is None:
        raise Refusal(UnknownServerError, f"the first rebalance of group {group.id!r} is not over")
    made = ConsumerGroup(group.id, group.generation, group.generation, behaviour)
    made.assigned_at_ms = 0
    for member in group.members.values():
        try:
            subscription = decode(ConsumerProtocolSubscription, member.metadata(group.protocol))
            assignment = (
                decode(ConsumerProtocolAssignment, member.assignment)
                if member.assignment
                else ConsumerProtocolAssignment()
            )
        except RemoteProtocolError as error:
            raise Refusal(GroupIdNotFoundError, f"group {group.id!r} cannot be upgraded: {error}") from None
        if assignment.user_data:
            raise Refusal(GroupIdNotFoundError, f"group {group.id!r} has an assignor of its own, and is not upgraded")
        partitions = partitions_in(assignment.assigned_partitions, topics)
        if not all(made.is_free(partition) for partition in partitions):
            raise Refusal(UnknownServerError, f"members of group {group.id!r} are assigned the same partition")
        join = member.join
        made.put(
            ConsumerMember(
                id=member.id,
                instance_id=join.instance_id,
                rack_id=subscription.rack_id,
                client_id=join.client_id,
                client_host=join.client_host,
                rebalance_timeout_ms=join.rebalance_timeout_ms,
                subscribed=tuple(sorted(set(subscription.topics))),
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=dict.fromkeys(sorted(partitions), group.generation),
                classic=ClassicProtocol(join.session_timeout_ms, join.protocols),
            )
        )
        made.target[member.id] = partitions
    made.refresh_metadata(topics)
    return made


def downgraded(group: ConsumerGroup, members: Collection[ConsumerMember], topics: Topics) -> list[GroupMember]:
    """The classic group's members: these, all of the classic protocol, with what the target assigns to them.

    Whoever calls gives them their sessions.
    """
    made = []
    for member in members:
        assert member.classic is not None
        join = Join(
            member_id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.classic.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=member.classic.protocols,
        )
        target = group.target.get(member.id, frozenset())
        made.append(GroupMember(member.id, join, 0, assignment_of(target, member.classic.protocols[0][1], topics)))
    return made
