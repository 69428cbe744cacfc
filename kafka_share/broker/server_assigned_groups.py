"""The groups of one type whose members are told by the coordinator what they are assigned, and their ids.

Base of the coordinators `ShareGroups` and `ConsumerGroups`. It keeps the groups and their part of the one namespace of
all groups; what a heartbeat does is theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import ServerAssignedGroup
from kafka_share.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from kafka_share.broker.group_ids import GroupIds, GroupType

GroupT = TypeVar("GroupT", bound=ServerAssignedGroup)


class ServerAssignedGroups(Generic[GroupT]):
    """All groups of the type `kind`."""

    def __init__(self, ids: GroupIds, kind: GroupType) -> None:
        self._ids = ids
        self._kind = kind
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

    def check(self) -> None:
        """Assert the invariants."""
        for group_id, group in self._groups.items():
            assert group.id == group_id
            assert self._ids.type_of(group_id) is self._kind
