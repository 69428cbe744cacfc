"""The messages that are coded by hand, against the codec that is made from their schemas."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.hot_codecs import (
    REQUESTS,
    RESPONSES,
    VERSIONS,
    same_bytes,
    same_values,
    usual_request,
    usual_response,
)
from protocol.message_values import messages

from kafka_share.protocol.messages import encode_response


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_usual_request_is_written_by_hand_byte_for_byte_when_it_is_sent(kind: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(300):
        assert same_bytes(usual_request(kind, chance), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", RESPONSES)
def test_a_usual_answer_is_read_by_hand_field_for_field_when_it_comes(kind: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(300):
        frame = encode_response(-5, usual_response(kind, chance), version)[4:]
        assert same_values(kind.API_KEY, version, chance.choice((frame, memoryview(frame))))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_any_request_is_written_as_the_schema_says_when_it_is_sent(kind: Any, version: int) -> None:
    @settings(max_examples=30)
    @given(messages(kind, version, unknown_tags=True), st.none() | st.text(max_size=4))
    def check(request: Any, client_id: str | None) -> None:
        same_bytes(request, version, client_id)

    check()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", RESPONSES)
def test_any_answer_is_read_as_the_schema_says_when_it_comes(kind: Any, version: int) -> None:
    @settings(max_examples=30)
    @given(messages(kind, version, unknown_tags=True))
    def check(response: Any) -> None:
        same_values(kind.API_KEY, version, encode_response(7, response, version)[4:])

    check()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", RESPONSES)
def test_a_damaged_answer_is_refused_in_the_same_words_when_it_comes(kind: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(400):
        frame = bytearray(encode_response(7, usual_response(kind, chance), version)[4:])
        for _ in range(chance.randrange(3)):
            frame[chance.randrange(len(frame))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        same_values(
            kind.API_KEY, version, bytes(frame[: chance.choice((len(frame), chance.randrange(len(frame) + 1)))])
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group_id", None),
        ("group_id", b"group"),
        ("group_id", "g" * 127),
        ("group_id", "g" * 40_000),
        ("group_id", "\ud800"),
        ("member_id", None),
        ("share_session_epoch", 1 << 31),
        ("share_session_epoch", 1.5),
        ("topics", None),
        ("topics", [None]),
        ("topics", ()),
        ("is_renew_ack", True),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_with_a_wrong_value_is_refused_in_the_same_words_when_it_is_sent(
    kind: Any, version: int, field: str, value: Any
) -> None:
    request = usual_request(kind, random.Random(5))
    setattr(request, field, value)
    same_bytes(request, version)


@attrs.frozen
class Wrong:
    """A value of an acknowledged run that nothing can carry."""

    name: str
    value: Any


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong("acknowledge_types", [200]),
        Wrong("acknowledge_types", [1, 200]),
        Wrong("acknowledge_types", []),
        Wrong("acknowledge_types", [1] * 127),
        Wrong("acknowledge_types", None),
        Wrong("first_offset", 1 << 63),
        Wrong("last_offset", "9"),
    ],
)
@pytest.mark.parametrize("kind", REQUESTS)
def test_an_acknowledged_run_with_a_wrong_value_is_refused_in_the_same_words_when_it_is_sent(
    kind: Any, wrong: Wrong
) -> None:
    chance = random.Random(1)
    request = usual_request(kind, chance)
    while not any(p.acknowledgement_batches for topic in request.topics for p in topic.partitions):
        request = usual_request(kind, chance)
    batches = next(
        p.acknowledgement_batches
        for topic in request.topics
        for p in topic.partitions
        if len(p.acknowledgement_batches)
    )
    setattr(batches[0], wrong.name, wrong.value)
    same_bytes(request, 2)


@pytest.mark.parametrize("client_id", [None, "", "c" * 32_767, "c" * 32_768, "\ud800", b"bytes", 5])
@pytest.mark.parametrize("kind", REQUESTS)
def test_any_client_id_is_treated_alike_when_a_request_is_sent(kind: Any, client_id: Any) -> None:
    same_bytes(usual_request(kind, random.Random(2)), 2, client_id)
