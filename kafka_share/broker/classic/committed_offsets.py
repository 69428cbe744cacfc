"""The committed offsets of all classic groups and consumer groups, also those of transactions that are still open.

Called by the handlers, by the coordinators of both types of group and by that of transactions. Every change is a record
first (`GroupJournal`), and where that is refused it has not happened. Knows nothing of members: who may commit is
decided before. Offsets do not expire; they go with their group, their topic, or by request; when a group changes its
type, they stay.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import attrs

from kafka_share.broker.group_journal import group_of
from kafka_share.broker.refusals import Refusal
from kafka_share.protocol.group_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_share.broker.group_journal import GroupJournal, Held
    from kafka_share.broker.storage.topics import Topic, Topics

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

    def __init__(self, topics: Topics, journal: GroupJournal) -> None:
        self._topics = topics
        self._journal = journal
        self._offsets: dict[str, dict[Key, CommittedOffset]] = {}
        self._pending: dict[str, dict[int, dict[Key, CommittedOffset]]] = {}
        """Group -> producer id -> what its open transaction will have committed."""

    def of_group(self, group_id: str) -> Mapping[Key, CommittedOffset]:
        """All committed offsets of a group, in the order of their first commit."""
        return self._offsets.get(group_id, {})

    def commit(self, group_id: str, offsets: Mapping[Key, CommittedOffset], now_ms: int) -> None:
        """Commit them, all or none. Raises `Refusal`."""
        if offsets:
            records = [(self._key(group_id, key), _value(key, offset, now_ms)) for key, offset in offsets.items()]
            self._journal.write(group_id, records, now_ms)
            self._offsets.setdefault(group_id, {}).update(offsets)

    def delete(self, group_id: str, keys: Iterable[Key], now_ms: int) -> None:
        """Forget these offsets, where there are any, those of open transactions too. Raises `Refusal`."""
        held = [self._offsets.get(group_id, {}), *self._pending.get(group_id, {}).values()]
        gone = [key for key in keys if any(key in offsets for offsets in held)]
        self._journal.write(group_id, [(self._key(group_id, key), None) for key in gone], now_ms)
        for offsets in held:
            for key in gone:
                offsets.pop(key, None)

    def delete_group(self, group_id: str, now_ms: int) -> None:
        """Forget all offsets of a group. Raises `Refusal`."""
        pending = (key for offsets in self._pending.get(group_id, {}).values() for key in offsets)
        self.delete(group_id, dict.fromkeys([*self.of_group(group_id), *pending]), now_ms)
        self._offsets.pop(group_id, None)
        self._pending.pop(group_id, None)

    def topic_deleted(self, topic: Topic, now_ms: int) -> None:
        """Forget every group's offsets of a topic. What cannot be written is forgotten when it is read."""
        for group_id, held in self._offsets.items():
            keys = [key for key in held if key[0] == topic.id]
            gone = [(OffsetCommitKey(group=group_id, topic=topic.name, partition=index), None) for _, index in keys]
            with contextlib.suppress(Refusal):
                self._journal.write(group_id, gone, now_ms)
            for key in keys:
                del held[key]
        for offsets in (one for group in self._pending.values() for one in group.values()):
            for key in [key for key in offsets if key[0] == topic.id]:
                del offsets[key]

    # ---- transactions

    def commit_pending(
        self, group_id: str, producer: tuple[int, int], offsets: Mapping[Key, CommittedOffset], now_ms: int
    ) -> None:
        """Offsets that count once the producer's (id, epoch) transaction is committed. Raises `Refusal`."""
        if offsets:
            records = [(self._key(group_id, key), _value(key, offset, now_ms)) for key, offset in offsets.items()]
            self._journal.write_pending(group_id, producer, records, now_ms)
            self._pending.setdefault(group_id, {}).setdefault(producer[0], {}).update(offsets)

    def is_pending(self, group_id: str, key: Key) -> bool:
        """Whether an open transaction will change this offset."""
        return any(key in offsets for offsets in self._pending.get(group_id, {}).values())

    def end_transaction(self, group_id: str, producer: tuple[int, int], *, committed: bool, now_ms: int) -> None:
        """The producer's (id, epoch) transaction has ended: its offsets count now, or are forgotten. Raises `Refusal`.

        An offset that somebody has committed after it stays.
        """
        self._ended(self._journal.end_transaction(group_id, producer, committed=committed, now_ms=now_ms))
        self._forget_pending(group_id, producer[0])

    def marker_written(self, home: int, producer_id: int, *, committed: bool) -> None:
        """An admin has ended the producer's transaction in this partition of the log, for all groups there."""
        self._ended(self._journal.marker_written(home, producer_id, committed=committed))
        for group_id in [group_id for group_id in self._pending if self._journal.home_of(group_id) == home]:
            self._forget_pending(group_id, producer_id)

    def _ended(self, set_now: Held) -> None:
        for key, value in set_now:
            self._put(self._offsets.setdefault(group_of(key), {}), key, value)

    def _forget_pending(self, group_id: str, producer_id: int) -> None:
        of_group = self._pending.get(group_id, {})
        of_group.pop(producer_id, None)
        if not of_group:
            self._pending.pop(group_id, None)

    # ---- records

    def load(self, journal: Mapping[str, Held]) -> None:
        """Forget everything, and take over what was written."""
        self._offsets, self._pending = {}, {}
        for group_id, held in journal.items():
            for key, value in held:
                if isinstance(key, OffsetCommitKey):
                    self._put(self._offsets.setdefault(group_id, {}), key, value)
        for producer_id, key, value in self._journal.pending():
            self._put(self._pending.setdefault(group_of(key), {}).setdefault(producer_id, {}), key, value)

    def _put(self, offsets: dict[Key, CommittedOffset], key: Any, value: Any) -> None:
        """Nothing is put for a topic that is gone; one of the same name is another one."""
        topic = self._topics.by_name(key.topic)
        if topic is not None and value.topic_id in (None, topic.id):
            offsets[topic.id, key.partition] = CommittedOffset(value.offset, value.leader_epoch, value.metadata)

    def _key(self, group_id: str, key: Key) -> OffsetCommitKey:
        topic = self._topics.by_id(key[0])
        assert topic is not None, "offsets go with their topic"
        return OffsetCommitKey(group=group_id, topic=topic.name, partition=key[1])


def _value(key: Key, offset: CommittedOffset, now_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=now_ms,
        topic_id=key[0],
    )
