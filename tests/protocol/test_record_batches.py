"""Record batches of our own: what is written is read again, and what is damaged is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.native import crc32c
from kafka_share.protocol.record_batches import (
    BatchTooLargeError,
    CorruptBatchError,
    RecordBatch,
    RecordBatchError,
    RecordTuple,
    UnsupportedBatchError,
    control_batch,
    encode_batch,
    iter_batches,
    with_offsets,
)
from kafka_share.protocol.record_format import CODEC_NAMES, Codec
from kafka_share.records import TimestampType

many = settings(max_examples=60, suppress_health_check=list(HealthCheck))

codecs = st.sampled_from(CODEC_NAMES)
blobs = st.none() | st.binary(max_size=100) | st.integers(0, 20_000).map(bytes)
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), blobs), max_size=3).map(
    tuple
)
timestamps = st.integers(0, 2**40) | st.integers(-1, 2**62)


@st.composite
def record_lists(draw: st.DrawFn, base_offset: int = 0) -> list[RecordTuple]:
    records: list[RecordTuple] = []
    offset = base_offset
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 63, 64, 9000, 2**20]))
        records.append((offset, draw(timestamps), draw(blobs), draw(blobs), draw(headers)))
        offset += 1
    return records


def only(data: bytes) -> RecordBatch:
    (batch,) = iter_batches(data)
    return batch


def with_body(body: bytes, count: int, attributes: int = 0, last_offset_delta: int | None = None) -> RecordBatch:
    """A batch around any bytes; its checksum is not looked at."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(body), -1, 2, 0, attributes, delta, 0, 0, -1, -1, -1, count)
    return only(head + body)


def sealed_body(body: bytes) -> bytes:
    """A batch of one record around any bytes, with the checksum that belongs to them."""
    data = with_body(body, 1).data
    return bytes(data[:17]) + struct.pack(">I", crc32c(data[21:])) + bytes(data[21:])


@given(records=record_lists(base_offset=1000), codec=codecs)
@many
def test_records_come_back_unchanged_when_they_are_written_in_any_codec(
    records: list[RecordTuple], codec: Codec
) -> None:
    batch = only(encode_batch(records, base_offset=1000, codec=codec))
    batch.verify_crc()
    assert batch.codec == codec
    assert batch.records() == records
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (1000, records[-1][0], len(records))
    assert batch.base_timestamp == records[0][1]
    assert batch.max_timestamp == max(record[1] for record in records)


def test_the_bytes_are_as_derived_by_hand_when_a_small_batch_is_written() -> None:
    second = bytes.fromhex("16 00 04 02 02 6b 02 76 02 02 68 01")  # 11 bytes, 2 ms later, offset 1, key, value, header
    data = encode_batch([(7, 100, None, b"v", []), (8, 102, b"k", b"v", [("h", None)])], base_offset=7)
    first = bytes.fromhex("0e 00 00 00 01 02 76 00")
    body = first + second
    header = bytes.fromhex(
        "0000000000000007" + f"{49 + len(body):08x}" + "ffffffff" + "02" + f"{crc32c(data[21:]):08x}" + "0000"
        "00000001" + "0000000000000064" + "0000000000000066" + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000002"
    )
    assert data == header + body


def test_every_field_of_the_header_is_an_attribute_when_a_batch_is_read() -> None:
    data = encode_batch(
        [(5, 10, b"k", b"v", [])],
        base_offset=5,
        codec="zstd",
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        is_transactional=True,
        partition_leader_epoch=4,
    )
    batch = only(data)
    assert (batch.magic, batch.codec, batch.attributes) == (2, "zstd", 4 | 8 | 16)
    assert (batch.is_transactional, batch.is_control) == (True, False)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 9)
    assert (batch.partition_leader_epoch, batch.data, batch.crc) == (4, data, crc32c(data[21:]))
    assert repr(batch) == f"<RecordBatch 5-5 zstd {len(data)} bytes>"


def test_every_record_has_the_time_of_the_batch_when_the_broker_set_it() -> None:
    data = encode_batch(
        [(0, 10, None, b"a", []), (1, 30, None, b"b", []), (2, 20, None, b"c", [])],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert [record[1] for record in only(data).records()] == [30, 30, 30]


@pytest.mark.parametrize(("marker", "kind"), [("commit", 1), ("abort", 0)])
def test_a_control_batch_has_one_marker_when_a_transaction_ends(marker: Any, kind: int) -> None:
    batch = only(control_batch(marker, producer_id=9, producer_epoch=2, timestamp=50, base_offset=12))
    batch.verify_crc()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    assert batch.records() == [(12, 50, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), ())]


def test_the_checksum_stays_right_when_a_broker_sets_offset_and_leader_epoch() -> None:
    batch = only(with_offsets(encode_batch([(0, 1, None, b"a", []), (1, 2, None, b"b", [])]), 500, 7))
    batch.verify_crc()
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (500, 501, 7)
    assert [record[0] for record in batch.records()] == [500, 501]
    with pytest.raises(LocalProtocolError):
        with_offsets(batch.data, 2**63, 0)


@given(first=record_lists(), second=record_lists(base_offset=10_000_000), view=st.booleans(), data=st.data())
@many
def test_whole_batches_are_given_when_the_last_one_is_cut_off(
    first: list[RecordTuple], second: list[RecordTuple], view: bool, data: st.DataObject
) -> None:
    one = encode_batch(first)
    both = one + encode_batch(second, base_offset=10_000_000, codec="lz4")
    cut = data.draw(st.integers(len(one), len(both)))
    source = memoryview(bytearray(both[:cut])) if view else both[:cut]
    expected = [first, second] if cut == len(both) else [first]
    assert [batch.records() for batch in iter_batches(source)] == expected


def test_no_bytes_are_copied_when_one_batch_is_all_there_is() -> None:
    data = encode_batch([(0, 1, None, b"a", [])])
    assert only(data).data is data


def test_headers_cannot_be_changed_when_records_are_read() -> None:
    """All records without headers share one empty value."""
    first, second = only(encode_batch([(0, 1, None, b"a", []), (1, 1, None, b"b", [("n", b"v")])])).records()
    assert (first[4], second[4]) == ((), (("n", b"v"),))


def test_the_stored_and_the_computed_checksum_are_named_when_they_differ() -> None:
    data = bytearray(encode_batch([(0, 1, None, b"payload", [])]))
    data[-2] ^= 1
    batch = only(bytes(data))
    message = f"the stored checksum is {batch.crc}, the computed one is {crc32c(bytes(data[21:]))}"
    with pytest.raises(CorruptBatchError, match=message):
        batch.verify_crc()
    assert issubclass(CorruptBatchError, RemoteProtocolError)


@pytest.mark.parametrize(
    ("position", "value", "problem"),
    [
        (16, b"\x03", "unknown format 3"),
        (16, b"\xff", "unknown format 255"),
        (8, struct.pack(">i", 48), "impossible length 48"),
        (8, struct.pack(">i", -1), "impossible length -1"),
        (0, struct.pack(">q", -1), "claims the offsets"),
        (23, struct.pack(">i", -5), "claims the offsets"),
    ],
)
def test_walking_ends_with_an_error_when_a_header_is_impossible(position: int, value: bytes, problem: str) -> None:
    data = bytearray(encode_batch([(0, 1, None, b"a", [])]))
    data[position : position + len(value)] = value
    with pytest.raises(UnsupportedBatchError if position == 16 else CorruptBatchError, match=problem):
        list(iter_batches(bytes(data)))


RECORD = bytes.fromhex("0e 00 00 00 01 02 76 00")


@pytest.mark.parametrize(
    ("body", "count", "problem"),
    [
        (RECORD, 2, "cannot be in"),
        (RECORD, -1, "cannot be in"),
        (RECORD, 2**31 - 1, "cannot be in"),
        (RECORD + RECORD, 1, "8 bytes follow"),
        (RECORD + RECORD, 2, "do not ascend"),
        (RECORD[:-1], 1, "impossible length"),
        (b"\x01" + RECORD[1:], 1, "impossible length"),
        (b"\x0c" + RECORD[1:], 1, "do not fill"),
        (b"\x10" + RECORD[1:] + b"\0", 1, "do not fill"),
        (RECORD[:3] + b"\x01" + RECORD[4:], 1, "do not ascend"),
        (RECORD[:4] + b"\x03" + RECORD[5:], 1, "a key has an impossible length"),
        (RECORD[:5] + b"\x03" + RECORD[6:], 1, "a value has an impossible length"),
        (RECORD[:5] + b"\x7e" + RECORD[6:], 1, "ends inside a record"),
        (RECORD[:7] + b"\x01", 1, "impossible number of headers"),
        (RECORD[:7] + b"\x7e", 1, "impossible number of headers"),
        (b"\xff" * 12, 1, "larger than"),
        (b"\xff" * 7, 1, "ends inside a variable-length number"),
        (b"\xff\xff\xff\xff\x0f\x00\x00\x00", 1, "impossible length"),
    ],
)
def test_records_are_refused_when_their_fields_contradict_each_other(body: bytes, count: int, problem: str) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        with_body(body, count, last_offset_delta=0).records()


def test_records_are_refused_when_they_lie_beyond_the_last_offset() -> None:
    assert with_body(bytes.fromhex("0e 00 00 04 01 02 76 00"), 1, last_offset_delta=2).records()[0][0] == 2
    with pytest.raises(CorruptBatchError, match="beyond the batch's last offset 1"):
        with_body(bytes.fromhex("0e 00 00 04 01 02 76 00"), 1, last_offset_delta=1).records()


@pytest.mark.parametrize("number", [5, 6, 7])
def test_records_are_refused_when_the_codec_is_unknown(number: int) -> None:
    batch = with_body(RECORD, 1, attributes=number)
    assert batch.codec == "unknown"
    with pytest.raises(UnsupportedBatchError, match=f"codec {number} is not known"):
        batch.records()


@given(
    records=record_lists(),
    codec=codecs,
    damages=st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(many, max_examples=150)
def test_nothing_but_a_record_batch_error_is_raised_when_a_batch_was_damaged(
    records: list[RecordTuple], codec: Codec, damages: list[tuple[int, int]]
) -> None:
    data = bytearray(encode_batch(records, codec=codec))
    for place, value in damages:
        data[place % len(data)] = value
    try:
        for batch in iter_batches(bytes(data)):
            for *_, found in batch.records(max_bytes=1_000_000):
                tuple(found)
    except RecordBatchError:
        pass


@given(body=st.binary(max_size=60), count=st.integers(-1, 5), attributes=st.integers(0, 15))
@settings(many, max_examples=150)
def test_nothing_but_a_record_batch_error_is_raised_when_the_records_are_random(
    body: bytes, count: int, attributes: int
) -> None:
    try:
        for *_, found in with_body(body, count, attributes, last_offset_delta=10).records(max_bytes=1_000_000):
            tuple(found)
    except RecordBatchError:
        pass


@pytest.mark.parametrize(
    "records",
    [
        [],
        [(3, 1, None, b"a", [])],
        [(5, 1, None, b"a", []), (5, 1, None, b"b", [])],
        [(5, 1, None, "text", [])],
        [(5, 1, None, b"a", [(b"name", b"")])],
        [(5, 2**63, None, b"a", [])],
        [(5, 0, None, b"a", []), (5 + 2**31, 0, None, b"a", [])],
        [(5, 1)],
    ],
    ids=["none", "below base", "same offset", "text", "header name", "timestamp", "offset delta", "shape"],
)
def test_records_are_refused_when_a_batch_cannot_hold_them(records: Any) -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch(records, base_offset=5)


def test_records_are_refused_before_they_are_made_when_they_are_too_many() -> None:
    """Seven bytes make a record, and a record takes twenty times as many: what counts is not their bytes alone."""
    many_records = encode_batch([(offset, 1, None, b"", []) for offset in range(1000)], codec="zstd")
    assert len(only(many_records).records(max_bytes=128_000)) == 1000
    with pytest.raises(BatchTooLargeError, match="its 1000 records, which count as 128 bytes each"):
        only(many_records).records(max_bytes=127_999)
