"""What the arguments of admin operations may be; refused before anything is sent, with `InvalidArgumentError`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from kafka_share.admin_values import OffsetSpec
from kafka_share.errors import InvalidArgumentError
from kafka_share.records import TopicPartition

_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1


def names(what: str, values: Any) -> tuple[str, ...]:
    """Names without repetition, in their order. `what` is what the message calls one of them."""
    if values is None or isinstance(values, str | bytes):
        raise InvalidArgumentError(f"expected a collection of {what}s, not {values!r}")
    return tuple(dict.fromkeys(name(what, value) for value in values))


def name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{value!r} is not a {what}: it is text, and not empty")
    return str(value)


def mapping(what: str, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"expected a mapping of {what}, not {value!r}")
    return value


def topic_partition(value: Any) -> TopicPartition:
    if not isinstance(value, tuple) or len(value) != 2:
        raise InvalidArgumentError(f"{value!r} is not a TopicPartition")
    topic, partition = value
    name("topic name", topic)
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition <= _INT32_MAX:
        raise InvalidArgumentError(f"{partition!r} is not the number of a partition of {topic}")
    return TopicPartition(topic, partition)


def topic_partitions(values: Iterable[Any]) -> tuple[TopicPartition, ...]:
    if isinstance(values, str | bytes | TopicPartition):
        raise InvalidArgumentError(f"expected a collection of partitions, not {values!r}")
    return tuple(dict.fromkeys(topic_partition(value) for value in values))


def offset(partition: TopicPartition, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64_MAX <= value <= _INT64_MAX:
        raise InvalidArgumentError(f"{value!r} is not an offset for {partition}")
    return int(value)


def offset_spec(partition: TopicPartition, value: Any) -> int:
    if isinstance(value, OffsetSpec):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _INT64_MAX:
        raise InvalidArgumentError(
            f"{value!r} names no offset of {partition}: give OffsetSpec.EARLIEST, OffsetSpec.LATEST, or milliseconds "
            "since 1970"
        )
    return int(value)


def filter_values(what: str, values: Iterable[Enum | str] | None) -> list[str]:
    """The values of a filter, as they travel; brokers compare them in any case."""
    if values is None:
        return []
    if isinstance(values, str | bytes | Enum):
        raise InvalidArgumentError(f"expected a collection of {what}s, not {values!r}")
    return [name(what, value.value if isinstance(value, Enum) else value) for value in values]


def config_value(config: str, value: Any) -> str | None:
    """A config's value as it travels."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise InvalidArgumentError(f"{config} cannot be set to {value!r}: give text, a whole number, True, False or None")
