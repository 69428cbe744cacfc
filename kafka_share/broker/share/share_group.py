"""One share group as its coordinator knows it: members, epochs, target assignment, initialised partitions.

Owned by the group coordinator; nothing here knows requests. The epochs are those of `ServerAssignedGroup`; the group
epoch also moves when partitions become assignable. There is no revocation step: a member is moved to the target at
once, and another member may hold the same partition before and after.

Source: KIP-932 and Kafka 4.3's group coordinator.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.server_assigned_group import ServerAssignedGroup
from kafka_share.broker.share.assignor import assign

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topics


@attrs.define(eq=False)
class Member:
    """One member: what it said of itself, and what it has been told."""

    id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    subscribed: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Partition] = frozenset()
    session_ends_at_ms: int = 0

    def stamp(self) -> object:
        """Something that is equal as long as nothing that is written of the member has changed."""
        said = (self.client_id, self.client_host, self.rack_id, self.subscribed)
        return said, self.epoch, self.previous_epoch, self.assigned


@attrs.define(eq=False)
class ShareGroup(ServerAssignedGroup):
    """One share group."""

    members: dict[str, Member] = attrs.Factory(dict)
    initialised: dict[UUID, set[int]] = attrs.Factory(dict)
    """The partitions whose share state exists; only these are assigned."""
    initialising: frozenset[Partition] = frozenset()
    """Those whose share state is being made."""
    deleting: tuple[UUID, ...] = ()
    """The topics whose share state is being deleted."""
    pending_partitions: bool = False
    """Partitions were initialised that no group epoch stands for yet."""

    @classmethod
    def new(cls, group_id: str, behaviour: Behaviour) -> ShareGroup:
        """A group without members."""
        return cls(group_id, behaviour.first_group_epoch, behaviour.first_group_epoch, behaviour)

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        return "Stable" if self.members else "Empty"

    def stamp(self) -> object:
        """See `ServerAssignedGroup.stamp`."""
        initialised = tuple((topic_id, len(indexes)) for topic_id, indexes in self.initialised.items())
        return super().stamp(), initialised, self.initialising, self.deleting

    def subscribe(self, member: Member, names: tuple[str, ...]) -> None:
        """The member subscribes to these topics now, in place of those before."""
        self.count_subscriptions(names, member.subscribed)
        member.subscribed = names

    def bump(self) -> None:
        """See `ServerAssignedGroup.bump`."""
        super().bump()
        self.pending_partitions = False

    @property
    def wants_another_target(self) -> bool:
        """Whether partitions with share state wait for a group epoch that assigns them."""
        if not self.behaviour.bumps_while_state_is_unassigned:
            return self.pending_partitions
        assigned = {partition for target in self.target.values() for partition in target}
        initialised = {(topic_id, index) for topic_id, indexes in self.initialised.items() for index in indexes}
        return bool(self.initialised) and initialised != assigned

    def update_target(self, topics: Topics, interval_ms: int, now_ms: int) -> None:
        """Compute the target assignment if the group epoch has moved, at most once per `interval_ms` (0: always)."""
        if not self.must_assign(interval_ms, now_ms):
            return
        subscriptions = {
            member.id: frozenset(t.id for name in member.subscribed if (t := topics.by_name(name)) is not None)
            for member in self.members.values()
        }
        assignable = [(topic_id, index) for topic_id, indexes in self.initialised.items() for index in sorted(indexes)]
        even = self.behaviour.evens_out_copies
        self.assigned(assign(subscriptions, assignable, self.target, evens_out_copies=even), now_ms)

    def reconcile(self, member: Member, topics: Topics) -> bool:
        """Move the member to the target; returns whether its assignment changed by that."""
        if member.epoch == self.assignment_epoch:
            return False
        assigned = subscribed_part(self.target.get(member.id, frozenset()), member, topics)
        changed = assigned != member.assigned
        member.assigned = assigned
        member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
        return changed

    def remove(self, member_id: str) -> None:
        """The member left or was silent for too long."""
        self.touched[member_id] = None
        self.subscribe(self.members.pop(member_id), ())
        self.target.pop(member_id, None)
        self.bump()
        if self.behaviour.assigns_empty_groups and not self.members:
            self.assigned_nobody()

    def check(self) -> None:
        """Assert the invariants."""
        self.check_subscribers(Counter(name for member in self.members.values() for name in member.subscribed))
        for member in self.members.values():
            assert member.epoch <= self.assignment_epoch
            assert member.previous_epoch <= member.epoch
            assert tuple(sorted(set(member.subscribed))) == member.subscribed


def subscribed_part(partitions: frozenset[Partition], member: Member, topics: Topics) -> frozenset[Partition]:
    """Those of the partitions whose topic the member subscribes to."""
    ids = [topic.id for name in member.subscribed if (topic := topics.by_name(name)) is not None]
    return frozenset(partition for partition in partitions if partition[0] in ids)
