"""Brings a member of a consumer group one step nearer to its target assignment. Pure functions.

Called by `ConsumerGroups` for each heartbeat. A partition has one owner at a time: a member first gives back what is no
longer its own (it stays in its epoch, UNREVOKED_PARTITIONS, until a heartbeat names what it owns without them); only
then it comes to the epoch of the target and gets what is free; for the rest it waits (UNRELEASED_PARTITIONS).

Source: KIP-848; Kafka 4.3's `CurrentAssignmentBuilder` as seen from outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.consumer.consumer_member import ConsumerMember, MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set
    from uuid import UUID

    from kafka_share.broker.server_assigned_group import Partition


@attrs.frozen(kw_only=True)
class Goal:
    """Where a member is to come to."""

    epoch: int
    """The assignment epoch of the target."""
    target: Set[Partition]
    topics: Set[UUID]
    """The topics that the member subscribes to now; no other partitions are its own, whatever the target says."""
    is_free: Callable[[Partition], bool]
    """Whether no member has the partition."""
    revokes_unsubscribed: bool = True
    """Partitions of topics that the member no longer subscribes to are taken back before there is a new target."""


def reconcile(
    member: ConsumerMember, goal: Goal, owned: Set[Partition] | None, *, subscription_changed: bool
) -> ConsumerMember:
    """The member after the next step; the same one if there is none. `owned` is None where the member did not say."""
    if member.is_reconciled_to(goal.epoch):
        return _unsubscribe(member, goal, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, member.revoking):
        return _unsubscribe(member, goal, owned) if subscription_changed else member
    return _advance(member, goal, owned)


def _still_owns(owned: Set[Partition] | None, partitions: Iterable[Partition]) -> bool:
    return owned is None or not owned.isdisjoint(partitions)


def _unsubscribe(member: ConsumerMember, goal: Goal, owned: Set[Partition] | None) -> ConsumerMember:
    """Take partitions of topics back that the member no longer subscribes to."""
    if not goal.revokes_unsubscribed:
        return member
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition[0] in goal.topics}
    if len(kept) == len(member.assigned):
        return member
    gone = {partition: epoch for partition, epoch in member.assigned.items() if partition not in kept}
    revoking = {**member.revoking, **gone}
    if not _still_owns(owned, revoking):
        return member.at_epoch(member.epoch, assigned=kept)
    return member.at_epoch(member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)


def _advance(member: ConsumerMember, goal: Goal, owned: Set[Partition] | None) -> ConsumerMember:
    target = goal.target
    if goal.revokes_unsubscribed:
        target = frozenset(partition for partition in target if partition[0] in goal.topics)
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in target}
    revoking = {partition: epoch for partition, epoch in member.assigned.items() if partition not in target}
    if revoking and _still_owns(owned, revoking):
        return member.at_epoch(member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    missing = sorted(partition for partition in target if partition not in kept)
    free = [partition for partition in missing if goal.is_free(partition) or partition in member.revoking]
    return member.at_epoch(
        goal.epoch,
        state=MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS,
        assigned={**kept, **dict.fromkeys(free, goal.epoch)},
        revoking={},
    )
