"""Which topics are not for clients. Used by the handlers that write to topics and delete records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidTopicError

if TYPE_CHECKING:
    from kafka_share.broker.storage.topics import Topic


def require_public(topic: Topic | None) -> None:
    """Raises `Refusal` if only a coordinator may write to the topic and delete its records."""
    if topic is not None and topic.is_internal:
        raise Refusal(InvalidTopicError, f"{topic.name} is an internal topic")
