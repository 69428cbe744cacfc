"""The arguments of a consumer's methods: what they may be, and the error that says so when they are not.

Called by the façades, blocking and asyncio alike. Values in, values or `CallerError`s out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_share.errors import ConfigurationError, InvalidArgumentError
from kafka_share.records import AcknowledgeType

_TYPES = ", ".join(kind.name for kind in AcknowledgeType)


def topics_of_constructor(topics: tuple[Any, ...]) -> frozenset[str]:
    """The positional arguments of a consumer: topic names, and neither their list nor the settings."""
    for given in topics:
        if isinstance(given, Mapping) or hasattr(given, "bootstrap_servers"):
            raise ConfigurationError(
                "settings are keyword arguments, and positional ones are topics: write "
                "KafkaShareConsumer(*topics, **settings)"
            )
        if not isinstance(given, str) and isinstance(given, Iterable):
            raise InvalidArgumentError(
                f"topics are positional arguments, one name each, not {given.__class__.__name__}: write "
                "KafkaShareConsumer(*topics, **settings)"
            )
    return topic_set(topics)


MAX_DELAY_MS = 900_000
"""No record is held back longer than this."""


def topic_set(topics: Any) -> frozenset[str]:
    """A collection of topic names, without duplicates."""
    if isinstance(topics, str):
        raise InvalidArgumentError(f"topics are a collection of names, not one name: write [{topics!r}]")
    if isinstance(topics, bytes | Mapping) or not isinstance(topics, Iterable):
        raise InvalidArgumentError(f"topics are a collection of names, not {topics.__class__.__name__}")
    names: list[Any] = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"the name of a topic is text, not {name.__class__.__name__}")
        if not name.strip():
            raise InvalidArgumentError("the name of a topic is not blank")
    return frozenset(names)


def acknowledge_type(value: Any) -> AcknowledgeType:
    """An `AcknowledgeType`, its name in capital or small letters, or its number."""
    if isinstance(value, str):
        found = AcknowledgeType.__members__.get(value.upper())
        if found is not None:
            return found
    try:
        return AcknowledgeType(value)
    except ValueError:
        pass
    raise InvalidArgumentError(f"{value!r} is not an AcknowledgeType: those are {_TYPES}")


def checked_delay(value: int) -> int:
    """A whole number of milliseconds up to `MAX_DELAY_MS`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"delay_ms is a whole number of milliseconds, not {value!r}")
    if not 0 <= value <= MAX_DELAY_MS:
        raise InvalidArgumentError(f"delay_ms is {value}; allowed are 0 to {MAX_DELAY_MS}")
    return value


def not_a_record(thing: object) -> TypeError:
    """What to raise for anything but a `ShareRecord`."""
    return TypeError(f"acknowledge takes a ShareRecord, not {thing.__class__.__name__}")


def demand_place(partition: int, offset: int) -> None:
    """A partition and an offset that can exist."""
    if partition < 0 or offset < 0:
        raise InvalidArgumentError(f"there is no partition {partition} with an offset {offset}")
