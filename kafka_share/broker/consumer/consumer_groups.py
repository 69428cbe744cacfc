"""The coordinator of consumer groups (KIP-848): heartbeats, leaving, timeouts, regular expressions, classic members.

Called by the handlers of the group APIs and by the cluster (time, moved coordinators). One object serves the whole
cluster; which node answers for a group is the cluster's business. What it must not do: read or write wire messages.

A heartbeat is answered with what the group is after it: the member is admitted, its subscription taken over, the target
computed if it is time, and the member brought one step nearer to it. Regular expressions are resolved *after* the
answer, so the first assignment by a pattern comes with the second heartbeat.

Online migration: the first member of this protocol turns a classic group of consumers into a consumer group, if
`group.consumer.migration.policy` allows it. Classic members stay: JoinGroup is then a heartbeat with an embedded
subscription, answered at once, SyncGroup brings what the member may use now, and Heartbeat asks it to join again when
there is a step to take. When the last member of this protocol has gone, the group becomes a classic one again.

Source: KIP-848 and Kafka 4.3's group coordinator.
"""

from __future__ import annotations

import contextlib
import enum
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final, Never

import attrs

from kafka_share.broker.classic.classic_group import JoinAnswer, SyncAnswer
from kafka_share.broker.consumer import consumer_group_records
from kafka_share.broker.consumer.consumer_group import ConsumerGroup, ResolvedPattern
from kafka_share.broker.consumer.consumer_heartbeat import ConsumerAnswer, updated_by, validate
from kafka_share.broker.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ClassicProtocol,
    ConsumerMember,
    MemberState,
)
from kafka_share.broker.consumer.migration import (
    CONSUMER_PROTOCOL,
    assignment_of,
    downgraded,
    partitions_in,
    subscription_of,
    upgraded,
)
from kafka_share.broker.consumer.reconciliation import Goal, reconcile
from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.name_pattern import NamePattern
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.server_assigned_groups import ServerAssignedGroups
from kafka_share.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from kafka_share.protocol.group_records import GroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from kafka_share.broker.classic.classic_group import ClassicGroup, Join
    from kafka_share.broker.classic.classic_groups import ClassicGroups
    from kafka_share.broker.classic.committed_offsets import CommittedOffsets
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.consumer.consumer_heartbeat import ConsumerHeartbeat
    from kafka_share.broker.group_ids import GroupIds
    from kafka_share.broker.group_journal import GroupJournal, Held, Record
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topics
    from kafka_share.protocol.api_message import RecordMessage

_PATTERN_PAUSE_MS: Final = 10_000
"""A group's patterns are not resolved more often than this."""


class _Limit(enum.IntEnum):
    """What a member may be late with."""

    SESSION = 0
    REVOCATION = 1
    """Giving back what it has to."""
    JOIN = 2
    """A classic member: joining again when it was told to."""
    SYNC = 3
    """A classic member: asking for its assignment when it has joined."""


class ConsumerGroups(ServerAssignedGroups[ConsumerGroup]):
    """All consumer groups of the cluster."""

    def __init__(
        self,
        topics: Topics,
        configs: Configs,
        ids: GroupIds,
        classic: ClassicGroups,
        offsets: CommittedOffsets,
        journal: GroupJournal,
        behaviour: Behaviour,
        random: Random,
    ) -> None:
        super().__init__(ids, GroupType.CONSUMER, journal, consumer_group_records.COMMON)
        self._topics = topics
        self._configs = configs
        self._classic = classic
        self._offsets = offsets
        self._behaviour = behaviour
        self._random = random
        self._limits: Deadlines[tuple[str, str, _Limit]] = Deadlines()
        """By group and member."""

    # ---- what there is

    def default_assignor(self) -> str:
        """The assignor of groups whose members ask for none."""
        return self._assignors()[0]

    def _assignors(self) -> list[str]:
        return [name.strip() for name in self._configs.broker_value("group.consumer.assignors").split(",")]

    def _create(self, group_id: str, now_ms: int) -> ConsumerGroup:
        """Make the group. An empty classic group makes room, and leaves its offsets; one with members is upgraded.

        Raises `Refusal`.
        """
        self._classic.make_room(group_id, now_ms)
        classic = self._classic.group(group_id)
        if classic is not None:
            return self._upgrade(classic, now_ms)
        return self._add(ConsumerGroup.new(group_id, self._behaviour))

    def make_room(self, group_id: str, now_ms: int) -> None:
        """A classic group is to be made: if there is an empty consumer group, it goes, and leaves its offsets.

        Raises `Refusal`.
        """
        group = self._groups.get(group_id)
        if group is not None and not group.members:
            self._forget(group, now_ms)

    # ---- heartbeats

    def heartbeat(self, beat: ConsumerHeartbeat, now_ms: int) -> ConsumerAnswer:
        """Join, stay or leave. Raises `Refusal`."""
        validate(beat, self._assignors())
        if beat.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(beat, now_ms)
        group = self._groups.get(beat.group)
        if group is None:
            group = self._create(beat.group, now_ms) if beat.epoch == JOIN_EPOCH else self.existing(beat.group)
        self._require_room(group, beat.member)
        if not beat.member:
            beat = attrs.evolve(beat, member=self._new_id())
        member = self._admit(group, beat)
        updated = updated_by(member, beat)
        changed = self._subscribe(group, member, updated)
        settings = self._configs.consumer_settings(group.id)
        if group.must_assign(settings.assignment_interval_ms, now_ms):
            group.assign(self._topics, self.default_assignor(), now_ms)
        reconciled = self._reconcile(group, updated, beat.owned, changed=changed, now_ms=now_ms)
        self._limits.set((group.id, updated.id, _Limit.SESSION), now_ms + settings.session_timeout_ms)
        told = beat.epoch == JOIN_EPOCH or beat.is_full or reconciled.assigned != member.assigned
        assignment = frozenset(reconciled.assigned) if told else None
        self._resolve_patterns(group, beat.may_see, now_ms)
        self._save(group, now_ms)
        return ConsumerAnswer(updated.id, reconciled.epoch, settings.heartbeat_interval_ms, assignment)

    def _require_room(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._configs.broker_int("group.consumer.max.size")
        if len(group.members) >= limit and member_id not in group.members:
            raise Refusal(GroupMaxSizeReachedError, f"group {group.id!r} has its {limit} members")

    def _new_id(self) -> str:
        """As Kafka writes its ids: 16 bytes in base64."""
        return urlsafe_b64encode(self._random.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")

    def _admit(self, group: ConsumerGroup, beat: ConsumerHeartbeat) -> ConsumerMember:
        """The member as it is before this heartbeat; one that joins may not be in the group yet."""
        if beat.instance_id is not None:
            return self._admit_static(group, beat, beat.instance_id)
        member = group.members.get(beat.member)
        if member is None:
            if beat.epoch != JOIN_EPOCH:
                raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {beat.member!r}")
            return ConsumerMember(id=beat.member)
        self._require_epoch(member, beat)
        return member

    def _admit_static(self, group: ConsumerGroup, beat: ConsumerHeartbeat, instance_id: str) -> ConsumerMember:
        member = group.static_member(instance_id)
        if beat.epoch != JOIN_EPOCH:
            member = _require_static(member, instance_id, beat.member)
            self._require_epoch(member, beat)
            return member
        if member is None:
            return group.members.get(beat.member) or ConsumerMember(id=beat.member)
        if member.epoch != STATIC_LEAVE_EPOCH and member.classic is None:
            raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, f"{instance_id!r} still belongs to member {member.id!r}")
        return self._succeed(group, member, beat.member)

    def _succeed(self, group: ConsumerGroup, member: ConsumerMember, new_id: str) -> ConsumerMember:
        """Another process has a static member's place; returns the member that it is."""
        successor = attrs.evolve(member, id=new_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        group.replace_static(member, successor)
        self._forget_limits(group.id, member.id)
        return successor

    def _require_epoch(self, member: ConsumerMember, beat: ConsumerHeartbeat) -> None:
        """The member's own epoch; the one before, if its answer was lost; 0 to start anew."""
        if beat.epoch == member.epoch or (beat.epoch == JOIN_EPOCH and self._behaviour.rejoins_at_any_epoch):
            return
        lost_answer = beat.epoch == member.previous_epoch and beat.epoch < member.epoch
        if not lost_answer or beat.owned is None or not beat.owned <= set(member.assigned):
            raise Refusal(
                FencedMemberEpochError, f"member epoch {beat.epoch} is not {member.epoch}: the member has to join again"
            )

    def _subscribe(self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> bool:
        """Take over what the member says; returns whether its subscription is another one by that."""
        names_changed = updated.subscribed != member.subscribed
        pattern_changed = updated.pattern != member.pattern
        group.put(updated)
        resolved = not updated.pattern or updated.pattern in group.patterns
        if (
            member.pattern
            and pattern_changed
            and member.pattern in group.patterns
            and not group.uses_of(member.pattern)
        ):
            group.drop_pattern(member.pattern)
        bumps = pattern_changed and (resolved or self._behaviour.bumps_for_unresolved_patterns)
        metadata_changed = (
            group.refresh_metadata(self._topics) if names_changed or bumps else group.metadata_changed(self._topics)
        )
        if names_changed or bumps or metadata_changed or group.epoch == 0:
            group.bump()
        return names_changed or pattern_changed

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        owned: frozenset[Partition] | None,
        *,
        changed: bool,
        now_ms: int,
    ) -> ConsumerMember:
        goal = Goal(
            epoch=group.assignment_epoch,
            target=group.target.get(member.id, frozenset()),
            topics=group.topic_ids_of(member, self._topics),
            is_free=group.is_free,
            revokes_unsubscribed=self._behaviour.revokes_unsubscribed,
        )
        reconciled = reconcile(member, goal, owned, subscription_changed=changed)
        if reconciled != member:
            group.put(reconciled)
            key = (group.id, member.id, _Limit.REVOCATION)
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS and reconciled.classic is None:
                self._limits.set(key, now_ms + reconciled.rebalance_timeout_ms)
            else:
                self._limits.discard(key)
        return reconciled

    # ---- leaving

    def _leave(self, beat: ConsumerHeartbeat, now_ms: int) -> ConsumerAnswer:
        group = self.existing(beat.group)
        if beat.instance_id is None:
            if beat.member not in group.members:
                raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {beat.member!r}")
            self._fence(group, [beat.member], now_ms)
            return ConsumerAnswer(beat.member, beat.epoch)
        member = _require_static(group.static_member(beat.instance_id), beat.instance_id, beat.member)
        if beat.epoch == STATIC_LEAVE_EPOCH:
            away = attrs.evolve(
                member, epoch=STATIC_LEAVE_EPOCH, revoking={}, assigned=dict.fromkeys(member.assigned, 0)
            )
            group.put(away)
            self._save(group, now_ms)
        else:
            self._fence(group, [member.id], now_ms)
        return ConsumerAnswer(member.id, beat.epoch)

    def leave(self, group_id: str, members: Iterable[tuple[str, str | None]], now_ms: int) -> list[int]:
        """LeaveGroup: members (id, instance id) go, in one step; the error code of each. Raises `Refusal`.

        Admins remove members of any protocol by it. A static one may be named by its instance id alone.
        """
        group = self.existing(group_id)
        codes: list[int] = []
        gone: dict[str, None] = {}
        for member_id, instance_id in members:
            try:
                gone[self._named(group, member_id, instance_id).id] = None
                codes.append(0)
            except Refusal as refusal:
                codes.append(refusal.code)
        if gone:
            self._fence(group, list(gone), now_ms)
        return codes

    def _named(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member that a request of the classic protocol names. Raises `Refusal`."""
        if instance_id is not None:
            member = group.static_member(instance_id)
            return _require_static(member, instance_id, member_id or (member.id if member else ""))
        member = group.members.get(member_id)
        if member is None:
            raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {member_id!r}")
        return member

    def _fence(self, group: ConsumerGroup, member_ids: Sequence[str], now_ms: int) -> None:
        """The members are out; if only classic ones are left, the group becomes one of theirs. Raises `Refusal`."""
        left = group.classic_members(without=member_ids)
        if left is not None and self._may_downgrade(len(left)):
            self._downgrade(group, left, now_ms, rebalance=True)
            return
        group.remove(member_ids)
        for member_id in member_ids:
            self._forget_limits(group.id, member_id)
        self._save(group, now_ms)

    def _forget_limits(self, group_id: str, member_id: str) -> None:
        for limit in _Limit:
            self._limits.discard((group_id, member_id, limit))

    # ---- members of the classic protocol

    def join(
        self, group_id: str, join: Join, may_see: Callable[[str], bool], now_ms: int, *, id_first: bool
    ) -> JoinAnswer:
        """A valid JoinGroup to a group with members. With `id_first` a member is only told its id. Raises `Refusal`."""
        group = self.existing(group_id)
        if self._policy() == "disabled":
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id!r} takes no classic members")
        member_id = join.member_id or self._new_id()
        self._require_room(group, member_id)
        if join.protocol_type != CONSUMER_PROTOCOL or not group.knows_protocol_of(join.protocols):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the members have no such protocol in common")
        if id_first and not join.member_id and join.instance_id is None:
            return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        subscription = subscription_of(join.protocols)
        static = None if join.instance_id is None else group.static_member(join.instance_id)
        others = [] if static is None else [one for one in group.members.values() if one is not static]
        takes_last_place = static is not None and static.classic is None and all(one.classic for one in others)
        downgrades = takes_last_place and self._may_downgrade(len(group.members))
        member = self._admit_classic(group, join, member_id)
        joined = attrs.evolve(
            member,
            instance_id=join.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            subscribed=tuple(sorted(set(subscription.topics))),
            pattern="",
            client_id=join.client_id,
            client_host=join.client_host,
            classic=ClassicProtocol(join.session_timeout_ms, join.protocols),
        )
        owned = partitions_in(subscription.owned_partitions, self._topics)
        changed = self._subscribe(group, member, joined)
        settings = self._configs.consumer_settings(group.id)
        if not downgrades and group.must_assign(settings.assignment_interval_ms, now_ms):
            group.assign(self._topics, self.default_assignor(), now_ms)
        stale = downgrades and group.epoch > group.assignment_epoch
        if not stale:
            joined = self._reconcile(group, joined, owned, changed=changed, now_ms=now_ms)
        self._limits.discard((group.id, joined.id, _Limit.JOIN))
        self._limits.set((group.id, joined.id, _Limit.SESSION), now_ms + join.session_timeout_ms)
        self._limits.set((group.id, joined.id, _Limit.SYNC), now_ms + join.rebalance_timeout_ms)
        if downgrades:
            self._downgrade(group, list(group.members.values()), now_ms, rebalance=stale)
        else:
            self._resolve_patterns(group, may_see, now_ms)
            self._save(group, now_ms)
        return JoinAnswer(0, joined.id, joined.epoch, CONSUMER_PROTOCOL, join.protocols[0][0])

    def _admit_classic(self, group: ConsumerGroup, join: Join, member_id: str) -> ConsumerMember:
        """The member as it is before it joins; a new one is not in the group yet."""
        static = None if join.instance_id is None else group.static_member(join.instance_id)
        if join.instance_id is not None and join.member_id:
            return _require_static(static, join.instance_id, member_id)
        if static is not None:
            return self._succeed(group, static, member_id)
        return group.members.get(member_id) or ConsumerMember(id=member_id)

    def sync(
        self,
        group_id: str,
        named: tuple[str, str | None],
        generation: int,
        protocol: tuple[str | None, str | None],
        now_ms: int,
    ) -> SyncAnswer:
        """A SyncGroup of a member (id, instance id) for its protocol (type, name). Raises `Refusal`."""
        group, member, said = self._classic_member(group_id, named, generation)
        if protocol[0] not in (None, CONSUMER_PROTOCOL) or protocol[1] not in (None, said.protocols[0][0]):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the member has joined for another protocol")
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._ask_to_join(group, member, now_ms)
        self._limits.discard((group.id, member.id, _Limit.SYNC))
        self._limits.set((group.id, member.id, _Limit.SESSION), now_ms + said.session_timeout_ms)
        return SyncAnswer(0, *protocol, assignment_of(member.assigned, said.protocols[0][1], self._topics))

    def beat(self, group_id: str, named: tuple[str, str | None], generation: int, now_ms: int) -> None:
        """A Heartbeat of a member (id, instance id). Raises `Refusal`, also when it has to join again."""
        group, member, said = self._classic_member(group_id, named, generation)
        self._limits.set((group.id, member.id, _Limit.SESSION), now_ms + said.session_timeout_ms)
        may_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or may_go_on:
            self._ask_to_join(group, member, now_ms)

    def _classic_member(
        self, group_id: str, named: tuple[str, str | None], generation: int
    ) -> tuple[ConsumerGroup, ConsumerMember, ClassicProtocol]:
        group = self.existing(group_id)
        member = self._named(group, *named)
        if member.classic is None:
            raise Refusal(UnknownMemberIdError, f"member {member.id!r} does not speak the classic protocol")
        if generation != member.epoch:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"the member epoch is {member.epoch}, not {generation}")
        return group, member, member.classic

    def _ask_to_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Never:
        key = (group.id, member.id, _Limit.JOIN)
        if key not in self._limits:
            self._limits.set(key, now_ms + member.rebalance_timeout_ms)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the member has to join again")

    # ---- migration

    def _policy(self) -> str:
        return self._configs.broker_value("group.consumer.migration.policy")

    def _upgrade(self, classic: ClassicGroup, now_ms: int) -> ConsumerGroup:
        """A member of the consumer protocol joins a classic group that has members. Raises `Refusal`."""
        limit = self._configs.broker_int("group.consumer.max.size")
        if self._policy() not in ("upgrade", "bidirectional"):
            raise Refusal(GroupIdNotFoundError, f"classic group {classic.id!r} is not upgraded: that is disabled")
        if classic.protocol_type != CONSUMER_PROTOCOL:
            raise Refusal(GroupIdNotFoundError, f"the members of classic group {classic.id!r} are no consumers")
        if len(classic.members) > limit:
            raise Refusal(GroupIdNotFoundError, f"classic group {classic.id!r} is larger than {limit} members")
        group = upgraded(classic, self._topics, self._behaviour)
        self._journal.write(group.id, self._records(group), now_ms)
        group.written()
        self._classic.hand_over(group.id)
        self._add(group)
        self.rearm([group.id], now_ms)
        return group

    def _may_downgrade(self, members: int) -> bool:
        enabled = self._policy() in ("downgrade", "bidirectional")
        return enabled and members <= self._configs.broker_int("group.max.size")

    def _downgrade(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int, *, rebalance: bool
    ) -> None:
        """The group becomes a classic one with these members. Raises `Refusal`: then it is as it was written."""
        kept = downgraded(group, members, self._topics)
        classic, record = self._classic.adopted(group.id, kept, group.epoch, now_ms)
        try:
            self._journal.forget(group.id, self._key_classes(), now_ms, instead=[record])
        except Refusal:
            self.restore([group.id], now_ms)
            raise
        self._drop(group)
        self._classic.take(classic, now_ms, rebalance=rebalance)

    # ---- regular expressions

    def _resolve_patterns(self, group: ConsumerGroup, may_see: Callable[[str], bool], now_ms: int) -> None:
        """Find the topics that the group's patterns stand for, if there is a new pattern, new topics, or it is time.

        As in Kafka all patterns stand for what the member may see whose heartbeat it is.
        """
        used = group.used_patterns()
        if not used:
            return
        known = [group.patterns[pattern] for pattern in used if pattern in group.patterns]
        if known:
            latest = max(resolved.at_ms for resolved in known)
            stale = any(resolved.topics_version != self._topics.version for resolved in known)
            refresh_ms = self._configs.broker_int("group.consumer.regex.refresh.interval.ms")
            if now_ms <= latest + _PATTERN_PAUSE_MS:
                return
            if len(known) == len(used) and not stale and now_ms <= latest + refresh_ms:
                return
        names = sorted(topic.name for topic in self._topics if may_see(topic.name))
        changed = False
        for pattern in used:
            compiled = NamePattern(pattern)
            topics = tuple(name for name in names if compiled.matches(name))
            changed |= group.set_pattern(pattern, ResolvedPattern(topics, now_ms, self._topics.version))
        if group.refresh_metadata(self._topics) or changed:
            group.bump()

    # ---- deletion

    def delete(self, group_id: str, now_ms: int) -> None:
        """Delete an empty group and its offsets. Raises `Refusal`."""
        group = self.existing(group_id)
        if group.members:
            raise Refusal(NonEmptyGroupError, f"group {group_id!r} still has {len(group.members)} members")
        self._offsets.delete_group(group_id, now_ms)
        self._forget(group, now_ms)

    # ---- what is written

    def _member_records(self, group: ConsumerGroup, member_id: str) -> Iterable[Record]:
        return consumer_group_records.of_member(group, member_id)

    def _group_records(self, group: ConsumerGroup) -> Iterable[Record]:
        patterns = [consumer_group_records.of_pattern(group, pattern) for pattern in group.touched_patterns]
        return [(GroupMetadataKey(group=group.id), None), *patterns]

    def _made_of(self, group_id: str, held: Held) -> ConsumerGroup:
        return consumer_group_records.made_of(group_id, held, self._behaviour)

    def _member_ids(self, group: ConsumerGroup) -> Iterable[str]:
        return group.members

    def _key_classes(self) -> Iterable[type[RecordMessage]]:
        return consumer_group_records.KEYS

    def _drop(self, group: ConsumerGroup) -> None:
        """See `ServerAssignedGroups._drop`."""
        for member_id in group.members:
            self._forget_limits(group.id, member_id)
        super()._drop(group)

    # ---- time

    def poll(self, now_ms: int) -> None:
        """Fence the members whose session has ended, and those that did not give partitions back in time."""
        for group_id, member_id, _ in list(self._limits.take_due(now_ms)):
            group = self._groups.get(group_id)
            if group is not None and member_id in group.members:
                with contextlib.suppress(Refusal):  # whoever cannot be written off gets another session
                    self._fence(group, [member_id], now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing is waited for."""
        return self._limits.next_at_ms()

    def rearm(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Another node took these groups over: their members get whole timeouts to find it."""
        for group in [self._groups[group_id] for group_id in group_ids if group_id in self._groups]:
            timeout_ms = self._configs.consumer_settings(group.id).session_timeout_ms
            for member in group.members.values():
                session_ms = timeout_ms if member.classic is None else member.classic.session_timeout_ms
                self._limits.set((group.id, member.id, _Limit.SESSION), now_ms + session_ms)
                if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                    key = (group.id, member.id, _Limit.REVOCATION)
                    self._limits.set(key, now_ms + member.rebalance_timeout_ms)

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        for group_id, group in self._groups.items():
            group.check()
            for member in group.members.values():
                assert (group_id, member.id, _Limit.SESSION) in self._limits


def _require_static(member: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """The static member, if it is this process; raises `Refusal`."""
    if member is None:
        raise Refusal(UnknownMemberIdError, f"no member has the instance id {instance_id!r}")
    if member.id != member_id:
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} belongs to a newer member")
    return member
