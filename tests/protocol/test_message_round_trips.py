"""Every message, in every version, survives the wire, and looks on it as kafka-python writes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from generate_messages import read_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas import StructField
from protocol.message_values import ALL_CLASSES, ALL_VERSIONS, SHARE_KEYS, comparable, messages

from kafka_share.protocol.messages import (
    API_VERSIONS,
    MESSAGES,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kafka_share.protocol.schema import schema_of

quick = settings(max_examples=3, suppress_health_check=list(HealthCheck))


def through_the_wire(message: Any, version: int, frame_type: type = bytes) -> Any:
    schema = schema_of(message.__class__)
    if schema.is_request:
        frame = encode_request(message, version, 7, "client")
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, decoded = decode_request(frame_type(frame[4:]))
        assert (header.api_key, header.api_version) == (schema.api_key, version)
        assert (header.correlation_id, header.client_id) == (7, "client")
        return decoded
    frame = encode_response(7, message, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, decoded = decode_response(schema.api_key, version, frame_type(frame[4:]))
    assert correlation_id == 7
    return decoded


def test_every_share_api_is_there_in_the_versions_that_brokers_speak_when_the_table_is_read() -> None:
    versions = {key: MESSAGES[key][0].valid_versions for key in SHARE_KEYS}
    assert versions == {
        76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2), 83: (0, 0), 84: (0, 0),
        85: (0, 1), 86: (0, 0), 87: (0, 1), 90: (0, 1), 91: (0, 0), 92: (0, 0),
    }  # fmt: skip
    for request, response in MESSAGES.values():
        assert request.valid_versions == response.valid_versions
        assert request.is_request()
        assert not response.is_request()


@pytest.mark.parametrize(
    ("message_class", "version"), ALL_VERSIONS, ids=lambda value: getattr(value, "__name__", value)
)
@given(data=st.data())
@quick
def test_a_message_comes_back_unchanged_and_looks_as_kafka_python_writes_it_when_it_is_sent(
    message_class: Any, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(message_class, version))
    if message_class.API_KEY == API_VERSIONS and not message_class.is_request() and message.error_code == 35:
        message.error_code = 0  # an answer with this code is always of version 0
    decoded = through_the_wire(message, version)
    assert type(decoded) is message_class
    assert comparable(decoded, version) == comparable(message, version)
    assert body_of(message, version) == as_kafka_python_writes_it(message, version)


def as_kafka_python_writes_it(message: Any, version: int) -> bytes:
    """The bytes that kafka-python makes of the same values by Kafka's schema."""
    flexible = schema_of(type(message)).is_flexible(version)
    written = kafka_python_struct(message.__class__).encode(message, version=version, compact=flexible, tagged=flexible)
    return bytes(written)


@cache
def kafka_python_struct(message_class: Any) -> Any:
    json_schema = read_schema(message_class.__name__)
    return StructField({**json_schema, "versions": "0+"})


def body_of(message: Any, version: int) -> bytes:
    """Our bytes without frame length and header."""
    schema = schema_of(type(message))
    tags = int(schema.is_flexible(version))
    if schema.is_request:
        return encode_request(message, version, 7, "client")[4 + 8 + 2 + len("client") + tags :]
    return encode_response(7, message, version)[4 + 4 + (0 if schema.api_key == API_VERSIONS else tags) :]


@pytest.mark.parametrize("message_class", ALL_CLASSES, ids=lambda value: value.__name__)
@given(data=st.data())
@quick
def test_unknown_tagged_fields_survive_byte_for_byte_when_a_message_passes_through(
    message_class: Any, data: st.DataObject
) -> None:
    schema = schema_of(message_class)
    version = schema.valid_versions[1]
    message = data.draw(messages(message_class, version, unknown_tags=True))
    if message_class.API_KEY == API_VERSIONS and not schema.is_request:
        message.error_code = 0
    decoded = through_the_wire(message, version, memoryview)
    expected = comparable(message, version)
    assert comparable(decoded, version) == expected
    assert comparable(through_the_wire(decoded, version), version) == expected
