"""The committed offsets of all classic groups and consumer groups, also those of transactions that are still open.

Called by the handlers and by the coordinators of both types of group. Knows nothing of members: who may commit is
decided before. Offsets do not expire; they go with their group, their topic, or by request; when a group changes its
type, they stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

Key: TypeAlias = tuple[UUID, int]
"""Topic id and partition."""


@attrs.frozen
class CommittedOffset:
    """What a consumer committed: the offset of the next record, the leader epoch of the last (-1: unknown), a note."""

    offset: int
    leader_epoch: int
    metadata: str


class CommittedOffsets:
    """Group -> partition -> offset."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[Key, CommittedOffset]] = {}
        self._pending: dict[str, dict[int, dict[Key, CommittedOffset]]] = {}
        """Group -> producer id -> what its open transaction will have committed."""

    def commit(self, group_id: str, key: Key, offset: CommittedOffset) -> None:
        self._offsets.setdefault(group_id, {})[key] = offset

    def of_group(self, group_id: str) -> Mapping[Key, CommittedOffset]:
        """All committed offsets of a group, in the order of their first commit."""
        return self._offsets.get(group_id, {})

    def delete(self, group_id: str, key: Key) -> None:
        """Forget one offset; nothing happens if there is none."""
        self._offsets.get(group_id, {}).pop(key, None)

    def delete_group(self, group_id: str) -> None:
        self._offsets.pop(group_id, None)
        self._pending.pop(group_id, None)

    def topic_deleted(self, topic_id: UUID) -> None:
        """Forget every group's offsets of a topic."""
        held = [*self._offsets.values(), *(one for group in self._pending.values() for one in group.values())]
        for offsets in held:
            for key in [key for key in offsets if key[0] == topic_id]:
                del offsets[key]

    # ---- transactions

    def commit_pending(self, group_id: str, producer_id: int, key: Key, offset: CommittedOffset) -> None:
        """An offset that counts once the producer's transaction is committed."""
        self._pending.setdefault(group_id, {}).setdefault(producer_id, {})[key] = offset

    def is_pending(self, group_id: str, key: Key) -> bool:
        """Whether an open transaction will change this offset."""
        return any(key in offsets for offsets in self._pending.get(group_id, {}).values())

    def end_transaction(self, group_id: str, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction has ended: its offsets count now, or are forgotten."""
        of_group = self._pending.get(group_id, {})
        offsets = of_group.pop(producer_id, {})
        if not of_group:
            self._pending.pop(group_id, None)
        if committed:
            self._offsets.setdefault(group_id, {}).update(offsets)
