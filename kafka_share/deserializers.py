"""Deserializers: they turn the bytes of a key or value into what the application works with.

As `key_deserializer` and `value_deserializer` the consumer takes either a plain callable (`json.loads`, `bytes.decode`)
or an object with a method `deserialize(topic, headers, data)`. `from_schema_registry` adapts the deserializers of
confluent-kafka's Schema Registry client, which have a third shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar  # typing's own has no default before Python 3.13

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True, default=Any)

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """A deserializer that also gets the topic and the headers of the record."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T_co:
        """Return the value of `data`, which is None for a null key or value."""
        ...


PlainDeserializer: TypeAlias = Callable[[bytes], T]
"""A deserializer that needs only the bytes; a null key or value stays None without a call."""


class _Plain:
    __slots__ = ("_function",)

    def __init__(self, function: PlainDeserializer[Any]) -> None:
        self._function = function

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else self._function(data)


def as_deserializer(value: Deserializer | PlainDeserializer[Any] | None) -> Deserializer | None:
    """One shape for every deserializer. None stays None: records keep the bytes. Raises TypeError for anything else."""
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

    Such a deserializer is called with the bytes and a `SerializationContext`. Raises ImportError if confluent-kafka is
    not installed.
    """
    if field not in ("key", "value"):
        raise ValueError(f"field is 'key' or 'value', not {field!r}")
    return _SchemaRegistry(deserializer, field)
