"""What `kafka-share-perf` counts: percentiles against a naive model, sizes, clocks that do not agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.cli.perf.measuring import EXACT_BELOW_MS, Latencies, Tally, tally_of
from kafka_share.records import ShareRecord, TimestampType

PER_MILLE = (1, 500, 950, 990, 999, 1000)
LATENCIES = st.lists(st.integers(0, 200) | st.integers(0, 2**40), min_size=1, max_size=60)


def record(
    timestamp_ms: int, key: bytes | None = None, value: bytes | None = b"v"
) -> ShareRecord[bytes | None, bytes | None]:
    return ShareRecord("t", 0, 0, timestamp_ms, TimestampType.CREATE_TIME, key, value, (), 0, 1)


def counted(values: list[int]) -> Latencies:
    latencies = Latencies()
    for value in values:
        latencies.count(value)
    return latencies


@given(LATENCIES)
def test_percentiles_are_those_of_the_sorted_list(values: list[int]) -> None:
    """Up to a minute exactly, above within 0.05 % and never too short; the longest one is exact."""
    found = counted(values).percentiles(PER_MILLE)
    ordered = sorted(values)
    for share, latency_ms in zip(PER_MILLE, found, strict=True):
        expected = ordered[-(-len(values) * share // 1000) - 1]
        if expected < EXACT_BELOW_MS:
            assert latency_ms == expected
        else:
            assert expected <= latency_ms <= expected * 1.0005
    assert found[-1] == max(values)


@given(LATENCIES, LATENCIES)
def test_two_counts_are_one_when_they_are_merged(first: list[int], second: list[int]) -> None:
    """Consumers count for themselves; their sum is what one of them would have counted."""
    merged = counted(first)
    merged.merge(counted(second))
    assert merged == counted(first + second)


def test_the_number_of_counters_is_bounded_whatever_comes() -> None:
    """Latencies of any size share a bounded number of counters."""
    latencies = Latencies()
    for bits in range(16, 80):
        for leading in range(4_096):
            latencies.count((1 << bits) + (leading << bits >> 12))
    assert len(latencies._counts) <= 32 * 2_048
    assert latencies.percentiles([1000])[0] <= latencies.longest_ms


def test_nothing_has_no_percentiles() -> None:
    """Asking for them is a mistake of the caller."""
    with pytest.raises(ValueError, match="of nothing"):
        Latencies().percentiles([500])


def test_keys_and_values_are_counted_and_each_record_has_its_latency() -> None:
    """Missing keys and values have no bytes; a record without a timestamp has no latency."""
    tally = tally_of([record(1_000, b"key", None), record(1_000), record(900), record(-1)], delivered_at_ms=1_010)
    assert (tally.records, tally.bytes) == (4, 6)
    assert tally.latencies == counted([10, 10, 110])
    both = Tally()
    both.merge(tally)
    both.merge(tally_of([record(1_000)], 1_001))
    assert (both.records, both.bytes, both.latencies.records) == (5, 7, 4)


def test_a_record_from_the_future_is_counted_as_0_and_told() -> None:
    """A producer's clock may be ahead of this one."""
    latencies = tally_of([record(1_005), record(1_005), record(1_000)], delivered_at_ms=1_000).latencies
    assert latencies.ahead == 2
    assert latencies.percentiles([1000]) == [0]
