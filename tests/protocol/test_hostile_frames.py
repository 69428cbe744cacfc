"""Whatever bytes a peer sends, decoding ends with a message or with RemoteProtocolError, without large allocations."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protocol.message_values import ALL_VERSIONS, messages

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol import decoder
from kafka_share.protocol.decoder import MAX_TAGGED_FIELDS
from kafka_share.protocol.handshake import ApiVersionsResponse
from kafka_share.protocol.messages import (
    MESSAGES,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kafka_share.protocol.share_group import ShareGroupHeartbeatResponse
from kafka_share.protocol.varint import unsigned

thorough = settings(max_examples=100, suppress_health_check=list(HealthCheck))
quick = settings(max_examples=20, suppress_health_check=list(HealthCheck))

A_LONG_NUMBER = b"\xff" * 1_000_000


def frame_of(message: Any, version: int) -> bytes:
    if message.is_request():
        return encode_request(message, version, 7, "client")[4:]
    return encode_response(7, message, version)[4:]


def decode(message_class: Any, version: int, frame: bytes) -> Any:
    if message_class.is_request():
        return decode_request(frame)[1]
    return decode_response(message_class.API_KEY, version, frame)[1]


def decode_hostile(message_class: Any, version: int, frame: bytes) -> None:
    try:
        decode(message_class, version, frame)
    except RemoteProtocolError:
        pass


@st.composite
def valid_frames(draw: st.DrawFn) -> tuple[Any, int, bytes]:
    message_class, version = draw(st.sampled_from(ALL_VERSIONS))
    message = draw(messages(message_class, version, unknown_tags=True))
    if getattr(message, "error_code", 0) == 35:
        message.error_code = 0
    return message_class, version, frame_of(message, version)


@given(valid_frames())
@quick
def test_every_prefix_is_refused_when_a_frame_is_cut_off(valid: tuple[Any, int, bytes]) -> None:
    message_class, version, frame = valid
    for length in range(len(frame)):
        with pytest.raises(RemoteProtocolError):
            decode(message_class, version, frame[:length])


@given(valid_frames(), st.binary(min_size=1, max_size=9))
@quick
def test_bytes_behind_a_message_are_refused_in_responses_and_ignored_in_requests_when_decoded(
    valid: tuple[Any, int, bytes], rest: bytes
) -> None:
    message_class, version, frame = valid
    if message_class.is_request():
        assert decode(message_class, version, frame + rest) == decode(message_class, version, frame)
    else:
        with pytest.raises(RemoteProtocolError):
            decode(message_class, version, frame + rest)


@given(valid_frames(), st.lists(st.tuples(st.integers(0, 2**31), st.binary(max_size=6), st.integers(0, 6)), min_size=1))
@thorough
def test_nothing_but_a_remote_protocol_error_is_raised_when_a_valid_frame_was_damaged(
    valid: tuple[Any, int, bytes], damages: list[tuple[int, bytes, int]]
) -> None:
    message_class, version, frame = valid
    for place, inserted, removed in damages:
        place %= len(frame) + 1
        frame = frame[:place] + inserted + frame[place + removed :]
    decode_hostile(message_class, version, frame)


@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=300), st.booleans())
@thorough
def test_nothing_but_a_remote_protocol_error_is_raised_when_a_frame_is_random(
    target: tuple[Any, int], noise: bytes, with_header: bool
) -> None:
    message_class, version = target
    start = b""
    if with_header and message_class.is_request():
        start = message_class.API_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\xff\xff"
    decode_hostile(message_class, version, start + noise)


def heartbeat_response(*parts: bytes) -> bytes:
    return b"".join((b"\0\0\0\7\0", b"\0\0\0\0", b"\0\0", *parts))


HUGE = b"\xff\xff\xff\xff\x0f"
"""2**32 - 1, as a variable-length number."""

HEARTBEAT_REST = b"\0\0" + bytes(8)


@pytest.mark.parametrize(
    ("api_key", "version", "frame"),
    [
        (76, 1, heartbeat_response(A_LONG_NUMBER)),
        (76, 1, heartbeat_response(HUGE, b"text")),
        (76, 1, heartbeat_response(b"\x03\xff\xfe", b"\0", bytes(8), b"\xff\0")),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\x01", HUGE, bytes(100))),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\x01\0\0\0")),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\x01\x02", bytes(16), HUGE, bytes(100))),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\xff", HUGE)),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\xff\x01\x05", HUGE)),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\xff\x02\x05\0\x05\0")),
        (76, 1, heartbeat_response(HEARTBEAT_REST, b"\xff\x02\x05\0\x04\0")),
        (76, 1, b"\0\0\0\7" + A_LONG_NUMBER),
        (3, 0, b"\0\0\0\7" + b"\x7f\xff\xff\xff" + bytes(100)),
        (3, 0, b"\0\0\0\7" + b"\xff\xff\xff\xfe" + bytes(100)),
        (3, 1, b"\0\0\0\7" + b"\0\0\0\1" + b"\0\0\0\1" + b"\xff\xff" + bytes(100)),
        (3, 1, b"\0\0\0\7" + b"\0\0\0\1" + b"\0\0\0\1" + b"\x80\x00" + bytes(100)),
        (17, 1, b"\0\0\0\7" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"),
    ],
    ids=[
        "endless number", "huge string", "not UTF-8", "huge struct array", "null array", "huge int array",
        "huge number of tags", "huge tag", "tag twice", "tags descend", "endless header", "huge old array",
        "negative old array", "null string", "negative string", "null element",
    ],
)  # fmt: skip
def test_a_length_is_refused_before_memory_is_taken_when_it_cannot_be_true(
    api_key: int, version: int, frame: bytes
) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_response(api_key, version, frame)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode_response(api_key, version, frame)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


START = b"\0\x12\0\0\0\0\0\1"


@pytest.mark.parametrize(
    "frame",
    [b"", START[:4], START + b"\0", START + b"\0\5ab", START + b"\xff\xfe", START + b"\0\1\xff"],
    ids=["empty", "short", "half a length", "cut client id", "negative client id", "not UTF-8"],
)
def test_a_request_header_is_refused_when_it_is_malformed(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0"])
def test_a_response_is_refused_when_its_correlation_id_is_cut_off(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="inside its header"):
        decode_response(76, 1, frame)


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (-1, 0), (78, 0), (78, 3), (78, -1)])
def test_a_request_is_refused_when_its_api_or_version_is_unknown(api_key: int, version: int) -> None:
    frame = (api_key & 0xFFFF).to_bytes(2, "big") + (version & 0xFFFF).to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"
    assert not decode_request_header(frame).is_supported
    with pytest.raises(RemoteProtocolError, match="not supported"):
        decode_request(frame)


def test_a_struct_with_a_known_tagged_field_of_a_wrong_length_is_refused_when_decoded() -> None:
    # ApiVersions v3, tag 1 (the epoch of the finalized features, an int64), here with a length of nine
    body = b"\0\0\0\7" + b"\0\0" + b"\x01" + b"\0\0\0\0" + b"\x01\x01"
    whole: Any = decode_response(18, 3, body + b"\x08" + bytes(8))[1]
    assert whole.finalized_features_epoch == 0
    with pytest.raises(RemoteProtocolError, match="does not have the length"):
        decode_response(18, 3, body + b"\x09" + bytes(9))


def test_a_message_is_refused_when_it_has_thousands_of_tagged_fields() -> None:
    """Each costs twenty times its bytes; Kafka's messages have less than ten."""
    known = frame_of(ApiVersionsResponse(api_keys=[]), 3)
    for count in (MAX_TAGGED_FIELDS, MAX_TAGGED_FIELDS + 1):
        frame = known[:-1] + unsigned(count) + b"".join(unsigned(tag) + b"\0" for tag in range(100, 100 + count))
        if count == MAX_TAGGED_FIELDS:
            assert len(decode(ApiVersionsResponse, 3, frame).unknown_tags) == count
        else:
            with pytest.raises(RemoteProtocolError, match="1001 tagged fields"):
                decode(ApiVersionsResponse, 3, frame)


def hostile_fetches() -> dict[str, Callable[[int], bytes]]:
    """Answers to a ShareFetch that list as much as asked for: topics, or unknown tagged fields of topics."""
    begin, topic_id, end = b"\0\0\0\7" + b"\0" + bytes(4 + 2) + b"\0" + bytes(4), bytes(range(16)), b"\x01\0"
    tags = unsigned(MAX_TAGGED_FIELDS) + b"".join(unsigned(tag) + b"\0" for tag in range(100, 100 + MAX_TAGGED_FIELDS))

    def topics(count: int) -> bytes:
        return begin + unsigned(count + 1) + (topic_id + b"\x01\0") * count + end

    def tagged(count: int) -> bytes:
        topics_of_them = count // MAX_TAGGED_FIELDS
        return begin + unsigned(topics_of_them + 1) + (topic_id + b"\x01" + tags) * topics_of_them + end

    return {"topics": topics, "tags": tagged}


@pytest.mark.parametrize("what", hostile_fetches())
def test_a_message_is_refused_when_what_it_lists_costs_many_times_its_bytes(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever array it is in: the limit is on all that a message lists, and it holds what Python needs."""
    limit = 4 * 1024 * 1024
    monkeypatch.setattr(decoder, "MAX_LISTED_BYTES", limit)
    frame_with = hostile_fetches()[what]
    decode_response(78, 1, frame_with(5_000))
    frame = frame_with(100_000)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=f"more than {limit} bytes of memory"):
            decode_response(78, 1, frame)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * limit
    finally:
        tracemalloc.stop()


def test_the_estimate_is_at_least_what_python_needs_when_an_answer_lists_topics_and_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A heartbeat's partitions are plain numbers, large ones here; a topic has its id as an object."""
    assignment = ShareGroupHeartbeatResponse.Assignment
    partitions = list(range(100_000, 150_000))
    assigned = [assignment.TopicPartitions(topic_id=uuid.UUID(int=n + 1), partitions=[]) for n in range(10_000)]
    assigned[0].partitions = partitions
    answer = ShareGroupHeartbeatResponse(member_id="m", assignment=assignment(topic_partitions=assigned))
    frame = frame_of(answer, 1)
    tracemalloc.start()
    try:
        kept = decode(ShareGroupHeartbeatResponse, 1, frame)
        needed = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(kept.assignment.topic_partitions) == 10_000
    monkeypatch.setattr(decoder, "MAX_LISTED_BYTES", int(0.9 * needed))
    with pytest.raises(RemoteProtocolError, match="bytes of memory"):
        decode(ShareGroupHeartbeatResponse, 1, frame)


def test_lists_are_not_shared_when_two_messages_lack_the_same_tagged_array() -> None:
    frame = b"\0\0\0\7" + b"\0\0" + b"\x01" + b"\0\0\0\0" + b"\0"
    first: Any = decode_response(18, 3, frame)[1]
    second: Any = decode_response(18, 3, frame)[1]
    first.supported_features.append("mine")
    assert second.supported_features == []


def test_a_frame_may_lie_in_any_buffer_when_it_is_decoded() -> None:
    request_class: Callable[..., Any] = MESSAGES[77][0]
    frame = encode_request(request_class(group_ids=["a", "b"]), 1, 7, "client")[4:]
    expected = decode_request(frame)[1]
    assert decode_request(memoryview(bytearray(frame)))[1] == expected
