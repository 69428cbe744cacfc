"""What several handlers need of partitions: how messages list them, by topic; and which topics are not for clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidTopicError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.storage.topics import Topic


def require_public(topic: Topic | None) -> None:
    """Raises `Refusal` if only a coordinator may write to the topic and delete its records."""
    if topic is not None and topic.is_internal:
        raise Refusal(InvalidTopicError, f"{topic.name} is an internal topic")


def by_topic(partitions: Iterable[Partition]) -> dict[UUID, list[int]]:
    """Topic id -> its partitions, both in order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics
