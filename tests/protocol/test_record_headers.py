"""The headers of a record are decoded when somebody looks at them, and never all at once."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.protocol.record_batches import CorruptBatchError, encode_batch, iter_batches
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.protocol.varint import zigzag

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
pairs = st.lists(st.tuples(names, st.none() | st.binary(max_size=100)), min_size=1, max_size=5).map(tuple)


def headers_of(batch: bytes) -> Any:
    (found,) = iter_batches(batch)
    ((*_, headers),) = found.records()
    return headers


@given(pairs)
def test_they_are_a_sequence_like_the_tuple_that_was_written(expected: tuple[tuple[str, bytes | None], ...]) -> None:
    headers = headers_of(encode_batch([(0, 1, None, b"v", expected)]))
    assert isinstance(headers, EncodedHeaders)
    headers.check()
    assert headers == expected
    assert expected == headers
    assert headers == list(expected)
    assert headers != (*expected, ("more", None))
    assert headers != "text"
    assert hash(headers) == hash(expected)
    assert (tuple(headers), len(headers), headers[0], headers[-1]) == (
        expected, len(expected), expected[0], expected[-1],
    )  # fmt: skip
    assert headers[1:] == expected[1:]
    assert tuple(reversed(headers)) == expected[::-1]
    assert expected[-1] in headers
    assert headers.index(expected[0]) == 0
    assert pickle.loads(pickle.dumps(headers)) == expected
    assert repr(headers) == "(" + ", ".join(map(repr, expected)) + ")"
    with pytest.raises(IndexError):
        headers[len(expected)]


def encoded(*headers: bytes) -> EncodedHeaders:
    return EncodedHeaders(zigzag(len(headers)) + b"".join(headers))


def test_a_name_that_is_not_utf_8_is_shown_with_replacement_characters() -> None:
    assert encoded(b"\x0ana\xffme\x02x") == (("na\ufffdme", b"x"),)


@pytest.mark.parametrize(
    "damaged",
    [
        encoded(b"\x01\x00"),
        encoded(b"\x00\x03"),
        encoded(b"\x02a"),
        encoded(b"\x00\x04x"),
        encoded(b"\x00\x01", b""),
        encoded(b"\x00\x01\x00"),
        encoded(b"\xff\xff\x7f\x01"),
    ],
    ids=[
        "name below zero",
        "value below zero",
        "no value",
        "value cut off",
        "too few",
        "too many bytes",
        "endless name",
    ],
)
def test_damaged_ones_are_told_when_they_are_looked_at(damaged: EncodedHeaders) -> None:
    for look in (tuple, EncodedHeaders.check):
        with pytest.raises(CorruptBatchError):
            look(damaged)


def test_a_poisoned_batch_costs_little_more_than_its_bytes_when_it_is_decoded_and_looked_through() -> None:
    """Two bytes make a header. As objects the headers of this batch of some hundred bytes would be 3 MB."""
    size = 1 << 16
    record = b"\0\0\0\1\0" + zigzag(size // 2) + b"\0\1" * (size // 2)
    whole = zigzag(len(record)) + record
    template = encode_batch([(0, 1, None, b"", [])])
    batch = template[:8] + (49 + len(whole)).to_bytes(4, "big") + template[12:61] + whole
    (found,) = iter_batches(batch)
    tracemalloc.start()
    try:
        ((*_, headers),) = found.records()
        assert len(headers) == size // 2
        assert sum(1 for _ in headers) == size // 2
        assert isinstance(headers, EncodedHeaders)
        headers.check()
        assert len(repr(headers)) < 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
