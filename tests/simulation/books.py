"""What the auditor knows of each share partition, from what went over the wire and what was stored.

One `Book` per group, topic id and partition. Nothing here asks the broker what it thinks of a record: holds come from
answers to ShareFetch, and their ends from answers to acknowledgements, from writes of share state, and from the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import attrs

if TYPE_CHECKING:
    from kafka_share.broker.share.partition import SharePartition


class BookKey(NamedTuple):
    group_id: str
    topic_id: UUID
    partition: int


@attrs.define(eq=False)
class Hold:
    """An offset is locked for a member. `owner` is the share partition that handed it out: with it the lock goes."""

    member_id: str
    ends_at_ms: int
    count: int
    owner: SharePartition
    may_last_to_ms: int = 0
    """A refused acknowledgement may have renewed it all the same: Kafka's broker does not take renewals back. And the
    answer to a fetch that acknowledged, too, may have waited for that since the offset was acquired."""


@attrs.define(eq=False)
class Book:
    """Offsets of one share partition. `finished`: ACKNOWLEDGED or ARCHIVED in a write that succeeded."""

    topic: str
    finished: set[int] = attrs.Factory(set)
    holds: dict[int, Hold] = attrs.Factory(dict)
    deliveries: dict[int, int] = attrs.Factory(dict)
    """The highest delivery count of each offset that was answered or stored."""
    stored_start: int = -1
    highest_start: int = 0
    owner: SharePartition | None = None
    """The share partition that was seen last, with its start and end offset then."""
    start: int = 0
    end: int = 0

    def hold(self, offset: int, owner: SharePartition | None, now_ms: int) -> Hold | None:
        """Who holds the offset now, as far as can be known."""
        found = self.holds.get(offset)
        if found is None or found.owner is not owner or found.ends_at_ms <= now_ms:
            return None
        return found

    def may_hold(self, offset: int, owner: SharePartition | None, now_ms: int) -> Hold | None:
        """The same, with what is not sure."""
        found = self.holds.get(offset)
        if found is not None and found.owner is owner and found.may_last_to_ms > now_ms:
            return found
        return self.hold(offset, owner, now_ms)

    def count_delivery(self, offset: int, count: int) -> None:
        """An offset was answered, or stored, with this delivery count."""
        self.deliveries[offset] = max(count, self.deliveries.get(offset, 0))

    def is_past(self, offset: int) -> bool:
        """Whether it has ended, or lies below a start offset that was seen."""
        return offset in self.finished or offset < self.highest_start


@attrs.define(eq=False)
class Books:
    """All books, and what each member was handed out: (topic, partition, offset) → the delivery counts."""

    by_key: dict[BookKey, Book] = attrs.Factory(dict)
    acquired: dict[str, dict[tuple[str, int, int], set[int]]] = attrs.Factory(dict)
