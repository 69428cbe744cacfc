"""The group coordinator of share groups: join, heartbeat, leave, session timeouts, initialisation of share partitions.

Called by the group handlers and by the cluster (time, topic deletion, moved coordinators). One object serves the whole
cluster; which node answers for a group is the cluster's business. What it must not do: read or write wire messages, or
touch share partitions; their stored state it reaches through a persister and, for admin clients, directly.

A partition is assignable once its share state is initialised. The coordinator does that *after* it has answered a
heartbeat, so the first assignment of a new group is empty and the second heartbeat brings the partitions, or a later
one while the persister is slow. What is asked for at once fails as a whole, and the next heartbeat asks again. (What is
never answered Kafka asks for again after 30 s; here every request has an answer in the end.) Source: KIP-932 and Kafka
4.3's group coordinator; `share.assignment.interval.ms` spaces the assignments.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.kafka_version import KAFKA_4_3
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_groups import ServerAssignedGroups
from kafka_share.broker.share import share_group_records
from kafka_share.broker.share.persister import CountDown, Persister
from kafka_share.broker.share.share_coordinator import UNINITIALISED_START
from kafka_share.broker.share.share_group import Member, ShareGroup, subscribed_part
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import (
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.group_ids import GroupIds
    from kafka_share.broker.group_journal import GroupJournal, Held, Record
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.share.share_coordinator import ShareCoordinator
    from kafka_share.broker.storage.topics import Topic, Topics
    from kafka_share.protocol.api_message import RecordMessage

LEAVE: Final = -1
JOIN: Final = 0


@attrs.frozen
class Heartbeat:
    """What a member says. `subscribed` is None where the subscription is as before."""

    group: str
    member: str
    epoch: int
    rack_id: str | None
    subscribed: Sequence[str] | None
    client_id: str
    client_host: str


@attrs.frozen
class HeartbeatAnswer:
    """What the member is told. `assignment` is None where it is as before."""

    member: str
    epoch: int
    interval_ms: int
    assignment: frozenset[Partition] | None


class ShareGroups(ServerAssignedGroups[ShareGroup]):
    """All share groups of the cluster."""

    def __init__(
        self,
        topics: Topics,
        configs: Configs,
        states: ShareCoordinator,
        ids: GroupIds,
        journal: GroupJournal,
        behaviour: Behaviour = KAFKA_4_3,
        persister: Persister | None = None,
    ) -> None:
        """Without a `persister` one that is never late."""
        super().__init__(ids, GroupType.SHARE, journal, share_group_records.COMMON)
        self._behaviour = behaviour
        self._topics = topics
        self._configs = configs
        self._states = states
        self._persister = Persister(states) if persister is None else persister
        self._under_way: dict[str, frozenset[Partition]] = {}
        """By group: the partitions whose share state is being made. A group that is made anew gets them from here."""
        self._next_expiry_ms: int | None = None
        """Not later than the first session's end; heartbeats only move ends away from it."""

    def get_or_create(self, group_id: str) -> ShareGroup:
        """The group, made if there is none yet. Raises `Refusal` if the id belongs to a group of another type."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._add(ShareGroup.new(group_id, self._behaviour))
            group.initialising = self._under_way.get(group_id, frozenset())
        return group

    # ---- heartbeats

    def heartbeat(self, beat: Heartbeat, now_ms: int) -> HeartbeatAnswer:
        """Join, stay or leave. Raises `Refusal`."""
        _validate(beat, self._behaviour)
        if beat.epoch == LEAVE:
            self.remove_member(beat.group, beat.member, now_ms)
            return HeartbeatAnswer(beat.member, LEAVE, 0, None)
        group = self.get_or_create(beat.group) if beat.epoch == JOIN else self.existing(beat.group)
        known = group.members.get(beat.member)
        before = None if known is None else known.stamp()
        member = self._admit(group, beat)
        cut = self._update(group, member, beat)
        settings = self._configs.group_settings(group.id)
        group.update_target(self._topics, settings.assignment_interval_ms, now_ms)
        changed = group.reconcile(member, self._topics) or cut
        self._arm(member, now_ms + settings.session_timeout_ms)
        told = beat.epoch == JOIN or beat.subscribed is not None or changed
        answer = HeartbeatAnswer(
            member.id, member.epoch, settings.heartbeat_interval_ms, member.assigned if told else None
        )
        if member.stamp() != before:
            group.touched[member.id] = None
        missing = self._missing(group)
        group.initialising = group.initialising.union(missing)
        self._save(group, now_ms)
        if missing:
            self._initialise(group, missing, now_ms)
        return answer

    def remove_member(self, group_id: str, member_id: str, now_ms: int) -> None:
        """The member leaves. Raises `Refusal`."""
        group = self.existing(group_id)
        if member_id not in group.members:
            raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {member_id!r}")
        group.remove(member_id)
        self._save(group, now_ms)

    def _admit(self, group: ShareGroup, beat: Heartbeat) -> Member:
        member = group.members.get(beat.member)
        if member is None:
            limit = self._configs.broker_int("group.share.max.size")
            if len(group.members) >= limit:
                raise Refusal(GroupMaxSizeReachedError, f"group {group.id!r} has its {limit} members")
            if beat.epoch != JOIN:
                raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {beat.member!r}")
            member = group.members[beat.member] = Member(beat.member, beat.client_id, beat.client_host)
            group.bump()
        elif not self._is_epoch_of(member, beat.epoch):
            raise Refusal(
                FencedMemberEpochError, f"member epoch {beat.epoch} is not {member.epoch}: the member has to join again"
            )
        return member

    def _is_epoch_of(self, member: Member, epoch: int) -> bool:
        """Whether the member may send this epoch: its own, the one before (its answer was lost), or 0 to start anew."""
        may_rejoin = epoch == JOIN and self._behaviour.rejoins_at_any_epoch
        return epoch in (member.epoch, member.previous_epoch) or may_rejoin

    def _update(self, group: ShareGroup, member: Member, beat: Heartbeat) -> bool:
        """Take over what the member says; returns whether its assignment lost topics by that."""
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if beat.rack_id is not None:
            member.rack_id = beat.rack_id
        names = member.subscribed if beat.subscribed is None else tuple(sorted(set(beat.subscribed)))
        if names == member.subscribed:
            if group.metadata_changed(self._topics) or group.wants_another_target:
                group.bump()
            return False
        joined = member.epoch == 0
        group.subscribe(member, names)
        group.refresh_metadata(self._topics)
        if not joined:
            group.bump()
        kept = subscribed_part(member.assigned, member, self._topics)
        cut, member.assigned = kept != member.assigned, kept
        return cut

    # ---- share state

    def _missing(self, group: ShareGroup) -> dict[Partition, int]:
        """The subscribed partitions whose share state neither exists nor is being made, and where each is to start."""
        missing: dict[Partition, int] = {}
        for name in group.subscribed_names():
            topic = self._topics.by_name(name)
            known = group.initialised.get(topic.id, set()) if topic is not None else set()
            if topic is None or len(known) >= len(topic.partitions):
                continue
            is_growth = bool(known) and self._behaviour.later_partitions_start_at_zero
            start = 0 if is_growth else UNINITIALISED_START
            missing |= {(topic.id, one.partition): start for one in topic.partitions if one.partition not in known}
        return {partition: start for partition, start in missing.items() if partition not in group.initialising}

    def _initialise(self, group: ShareGroup, missing: Mapping[Partition, int], now_ms: int) -> None:
        """Make share state."""
        self._under_way[group.id] = group.initialising
        refusals: list[Refusal] = []
        requests = CountDown(len(missing), partial(self._initialised, group.id, tuple(missing), refusals))

        def answered(refusal: Refusal | None, at_ms: int) -> None:
            if refusal is not None:
                refusals.append(refusal)
            requests.ended(at_ms)

        for (topic_id, index), start_offset in missing.items():
            key = StateKey(group.id, topic_id, index)
            self._persister.initialize(key, group.epoch, start_offset, now_ms, answered)

    def _initialised(self, group_id: str, asked: Sequence[Partition], refusals: Sequence[Refusal], now_ms: int) -> None:
        """The share coordinator has answered about all that it was asked to make at once. After a refusal the next
        heartbeat asks for all of it again, as in Kafka."""
        left = self._under_way.pop(group_id).difference(asked)
        if left:
            self._under_way[group_id] = left
        group = self._groups.get(group_id)
        if group is None:
            return
        group.initialising = left
        for topic_id, index in () if refusals else asked:
            if self._topics.by_id(topic_id) is not None:
                group.initialised.setdefault(topic_id, set()).add(index)
                group.pending_partitions = True
        with contextlib.suppress(Refusal):
            self._save(group, now_ms)

    def initialise(self, group_id: str, topic_id: UUID, partition: int, start_offset: int, now_ms: int) -> None:
        """Make the partition's share state new, starting at `start_offset`.

        Raises `Refusal`, for instance for a partition that does not exist.
        """
        group = self.get_or_create(group_id)
        self._states.initialize(StateKey(group_id, topic_id, partition), group.epoch, start_offset, now_ms)
        group.initialised.setdefault(topic_id, set()).add(partition)
        self._save(group, now_ms)

    # ---- deletion

    def delete(self, group_id: str, now_ms: int) -> None:
        """Delete an empty group and its share state. Raises `Refusal`."""
        group = self.existing(group_id)
        require_empty(group)
        group.deleting = tuple(group.initialised)
        group.initialised.clear()
        self._save(group, now_ms)
        self._states.delete_group(group_id, now_ms)
        self._forget(group, now_ms)

    def forget_topic(self, group_id: str, topic_id: UUID, now_ms: int) -> bool:
        """Delete the group's share state of a topic; returns whether there was any. Raises `Refusal`."""
        group = self.existing(group_id)
        partitions = group.initialised.pop(topic_id, None)
        if partitions is None:
            return False
        group.deleting = (topic_id,)
        self._save(group, now_ms)
        for partition in sorted(partitions):
            self._states.delete(StateKey(group_id, topic_id, partition), now_ms)
        group.deleting = ()
        self._save(group, now_ms)
        return True

    def topic_deleted(self, topic: Topic, now_ms: int) -> None:
        """The topic is gone: so is every group's share state of it."""
        for group in self.groups():
            if group.initialised.pop(topic.id, None) is not None:
                with contextlib.suppress(Refusal):
                    self._save(group, now_ms)
        self._states.topic_deleted(topic.id, now_ms)

    # ---- what is written

    def _member_records(self, group: ShareGroup, member_id: str) -> Iterable[Record]:
        return share_group_records.of_member(group, member_id)

    def _group_records(self, group: ShareGroup) -> Iterable[Record]:
        return [share_group_records.of_partitions(group, self._topics)]

    def _made_of(self, group_id: str, held: Held) -> ShareGroup:
        group = share_group_records.made_of(group_id, held, self._behaviour)
        stored = {(key.topic_id, key.partition) for key in self._states.keys(group_id)}
        # The state lies in another log. If the power failed, that one may have lost what nobody had been told of.
        group.initialised = {
            topic_id: {index for index in partitions if (topic_id, index) in stored}
            for topic_id, partitions in group.initialised.items()
        }
        group.initialising = self._under_way.get(group_id, frozenset())
        return group

    def _member_ids(self, group: ShareGroup) -> Iterable[str]:
        return group.members

    def _key_classes(self) -> Iterable[type[RecordMessage]]:
        return share_group_records.KEYS

    # ---- time

    def poll(self, now_ms: int) -> None:
        """Remove the members whose session has ended, and take what the persister has brought."""
        if self._persister.waiting:
            self._persister.poll(now_ms)
        if self._next_expiry_ms is None or now_ms < self._next_expiry_ms:
            return
        self._next_expiry_ms = None
        for group in self.groups():
            expired = [m.id for m in group.members.values() if m.session_ends_at_ms <= now_ms]
            for member_id in expired:
                group.remove(member_id)
            with contextlib.suppress(Refusal):  # whoever cannot be written off gets another session
                self._save(group, now_ms)
            for member in group.members.values():
                self._note_expiry(member.session_ends_at_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing is waited for."""
        if not self._persister.waiting:
            return self._next_expiry_ms
        times = (self._next_expiry_ms, self._persister.wake_at_ms())
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def rearm(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Another node took these groups over: their members get a whole session timeout to find it."""
        for group in [self._groups[group_id] for group_id in group_ids if group_id in self._groups]:
            timeout_ms = self._configs.group_settings(group.id).session_timeout_ms
            for member in group.members.values():
                self._arm(member, now_ms + timeout_ms)

    def _arm(self, member: Member, at_ms: int) -> None:
        member.session_ends_at_ms = at_ms
        self._note_expiry(at_ms)

    def _note_expiry(self, at_ms: int) -> None:
        if self._next_expiry_ms is None or at_ms < self._next_expiry_ms:
            self._next_expiry_ms = at_ms

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        self._persister.check()
        for group in self._groups.values():
            group.check()
            assert group.initialising == self._under_way.get(group.id, frozenset())
            for member in group.members.values():
                assert self._next_expiry_ms is not None
                assert self._next_expiry_ms <= member.session_ends_at_ms


def require_empty(group: ShareGroup) -> None:
    """Raises `Refusal` if the group has members."""
    if group.members:
        raise Refusal(NonEmptyGroupError, f"group {group.id!r} still has {len(group.members)} members")


def _validate(beat: Heartbeat, behaviour: Behaviour) -> None:
    if not beat.group.strip():
        raise Refusal(InvalidRequestError, "a heartbeat has to name a group")
    if not beat.member:
        raise Refusal(InvalidRequestError, "a heartbeat has to name a member")
    longest = behaviour.max_member_id_chars
    if longest is not None and len(beat.member) > longest:
        raise Refusal(InvalidRequestError, f"a member id has at most {longest} characters")
    if beat.rack_id == "":
        raise Refusal(InvalidRequestError, "a rack id cannot be empty; leave it out instead")
    if beat.epoch < LEAVE:
        raise Refusal(InvalidRequestError, f"{beat.epoch} is not a member epoch")
    if beat.epoch == JOIN and not beat.subscribed:
        raise Refusal(InvalidRequestError, "a member that joins has to name the topics that it subscribes to")
