"""What share groups and consumer groups (KIP-848) have in common: the coordinator computes the members' assignment.

Base of `ShareGroup` and `ConsumerGroup`; nothing here knows requests, sessions or assignors. Three epochs tell how far
a change has come:

- the *group epoch* moves when membership, subscriptions or the subscribed topics change;
- the *assignment epoch* is the group epoch that the target assignment was computed for;
- the *member epoch* is the assignment epoch that a member has come to.

Source: KIP-848, KIP-932 and Kafka 4.3's group coordinator.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.storage.topics import Topic, Topics

Partition: TypeAlias = "tuple[UUID, int]"
"""Topic id and partition index."""

_HASH_BYTES: Final = 8
"""Kafka's hash of the subscribed topics is of 64 bits."""


@attrs.define(eq=False)
class ServerAssignedGroup:
    """One group whose members are told by the coordinator what they are assigned."""

    id: str
    epoch: int
    assignment_epoch: int
    behaviour: Behaviour
    target: dict[str, frozenset[Partition]] = attrs.Factory(dict)
    """The target assignment, by member id."""
    assigned_at_ms: int | None = None
    """When the target was computed, None if that may be done again at once."""
    _subscribers: Counter[str] = attrs.Factory(Counter)
    """How many members subscribe to a topic."""
    metadata_hash: int = 0
    """Stands for name, id and partition count of each subscribed topic that exists; 0 if none does."""
    touched: dict[str, None] = attrs.Factory(dict)
    """The ids of members that may differ from what was written of them, or are gone."""
    _metadata_version: int = -1
    _written: object = None
    """The stamp of what was written."""

    def stamp(self) -> object:
        """Something that is equal as long as nothing that is written of the group itself has changed."""
        return self.epoch, self.assignment_epoch, self.assigned_at_ms, self.metadata_hash

    @property
    def is_written(self) -> bool:
        """Whether everything about the group has been written."""
        return not self.touched and self._written == self.stamp()

    def written(self) -> None:
        """Everything about the group has been written, or comes from what was written."""
        self.touched.clear()
        self._written = self.stamp()

    def subscribed_names(self) -> list[str]:
        """The topics that some member subscribes to, in order."""
        return sorted(self._subscribers)

    def count_subscriptions(self, new: Iterable[str], old: Iterable[str]) -> None:
        """A member subscribes to the topics `new` now, in place of `old`."""
        gone = list(old)
        self._subscribers.update(new)
        self._subscribers.subtract(gone)
        for name in gone:
            if not self._subscribers[name]:
                del self._subscribers[name]

    def metadata_changed(self, topics: Topics) -> bool:
        """Whether the subscribed topics differ from those at the last call: made, deleted, grown or another set."""
        if self._metadata_version == topics.version:
            return False
        return self.refresh_metadata(topics)

    def refresh_metadata(self, topics: Topics) -> bool:
        """As `metadata_changed`, to be used when the subscriptions have changed."""
        found = [topic for name in self.subscribed_names() if (topic := topics.by_name(name)) is not None]
        before, self.metadata_hash = self.metadata_hash, _metadata_hash(found)
        self._metadata_version = topics.version
        return self.metadata_hash != before

    def bump(self) -> None:
        """The next assignment has to be another one."""
        self.epoch += 1

    def assigned_nobody(self) -> None:
        """The last member is gone: there is no target to compute."""
        self.assignment_epoch = self.epoch

    def must_assign(self, interval_ms: int, now_ms: int) -> bool:
        """Whether to compute the target now: the group epoch has moved, and `interval_ms` have passed (0: always)."""
        if self.epoch == self.assignment_epoch:
            return False
        return self.assigned_at_ms is None or now_ms - self.assigned_at_ms >= interval_ms

    def assigned(self, target: dict[str, frozenset[Partition]], now_ms: int) -> None:
        """The target has been computed for the present group epoch."""
        self.touched.update(dict.fromkeys(target))
        self.target = target
        self.assignment_epoch = self.epoch
        self.assigned_at_ms = now_ms

    def check_subscribers(self, expected: Counter[str]) -> None:
        """Assert that the epochs are in order, and that the subscriptions were counted right."""
        assert self.assignment_epoch <= self.epoch
        assert self._subscribers == expected


def by_topic(partitions: Iterable[Partition]) -> dict[UUID, list[int]]:
    """Topic id -> its partitions, both in order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics


def _metadata_hash(topics: Sequence[Topic]) -> int:
    if not topics:
        return 0
    text = repr([(topic.name, topic.id, len(topic.partitions)) for topic in topics])
    return int.from_bytes(blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big", signed=True)
