"""What is kept of a classic group: its last generation. The value, and the record that it is written as.

Made by `ClassicGroup` when a generation has its assignments, or is empty; read when a coordinator loads. Source: Kafka
4.3's `GroupMetadataValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_share.protocol.group_records import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from kafka_share.broker.group_journal import Record


@attrs.frozen(kw_only=True)
class KeptMember:
    """One member: what it said for the protocol that was chosen, and what it was assigned."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@attrs.frozen(kw_only=True)
class Generation:
    """One generation; `since_ms` is when it began."""

    number: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[KeptMember, ...] = ()


def record_of(group_id: str, generation: Generation) -> Record:
    """The record of a generation."""
    value = GroupMetadataValue(
        protocol_type=generation.protocol_type or "",
        generation=generation.number,
        protocol=generation.protocol,
        leader=generation.leader,
        current_state_timestamp=generation.since_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in generation.members
        ],
    )
    return GroupMetadataKey(group=group_id), value


def generation_in(value: GroupMetadataValue) -> Generation:
    """The generation that a record holds."""
    return Generation(
        number=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        since_ms=value.current_state_timestamp,
        members=tuple(
            KeptMember(
                id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout,
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ),
    )
