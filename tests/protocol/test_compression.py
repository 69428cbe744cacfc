"""Compression in Kafka's framings, and bombs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_share.protocol.compression import compress, decompress, decompressed
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
    assert frame[4] == 0b0110_0000  # version 1, block independence, no checksums, no size
    assert bytes(cramjam.lz4.decompress(frame)) == bytes(300_000)


def test_a_block_of_lz4_is_plain_when_it_cannot_be_made_smaller() -> None:
    data = random.Random(5).randbytes(150_000)
    frame = compress("lz4", data)
    assert len(frame) == 7 + len(data) + 3 * 4 + 4
    assert bytes(cramjam.lz4.decompress(frame)) == data


def streamed(codec: Codec, data: bytes) -> bytes:
    """Compressed by those who know nothing of the size when they begin; in frames of other kinds."""
    if codec in ("lz4", "zstd"):
        of = {"content_checksum": True, "block_linked": True} if codec == "lz4" else {}
        compressor = getattr(cramjam, codec).Compressor(**of)
        compressor.compress(data)
        return bytes(compressor.finish())
    return compress(codec, data)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 200_000, 3_000_000])
@pytest.mark.parametrize("compressor", [compress, streamed])
def test_a_buffer_is_hardly_larger_than_what_comes_into_it_and_made_once_or_twice(
    codec: Codec, size: int, compressor: Callable[[Codec, bytes], bytes]
) -> None:
    data = (random.Random(3).randbytes(size // 4).hex() * 2).encode()[:size]
    made: list[int] = []

    def new_buffer(bytes_: int) -> bytearray:
        made.append(bytes_)
        return bytearray(bytes_)

    found = decompressed(codec, memoryview(compressor(codec, data)), 1 << 27, new_buffer)
    assert found == data
    assert found.readonly
    assert 3 * made[-1] <= 4 * max(1, len(data))
    assert len(made) <= 2


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=60), limit=st.integers(1, 2_000))
def test_nothing_larger_than_the_limit_is_made_whatever_the_bytes_claim(codec: Codec, data: bytes, limit: int) -> None:
    heads = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b", "snappy": b"\x82SNAPPY\0"}
    made: list[int] = []

    def new_buffer(bytes_: int) -> bytearray:
        made.append(bytes_)
        return bytearray(bytes_)

    for one in (data, heads[codec] + data):
        with contextlib.suppress(CorruptBatchError, BatchTooLargeError):
            assert len(decompressed(codec, memoryview(one), limit, new_buffer)) <= limit
    assert max(made, default=0) <= limit


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
