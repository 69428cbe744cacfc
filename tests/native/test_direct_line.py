"""The socket that the thread that polls uses by itself, and the answers that it reads; both exist compiled only."""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native.implementations import implementation

from kafka_share.locks import LockGeneration
from kafka_share.network.direct import AcquiredRecords
from kafka_share.protocol.messages import decode_response, encode_response
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import TopicIdPartition

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Data = _Topic.PartitionData
LONG_MS = 60_000
TOPIC_ID = uuid.UUID(int=7 << 64 | 9)


@pytest.fixture
def compiled() -> Any:
    return implementation("compiled")


@pytest.fixture
def pair(compiled: Any) -> Iterator[tuple[Any, socket.socket]]:
    """A line and its peer."""
    ours, peer = socket.socketpair()
    with ours, peer:
        yield compiled.DirectLine(os.dup(ours.fileno())), peer


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def received(line: Any, peer: socket.socket, data: bytes) -> bool:
    peer.sendall(data)
    return bool(line.receive_all())


# ---- the line


def test_a_request_is_sent_and_its_answer_read(pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    line.send(b"question", "kept")
    assert peer.recv(100) == b"question"
    assert (line.awaits, line.request, line.unsent) == (True, "kept", b"")
    assert not line.receive_all()
    assert received(line, peer, framed(b"answer"))
    assert line.answer == b"answer"
    line.done()
    assert (line.awaits, line.request, line.answer, line.leftover) == (False, None, None, b"")


@pytest.mark.parametrize("size", [1, 65_531, 65_532, 65_533, 300_000])
def test_an_answer_of_any_size_is_read_in_pieces(pair: tuple[Any, socket.socket], size: int) -> None:
    line, peer = pair
    content = random.Random(size).randbytes(size)
    whole = framed(content)
    for _ in range(2):
        line.send(b"?", None)
        at = 0
        for step in (1, 2, 3, *[20_000] * 20):
            assert line.answer is None or at >= len(whole)
            peer.sendall(whole[at : at + step])
            at += step
            line.receive_all()
        assert bytes(line.answer) == content
        line.done()


@pytest.mark.parametrize("seed", range(8))
def test_answers_of_changing_sizes_are_read_one_after_the_other(pair: tuple[Any, socket.socket], seed: int) -> None:
    """Each is expected to be as long as the one before, which it may be or not."""
    line, peer = pair
    source = random.Random(seed)
    size = 10
    for _ in range(30):
        size = source.choice((size, size, size + 1, max(1, size - 1), 1, 5, 400, 65_535, 65_536, 90_000))
        content = source.randbytes(size)
        whole, at = framed(content), 0
        line.send(b"?", None)
        while at < len(whole):
            step = source.choice((1, 3, 4, 5, 60_000, 70_000))
            peer.sendall(whole[at : at + step])
            at += step
            line.receive()
            assert line.has_come == (at >= len(whole))
            if not line.has_come:
                assert line.leftover == whole[:at]
        assert bytes(line.answer) == content
        assert line.leftover == whole
        line.done()


@pytest.mark.parametrize("size", [4, 100_000])
def test_an_answer_longer_than_it_says_is_seen_by_whoever_takes_over(
    pair: tuple[Any, socket.socket], size: int
) -> None:
    line, peer = pair
    line.send(b"?", None)
    peer.sendall(framed(bytes(size)))
    while not line.receive():
        pass
    line.done()
    line.send(b"?", None)
    sent = (size - 2).to_bytes(4, "big") + bytes(size)
    peer.sendall(sent)
    while not line.receive():
        pass
    assert line.is_broken
    assert not line.receive_all()
    assert sent.startswith(line.leftover)
    assert len(line.leftover) > 4


def test_what_has_come_of_an_answer_can_be_taken_over(pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    whole = framed(bytes(100_000))
    line.send(b"?", None)
    for stop in (0, 3, 4, 5, 70_000, len(whole)):
        peer.sendall(whole[len(line.leftover) : stop])
        line.receive_all()
        assert line.leftover == whole[:stop]


def test_what_the_peer_has_not_taken_can_be_taken_over_and_is_sent_later(pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    question = random.Random(1).randbytes(2_000_000)
    line.send(question, None)
    taken = len(question) - len(line.unsent)
    assert 0 < taken < len(question)
    got = b""
    while len(got) < len(question):
        got += peer.recv(1 << 20)
        line.receive_all()
    assert got == question
    assert line.unsent == b""


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0\0", b"\xff\xff\xff\xff", (0x4000001).to_bytes(4, "big"), framed(b"answer") + b"x"],
    ids=["no bytes", "negative", "too long", "more than one answer"],
)
def test_a_line_is_broken_when_the_bytes_make_no_sense(pair: tuple[Any, socket.socket], data: bytes) -> None:
    line, peer = pair
    line.send(b"?", None)
    assert not received(line, peer, data)
    assert line.is_broken
    assert line.leftover == data, "who goes on finds out what is wrong"


def test_a_line_is_broken_when_its_peer_has_gone(pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    line.send(b"?", None)
    peer.sendall(b"\0\0")
    peer.close()
    assert not line.receive_all()
    assert line.is_broken
    line.done()
    line.send(b"?", None)
    assert line.is_broken


def test_a_line_that_is_shut_has_no_peer_any_more(pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    line.send(b"?", None)
    line.shut()
    assert not line.receive_all()
    assert line.is_broken
    assert peer.recv(10) == b"?"
    assert peer.recv(10) == b""


def test_the_peer_sees_the_end_when_a_line_that_was_the_last_is_closed(compiled: Any) -> None:
    ours, peer = socket.socketpair()
    with peer:
        line = compiled.DirectLine(ours.detach())
        line.send(b"?", None)
        received(line, peer, b"\0\0\0")
        line.close()
        line.close()
        assert (peer.recv(10), peer.recv(10)) == (b"?", b"")
        assert line.leftover == b"\0\0\0"


def test_a_second_request_is_refused_while_one_is_under_way(pair: tuple[Any, socket.socket]) -> None:
    line, _ = pair
    line.send(b"?", None)
    with pytest.raises(AssertionError, match="one request at a time"):
        line.send(b"?", None)


def test_a_wait_ends_when_an_answer_comes_or_the_bell_rings(compiled: Any, pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair
    ear = compiled.Ear(*[end.detach() for end in socket.socketpair()])
    news: list[str] = []
    line.send(b"?", None)
    ear.wait([line], 1, lambda: bool(news))
    assert line.answer is None
    peer.sendall(framed(b"answer"))
    ear.wait([line], LONG_MS, lambda: bool(news))
    assert line.answer == b"answer"
    ear.wait([line], LONG_MS, lambda: bool(news))  # it is still there
    line.done()
    news.append("is looked at before it waits")
    ear.wait([line], LONG_MS, lambda: bool(news))
    news.clear()
    ringing = threading.Thread(target=ring_until, args=(ear, news))
    ringing.start()
    ear.wait([line], LONG_MS, lambda: bool(news))
    news.append("it was heard")
    ringing.join()
    line.send(b"?", None)
    peer.close()
    ear.wait([line], LONG_MS, lambda: False)
    assert line.is_broken
    ear.close()


def ring_until(ear: Any, news: list[str]) -> None:
    while not news:
        ear.ring()


def test_only_lines_can_be_waited_for(compiled: Any) -> None:
    ear = compiled.Ear(*[end.detach() for end in socket.socketpair()])
    with pytest.raises(TypeError, match="DirectLine"):
        ear.wait([object()], 1, lambda: False)
    ear.ring()  # nobody listens
    ear.close()
    ear.close()


# ---- what it reads


def response(**changes: Any) -> Any:
    data: dict[str, Any] = {
        "partition_index": 3,
        "error_code": 0,
        "error_message": None,
        "acknowledge_error_code": 0,
        "acknowledge_error_message": None,
        "current_leader": _Data.LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
        "records": b"some records",
        "acquired_records": [_Data.AcquiredRecords(first_offset=1 << 40, last_offset=(1 << 40) + 9, delivery_count=2)],
    }
    whole: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "acquisition_lock_timeout_ms": 30_000,
    }
    data.update({key: value for key, value in changes.items() if key in data})
    whole.update({key: value for key, value in changes.items() if key in whole})
    partitions = [_Data(**data), _Data(**{**data, "partition_index": 4, "acquired_records": [], "records": b""})]
    topics = [_Topic(topic_id=TOPIC_ID, partitions=partitions)]
    return ShareFetchResponse(responses=topics, node_endpoints=changes.get("node_endpoints", []), **whole)


def frame_of(**changes: Any) -> bytes:
    return encode_response(77, response(**changes), 2)[4:]


PLACES = {
    (TOPIC_ID.bytes, number): (TopicIdPartition(TOPIC_ID, "orders", number), LockGeneration()) for number in (3, 4)
}


def read_fetch(compiled: Any, frame: bytes, correlation_id: int = 77, most_offsets: int = 1 << 21) -> Any:
    return compiled.read_plain_fetch(frame, correlation_id, PLACES, most_offsets, AcquiredRange, AcquiredRecords)


def test_an_answer_in_which_all_is_well_is_read_as_it_is(compiled: Any) -> None:
    lock_ms, parts, named, records, record_bytes = read_fetch(compiled, frame_of())
    where, locks = PLACES[TOPIC_ID.bytes, 3]
    assert parts == [
        AcquiredRecords(where, locks, memoryview(b"some records"), (AcquiredRange(1 << 40, (1 << 40) + 9, 2),))
    ]
    assert [type(parts[0]), type(parts[0].acquired[0])] == [AcquiredRecords, AcquiredRange]
    assert (lock_ms, named, records, record_bytes) == (30_000, {("orders", 3), ("orders", 4)}, 10, 12)


def acquired(*ranges: tuple[int, int, int]) -> dict[str, Any]:
    named = [
        _Data.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in ranges
    ]
    return {"acquired_records": named}


@pytest.mark.parametrize(
    ("ranges", "is_plain"),
    [
        ([(0, 0, 1), (1, 1, 2), (5, 10, 32_767)], True),
        ([(5, 10, 1), (0, 0, 1)], False),
        ([(0, 5, 1), (5, 6, 1)], False),
        ([(5, 4, 1)], False),
        ([(-1, 4, 1)], False),
        ([(0, 0, 0)], False),
        ([(0, 99, 1)], True),
        ([(0, 100, 1)], False),
        ([(0, 49, 1), (60, 110, 1)], False),
        ([(0, (1 << 63) - 1, 1)], False),
        ([((1 << 63) - 1, (1 << 63) - 1, 1)], True),
    ],
    ids=str,
)
def test_ranges_that_make_no_sense_are_left_to_the_general_codec(
    compiled: Any, ranges: list[tuple[int, int, int]], is_plain: bool
) -> None:
    read = read_fetch(compiled, frame_of(**acquired(*ranges)), most_offsets=100)
    assert (read is not None) is is_plain
    assert not is_plain or [tuple(one) for one in read[1][0].acquired] == ranges


def test_a_last_delivery_is_left_to_the_general_codec(compiled: Any) -> None:
    locks = PLACES[TOPIC_ID.bytes, 3][1]
    locks.delivery_limit.value = 3
    try:
        assert read_fetch(compiled, frame_of(**acquired((0, 9, 2)))) is not None
        assert read_fetch(compiled, frame_of(**acquired((0, 9, 2), (10, 10, 3)))) is None
    finally:
        locks.delivery_limit.value = None


def test_a_partition_that_was_not_asked_for_or_is_named_twice_is_left_to_the_general_codec(compiled: Any) -> None:
    assert read_fetch(compiled, frame_of(partition_index=5)) is None
    assert read_fetch(compiled, frame_of(partition_index=4)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"throttle_time_ms": 1},
        {"error_code": 3},
        {"error_code": 3, "error_message": "text"},
        {"acknowledge_error_code": 121},
        {"acknowledge_error_message": "text"},
        {"node_endpoints": [ShareFetchResponse.NodeEndpoint(node_id=1, host="h", port=1, rack=None)]},
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_an_answer_that_says_more_is_left_to_the_general_codec(compiled: Any, changes: dict[str, Any]) -> None:
    assert read_fetch(compiled, frame_of(**changes)) is None


def test_an_answer_to_another_request_is_left_to_the_general_codec(compiled: Any) -> None:
    assert read_fetch(compiled, frame_of(), correlation_id=78) is None


def test_an_answer_that_is_cut_or_too_long_is_left_to_the_general_codec(compiled: Any) -> None:
    frame = frame_of()
    for stop in range(len(frame)):
        assert read_fetch(compiled, frame[:stop]) is None
    assert read_fetch(compiled, frame + b"\0") is None


def test_no_changed_byte_brings_down_the_reader(compiled: Any) -> None:
    frame, chance = frame_of(), random.Random(5)
    for _ in range(20_000):
        changed = bytearray(frame)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        found = read_fetch(compiled, bytes(changed))
        assert found is None or sum(len(part.records) for part in found[1]) == found[4] <= len(changed)


# ---- what it reads of an answer to ShareAcknowledge

_Acknowledged = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_Of = _Acknowledged.PartitionData
_Leader = _Of.LeaderIdAndEpoch
_Endpoint = ShareAcknowledgeResponse.NodeEndpoint

MOSTLY_NONE = st.one_of(st.none(), st.none(), st.none(), st.text(max_size=3))
MOSTLY_0 = st.sampled_from((0,) * 12 + (1, 6, -1))
ACKNOWLEDGED = st.builds(
    ShareAcknowledgeResponse,
    throttle_time_ms=MOSTLY_0,
    error_code=MOSTLY_0,
    error_message=MOSTLY_NONE,
    acquisition_lock_timeout_ms=st.integers(-(1 << 31), (1 << 31) - 1),
    responses=st.lists(
        st.builds(
            _Acknowledged,
            topic_id=st.uuids(),
            partitions=st.lists(
                st.builds(
                    _Of,
                    partition_index=st.integers(-(1 << 31), (1 << 31) - 1),
                    error_code=MOSTLY_0,
                    error_message=MOSTLY_NONE,
                    current_leader=st.builds(_Leader, leader_id=st.integers(-1, 9), leader_epoch=st.integers(-1, 9)),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
    node_endpoints=st.sampled_from(([],) * 12 + ([_Endpoint(node_id=1, host="h", port=1, rack=None)],)),
)


def read_generally(frame: bytes, version: int) -> tuple[int, list[tuple[bytes, int]]] | None:
    """What the general codec reads, if all is well in it."""
    whole: Any = decode_response(ShareAcknowledgeResponse.API_KEY, version, frame)[1]
    partitions = [(topic.topic_id, one) for topic in whole.responses for one in topic.partitions]
    has_more = bool(whole.throttle_time_ms or whole.error_code or whole.node_endpoints)
    is_plain = not has_more and whole.error_message is None
    if not is_plain or any(one.error_code or one.error_message is not None for _, one in partitions):
        return None
    return whole.acquisition_lock_timeout_ms, [(topic_id.bytes, one.partition_index) for topic_id, one in partitions]


@given(response=ACKNOWLEDGED, version=st.sampled_from((1, 2)), correlation_id=st.integers(0, (1 << 31) - 1))
def test_answers_to_acknowledgements_are_read_as_the_general_codec_reads_them(
    response: ShareAcknowledgeResponse, version: int, correlation_id: int
) -> None:
    read = implementation("compiled").read_plain_acknowledge
    frame = encode_response(correlation_id, response, version)[4:]
    assert read(frame, correlation_id, version) == read_generally(frame, version)
    assert read(frame, correlation_id ^ 1, version) is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_answer_to_acknowledgements_that_is_cut_or_too_long_is_left_to_the_general_codec(
    compiled: Any, version: int
) -> None:
    partitions = [_Of(partition_index=number, current_leader=_Leader()) for number in range(3)]
    whole = ShareAcknowledgeResponse(responses=[_Acknowledged(topic_id=TOPIC_ID, partitions=partitions)])
    frame, chance = encode_response(77, whole, version)[4:], random.Random(6)
    assert compiled.read_plain_acknowledge(frame, 77, version) == (0, [(TOPIC_ID.bytes, n) for n in range(3)])
    for stop in range(len(frame)):
        assert compiled.read_plain_acknowledge(frame[:stop], 77, version) is None
    assert compiled.read_plain_acknowledge(frame + b"\0", 77, version) is None
    for _ in range(10_000):
        changed = bytearray(frame)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        found = compiled.read_plain_acknowledge(bytes(changed), 77, version)
        assert found is None or len(found[1]) <= len(changed)
