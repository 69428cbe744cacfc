"""The arguments of a consumer's methods: what they may be, and the error that says so when they are not.

Called by the façades, blocking and asyncio alike. Values in, values or `CallerError`s out.
"""

from __future__ import annotations

from typing import Any

from kafka_share.errors import InvalidArgumentError
from kafka_share.records import AcknowledgeType


def topic_set(topics: Any) -> frozenset[str]:
    """A collection of topic names, without duplicates."""
    if topics is None or isinstance(topics, str | bytes):
        raise InvalidArgumentError(f"topics are a collection of names, not {topics!r}")
    names: list[Any] = list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgumentError(f"{name!r} is not a topic name")
    return frozenset(names)


def acknowledge_type(value: Any) -> AcknowledgeType:
    """An `AcknowledgeType`, or its number."""
    try:
        return AcknowledgeType(value)
    except ValueError:
        raise InvalidArgumentError(f"{value!r} is not an AcknowledgeType") from None


def not_a_record(thing: object) -> TypeError:
    """What to raise for anything but a `ShareRecord`."""
    return TypeError(f"acknowledge takes a ShareRecord, not {thing.__class__.__name__}")


def demand_place(partition: int, offset: int) -> None:
    """A partition and an offset that can exist."""
    if partition < 0 or offset < 0:
        raise InvalidArgumentError(f"there is no partition {partition} with an offset {offset}")
