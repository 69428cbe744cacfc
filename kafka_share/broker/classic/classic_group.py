"""One classic consumer group: who is a member, how the group agrees on an assignment, who has been silent for too long.

Owned by `ClassicGroups`; knows no wire messages. The group does not understand what it carries: members say which
protocols (assignors) they know, the leader computes the assignment, and the group only passes bytes on.

Theory of operation. A *generation* is one agreement. `Empty` has no members. Whatever changes the membership or a
member's subscription leads to `PreparingRebalance`: every member has to send JoinGroup again, and the answers are held
back until all have done so or the longest rebalance timeout is over; who has not joined then is out. Then the group is
`CompletingRebalance`: everybody has been told the new generation, the leader also all subscriptions, and SyncGroup
requests wait for the leader's. With it the group is `Stable`. A member that neither waits for an answer of ours nor
sends heartbeats within its session timeout is out.

A dynamic member that joins without an id is first given one (KIP-394); a static one (group.instance.id, KIP-345) takes
over the place of its predecessor, without a rebalance if the group is stable and its protocols are as before.
Source: Kafka 4.3's classic group.
"""

from __future__ import annotations

import contextlib
import enum
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from kafka_share.broker.classic.generation import Generation, KeptMember
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import UnknownMemberIdError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka_share.broker.events import RequestContext

NO_GENERATION: Final = -1


class GroupState(str, enum.Enum):
    """The states, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


TRANSITIONS: Final[frozenset[tuple[GroupState, GroupState]]] = frozenset(
    {
        (GroupState.EMPTY, GroupState.PREPARING_REBALANCE),
        (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE),
        (GroupState.PREPARING_REBALANCE, GroupState.EMPTY),
        (GroupState.COMPLETING_REBALANCE, GroupState.STABLE),
        (GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE),
        (GroupState.STABLE, GroupState.PREPARING_REBALANCE),
    }
)
"""Which state may follow which."""


@attrs.frozen
class Join:
    """What a JoinGroup request says. `protocols` has (name, metadata), the preferred one first."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen
class JoinAnswer:
    """The answer to a JoinGroup. `members` has (id, instance id, metadata) and is empty except for the leader."""

    code: int
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@attrs.frozen
class SyncAnswer:
    """The answer to a SyncGroup."""

    code: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


Answer: TypeAlias = tuple["RequestContext", JoinAnswer | SyncAnswer]


@attrs.define(eq=False)
class GroupMember:
    """One member. While `joining` or `syncing` is set, that request waits for its answer and no session runs."""

    id: str
    join: Join
    session_ends_at_ms: int
    assignment: bytes = b""
    joining: RequestContext | None = None
    syncing: RequestContext | None = None

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said for this protocol."""
        return next((data for name, data in self.join.protocols if name == protocol), b"")


class ClassicGroup:
    """One group. `answers` has what is to be sent; the owner empties it. `initial_delay_ms` holds back the first
    rebalance of an empty group, so that members that start together meet in it."""

    def __init__(self, group_id: str, keep: Callable[[Generation], None]) -> None:
        """`keep` writes a generation down before it holds; it raises `Refusal` if it cannot."""
        self.id = group_id
        self._keep = keep
        self.state: GroupState = GroupState.EMPTY
        self.generation: int = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, GroupMember] = {}
        self.answers: list[Answer] = []
        self._pending: dict[str, int] = {}
        """Ids that were given out and have not joined yet, and when they are forgotten."""
        self._static: dict[str, str] = {}
        """Instance id -> member id."""
        self._round_ends_at_ms = 0
        """When the rebalance goes on without those who are missing."""
        self._delay_ends_at_ms: int | None = None
        """Of the first rebalance: not completed before."""
        self._newcomers = False
        """Members came during that delay."""

    # ---- joining

    def join_new(
        self, join: Join, context: RequestContext, new_id: str, initial_delay_ms: int, *, id_first: bool, now_ms: int
    ) -> None:
        """A member without an id joins; `new_id` is nobody's. With `id_first` it is only told that id.

        Raises `Refusal`.
        """
        self._require_protocols(join)
        previous = self._static.get(join.instance_id) if join.instance_id is not None else None
        if previous is not None:
            self._replace_static(previous, join, context, new_id, now_ms)
        elif id_first and join.instance_id is None:
            self._pending[new_id] = now_ms + join.session_timeout_ms
            self.answers.append((context, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_id)))
        else:
            self._add(new_id, join, context, initial_delay_ms, now_ms)

    def join_known(self, join: Join, context: RequestContext, initial_delay_ms: int, now_ms: int) -> None:
        """A member with an id joins (again). Raises `Refusal`."""
        self._require_protocols(join)
        if join.member_id in self._pending and join.instance_id is None:
            del self._pending[join.member_id]
            self._add(join.member_id, join, context, initial_delay_ms, now_ms)
            return
        member = self.member(join.member_id, join.instance_id)
        unchanged = member.join.protocols == join.protocols
        leader_again = self.state is GroupState.STABLE and member.id == self.leader
        if self.state is GroupState.PREPARING_REBALANCE or leader_again or not unchanged:
            self._update(member, join, context)
            self._rebalance(initial_delay_ms, now_ms)
        else:
            # Its answer was lost, or it lost its memory of it: the generation is still the same.
            self._touch(member, now_ms)
            self.answers.append((context, self._join_answer(member)))

    def _require_protocols(self, join: Join) -> None:
        if not join.protocol_type or not join.protocols:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member has to name a protocol type and protocols")
        if not self.members:
            return
        names = {name for name, _ in join.protocols}
        if join.protocol_type != self.protocol_type or names.isdisjoint(self._common_protocols()):
            raise Refusal(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the members of group {self.id!r} have no protocol in common"
            )

    def _add(self, member_id: str, join: Join, context: RequestContext, initial_delay_ms: int, now_ms: int) -> None:
        member = GroupMember(member_id, join, now_ms + join.session_timeout_ms, joining=context)
        self.members[member_id] = member
        if join.instance_id is not None:
            self._static[join.instance_id] = member_id
        self.protocol_type = join.protocol_type
        self.leader = self.leader or member_id
        self._newcomers = self._delay_ends_at_ms is not None
        self._rebalance(initial_delay_ms, now_ms)

    def _update(self, member: GroupMember, join: Join, context: RequestContext) -> None:
        if member.joining is not None:
            self.answers.append((member.joining, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.id)))
        member.join, member.joining = join, context

    def _replace_static(self, old_id: str, join: Join, context: RequestContext, new_id: str, now_ms: int) -> None:
        unchanged = self.members[old_id].join.protocols == join.protocols
        if self.state is GroupState.STABLE and unchanged:
            self._keep(self._with_successor(old_id, new_id, join, now_ms))
        member = self.members.pop(old_id)
        self._fence(member)
        was_leader = self.leader == old_id
        member.id, member.join = new_id, join
        self.members[new_id] = member
        assert join.instance_id is not None
        self._static[join.instance_id] = new_id
        if was_leader:
            self.leader = new_id
        if self.state is GroupState.STABLE and unchanged:
            self._touch(member, now_ms)
            answer = self._join_answer(member)
            if was_leader and context.api_version >= _SKIPPING_SINCE_VERSION:
                answer = attrs.evolve(answer, skip_assignment=True)
            elif was_leader:
                # An old client would compute an assignment if it were told that it leads: it is told of its old self.
                answer = attrs.evolve(answer, leader=old_id, members=())
            self.answers.append((context, answer))
            return
        member.joining = context
        self._rebalance(0, now_ms)

    def _fence(self, member: GroupMember) -> None:
        """Another process has taken over the member's instance id: what it waits for is refused."""
        if member.joining is not None:
            self.answers.append((member.joining, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, member.id)))
        if member.syncing is not None:
            self.answers.append((member.syncing, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)))
        member.joining = member.syncing = None

    # ---- what is kept

    def _generation(self, assignments: Mapping[str, bytes], now_ms: int) -> Generation:
        """The present generation, with these assignments."""
        return Generation(
            number=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            since_ms=now_ms,
            members=tuple(self._kept(one, assignments.get(one.id, b"")) for one in self.members.values()),
        )

    def _kept(self, member: GroupMember, assignment: bytes) -> KeptMember:
        return KeptMember(
            id=member.id,
            instance_id=member.join.instance_id,
            client_id=member.join.client_id,
            client_host=member.join.client_host,
            rebalance_timeout_ms=member.join.rebalance_timeout_ms,
            session_timeout_ms=member.join.session_timeout_ms,
            subscription=member.metadata(self.protocol),
            assignment=assignment,
        )

    def _with_successor(self, old_id: str, new_id: str, join: Join, now_ms: int) -> Generation:
        """The present generation, in which another process has taken over a member's place."""
        present = self._generation({one.id: one.assignment for one in self.members.values()}, now_ms)
        successor = self._kept(GroupMember(new_id, join, now_ms), self.members[old_id].assignment)
        members = tuple(successor if one.id == old_id else one for one in present.members)
        return attrs.evolve(present, leader=new_id if self.leader == old_id else self.leader, members=members)

    def keep_empty(self, now_ms: int) -> None:
        """Write down that the group is there, and has no members. Raises `Refusal`."""
        self._keep(self._generation({}, now_ms))

    def restore(self, kept: Generation, now_ms: int) -> None:
        """Be what was written down; members get whole session timeouts."""
        self.generation, self.protocol_type = kept.number, kept.protocol_type
        self.protocol, self.leader = kept.protocol, kept.leader
        for one in kept.members:
            join = Join(
                member_id=one.id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                session_timeout_ms=one.session_timeout_ms,
                rebalance_timeout_ms=one.rebalance_timeout_ms,
                protocol_type=kept.protocol_type or "",
                protocols=((kept.protocol or "", one.subscription),),
            )
            self.members[one.id] = GroupMember(one.id, join, now_ms + one.session_timeout_ms, one.assignment)
            if one.instance_id is not None:
                self._static[one.instance_id] = one.id
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def adopt(self, members: Sequence[GroupMember], generation: int, now_ms: int) -> Generation:
        """Be what a consumer group becomes, stable with these members; the owner writes what is returned."""
        self.generation, self.protocol_type = generation, members[0].join.protocol_type
        for member in members:
            self.members[member.id] = member
            self._touch(member, now_ms)
            if member.join.instance_id is not None:
                self._static[member.join.instance_id] = member.id
        self.leader, self.protocol = members[0].id, self._choose_protocol()
        self.state = GroupState.STABLE
        return self._generation({one.id: one.assignment for one in members}, now_ms)

    def dissolve(self) -> None:
        """The group becomes a consumer group: whoever waits for an answer has to join again."""
        for member in self.members.values():
            if member.joining is not None:
                self.answers.append((member.joining, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.id)))
            if member.syncing is not None:
                self.answers.append((member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)))

    # ---- the rebalance

    def rebalance(self, now_ms: int) -> None:
        """Everybody has to join again, for a reason that lies outside."""
        self._rebalance(0, now_ms)

    def _enter(self, state: GroupState) -> None:
        assert (self.state, state) in TRANSITIONS, f"{self.state.value} cannot become {state.value}"
        self.state = state

    def _rebalance(self, initial_delay_ms: int, now_ms: int) -> None:
        """Begin a rebalance unless one is being prepared; go on with it if everybody is there."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._proceed(now_ms)
            return
        self._abandon_syncs(now_ms)
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
        first = self.state is GroupState.EMPTY
        self._enter(GroupState.PREPARING_REBALANCE)
        self._round_ends_at_ms = now_ms + self._longest_rebalance_ms()
        self._delay_ends_at_ms = min(now_ms + initial_delay_ms, self._round_ends_at_ms) if first else None
        self._newcomers = False
        self._proceed(now_ms, initial_delay_ms)

    def _abandon_syncs(self, now_ms: int) -> None:
        for member in self.members.values():
            if member.syncing is not None:
                self.answers.append((member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)))
                member.syncing = None
                # No session runs while an answer waits: it starts now.
                self._touch(member, now_ms)

    def _longest_rebalance_ms(self) -> int:
        return max((member.join.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _proceed(self, now_ms: int, initial_delay_ms: int = 0) -> None:
        """Complete the round of JoinGroup requests if it is time."""
        assert self.state is GroupState.PREPARING_REBALANCE
        if self._delay_ends_at_ms is not None:
            if now_ms < self._delay_ends_at_ms:
                return
            if self._newcomers and now_ms < self._round_ends_at_ms and initial_delay_ms > 0:
                self._newcomers = False
                self._delay_ends_at_ms = min(now_ms + initial_delay_ms, self._round_ends_at_ms)
                return
            self._complete_round(now_ms)
        elif now_ms >= self._round_ends_at_ms or self._everybody_joined():
            self._complete_round(now_ms)

    def _everybody_joined(self) -> bool:
        return not self._pending and all(member.joining is not None for member in self.members.values())

    def _complete_round(self, now_ms: int) -> None:
        self._delay_ends_at_ms = None
        for member in [m for m in self.members.values() if m.joining is None and m.join.instance_id is None]:
            self._drop(member)
        joined = [member for member in self.members.values() if member.joining is not None]
        if self.members and not joined:
            # Static members keep their places until their sessions end; there is nobody yet to lead them.
            self._round_ends_at_ms = now_ms + max(self._longest_rebalance_ms(), 1)
            return
        self.generation += 1
        if not joined:
            self.protocol = self.leader = None
            self._enter(GroupState.EMPTY)
            with contextlib.suppress(Refusal):  # as in Kafka: the members are gone, whatever is written
                self.keep_empty(now_ms)
            return
        if self.leader not in [member.id for member in joined]:
            self.leader = joined[0].id
        self.protocol = self._choose_protocol()
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._round_ends_at_ms = now_ms + self._longest_rebalance_ms()
        for member in joined:
            assert member.joining is not None
            self._touch(member, now_ms)
            self.answers.append((member.joining, self._join_answer(member)))
            member.joining = None

    def _join_answer(self, member: GroupMember) -> JoinAnswer:
        everybody: Sequence[GroupMember] = list(self.members.values()) if member.id == self.leader else ()
        return JoinAnswer(
            code=0,
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=tuple((one.id, one.join.instance_id, one.metadata(self.protocol)) for one in everybody),
        )

    def _common_protocols(self) -> list[str]:
        """The protocols that every member knows, in the order of the one that joined first."""
        first, *others = self.members.values()
        names = [{name for name, _ in member.join.protocols} for member in others]
        return [name for name, _ in first.join.protocols if all(name in known for known in names)]

    def _choose_protocol(self) -> str:
        """Every member votes for the first protocol of its list that all know; the most votes win."""
        common = self._common_protocols()
        assert common, "members without a common protocol are refused"
        votes = dict.fromkeys(common, 0)
        for member in self.members.values():
            votes[next(name for name, _ in member.join.protocols if name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    # ---- what members do in a generation

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        context: RequestContext,
        now_ms: int,
    ) -> None:
        """A SyncGroup request; `protocol` has type and name, None where the client's version does not say them.

        Raises `Refusal`.
        """
        member = self.member(member_id, instance_id)
        self._require_generation(generation)
        if protocol[0] not in (None, self.protocol_type) or protocol[1] not in (None, self.protocol):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the protocol of group {self.id!r} is another one")
        if self.state is GroupState.PREPARING_REBALANCE:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances: join again")
        self._touch(member, now_ms)
        if member.syncing is not None:
            self.answers.append((member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.syncing = context
        if self.state is GroupState.COMPLETING_REBALANCE and member.id == self.leader:
            try:
                self._keep(self._generation(assignments, now_ms))
            except Refusal as refusal:
                self._give_up(refusal, now_ms)
                return
            for one in self.members.values():
                one.assignment = assignments.get(one.id, b"")
            self._enter(GroupState.STABLE)
        if self.state is GroupState.STABLE:
            self._answer_syncs(now_ms)

    def _answer_syncs(self, now_ms: int) -> None:
        for member in self.members.values():
            if member.syncing is not None:
                answer = SyncAnswer(0, self.protocol_type, self.protocol, member.assignment)
                self.answers.append((member.syncing, answer))
                member.syncing = None
                self._touch(member, now_ms)

    def _give_up(self, refusal: Refusal, now_ms: int) -> None:
        """The generation cannot be written down: everybody has to join again."""
        for member in self.members.values():
            if member.syncing is not None:
                self.answers.append((member.syncing, SyncAnswer(refusal.code)))
                member.syncing = None
                self._touch(member, now_ms)
        self._rebalance(0, now_ms)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Keep the member's session. Raises `Refusal`: also when the member has to join again."""
        member = self.member(member_id, instance_id)
        self._require_generation(generation)
        self._touch(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances: join again")

    def require_may_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, now_ms: int
    ) -> None:
        """Raises `Refusal` unless the member, or somebody outside of an empty group, may commit offsets now."""
        if generation < 0 and not member_id and instance_id is None:
            if self.state is not GroupState.EMPTY and not transactional:
                raise Refusal(UnknownMemberIdError, f"group {self.id!r} has members: only they commit its offsets")
            return
        member = self.member(member_id, instance_id)
        self._require_generation(generation)
        self._touch(member, now_ms)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the group has no assignment yet")

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """A member goes. A static one may be named by its instance id alone. Raises `Refusal`."""
        if instance_id is not None and not member_id:
            member_id = self._static.get(instance_id, "")
        if member_id in self._pending:
            del self._pending[member_id]
            if self.state is GroupState.PREPARING_REBALANCE:
                self._proceed(now_ms)
            return
        self._drop(self.member(member_id, instance_id))
        self._rebalance(0, now_ms)

    def member(self, member_id: str, instance_id: str | None) -> GroupMember:
        """The member; raises `Refusal` if there is none, or another process has its instance id now."""
        if instance_id is not None and self._static.get(instance_id, member_id) != member_id:
            raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} belongs to a newer member")
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self._static):
            raise Refusal(UnknownMemberIdError, f"group {self.id!r} has no member {member_id!r}")
        return member

    def _require_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"the generation is {self.generation}, not {generation}")

    def _touch(self, member: GroupMember, now_ms: int) -> None:
        member.session_ends_at_ms = now_ms + member.join.session_timeout_ms

    def _drop(self, member: GroupMember) -> None:
        if member.joining is not None:
            self.answers.append((member.joining, JoinAnswer(UnknownMemberIdError.code, member.id)))
        if member.syncing is not None:
            self.answers.append((member.syncing, SyncAnswer(UnknownMemberIdError.code)))
        del self.members[member.id]
        if member.join.instance_id is not None:
            del self._static[member.join.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    # ---- time

    def poll(self, initial_delay_ms: int, now_ms: int) -> None:
        """Drop the members that have been silent for too long; go on with a rebalance whose time is up."""
        forgotten = [member_id for member_id, at_ms in self._pending.items() if at_ms <= now_ms]
        for member_id in forgotten:
            del self._pending[member_id]
        silent = [m for m in self.members.values() if not m.waits and m.session_ends_at_ms <= now_ms]
        if self.state is GroupState.COMPLETING_REBALANCE and self._round_ends_at_ms <= now_ms:
            silent = [m for m in self.members.values() if m.syncing is None]
        for member in silent:
            self._drop(member)
        if silent:
            self._rebalance(0, now_ms)
        elif self.state is GroupState.PREPARING_REBALANCE:
            self._proceed(now_ms, initial_delay_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing is waited for."""
        times = list(self._pending.values())
        times += [member.session_ends_at_ms for member in self.members.values() if not member.waits]
        if self.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
            times.append(self._round_ends_at_ms)
        if self._delay_ends_at_ms is not None:
            times.append(self._delay_ends_at_ms)
        return min(times, default=None)

    def rearm(self, now_ms: int) -> None:
        """Another node took the group over: its members get whole timeouts to find it."""
        for member in self.members.values():
            self._touch(member, now_ms)
        self._round_ends_at_ms = max(self._round_ends_at_ms, now_ms + self._longest_rebalance_ms())

    def has_instance(self, instance_id: str | None) -> bool:
        """Whether a static member has this instance id."""
        return instance_id in self._static

    def size(self) -> int:
        """The members, and those to be."""
        return len(self.members) + len(self._pending)

    def check(self) -> None:
        """Assert the invariants."""
        assert (self.state is GroupState.EMPTY) <= (not self.members)
        assert self.state is GroupState.PREPARING_REBALANCE or all(m.joining is None for m in self.members.values())
        assert self.state is GroupState.COMPLETING_REBALANCE or all(m.syncing is None for m in self.members.values())
        assert self.leader is None or self.leader in self.members
        assert self.members.keys().isdisjoint(self._pending)
        for instance_id, member_id in self._static.items():
            assert self.members[member_id].join.instance_id == instance_id
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert self.leader is not None
            assert self.protocol in self._common_protocols()


_SKIPPING_SINCE_VERSION: Final = 9
"""Of JoinGroup: a leader can be told that the assignment stays as it is."""
