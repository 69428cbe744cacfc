"""Turning a record's bytes into what the application works with.

The consumer accepts, as `key_deserializer` and `value_deserializer`, either a plain callable (`json.loads`,
`bytes.decode`) or an object with a `deserialize(topic, headers, data)` method. `from_schema_registry` adapts the
deserializers of confluent-kafka's Schema Registry client, which have a third shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@runtime_checkable
class Deserializer(Protocol):
    """A deserializer that wants to know where the bytes come from."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """The value of `data`, which is None for a null key or value."""


PlainDeserializer: TypeAlias = Callable[[bytes], Any]
"""A deserializer that needs the bytes alone; a null key or value stays None without a call."""


class _Plain:
    __slots__ = ("_function",)

    def __init__(self, function: PlainDeserializer) -> None:
        self._function = function

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else self._function(data)


def as_deserializer(value: Deserializer | PlainDeserializer | None) -> Deserializer | None:
    """One shape for all: None stays None (the bytes are handed out as they are). Raises TypeError for anything else."""
    if value is None or isinstance(value, Deserializer):
        return value
    if callable(value):
        return _Plain(value)
    raise TypeError(f"a deserializer is a callable or has a deserialize method, not {type(value).__name__}")


class _SchemaRegistry:
    __slots__ = ("_context", "_deserializer", "_field")

    def __init__(self, deserializer: Callable[[bytes | None, Any], Any], field: Literal["key", "value"]) -> None:
        from confluent_kafka.serialization import SerializationContext

        self._deserializer = deserializer
        self._field: Any = field
        self._context = SerializationContext

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return self._deserializer(data, self._context(topic, self._field, list(headers)))


def from_schema_registry(
    deserializer: Callable[[bytes | None, Any], Any], field: Literal["key", "value"] = "value"
) -> Deserializer:
    """Adapt a deserializer of confluent-kafka's Schema Registry client (Avro, JSON Schema, Protobuf).

    Such a deserializer is called with the bytes and a `SerializationContext`. Needs confluent-kafka to be installed;
    raises ImportError otherwise.
    """
    if field not in ("key", "value"):
        raise ValueError(f"field is 'key' or 'value', not {field!r}")
    return _SchemaRegistry(deserializer, field)
