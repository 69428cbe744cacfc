"""One share group as its coordinator knows it: members, epochs, target assignment, initialised partitions.

Owned by the group coordinator; nothing here knows requests. Three epochs tell how far a change has come:

- the *group epoch* moves when membership, subscriptions or the assignable partitions change;
- the *assignment epoch* is the group epoch that the target assignment was computed for;
- the *member epoch* is the assignment epoch that the member has been told of. There is no revocation step: a member is
  moved to the target at once, and another member may hold the same partition before and after.

Source: KIP-932 and Kafka 4.3's group coordinator.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import attrs

from kafka_share.broker.share.assignor import Partition, assign

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.storage.topics import Topics

Fingerprint: TypeAlias = tuple[tuple[str, "UUID", int], ...]
"""Name, id and partition count of each subscribed topic that exists."""


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


@attrs.define(eq=False)
class ShareGroup:
    """One share group."""

    id: str
    epoch: int
    assignment_epoch: int
    behaviour: Behaviour
    members: dict[str, Member] = attrs.Factory(dict)
    target: dict[str, frozenset[Partition]] = attrs.Factory(dict)
    initialised: dict[UUID, set[int]] = attrs.Factory(dict)
    """The partitions whose share state exists; only these are assigned."""
    assigned_at_ms: int | None = None
    pending_partitions: bool = False
    """Partitions were initialised that no group epoch stands for yet."""
    _subscribers: Counter[str] = attrs.Factory(Counter)
    """How many members subscribe to a topic."""
    _fingerprint: Fingerprint = ()
    _metadata_version: int = -1

    @classmethod
    def new(cls, group_id: str, behaviour: Behaviour) -> ShareGroup:
        """A group without members."""
        return cls(group_id, behaviour.first_group_epoch, behaviour.first_group_epoch, behaviour)

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        return "Stable" if self.members else "Empty"

    def subscribed_names(self) -> list[str]:
        """The topics that some member subscribes to, in order."""
        return sorted(self._subscribers)

    def subscribe(self, member: Member, names: tuple[str, ...]) -> None:
        """The member subscribes to these topics now, in place of those before."""
        self._subscribers.update(names)
        self._subscribers.subtract(member.subscribed)
        for name in member.subscribed:
            if not self._subscribers[name]:
                del self._subscribers[name]
        member.subscribed = names

    def metadata_changed(self, topics: Topics) -> bool:
        """Whether the subscribed topics differ from those at the last call: made, deleted, grown or another set."""
        if self._metadata_version == topics.version:
            return False
        return self.refresh_metadata(topics)

    def refresh_metadata(self, topics: Topics) -> bool:
        """As `metadata_changed`, to be used when the subscriptions have changed."""
        found = [topic for name in self.subscribed_names() if (topic := topics.by_name(name)) is not None]
        fingerprint = tuple((topic.name, topic.id, len(topic.partitions)) for topic in found)
        changed = fingerprint != self._fingerprint
        self._fingerprint, self._metadata_version = fingerprint, topics.version
        return changed

    def bump(self) -> None:
        """The next assignment has to be another one."""
        self.epoch += 1
        self.pending_partitions = False

    def update_target(self, topics: Topics, interval_ms: int, now_ms: int) -> None:
        """Compute the target assignment if the group epoch has moved, at most once per `interval_ms` (0: always)."""
        if self.epoch == self.assignment_epoch:
            return
        if self.assigned_at_ms is not None and now_ms - self.assigned_at_ms < interval_ms:
            return
        subscriptions = {
            member.id: frozenset(t.id for name in member.subscribed if (t := topics.by_name(name)) is not None)
            for member in self.members.values()
        }
        assignable = [(topic_id, index) for topic_id, indexes in self.initialised.items() for index in sorted(indexes)]
        even = self.behaviour.evens_out_copies
        self.target = assign(subscriptions, assignable, self.target, evens_out_copies=even)
        self.assignment_epoch = self.epoch
        self.assigned_at_ms = now_ms

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
        self.subscribe(self.members.pop(member_id), ())
        self.target.pop(member_id, None)
        self.bump()
        if self.behaviour.assigns_empty_groups and not self.members:
            self.assignment_epoch = self.epoch

    def check(self) -> None:
        """Assert the invariants."""
        assert self.assignment_epoch <= self.epoch
        for member in self.members.values():
            assert member.epoch <= self.assignment_epoch
            assert member.previous_epoch <= member.epoch
            assert tuple(sorted(set(member.subscribed))) == member.subscribed
        assert self._subscribers == Counter(name for member in self.members.values() for name in member.subscribed)


def subscribed_part(partitions: frozenset[Partition], member: Member, topics: Topics) -> frozenset[Partition]:
    """Those of the partitions whose topic the member subscribes to."""
    ids = [topic.id for name in member.subscribed if (topic := topics.by_name(name)) is not None]
    return frozenset(partition for partition in partitions if partition[0] in ids)
