"""Records as Arrow splits: every record once, in order, whatever the sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.records import ShareRecord, TimestampType

pytest.importorskip("pyarrow", reason="pip install 'kafka-share[spark]'")

from kafka_share.spark.splits import column_names, decode_split, encode_splits

NULLABLE = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=3)


def record(offset: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> ShareRecord:
    return ShareRecord(
        "orders", 3, offset, 1_700_000_000_123, TimestampType.CREATE_TIME, key, value, tuple(headers), None, 2
    )


@given(
    st.lists(st.tuples(NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=40), st.integers(1, 3_000), st.integers(0, 9)
)
def test_every_record_is_in_one_split_in_its_order(
    parts: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], split_bytes: int, min_splits: int
) -> None:
    records = [record(offset, *part) for offset, part in enumerate(parts)]
    splits = encode_splits(records, "a-1", include_headers=True, split_bytes=split_bytes, min_splits=min_splits)
    assert len(splits) >= min(min_splits, len(records)) // 2
    columns = column_names(include_headers=True)
    rows = [row for split in splits for batch in decode_split(split, columns) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(len(records)))
    for row, (key, value, headers) in zip(rows, parts, strict=True):
        assert (row["key"], row["value"]) == (key, value)
        assert [(header["key"], header["value"]) for header in row["headers"] or []] == headers
        assert (row["topic"], row["partition"], row["deliveryCount"], row["leaseId"]) == ("orders", 3, 2, "a-1")
        assert int(row["timestamp"].timestamp() * 1_000) == 1_700_000_000_123


def test_a_split_gives_the_columns_that_are_asked_for_as_they_are_spelt() -> None:
    (split,) = encode_splits([record(0, b"k", b"v", [])], "a-1", include_headers=False, split_bytes=1, min_splits=1)
    (batch,) = decode_split(split, ["VALUE", "offset"])
    assert batch.to_pylist() == [{"VALUE": b"v", "offset": 0}]


def test_a_record_larger_than_a_split_has_one_for_itself() -> None:
    records = [record(0, None, b"x", []), record(1, None, b"x" * 5_000, []), record(2, None, b"x", [])]
    splits = encode_splits(records, "a-1", include_headers=False, split_bytes=1_000, min_splits=1)
    assert [batch.num_rows for split in splits for batch in decode_split(split, ["offset"])] == [1, 1, 1]
