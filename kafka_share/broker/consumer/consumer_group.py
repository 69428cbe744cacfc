"""One consumer group (KIP-848): members, target assignment, owners of partitions, resolved patterns.

Owned by `ConsumerGroups`; knows no requests and no timers. The epochs are those of `ServerAssignedGroup`. What a group
is, is in its members, its target, its epochs and its resolved patterns; all else is derived from them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.consumer.assignors import ASSIGNORS, Subscriber
from kafka_share.broker.consumer.consumer_member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState
from kafka_share.broker.server_assigned_group import ServerAssignedGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topics


@attrs.frozen
class ResolvedPattern:
    """The topics that a pattern stood for at that time, and the `Topics.version` of then."""

    topics: tuple[str, ...]
    at_ms: int
    topics_version: int


@attrs.define(eq=False)
class ConsumerGroup(ServerAssignedGroup):
    """One consumer group. Members change only by `put` and `remove`."""

    members: dict[str, ConsumerMember] = attrs.Factory(dict)
    patterns: dict[str, ResolvedPattern] = attrs.Factory(dict)
    """The resolved ones, each of which some member subscribes to."""
    touched_patterns: dict[str, None] = attrs.Factory(dict)
    """Those that may stand for something else than what was written."""
    _static: dict[str, str] = attrs.Factory(dict)
    """Instance id -> member id."""
    _owners: dict[Partition, str] = attrs.Factory(dict)
    """Who has a partition, or still has to give it back."""

    @classmethod
    def new(cls, group_id: str, behaviour: Behaviour) -> ConsumerGroup:
        """A group without members."""
        return cls(group_id, behaviour.first_group_epoch, behaviour.first_group_epoch, behaviour)

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def stamp(self) -> object:
        """See `ServerAssignedGroup.stamp`."""
        return super().stamp(), tuple(self.touched_patterns)

    def written(self) -> None:
        """See `ServerAssignedGroup.written`."""
        self.touched_patterns.clear()
        super().written()

    # ---- members

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that has this instance id."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def put(self, member: ConsumerMember) -> None:
        """Add the member, or replace what was known of it."""
        before = self.members.get(member.id)
        if member != before:
            self.touched[member.id] = None
        self._forget(before)
        self.members[member.id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        for partition in (*member.assigned, *member.revoking):
            assert partition not in self._owners, f"{self._owners[partition]} still has {partition}"
            self._owners[partition] = member.id
        self.count_subscriptions(self.topics_of(member), ())

    def replace_static(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Another process takes over a member's instance id, with its assignment and target."""
        self.touched[old.id] = None
        target = self.target.pop(old.id, frozenset())
        self._forget(self.members.pop(old.id))
        self.put(new)
        self.target[new.id] = target

    def remove(self, member_ids: Iterable[str]) -> None:
        """These members left or were fenced; the others need another assignment."""
        for member_id in member_ids:
            self.touched[member_id] = None
            self._forget(self.members.pop(member_id))
            self.target.pop(member_id, None)
        for pattern in [pattern for pattern in self.patterns if not self.uses_of(pattern)]:
            self.drop_pattern(pattern)
        self.bump()

    def _forget(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for partition in (*member.assigned, *member.revoking):
            del self._owners[partition]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        self.count_subscriptions((), self.topics_of(member))

    def classic_members(self, without: Iterable[str] = ()) -> list[ConsumerMember] | None:
        """The members but these, if there are any and all speak the classic protocol; else None."""
        left = [member for member_id, member in self.members.items() if member_id not in without]
        return left if left and all(member.classic is not None for member in left) else None

    def knows_protocol_of(self, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether all members of the classic protocol know one of these, too."""
        known = [{name for name, _ in one.classic.protocols} for one in self.members.values() if one.classic]
        return any(all(name in names for names in known) for name, _ in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of the member's target still belongs to another member."""
        target = self.target.get(member.id, frozenset())
        return any(partition not in member.assigned and not self.is_free(partition) for partition in target)

    def is_free(self, partition: Partition) -> bool:
        """Whether no member has the partition."""
        return partition not in self._owners

    # ---- subscriptions

    def topics_of(self, member: ConsumerMember) -> list[str]:
        """The names of what the member subscribes to: by name, and by a pattern that has been resolved."""
        resolved = self.patterns.get(member.pattern)
        return sorted({*member.subscribed, *(resolved.topics if resolved else ())})

    def uses_of(self, pattern: str) -> int:
        """How many members subscribe by this pattern."""
        return sum(member.pattern == pattern for member in self.members.values())

    def used_patterns(self) -> list[str]:
        """The patterns that members subscribe by, in order."""
        return sorted({member.pattern for member in self.members.values() if member.pattern})

    def set_pattern(self, pattern: str, resolved: ResolvedPattern) -> bool:
        """The pattern stands for these topics now; returns whether that is a change."""
        self.touched_patterns[pattern] = None
        before = self.patterns.get(pattern)
        users = [member for member in self.members.values() if member.pattern == pattern]
        for member in users:
            self.count_subscriptions((), self.topics_of(member))
        self.patterns[pattern] = resolved
        for member in users:
            self.count_subscriptions(self.topics_of(member), ())
        return resolved.topics != (before.topics if before else ())

    def drop_pattern(self, pattern: str) -> None:
        """Nobody subscribes by the pattern any more."""
        assert not self.uses_of(pattern)
        self.touched_patterns[pattern] = None
        del self.patterns[pattern]

    # ---- assignment

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for; `default` if none does."""
        wanted = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return min(wanted, key=lambda name: (-wanted[name], name != default, name), default=default)

    def assign(self, topics: Topics, default_assignor: str, now_ms: int) -> None:
        """Compute the target for the present group epoch."""
        members = {
            member.id: Subscriber(
                self.topic_ids_of(member, topics), self.target.get(member.id, frozenset()), member.instance_id
            )
            for member in self.members.values()
        }
        found = [topic for name in self.subscribed_names() if (topic := topics.by_name(name)) is not None]
        counts: Mapping[UUID, int] = {topic.id: len(topic.partitions) for topic in found}
        self.assigned(ASSIGNORS[self.preferred_assignor(default_assignor)](members, counts), now_ms)

    def topic_ids_of(self, member: ConsumerMember, topics: Topics) -> frozenset[UUID]:
        """The ids of those topics of the member that exist."""
        found = (topics.by_name(name) for name in self.topics_of(member))
        return frozenset(topic.id for topic in found if topic is not None)

    def check(self) -> None:
        """Assert the invariants."""
        self.check_subscribers(Counter(name for member in self.members.values() for name in self.topics_of(member)))
        owners = {p: m.id for m in self.members.values() for p in (*m.assigned, *m.revoking)}
        assert owners == self._owners
        assert sum(len(m.assigned) + len(m.revoking) for m in self.members.values()) == len(owners)
        assert self._static == {m.instance_id: m.id for m in self.members.values() if m.instance_id is not None}
        assert set(self.patterns) <= {member.pattern for member in self.members.values()}
        assert set(self.target) <= set(self.members)
        for member in self.members.values():
            assert STATIC_LEAVE_EPOCH <= member.epoch <= self.assignment_epoch
            assert bool(member.revoking) <= (member.state is MemberState.UNREVOKED_PARTITIONS)
