"""Variable-length integers, short and long, and those that never end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.protocol.varint import MAX_UINT32, MAX_UINT64, read_unsigned, unsigned, unzigzag, zigzag


@pytest.mark.parametrize(
    ("value", "digits"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_the_bytes_are_as_derived_by_hand_when_a_number_is_written(value: int, digits: str) -> None:
    assert unsigned(value).hex() == digits


@pytest.mark.parametrize(
    ("value", "number"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2**63 - 1, 2**64 - 2), (-(2**63), 2**64 - 1)]
)
def test_signs_alternate_when_a_number_is_zigzag_encoded(value: int, number: int) -> None:
    assert zigzag(value) == unsigned(number)
    assert unzigzag(number) == value


@given(st.integers(0, MAX_UINT64), st.binary(max_size=3))
def test_a_number_comes_back_when_it_is_read_anywhere(value: int, rest: bytes) -> None:
    data = b"ab" + unsigned(value) + rest
    assert read_unsigned(data, 2, MAX_UINT64) == (value, len(data) - len(rest))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_a_number_is_refused_when_the_data_ends_inside_it(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="ends inside"):
        read_unsigned(data, 0)


@pytest.mark.parametrize(
    ("data", "maximum"),
    [(b"\xff" * 50, MAX_UINT64), (b"\xff\xff\xff\xff\x1f", MAX_UINT32), (b"\xff" * 9 + b"\x03", MAX_UINT64)],
)
def test_a_number_is_refused_when_it_is_too_large(data: bytes, maximum: int) -> None:
    with pytest.raises(RemoteProtocolError, match="larger than"):
        read_unsigned(data, 0, maximum)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_is_refused_when_it_cannot_be_written(value: int) -> None:
    with pytest.raises(LocalProtocolError):
        unsigned(value)
