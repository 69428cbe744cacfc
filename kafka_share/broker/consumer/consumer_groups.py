"""The coordinator of consumer groups (KIP-848): heartbeats, leaving, timeouts, regular expressions, who may commit.

Called by the handlers of the group APIs and by the cluster (time, moved coordinators). One object serves the whole
cluster; which node answers for a group is the cluster's business. What it must not do: read or write wire messages.

A heartbeat is answered with what the group is after it: the member is admitted, its subscription taken over, the target
computed if it is time, and the member brought one step nearer to it. Regular expressions are resolved *after* the
answer, so the first assignment by a pattern comes with the second heartbeat.

Source: KIP-848 and Kafka 4.3's group coordinator. Members of the classic protocol are not admitted (Kafka's
group.consumer.migration.policy "disabled").
"""

from __future__ import annotations

import contextlib
import enum
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

import attrs

from kafka_share.broker.consumer import consumer_group_records
from kafka_share.broker.consumer.consumer_group import ConsumerGroup, ResolvedPattern
from kafka_share.broker.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from kafka_share.broker.consumer.reconciliation import Goal, reconcile
from kafka_share.broker.consumer.topic_pattern import PatternError, TopicPattern
from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.server_assigned_groups import ServerAssignedGroups
from kafka_share.errors import (
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from kafka_share.broker.classic.classic_groups import ClassicGroups
    from kafka_share.broker.classic.committed_offsets import CommittedOffsets
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.group_ids import GroupIds
    from kafka_share.broker.group_journal import GroupJournal, Held, Record
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topics
    from kafka_share.protocol.api_message import RecordMessage

_PATTERN_PAUSE_MS: Final = 10_000
"""A group's patterns are not resolved more often than this."""
_COMMITS_SINCE_VERSION: Final = 9
"""Of OffsetCommit: it knows member epochs."""


@attrs.frozen(kw_only=True)
class ConsumerHeartbeat:
    """What a member says; None (for `rebalance_timeout_ms` -1) where it is as before.

    With `makes_own_id` (version 1) the member has to name itself.
    """

    group: str
    member: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[Partition] | None = None
    client_id: str = ""
    client_host: str = ""
    makes_own_id: bool = True
    may_see: Callable[[str], bool] = lambda topic: True
    """Whether the client may know of a topic: regular expressions stand for no others."""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as it does when it wants its assignment again."""
        subscribes = self.subscribed is not None or self.pattern is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@attrs.frozen
class ConsumerAnswer:
    """What the member is told. `assignment` is None where it is as before."""

    member: str
    epoch: int
    interval_ms: int = 0
    assignment: frozenset[Partition] | None = None


class _Limit(enum.IntEnum):
    """What a member may be late with."""

    SESSION = 0
    REVOCATION = 1


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
        """Make the group. An empty classic group makes room, and leaves its offsets. Raises `Refusal`."""
        self._classic.make_room(group_id, now_ms)
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
        self._validate(beat)
        if beat.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(beat, now_ms)
        group = self._groups.get(beat.group)
        if group is None:
            group = self._create(beat.group, now_ms) if beat.epoch == JOIN_EPOCH else self.existing(beat.group)
        self._require_room(group, beat.member)
        if not beat.member:
            beat = attrs.evolve(beat, member=self._new_id())
        member = self._admit(group, beat)
        updated = _updated(member, beat)
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

    def _validate(self, beat: ConsumerHeartbeat) -> None:
        if not beat.member and (beat.makes_own_id or beat.epoch > JOIN_EPOCH or beat.epoch == LEAVE_EPOCH):
            raise Refusal(InvalidRequestError, "a heartbeat has to name a member")
        if not beat.group.strip():
            raise Refusal(InvalidRequestError, "a heartbeat has to name a group")
        if beat.instance_id is not None and not beat.instance_id.strip():
            raise Refusal(InvalidRequestError, "an instance id cannot be empty; leave it out instead")
        if beat.rack_id is not None and not beat.rack_id.strip():
            raise Refusal(InvalidRequestError, "a rack id cannot be empty; leave it out instead")
        if beat.epoch == JOIN_EPOCH and (not beat.is_full or beat.owned):
            raise Refusal(
                InvalidRequestError,
                "a member that joins has to name its rebalance timeout and its topics, and owns no partitions",
            )
        if beat.epoch == STATIC_LEAVE_EPOCH and beat.instance_id is None:
            raise Refusal(InvalidRequestError, "only a static member can leave for a while")
        if beat.epoch < STATIC_LEAVE_EPOCH:
            raise Refusal(InvalidRequestError, f"{beat.epoch} is not a member epoch")
        if beat.assignor is not None and beat.assignor not in self._assignors():
            raise Refusal(
                ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {beat.assignor!r} but {self._assignors()}"
            )
        if beat.pattern and beat.epoch >= JOIN_EPOCH:
            _require_pattern(beat.pattern)

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
        if member.epoch != STATIC_LEAVE_EPOCH:
            raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, f"{instance_id!r} still belongs to member {member.id!r}")
        successor = attrs.evolve(member, id=beat.member, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
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
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
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
            self._fence(group, [beat.member])
            self._save(group, now_ms)
            return ConsumerAnswer(beat.member, beat.epoch)
        member = _require_static(group.static_member(beat.instance_id), beat.instance_id, beat.member)
        if beat.epoch == STATIC_LEAVE_EPOCH:
            away = attrs.evolve(
                member, epoch=STATIC_LEAVE_EPOCH, revoking={}, assigned=dict.fromkeys(member.assigned, 0)
            )
            group.put(away)
        else:
            self._fence(group, [member.id])
        self._save(group, now_ms)
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
            self._fence(group, list(gone))
            self._save(group, now_ms)
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

    def _fence(self, group: ConsumerGroup, member_ids: Sequence[str]) -> None:
        """The members are out."""
        group.remove(member_ids)
        for member_id in member_ids:
            self._forget_limits(group.id, member_id)

    def _forget_limits(self, group_id: str, member_id: str) -> None:
        for limit in _Limit:
            self._limits.discard((group_id, member_id, limit))

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
            compiled = TopicPattern(pattern)
            topics = tuple(name for name in names if compiled.matches(name))
            changed |= group.set_pattern(pattern, ResolvedPattern(topics, now_ms, self._topics.version))
        if group.refresh_metadata(self._topics) or changed:
            group.bump()

    # ---- offsets

    def require_may_commit(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Iterable[Partition],
        *,
        api_version: int | None,
    ) -> None:
        """Raises `Refusal` unless the member, or somebody outside of an empty group, may commit these partitions now.

        `api_version` is that of OffsetCommit, None in a transaction.
        """
        group = self.existing(group_id)
        if epoch < 0 and (not group.members or (api_version is None and not member_id)):
            return
        member = group.members.get(member_id)
        if member is None:
            raise Refusal(UnknownMemberIdError, f"group {group_id!r} has no member {member_id!r}")
        if api_version is not None and api_version < _COMMITS_SINCE_VERSION:
            raise Refusal(UnsupportedVersionError, "members of consumer groups commit with version 9 or later")
        if epoch == member.epoch:
            return
        stale = ErrorCode.ILLEGAL_GENERATION if api_version is None else ErrorCode.STALE_MEMBER_EPOCH
        if epoch > member.epoch or not self._behaviour.commits_at_assignment_epochs:
            raise Refusal(stale, f"the member epoch is {member.epoch}, not {epoch}")
        for partition in partitions:
            since = member.assigned.get(partition, member.revoking.get(partition))
            if since is None or epoch < since:
                raise Refusal(stale, f"the member has not had the partition since epoch {epoch}")

    def require_may_fetch_offsets(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raises `Refusal` if a member names itself, and its epoch is not the present one."""
        if member_id is None and epoch < 0:
            return
        group = self.existing(group_id)
        member = group.members.get(member_id or "")
        if member is None:
            raise Refusal(UnknownMemberIdError, f"group {group_id!r} has no member {member_id!r}")
        if epoch != member.epoch:
            raise Refusal(ErrorCode.STALE_MEMBER_EPOCH, f"the member epoch is {member.epoch}, not {epoch}")

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
        return [consumer_group_records.of_pattern(group, pattern) for pattern in group.touched_patterns]

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
        for group_id, member_id, _ in self._limits.take_due(now_ms):
            group = self._groups[group_id]
            self._fence(group, [member_id])
            with contextlib.suppress(Refusal):  # whoever cannot be written off gets another session
                self._save(group, now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing is waited for."""
        return self._limits.next_at_ms()

    def rearm(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Another node took these groups over: their members get whole timeouts to find it."""
        for group in [self._groups[group_id] for group_id in group_ids if group_id in self._groups]:
            timeout_ms = self._configs.consumer_settings(group.id).session_timeout_ms
            for member in group.members.values():
                self._limits.set((group.id, member.id, _Limit.SESSION), now_ms + timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    key = (group.id, member.id, _Limit.REVOCATION)
                    self._limits.set(key, now_ms + member.rebalance_timeout_ms)

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        for group_id, group in self._groups.items():
            group.check()
            for member in group.members.values():
                assert (group_id, member.id, _Limit.SESSION) in self._limits


def _require_pattern(pattern: str) -> None:
    try:
        TopicPattern(pattern)
    except PatternError as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is not a regular expression: {error}"
        ) from None


def _require_static(member: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """The static member, if it is this process; raises `Refusal`."""
    if member is None:
        raise Refusal(UnknownMemberIdError, f"no member has the instance id {instance_id!r}")
    if member.id != member_id:
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} belongs to a newer member")
    return member


def _updated(member: ConsumerMember, beat: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what it says about itself."""
    said: dict[str, Any] = {
        "instance_id": beat.instance_id,
        "rack_id": beat.rack_id,
        "rebalance_timeout_ms": None if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        "subscribed": None if beat.subscribed is None else tuple(sorted(set(beat.subscribed))),
        "pattern": beat.pattern,
        "assignor": beat.assignor,
    }
    news = {name: value for name, value in said.items() if value is not None}
    return attrs.evolve(member, client_id=beat.client_id, client_host=beat.client_host, **news)
