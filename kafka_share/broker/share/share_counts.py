"""What one node counts about its share groups: plain numbers, which `broker.metrics` shows by Kafka's names.

Owned by `ShareNode`; its machines add to it as they work, and nobody reads it on the way. Only topics that exist have
counts, and lose them when they are deleted, which is what bounds them. A share partition counts for itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kafka_share.broker.share.exchange import AcknowledgementBatch


@attrs.define
class Distribution:
    """Values that were seen: how many, their sum, and the largest."""

    count: int = 0
    total: int = 0
    largest: int = 0

    def add(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)


@attrs.define
class TopicCounts:
    """Requests for one topic, or for all: a request counts once for each topic that it names."""

    fetches: int = 0
    failed_fetches: int = 0
    acknowledgements: int = 0
    failed_acknowledgements: int = 0


@attrs.define
class ShareCounts:
    """Of one node, since it started."""

    acknowledged: Counter[int] = attrs.Factory(Counter)
    """Records by the type of the acknowledgement that was stored."""
    expired_fetches: int = 0
    """Fetches whose wait ended before there was enough for them."""
    evicted_sessions: int = 0
    """Sessions that ended with their connection."""
    all_topics: TopicCounts = attrs.Factory(TopicCounts)
    topics: dict[UUID, TopicCounts] = attrs.Factory(dict)

    def acknowledged_batches(self, batches: Iterable[AcknowledgementBatch]) -> None:
        """Records were acknowledged, and that is stored."""
        for first, last, types in batches:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)

    def fetched(self, topics: Iterable[UUID]) -> None:
        """A fetch reads these topics, all of which exist."""
        for topic_id in topics:
            self._of(topic_id).fetches += 1
            self.all_topics.fetches += 1

    def fetch_failed(self, topics: Iterable[UUID]) -> None:
        """In each of these topics, all of which exist, a partition of a fetch had an error."""
        for topic_id in topics:
            self._of(topic_id).failed_fetches += 1
            self.all_topics.failed_fetches += 1

    def acknowledging(self, topics: Iterable[UUID], failed: Iterable[UUID]) -> None:
        """A request acknowledged in `topics`; in each of `failed` some partition had an error. All of them exist."""
        for topic_id in topics:
            self._of(topic_id).acknowledgements += 1
            self.all_topics.acknowledgements += 1
        for topic_id in failed:
            self._of(topic_id).failed_acknowledgements += 1
            self.all_topics.failed_acknowledgements += 1

    def _of(self, topic_id: UUID) -> TopicCounts:
        found = self.topics.get(topic_id)
        if found is None:
            found = self.topics[topic_id] = TopicCounts()
        return found
