"""The coordinator of classic consumer groups: finds the group, admits members, keeps their offsets and timers.

Called by the handlers of the group APIs and by the cluster (time, deleted topics, moved coordinators). One object
serves the whole cluster; which node answers for a group is the cluster's business. What it must not do: read or write
wire messages, or decide about rebalances; that is `ClassicGroup`.

Answers to JoinGroup and SyncGroup come out of `poll`, since most of them wait for other members. A group is made by its
first JoinGroup or by a commit from outside, and lives until it is deleted: nothing expires here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.broker.classic.classic_group import Answer, ClassicGroup, GroupMember, GroupState, Join
from kafka_share.broker.classic.generation import generation_in, record_of
from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import (
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from kafka_share.protocol.group_records import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from kafka_share.broker.classic.committed_offsets import CommittedOffset, CommittedOffsets
    from kafka_share.broker.classic.generation import Generation
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.group_ids import GroupIds
    from kafka_share.broker.group_journal import GroupJournal, Held, Record

CONSUMER_PROTOCOL: Final = "consumer"
ID_FIRST_SINCE_VERSION: Final = 4
"""Of JoinGroup: a dynamic member without an id is given one first."""


class ClassicGroups:
    """All classic groups of the cluster."""

    def __init__(
        self, ids: GroupIds, configs: Configs, random: Random, offsets: CommittedOffsets, journal: GroupJournal
    ) -> None:
        self._offsets = offsets
        self._journal = journal
        self._ids = ids
        self._configs = configs
        self._random = random
        self._groups: dict[str, ClassicGroup] = {}
        self._answers: list[Answer] = []
        self._next_wake_ms: int | None = None
        """Not later than the first group's time; heartbeats only move times away from it."""

    # ---- what there is

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id, None if there is none."""
        return self._groups.get(group_id)

    def groups(self) -> list[ClassicGroup]:
        """All groups, by id."""
        return [self._groups[group_id] for group_id in sorted(self._groups)]

    def existing(self, group_id: str) -> ClassicGroup:
        """The group; raises `Refusal` if there is none, or only one of another type."""
        group = self._groups.get(group_id)
        if group is None:
            other = self._ids.type_of(group_id) is not None
            raise Refusal(
                GroupIdNotFoundError,
                f"{group_id!r} is not a classic group" if other else f"there is no group {group_id!r}",
            )
        return group

    def _of_member(self, group_id: str) -> ClassicGroup:
        """The group that a member speaks of; raises `Refusal`."""
        _require_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise Refusal(UnknownMemberIdError, f"there is no group {group_id!r}, so it has no members")
        return group

    def _create(self, group_id: str) -> ClassicGroup:
        self._ids.claim(group_id, GroupType.CLASSIC)
        group = self._groups[group_id] = ClassicGroup(group_id, partial(self._keep, group_id))
        return group

    def _drop(self, group_id: str) -> None:
        del self._groups[group_id]
        self._ids.free(group_id)

    def make_room(self, group_id: str, now_ms: int) -> None:
        """A consumer group is to be made: if there is an empty classic group, it goes, and leaves its offsets.

        Raises `Refusal`.
        """
        group = self._groups.get(group_id)
        if group is not None and group.state is GroupState.EMPTY:
            self._journal.write(group_id, [(GroupMetadataKey(group=group_id), None)], now_ms)
            self._drop(group_id)

    def adopted(
        self, group_id: str, members: Sequence[GroupMember], generation: int, now_ms: int
    ) -> tuple[ClassicGroup, Record]:
        """The classic group that a consumer group becomes, and what has to be written for it before `take`."""
        group = ClassicGroup(group_id, partial(self._keep, group_id))
        return group, record_of(group_id, group.adopt(members, generation, now_ms))

    def take(self, group: ClassicGroup, now_ms: int, *, rebalance: bool) -> None:
        """A consumer group has become this group."""
        self._ids.claim(group.id, GroupType.CLASSIC)
        self._groups[group.id] = group
        if rebalance:
            group.rebalance(now_ms)
        self._note(group)

    def hand_over(self, group_id: str) -> None:
        """The group has become a consumer group."""
        group = self._groups[group_id]
        group.dissolve()
        self._note(group)
        self._drop(group_id)

    # ---- what is written

    def _keep(self, group_id: str, generation: Generation) -> None:
        self._journal.write(group_id, [record_of(group_id, generation)], generation.since_ms)

    def load(self, journal: Mapping[str, Held], now_ms: int) -> None:
        """Make all groups anew from what was written, once the groups of other types are there.

        Offsets without a group are those of consumers that are no members: a group without a generation.
        """
        for group_id in list(self._groups):
            self._drop(group_id)
        for group_id, held in journal.items():
            if self._ids.type_of(group_id) is None:
                group = self._create(group_id)
                for _, value in held:
                    if isinstance(value, GroupMetadataValue):
                        group.restore(generation_in(value), now_ms)
                self._note(group)

    # ---- members

    def join(self, group_id: str, join: Join, context: RequestContext, now_ms: int) -> None:
        """A valid JoinGroup request: its answer comes out of `poll`, sooner or later. Raises `Refusal`."""
        if self._ids.type_of(group_id) not in (None, GroupType.CLASSIC):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id!r} is not a classic group")
        group = self._groups.get(group_id)
        if group is None:
            if join.member_id:
                raise Refusal(UnknownMemberIdError, f"there is no group {group_id!r}, so it has no members")
            group = self._create(group_id)
            try:
                group.keep_empty(now_ms)
            except Refusal:
                self._drop(group_id)
                raise
        delay_ms = self._configs.broker_int("group.initial.rebalance.delay.ms")
        if join.member_id:
            group.join_known(join, context, delay_ms, now_ms)
        else:
            limit = self._configs.broker_int("group.max.size")
            if group.size() >= limit and not group.has_instance(join.instance_id):
                raise Refusal(GroupMaxSizeReachedError, f"group {group_id!r} has its {limit} members")
            id_first = context.api_version >= ID_FIRST_SINCE_VERSION
            group.join_new(join, context, self._new_id(join), delay_ms, id_first=id_first, now_ms=now_ms)
        self._note(group)

    def require_valid(self, group_id: str, join: Join) -> None:
        """Raises `Refusal` for what no group takes, of either type."""
        _require_id(group_id)
        low = self._configs.broker_int("group.min.session.timeout.ms")
        high = self._configs.broker_int("group.max.session.timeout.ms")
        if not low <= join.session_timeout_ms <= high:
            raise Refusal(
                ErrorCode.INVALID_SESSION_TIMEOUT, f"a session timeout must be between {low} and {high} milliseconds"
            )

    def _new_id(self, join: Join) -> str:
        return f"{join.instance_id or join.client_id}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def sync(
        self,
        group_id: str,
        member: tuple[str, str | None],
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        context: RequestContext,
        now_ms: int,
    ) -> None:
        """A SyncGroup request of a member (id, instance id): its answer comes out of `poll`. Raises `Refusal`."""
        group = self._of_member(group_id)
        group.sync(*member, generation, protocol, assignments, context, now_ms)
        self._note(group)

    def heartbeat(self, group_id: str, member: tuple[str, str | None], generation: int, now_ms: int) -> None:
        """Keep a member's session. Raises `Refusal`."""
        self._of_member(group_id).heartbeat(*member, generation, now_ms)

    def leave(self, group_id: str, member: tuple[str, str | None], now_ms: int) -> None:
        """A member leaves. Raises `Refusal`."""
        group = self._of_member(group_id)
        group.leave(*member, now_ms)
        self._note(group)

    # ---- commits

    def require_may_commit(
        self,
        group_id: str,
        member: tuple[str, str | None],
        generation: int,
        now_ms: int,
        *,
        transactional: bool = False,
        missing: type[GroupIdNotFoundError] | ErrorCode = GroupIdNotFoundError,
    ) -> None:
        """Raises `Refusal` unless the member may commit now. A commit without a generation makes the group.

        `missing` is what a member of a group that does not exist is told.
        """
        group = self._groups.get(group_id)
        if group is None:
            if self._ids.type_of(group_id) is not None:
                raise Refusal(GroupIdNotFoundError, f"{group_id!r} is not a classic group")
            if generation >= 0:
                raise Refusal(missing, f"there is no group {group_id!r}")
            group = self._create(group_id)
        group.require_may_commit(*member, generation, transactional=transactional, now_ms=now_ms)
        self._note(group)

    def require_metadata_fits(self, offset: CommittedOffset) -> None:
        """Raises `Refusal` if the note beside an offset is too long."""
        limit = self._configs.broker_int("offset.metadata.max.bytes")
        if len(offset.metadata) > limit:
            raise Refusal(ErrorCode.OFFSET_METADATA_TOO_LARGE, f"a commit's metadata has at most {limit} characters")

    # ---- deletion

    def delete(self, group_id: str, now_ms: int) -> None:
        """Delete an empty group and its offsets. Raises `Refusal`."""
        group = self.existing(group_id)
        if group.state is not GroupState.EMPTY:
            raise Refusal(NonEmptyGroupError, f"group {group_id!r} still has members")
        self._offsets.delete_group(group_id, now_ms)
        self._journal.write(group_id, [(GroupMetadataKey(group=group_id), None)], now_ms)
        self._drop(group_id)

    # ---- time

    def poll(self, now_ms: int) -> list[Answer]:
        """Let time pass; returns what is to be sent to members."""
        if self._next_wake_ms is not None and self._next_wake_ms <= now_ms:
            self._next_wake_ms = None
            delay_ms = self._configs.broker_int("group.initial.rebalance.delay.ms")
            for group in self._groups.values():
                group.poll(delay_ms, now_ms)
                self._note(group)
        answers, self._answers = self._answers, []
        return answers

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing is waited for."""
        return self._next_wake_ms

    def rearm(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Another node took these groups over: their members get whole timeouts to find it."""
        for group_id in group_ids:
            group = self._groups.get(group_id)
            if group is not None:
                group.rearm(now_ms)

    def _note(self, group: ClassicGroup) -> None:
        """Take the group's answers, and the time that it wants to be woken at."""
        self._answers += group.answers
        group.answers.clear()
        at_ms = group.wake_at_ms()
        if at_ms is not None and (self._next_wake_ms is None or at_ms < self._next_wake_ms):
            self._next_wake_ms = at_ms

    def check(self) -> None:
        """Assert the invariants."""
        for group_id, group in self._groups.items():
            assert group.id == group_id
            assert self._ids.type_of(group_id) is GroupType.CLASSIC
            assert not group.answers
            group.check()
            at_ms = group.wake_at_ms()
            assert at_ms is None or (self._next_wake_ms is not None and self._next_wake_ms <= at_ms)


def _require_id(group_id: str) -> None:
    if not group_id:
        raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
