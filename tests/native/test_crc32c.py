"""CRC-32C, by each implementation: the published examples, and the same as an unrelated library."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c as unrelated
import pytest
from native.implementations import implementation

CPU = Path("/proc/cpuinfo")


@pytest.fixture(params=["compiled", "compiled by table", "pure"])
def crc32c(request: pytest.FixtureRequest) -> Callable[[Any], int]:
    """Every function for it: the compiled module has one more, for processors without an instruction."""
    name, _, way = request.param.partition(" ")
    function: Callable[[Any], int] = getattr(implementation(name), "crc32c_by_table" if way else "crc32c")
    return function


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_examples_of_rfc_3720_come_out(crc32c: Callable[[Any], int], data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_short_data_of_every_length_and_alignment_has_the_checksum_of_an_unrelated_library(
    crc32c: Callable[[Any], int],
) -> None:
    data = memoryview(random.Random(1).randbytes(320))
    for start in range(16):
        for length in range(301):
            part = data[start : start + length]
            assert crc32c(part) == unrelated.crc32c(part), (start, length)


def test_long_data_has_the_checksum_of_an_unrelated_library(crc32c: Callable[[Any], int]) -> None:
    """At the lengths where the compiled one goes over to more lanes, and beyond."""
    source = random.Random(2)
    data = memoryview(source.randbytes(1 << 20))
    whole_lanes = [lanes * times for lanes in (384, 6144) for times in range(1, 6)]
    about = [length + more for length in whole_lanes for more in (-9, -1, 0, 1, 9)]
    lengths = [*about, *(source.randrange(len(data) - 16) for _ in range(100)), len(data) - 16]
    for length in lengths:
        start = source.randrange(16)
        part = data[start : start + length]
        assert crc32c(part) == unrelated.crc32c(part), (start, length)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_are_taken(crc32c: Callable[[Any], int], kind: Callable[[bytes], Any]) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("wrong", ["text", 7, None])
def test_what_is_no_bytes_is_refused(crc32c: Callable[[Any], int], wrong: object) -> None:
    with pytest.raises(TypeError):
        crc32c(wrong)


def test_bytes_that_do_not_lie_together_are_refused(crc32c: Callable[[Any], int]) -> None:
    with pytest.raises(BufferError):
        crc32c(memoryview(b"123456789")[::2])


@pytest.mark.skipif(not CPU.exists(), reason="needs /proc/cpuinfo")
def test_the_instruction_is_used_where_the_processor_has_it() -> None:
    """A table would give the same results, and cost ten times as much."""
    flags = set(CPU.read_text("utf-8", "replace").split())
    can = {"sse4_2", "pclmulqdq"} <= flags or "crc32" in flags
    assert (implementation("compiled").CRC32C_BY != "table") == can
