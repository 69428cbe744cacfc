"""The messages that are coded by hand, against the codec that is made from their schemas."""

from __future__ import annotations

import random
import uuid
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.message_values import comparable, messages

from kafka_share.errors import KafkaShareError
from kafka_share.protocol import messages as codec
from kafka_share.protocol.hot_messages import SHORT_DECODERS, SHORT_ENCODERS
from kafka_share.protocol.messages import decode_response, encode_request, encode_response
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse

VERSIONS = (1, 2)
REQUESTS: tuple[Any, ...] = (ShareFetchRequest, ShareAcknowledgeRequest)
RESPONSES: tuple[Any, ...] = (ShareFetchResponse, ShareAcknowledgeResponse)


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        return call(*arguments)
    except KafkaShareError as error:
        return type(error), str(error)


def same_bytes(request: Any, version: int, client_id: str | None = "client") -> bool:
    """Both codecs write the same, or refuse in the same words; returns whether the short one took it."""
    expected = outcome(codec._encode_request, request, version, 7, client_id)
    assert outcome(encode_request, request, version, 7, client_id) == expected
    return SHORT_ENCODERS[type(request), version](request, 7, client_id) is not None


def same_values(api_key: int, version: int, frame: bytes | memoryview) -> bool:
    """Both codecs read the same, or refuse in the same words; returns whether the short one took it."""
    expected = outcome(codec._decode_response, api_key, version, frame)
    found = outcome(decode_response, api_key, version, frame)
    if isinstance(expected[0], int):
        assert found[0] == expected[0]
        assert comparable(found[1], version) == comparable(expected[1], version)
        assert repr(found[1]) == repr(expected[1])
    else:
        assert found == expected
    return SHORT_DECODERS[api_key, version](frame) is not None


def few(chance: random.Random, most: int = 3) -> range:
    return range(chance.randrange(most + 1))


def usual_request(kind: Any, chance: random.Random) -> Any:
    """A request as the client makes them."""
    is_fetch = kind is ShareFetchRequest
    topic = kind.FetchTopic if is_fetch else kind.AcknowledgeTopic
    partition = topic.FetchPartition if is_fetch else topic.AcknowledgePartition

    def batch() -> Any:
        first = chance.randrange(1 << 40)
        types = [chance.randrange(-128, 128) for _ in range(chance.choice((1, 1, 2, 11, 126)))]
        return partition.AcknowledgementBatch(first_offset=first, last_offset=first + 9, acknowledge_types=types)

    topics = [
        topic(
            topic_id=uuid.UUID(int=chance.getrandbits(128)),
            partitions=[
                partition(partition_index=number, acknowledgement_batches=[batch() for _ in few(chance)])
                for number in few(chance)
            ],
        )
        for _ in few(chance)
    ]
    ids = {"group_id": "group-ä", "member_id": "member", "share_session_epoch": chance.randrange(-1, 99)}
    return kind(**ids, topics=topics, **({"max_wait_ms": 500, "max_records": 5} if is_fetch else {}))


def usual_response(kind: Any, chance: random.Random) -> Any:
    """A response as brokers make them."""
    is_fetch = kind is ShareFetchResponse
    topic = kind.ShareFetchableTopicResponse if is_fetch else kind.ShareAcknowledgeTopicResponse

    def data(number: int) -> Any:
        more: dict[str, Any] = {}
        if is_fetch:
            acquired = topic.PartitionData.AcquiredRecords
            more["records"] = chance.randbytes(chance.choice((0, 5, 126, 127, 20_000)))
            more["acknowledge_error_code"] = chance.choice((0, 121))
            more["acquired_records"] = [
                acquired(first_offset=at, last_offset=at + 4, delivery_count=1) for at in few(chance, 5)
            ]
        leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=chance.choice((0, 3)), leader_epoch=0)
        return topic.PartitionData(
            partition_index=number, error_code=chance.choice((0, 6)), current_leader=leader, **more
        )

    ids = [chance.choice((None, uuid.UUID(int=chance.getrandbits(128)))) for _ in few(chance)]
    topics = [topic(topic_id=topic_id, partitions=[data(number) for number in few(chance)]) for topic_id in ids]
    return kind(throttle_time_ms=3, error_code=chance.choice((0, 41)), acquisition_lock_timeout_ms=9, responses=topics)


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
    @settings(max_examples=60)
    @given(messages(kind, version, unknown_tags=True), st.none() | st.text(max_size=4))
    def check(request: Any, client_id: str | None) -> None:
        same_bytes(request, version, client_id)

    check()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", RESPONSES)
def test_any_answer_is_read_as_the_schema_says_when_it_comes(kind: Any, version: int) -> None:
    @settings(max_examples=60)
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
