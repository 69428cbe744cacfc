"""Compression in Kafka's framings, and bombs."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_share.protocol.compression import compress, decompress
from kafka_share.protocol.record_format import CODEC_NAMES, BatchTooLargeError, Codec, CorruptBatchError

COMPRESSING: list[Codec] = [codec for codec in CODEC_NAMES if codec != "none"]


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(data=st.binary(max_size=500) | st.integers(0, 200_000).map(bytes))
@settings(max_examples=40)
def test_the_data_comes_back_when_it_was_compressed(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_holds_to_the_byte_when_little_data_claims_much(codec: Codec) -> None:
    bomb = compress(codec, bytes(3_000_000))
    assert len(bomb) < 300_000
    assert len(decompress(codec, bomb, 3_000_000)) == 3_000_000
    with pytest.raises(BatchTooLargeError, match="more than the 2999999 bytes"):
        decompress(codec, bomb, 2_999_999)


def test_the_limit_counts_all_blocks_when_snappy_has_many() -> None:
    data = compress("snappy", bytes(100_000))
    with pytest.raises(BatchTooLargeError, match="more than"):
        decompress("snappy", data, 99_999)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_codec_is_named_when_its_data_is_damaged(codec: Codec) -> None:
    data = compress(codec, bytes(range(256)) * 40)
    for damaged in (data[: len(data) // 2], b"\xff" * 40, data[:4] + b"\xff" * 20 + data[24:]):
        with pytest.raises(CorruptBatchError, match=codec):
            decompress(codec, damaged)


def test_lz4_frames_have_independent_blocks_when_written_because_java_refuses_others() -> None:
    frame = compress("lz4", bytes(300_000))
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0b1110_0000 == 0b0110_0000  # version 1, block independence


def test_snappy_is_framed_as_xerial_does_when_written_and_read_raw_as_well() -> None:
    data = bytes(range(256)) * 300
    framed = compress("snappy", data)
    assert framed[:16] == b"\x82SNAPPY\0" + b"\0\0\0\1\0\0\0\1"
    first = int.from_bytes(framed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + first])) == data[: 32 * 1024]
    assert decompress("snappy", bytes(cramjam.snappy.compress_raw(data))) == data


def test_a_snappy_block_is_refused_when_its_length_is_impossible() -> None:
    framed = compress("snappy", b"abc")
    for length in (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\1\0"):
        with pytest.raises(CorruptBatchError, match="impossible length"):
            decompress("snappy", framed[:16] + length + framed[20:])
