"""Which group id belongs to which type of group: an id has one type for as long as its group exists.

Shared by the coordinators of share groups, classic groups and consumer groups (KIP-848). An empty classic group becomes
a consumer group when a member of that protocol joins, and the other way round; a share group stays what it is, even if
it is empty (Kafka 4.3's group coordinator).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_GROUPS: Final = 10_000
"""Groups are never expired, so their number needs a bound."""


class GroupType(str, enum.Enum):
    """Kafka's names of the types, as ListGroups shows them."""

    SHARE = "share"
    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupIds:
    """The ids of all groups that exist."""

    def __init__(self) -> None:
        self._types: dict[str, GroupType] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._types))

    def claim(self, group_id: str, kind: GroupType) -> None:
        """A group of this type is made under a free id. Raises `Refusal` when there are too many groups."""
        assert group_id not in self._types, f"{group_id!r} is taken"
        if len(self._types) >= MAX_GROUPS:
            raise Refusal(InvalidRequestError, f"this broker holds no more than {MAX_GROUPS} groups")
        self._types[group_id] = kind

    def type_of(self, group_id: str) -> GroupType | None:
        """The type of the group, None if there is no such group."""
        return self._types.get(group_id)

    def free(self, group_id: str) -> None:
        """The group has been deleted."""
        del self._types[group_id]
