"""Memory to decompress into is used again, and never while anything refers to it."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native.implementations import implementation

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem
from kafka_share.core.events import FetchedPartition
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_format import CODEC_NAMES, Codec
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import ShareRecord, TopicIdPartition

WHERE = TopicIdPartition(UUID(int=1), "t", 0)
KEPT_BYTES = 4 * (2 << 20)


@pytest.fixture(scope="module", name="compiled")
def compiled_module() -> ModuleType:
    return implementation("compiled")


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 65_535, 65_536, 70_000, 80_000, 300_000, 2 << 20, (2 << 20) + 1]), st.randoms())
        | st.none(),
        max_size=40,
    )
)
def test_what_is_referred_to_stays_as_it_is_whatever_is_made_and_forgotten(steps: list[Any]) -> None:
    slab = implementation("compiled").Slab
    views: list[tuple[memoryview, bytes]] = []
    for step in steps:
        if step is None:
            if views:
                views.pop(len(views) // 2)
        else:
            size, chance = step
            view = memoryview(slab(size))
            assert (len(view), view.nbytes, view.readonly) == (size, size, False)
            mark = chance.randbytes(16)[:size]
            view[: len(mark)] = mark
            view[size - len(mark) :] = mark
            views.append((view[: size // 2 + 1], mark) if size > 1 else (view, mark))
        for kept, mark in views:
            assert kept[: len(mark)] == mark


def test_the_memory_of_one_that_is_forgotten_is_that_of_the_next_of_its_size(compiled: ModuleType) -> None:
    """Not so with sanitizers, which want to see who uses what was given back."""
    first = compiled.Slab(300_000)
    memoryview(first)[:4] = b"mark"
    del first
    second = compiled.Slab(290_000)
    if bytes(memoryview(second)[:4]) != b"mark":
        pytest.skip("built with a sanitizer")
    assert len(second) == 290_000
    other = compiled.Slab(100_000)  # much smaller: not the memory of a larger one
    del second
    assert bytes(memoryview(compiled.Slab(100_000))[:4]) != b"mark"
    assert len(other) == 100_000


def test_no_more_than_eight_mebibytes_are_kept_when_many_are_forgotten(compiled: ModuleType) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        many = [compiled.Slab(size) for size in range(1 << 20, (2 << 20) + 1, 1 << 16)]
        large = [compiled.Slab((2 << 20) + 1) for _ in range(4)]
        assert tracemalloc.get_traced_memory()[0] > 3 * KEPT_BYTES
        del many, large
        assert tracemalloc.get_traced_memory()[0] < KEPT_BYTES + 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(compiled: ModuleType, size: int) -> None:
    with pytest.raises(ValueError, match="one byte at least"):
        compiled.Slab(size)


def test_memory_that_cannot_be_had_is_an_error(compiled: ModuleType) -> None:
    with pytest.raises(MemoryError):
        compiled.Slab(sys.maxsize)


def decoded(values: list[bytes], codec: Codec) -> list[ShareRecord[Any, Any]]:
    data = encode_batch([(at, 1, None, value, ()) for at, value in enumerate(values)], codec=codec)
    acquired = (AcquiredRange(0, len(values) - 1, 1),)
    records = PartitionDecoding(FetchedPartition(WHERE, 1, 1, memoryview(data), acquired), Decoder()).next_step()
    assert records is not None
    assert not isinstance(records, Problem)
    return list(records)


@pytest.mark.parametrize("codec", [codec for codec in CODEC_NAMES if codec != "none"])
def test_a_record_that_is_kept_has_its_value_when_many_batches_were_decompressed_since(codec: Codec) -> None:
    chance = random.Random(7)
    kept: list[tuple[ShareRecord[Any, Any], bytes]] = []
    for number in range(30):
        values = [chance.randbytes(1_000).hex().encode() for _ in range(100)]
        records = decoded(values, codec)
        assert [record.value for record in records] == values
        if number % 3 == 0:
            kept.append((records[number], values[number]))
        if number % 10 == 9:
            del kept[0]
    assert [record.value for record, _ in kept] == [value for _, value in kept]
