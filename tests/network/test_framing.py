from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.errors import AuthenticationError, RemoteProtocolError
from kafka_share.network.framing import STAGING_BYTES, FrameReceiver

LIMIT = 4 * STAGING_BYTES


def feed(receiver: FrameReceiver, data: bytes, piece_bytes: int) -> list[bytes]:
    """Deliver `data` as a socket would: into the receiver's buffer, at most `piece_bytes` at a time."""
    frames: list[bytes] = []
    while data:
        buffer = receiver.buffer()
        assert len(buffer) > 0
        count = min(len(buffer), piece_bytes, len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame in receiver.received(count)]
    return frames


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


@given(
    st.lists(st.binary(min_size=4, max_size=300), max_size=20),
    st.integers(1, 700),
)
def test_frames_come_out_as_they_went_in_when_cut_anywhere(payloads: list[bytes], piece_bytes: int) -> None:
    receiver = FrameReceiver(LIMIT)
    assert feed(receiver, framed(*payloads), piece_bytes) == payloads
    assert not receiver.is_mid_frame


@pytest.mark.parametrize("size", [STAGING_BYTES - 5, STAGING_BYTES - 4, STAGING_BYTES - 3, STAGING_BYTES, LIMIT])
@pytest.mark.parametrize("piece_bytes", [1 << 14, 1 << 30])
def test_frame_is_whole_when_it_is_about_as_large_as_the_staging_area_or_larger(size: int, piece_bytes: int) -> None:
    payloads = [b"first", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"last"]
    assert feed(FrameReceiver(LIMIT), framed(*payloads), piece_bytes) == payloads


def test_large_frame_is_received_into_its_own_buffer_when_it_has_begun() -> None:
    receiver = FrameReceiver(LIMIT)
    feed(receiver, framed(b"x" * LIMIT)[: STAGING_BYTES + 100], 1 << 30)
    assert len(receiver.buffer()) == LIMIT - (STAGING_BYTES + 100 - 4)
    assert receiver.is_mid_frame


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, LIMIT + 1, 2**31 - 1])
def test_length_is_refused_when_no_answer_can_have_it(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"answer of {length} bytes"):
        feed(FrameReceiver(LIMIT), framed(b"fine") + struct.pack(">i", length), 1 << 30)


@pytest.mark.parametrize("first", [b"\x15\x03\x03\x00\x02\x02\x28", b"\x16\x03\x01\x02\x00"])
def test_tls_is_named_when_the_peer_speaks_it(first: bytes) -> None:
    with pytest.raises(AuthenticationError, match="speaks TLS"):
        feed(FrameReceiver(2**31 - 1), first, 1 << 30)


def test_http_is_named_when_the_peer_speaks_it() -> None:
    with pytest.raises(RemoteProtocolError, match="HTTP"):
        feed(FrameReceiver(LIMIT), b"HTTP/1.1 400 Bad Request\r\n", 1 << 30)
