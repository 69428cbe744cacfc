"""Partitions as messages list them: by topic. Used by the handlers of share groups and of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kafka_share.broker.server_assigned_group import Partition


def by_topic(partitions: Iterable[Partition]) -> dict[UUID, list[int]]:
    """Topic id -> its partitions, both in order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics
