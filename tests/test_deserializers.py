"""Deserializers: the three shapes that applications have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_share.deserializers import Headers, as_deserializer, from_schema_registry


class Shouting:
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return topic, list(headers), None if data is None else data.upper()


def test_a_plain_callable_gets_the_bytes_and_no_null() -> None:
    wrapped = as_deserializer(json.loads)
    assert wrapped is not None
    assert wrapped.deserialize("t", [], b'{"a": 1}') == {"a": 1}
    assert wrapped.deserialize("t", [], None) is None


@pytest.mark.behaviour("fetching")
def test_an_object_gets_topic_and_headers_when_it_has_a_deserialize_method() -> None:
    """A deserializer with a deserialize method is given the topic, the headers and the bytes."""
    wrapped = as_deserializer(Shouting())
    assert wrapped is not None
    assert wrapped.deserialize("t", [("h", b"1")], b"x") == ("t", [("h", b"1")], b"X")


def test_nothing_is_wrapped_when_there_is_no_deserializer() -> None:
    assert as_deserializer(None) is None


def test_a_thing_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        as_deserializer(5)  # type: ignore[arg-type]


@pytest.mark.foreign
def test_a_deserializer_of_confluents_schema_registry_client_gets_its_context() -> None:
    serialization = pytest.importorskip("confluent_kafka.serialization", reason="confluent-kafka is not installed")
    seen: list[Any] = []

    def record(data: bytes | None, context: Any) -> Any:
        seen.append((context.topic, context.field, context.headers))
        return serialization.StringDeserializer("utf_8")(data, context)

    adapted = from_schema_registry(record, "key")
    assert adapted.deserialize("t", [("h", b"1")], b"text") == "text"
    assert adapted.deserialize("t", [], None) is None
    assert seen[0] == ("t", serialization.MessageField.KEY, [("h", b"1")])


def test_another_field_than_key_or_value_is_refused() -> None:
    with pytest.raises(ValueError, match="headers"):
        from_schema_registry(lambda data, context: data, "headers")  # type: ignore[arg-type]
