"""The groups of one type whose members are told by the coordinator what they are assigned, and their ids.

Base of the coordinators `ShareGroups` and `ConsumerGroups`. It keeps the groups and their part of the one namespace of
all groups, writes what has changed about a group as records, and makes groups out of records; what a heartbeat does is
theirs. A change that cannot be written has not happened: the group is made anew from what was written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import ServerAssignedGroup
from kafka_share.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_share.broker.group_ids import GroupIds, GroupType
    from kafka_share.broker.group_journal import GroupJournal, Held, Record
    from kafka_share.broker.server_assigned_records import CommonRecords
    from kafka_share.protocol.api_message import RecordMessage

GroupT = TypeVar("GroupT", bound=ServerAssignedGroup)


class ServerAssignedGroups(ABC, Generic[GroupT]):
    """All groups of the type `kind`."""

    def __init__(self, ids: GroupIds, kind: GroupType, journal: GroupJournal, common: CommonRecords) -> None:
        self._ids = ids
        self._kind = kind
        self._journal = journal
        self._common = common
        self._groups: dict[str, GroupT] = {}

    def group(self, group_id: str) -> GroupT | None:
        """The group of this type and id, None if there is none."""
        return self._groups.get(group_id)

    def groups(self) -> list[GroupT]:
        """All groups, by id."""
        return [self._groups[group_id] for group_id in sorted(self._groups)]

    def existing(self, group_id: str) -> GroupT:
        """The group; raises `Refusal` if there is none, or only one of another type."""
        group = self._groups.get(group_id)
        if group is None:
            self._require_no_other(group_id)
            raise Refusal(GroupIdNotFoundError, f"there is no group {group_id!r}")
        return group

    def _require_no_other(self, group_id: str) -> None:
        if self._ids.type_of(group_id) not in (None, self._kind):
            raise Refusal(GroupIdNotFoundError, f"{group_id!r} is not a {self._kind.value} group")

    def _add(self, group: GroupT) -> GroupT:
        """A new group. Raises `Refusal` if its id belongs to another type, or when there are too many groups."""
        self._require_no_other(group.id)
        self._ids.claim(group.id, self._kind)
        self._groups[group.id] = group
        return group

    def _drop(self, group: GroupT) -> None:
        """The group is gone, and its id is free."""
        del self._groups[group.id]
        self._ids.free(group.id)

    # ---- what is written

    @abstractmethod
    def _member_records(self, group: GroupT, member_id: str) -> Iterable[Record]:
        """What is written of a member, without its target."""

    @abstractmethod
    def _group_records(self, group: GroupT) -> Iterable[Record]:
        """What is written of the group itself, without its epochs."""

    @abstractmethod
    def _made_of(self, group_id: str, held: Held) -> GroupT:
        """The group that the records stand for, without what `_common` restores."""

    @abstractmethod
    def _member_ids(self, group: GroupT) -> Iterable[str]:
        """Of all members."""

    @abstractmethod
    def _key_classes(self) -> Iterable[type[RecordMessage]]:
        """Of the keys of everything that is written of groups of this type."""

    @abstractmethod
    def rearm(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Members of these groups get whole timeouts from now on."""

    def _save(self, group: GroupT, now_ms: int) -> None:
        """Write what has changed about the group. Raises `Refusal`: then the group is as it was, another object."""
        if group.is_written:
            return
        try:
            self._journal.write(group.id, self._records(group), now_ms)
        except Refusal:
            self.restore([group.id], now_ms)
            raise
        group.written()

    def _records(self, group: GroupT) -> list[Record]:
        """What may have changed about the group."""
        records = [record for member_id in group.touched for record in self._member_records(group, member_id)]
        records += [self._common.of_target(group, member_id) for member_id in group.touched]
        return [*records, *self._common.of_group(group), *self._group_records(group)]

    def _forget(self, group: GroupT, now_ms: int) -> None:
        """The group goes, if that can be written. Raises `Refusal`."""
        self._journal.forget(group.id, self._key_classes(), now_ms)
        self._drop(group)

    def restore(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Make these groups anew from what was written of them; their members get whole timeouts."""
        for group_id in group_ids:
            if group_id in self._groups:
                self._drop(self._groups[group_id])
                self._restore(group_id, self._journal.held(group_id), now_ms)

    def load(self, journal: Mapping[str, Held], now_ms: int) -> None:
        """Make all groups anew from what was written."""
        for group in self.groups():
            self._drop(group)
        for group_id, held in journal.items():
            self._restore(group_id, held, now_ms)

    def _restore(self, group_id: str, held: Held, now_ms: int) -> None:
        classes = tuple(self._key_classes())
        mine = [(key, value) for key, value in held if isinstance(key, classes)]
        if mine:
            group = self._add(self._made_of(group_id, mine))
            self._common.restore(group, mine, self._member_ids(group))
            self.rearm([group_id], now_ms)

    def check(self) -> None:
        """Assert the invariants."""
        for group_id, group in self._groups.items():
            assert group.id == group_id
            assert self._ids.type_of(group_id) is self._kind
