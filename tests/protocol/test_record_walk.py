"""What the walk over a produced batch accepts and refuses: the same as the decoder, and offsets without holes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.protocol.record_batches import CorruptBatchError, RecordBatch, encode_batch
from kafka_share.protocol.record_decoder import decode_records
from kafka_share.protocol.record_format import HEADER
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.protocol.record_walk import walk
from kafka_share.protocol.varint import zigzag

AT_ONCE = 1_000

values = st.none() | st.binary(max_size=150)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
records = st.lists(st.tuples(st.integers(0, 10**6), values, values, headers), min_size=1, max_size=5)


def turns(data: bytes, count: int, at_once: int = AT_ONCE) -> int:
    """In how many turns the walk was done."""
    return 1 + sum(1 for _ in walk(data, 0, count, at_once))


def body(written: list[Any]) -> bytes:
    return encode_batch([(offset, *fields) for offset, fields in enumerate(written)])[HEADER.size :]


def decoded(data: bytes, count: int) -> None:
    """Everything that the walk promises, by way of objects."""
    offsets = []
    for offset, _, _, _, found in decode_records(data, 0, count, (0, count - 1), 0):
        offsets.append(offset)
        if isinstance(found, EncodedHeaders):
            found.check()
    assert offsets == list(range(count))


@given(records)
def test_what_a_producer_has_written_is_accepted(written: list[Any]) -> None:
    assert turns(body(written), len(written)) == 1


@given(records, st.data())
def test_damaged_records_are_refused_by_the_walk_when_the_decoder_refuses_them(
    written: list[Any], drawn: st.DataObject
) -> None:
    data = bytearray(body(written))
    for _ in range(drawn.draw(st.integers(1, 3))):
        data[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    cut = bytes(data[: len(data) - drawn.draw(st.sampled_from([0, 0, 0, 1]))])
    try:
        decoded(cut, len(written))
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            turns(cut, len(written))
    else:
        turns(cut, len(written))


def test_numbers_of_every_length_are_read() -> None:
    """Lengths, timestamps and offsets of one, two and three bytes."""
    written: list[Any] = [
        (number * 50, bytes(number % 3 * 90), bytes(number % 7 * 4_000), []) for number in range(9_000)
    ]
    assert turns(body(written), len(written), at_once=10_000) == 1


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [
        pytest.param(body([(0, None, b"a", [])]) + b"\0", 1, "follow the last record", id="more"),
        pytest.param(body([(0, None, b"a", [])]), 2, "cannot be in", id="too many"),
        pytest.param(body([(0, None, b"abcdefgh", [])]), 2, "ends inside", id="one missing"),
        pytest.param(body([(0, None, b"a", [])]) * 2, 2, "not the next one", id="the same offset again"),
        pytest.param(zigzag(9) + b"\0\0\0\1\4aa\0\0", 1, "do not fill", id="filled too little"),
        pytest.param(zigzag(-9) + bytes(8), 1, "impossible length", id="negative length"),
        pytest.param(zigzag(8) + b"\0\0\0\3aaa\0\0", 1, "a key has", id="negative key"),
        pytest.param(zigzag(8) + b"\0\0\0\1\3aaa\0", 1, "a value has", id="negative value"),
        pytest.param(zigzag(8) + b"\0\0\0\1\1\x08\0\1\0", 1, "number of headers", id="too many headers"),
        pytest.param(zigzag(8) + b"\0\0\0\1\1\2\x01\1\0", 1, "impossible length", id="negative header"),
        pytest.param(b"\xff" * 12, 1, "variable-length", id="endless number"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, count: int, problem: str) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        turns(data, count)


def test_others_get_their_turn_after_so_many_records_and_headers() -> None:
    written: list[Any] = [(0, None, b"a", [])] * 10
    assert turns(body(written), 10, at_once=3) == 4
    assert turns(body([(0, None, b"a", [("h", b"1")] * 10)]), 1, at_once=3) == 5


def test_a_batch_says_where_its_records_are() -> None:
    batch = RecordBatch(encode_batch([(0, 1, None, b"a", [])], codec="zstd"))
    assert batch.body() == (encode_batch([(0, 1, None, b"a", [])])[HEADER.size :], 0)
