"""Messages of formats 0 and 1, as other libraries wrote them until 2017."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import cramjam
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_share.protocol.record_batches import (
    BatchTooLargeError,
    CorruptBatchError,
    RecordBatch,
    RecordBatchError,
    UnsupportedBatchError,
    iter_batches,
)
from kafka_share.protocol.record_format import CODEC_NUMBERS, Codec
from kafka_share.records import TimestampType

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4")
VALUES = (b"first", None, b"third" * 50)


def written(magic: int, codec: Codec, first_offset: int = 100) -> bytes:
    """Three messages as aiokafka makes them, at the offsets that a broker gives them."""
    builder: Any = LegacyRecordBatchBuilder(magic, CODEC_NUMBERS[codec], 10_000)
    for index, value in enumerate(VALUES):
        # A broker of format 0 writes absolute offsets into the set as well.
        offset = index if magic or codec == "none" else first_offset + index
        assert builder.append(offset, timestamp=1000 + index, key=b"k%d" % index, value=value)
    data = bytearray(builder.build())
    if codec != "none":
        data[:8] = (first_offset + len(VALUES) - 1).to_bytes(8, "big")
        return bytes(data)
    return b"".join(moved(bytes(batch.data), first_offset + batch.last_offset) for batch in iter_batches(bytes(data)))


def moved(message: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + message[8:]


def message(magic: int, value: bytes | None, *, offset: int = 0, attributes: int = 0, timestamp: int = 5) -> bytes:
    """One message, by hand; a compressed set if `attributes` say so."""
    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    checked += struct.pack(">i", -1) + (
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    )
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def only(data: bytes) -> RecordBatch:
    (batch,) = iter_batches(data)
    return batch


WRITTEN_ELSEWHERE = [(magic, codec) for magic in (0, 1) for codec in CODECS if (magic, codec) != (0, "lz4")]
"""aiokafka writes no LZ4 in format 0."""


@pytest.mark.parametrize(("magic", "codec"), WRITTEN_ELSEWHERE)
def test_records_come_with_absolute_offsets_when_another_library_wrote_them(magic: int, codec: Codec) -> None:
    batches = list(iter_batches(memoryview(written(magic, codec))))
    assert len(batches) == (3 if codec == "none" else 1)
    for batch in batches:
        batch.verify_crc()
        assert (batch.magic, batch.codec, batch.is_control, batch.partition_leader_epoch) == (magic, codec, False, -1)
        assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batches[-1].last_offset == 102
    assert [record for batch in batches for record in batch.records()] == [
        (100 + index, 1000 + index if magic else -1, b"k%d" % index, value, ()) for index, value in enumerate(VALUES)
    ]


def test_an_lz4_frame_is_read_when_its_header_has_the_wrong_checksum_of_format_0() -> None:
    """Java's clients computed it over the frame's magic number as well, until format 1."""
    right = bytes(cramjam.lz4.compress(message(0, b"v", offset=7)))
    for frame in (right, right[:6] + bytes([right[6] ^ 0x55]) + right[7:]):
        assert only(message(0, frame, offset=7, attributes=3)).records() == [(7, -1, None, b"v", ())]
    with pytest.raises(CorruptBatchError):
        only(message(1, right[:6] + bytes([right[6] ^ 0x55]) + right[7:], attributes=3)).records()


def test_all_have_the_time_of_the_broker_when_the_topic_stamps_on_append() -> None:
    inside = message(1, b"a", offset=0, timestamp=1) + message(1, b"b", offset=1, timestamp=2)
    batch = only(message(1, bytes(cramjam.gzip.compress(inside)), offset=9, attributes=1 | 8, timestamp=77))
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [(offset, timestamp) for offset, timestamp, *_ in batch.records()] == [(8, 77), (9, 77)]


def test_holes_stay_when_compaction_left_them() -> None:
    inside = message(1, b"a", offset=2) + message(1, b"b", offset=5)
    batch = only(message(1, bytes(cramjam.gzip.compress(inside)), offset=105, attributes=1))
    assert [record[0] for record in batch.records()] == [102, 105]


def test_offsets_count_from_nought_when_librdkafka_left_the_offset_of_the_set_at_nought() -> None:
    inside = message(1, b"a", offset=0) + message(1, b"b", offset=1)
    assert [r[0] for r in only(message(1, bytes(cramjam.gzip.compress(inside)), attributes=1)).records()] == [0, 1]


def packed(inside: bytes, magic: int = 1, offset: int = 9) -> bytes:
    return message(magic, bytes(cramjam.gzip.compress(inside)), offset=offset, attributes=1)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (packed(b""), "is empty"),
        (message(1, None, attributes=1), "is null"),
        (packed(message(1, b"a")[:-1]), "impossible length"),
        (packed(message(1, b"a")[:20]), "cut off"),
        (packed(message(0, b"a")), "another format"),
        (packed(packed(message(1, b"a"))), "compressed itself"),
        (packed(message(1, b"a", offset=1) + message(1, b"b", offset=1)), "do not ascend"),
        (packed(message(1, b"a", offset=10)), "do not ascend"),
        (packed(message(0, b"a", offset=10), magic=0), "beyond the last offset 9"),
        (message(1, b"not gzip", attributes=1), "gzip"),
        (message(1, b"abc").replace(b"\0\0\0\3abc", b"\0\0\0\4abc"), "key or value"),
        (message(1, b"abc").replace(b"\0\0\0\3abc", b"\0\0\0\2abc"), "do not fill"),
        (message(1, b"abc").replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe"), "key or value"),
    ],
)
def test_a_message_is_refused_when_its_fields_contradict_each_other(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        only(data).records()


def test_a_message_is_refused_when_its_checksum_or_offset_is_wrong() -> None:
    with pytest.raises(CorruptBatchError, match="checksum"):
        only(message(1, b"abc").replace(b"abc", b"abd")).verify_crc()
    with pytest.raises(CorruptBatchError, match="offset -1"):
        list(iter_batches(message(0, b"v", offset=-1)))
    with pytest.raises(CorruptBatchError, match="impossible length"):
        list(iter_batches(message(1, b"v").replace((23).to_bytes(4, "big"), (3).to_bytes(4, "big"), 1)))


def test_it_is_not_called_damaged_when_we_cannot_read_it() -> None:
    with pytest.raises(UnsupportedBatchError, match="no codec 4"):
        only(message(1, b"zstd came later", attributes=4)).records()
    bomb = packed(message(1, b"\0" * 100_000))
    assert len(only(bomb).records(200_000)) == 1
    with pytest.raises(BatchTooLargeError, match="more than the 99999 bytes"):
        only(bomb).records(99_999)
    with pytest.raises(BatchTooLargeError, match="128 bytes each"):
        only(packed(b"".join(message(1, None, offset=n) for n in range(100)), offset=99)).records(12_700)


@given(
    shape=st.sampled_from(WRITTEN_ELSEWHERE),
    damages=st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
def test_nothing_but_a_record_batch_error_is_raised_when_a_message_was_damaged(
    shape: tuple[int, Codec], damages: list[tuple[int, int]]
) -> None:
    data = bytearray(written(*shape))
    for place, value in damages:
        data[place % len(data)] = value
    try:
        for batch in iter_batches(bytes(data)):
            batch.records(max_bytes=1_000_000)
    except RecordBatchError:
        pass
