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
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.storage.topics import Topics

Partition: TypeAlias = "tuple[UUID, int]"
"""Topic id and partition index."""

Fingerprint: TypeAlias = tuple[tuple[str, "UUID", int], ...]
"""Name, id and partition count of each subscribed topic that exists."""


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
    _fingerprint: Fingerprint = ()
    _metadata_version: int = -1

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
        fingerprint = tuple((topic.name, topic.id, len(topic.partitions)) for topic in found)
        changed = fingerprint != self._fingerprint
        self._fingerprint, self._metadata_version = fingerprint, topics.version
        return changed

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
        self.target = target
        self.assignment_epoch = self.epoch
        self.assigned_at_ms = now_ms

    def check_subscribers(self, expected: Counter[str]) -> None:
        """Assert that the epochs are in order, and that the subscriptions were counted right."""
        assert self.assignment_epoch <= self.epoch
        assert self._subscribers == expected
