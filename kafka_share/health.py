"""What a consumer knows about itself, for probes: the value that `KafkaShareConsumer.health` returns."""

from __future__ import annotations

import attrs

from kafka_share.errors import KafkaShareError
from kafka_share.records import TopicPartition


@attrs.frozen
class UnacknowledgedRecord:
    """A record that a poll has returned and the application has not acknowledged."""

    topic: str
    partition: int
    offset: int
    held_for_ms: int
    """How long ago a poll returned it."""


@attrs.frozen
class Health:
    """A consumer at one moment, as far as the client knows.

    None of it says that records arrive: a group may have none. `is_fatal`, or an `error` that has lasted for long, is a
    reason to make a new consumer; an `oldest_unacknowledged` that has been held for long means that the application
    hangs, or has forgotten a record.
    """

    is_joined: bool
    """Whether the group's coordinator has taken the consumer in, and has not put it out since."""
    assigned: frozenset[TopicPartition]
    """What the consumer may fetch."""
    missing_topics: frozenset[str]
    """Topics that are subscribed to and do not exist, by the latest answer of a broker."""
    error: KafkaShareError | None
    """What is wrong now; None if nothing is. The worst, if it is several things."""
    error_for_ms: int | None
    """How long it has been so; None without an error."""
    is_fatal: bool
    """Whether the error lasts until the consumer is closed."""
    oldest_unacknowledged: UnacknowledgedRecord | None
    """The record that the application has held longest without an acknowledgement; None if it holds none."""
