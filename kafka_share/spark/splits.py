"""The rows of the source: its schema, records as Arrow splits, and splits as record batches for a task.

The agent encodes a lease once, so that every reading of a split has the same rows in the same order. Needs pyarrow, not
Spark. Schema and names are those of Spark's Kafka source, with `deliveryCount` and `leaseId` behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kafka_share.columns import to_arrow
from kafka_share.records import ShareRecord

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMNS: Final[dict[str, tuple[str, Any]]] = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", _TIMESTAMP),
    "timestampType": ("int", pa.int32()),
    "headers": ("array<struct<key:string,value:binary>>", _HEADERS),
    "deliveryCount": ("int", pa.int32()),
    "leaseId": ("string", pa.string()),
}
"""Column -> its type for Spark and for Arrow. `headers` is there with includeHeaders only."""

_RECORD_BYTES: Final = 64
"""What a record adds to a split besides key, value and headers."""


def column_names(*, include_headers: bool) -> list[str]:
    """The columns of a row, in their order."""
    return [name for name in COLUMNS if include_headers or name != "headers"]


def schema_text(*, include_headers: bool) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"{name} {COLUMNS[name][0]}" for name in column_names(include_headers=include_headers))


def encode_splits(
    records: Sequence[ShareRecord],
    lease_id: str,
    *,
    include_headers: bool,
    split_bytes: int,
    min_splits: int,
) -> list[bytes]:
    """The records in their order, cut into splits of about `split_bytes`, each an Arrow stream."""
    columns = column_names(include_headers=include_headers)
    most_records = max(1, -(-len(records) // max(1, min_splits)))
    return [_encode(part, lease_id, columns) for part in _cut(records, split_bytes, most_records)]


def size_of(record: ShareRecord) -> int:
    """About how many bytes the record takes in a split."""
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    headers = record.headers
    return size + sum(len(name) + len(value or b"") for name, value in headers) if headers else size


def _cut(records: Sequence[ShareRecord], most_bytes: int, most_records: int) -> Iterator[list[ShareRecord]]:
    part: list[ShareRecord] = []
    filled = 0
    for record in records:
        size = size_of(record)
        if part and (filled + size > most_bytes or len(part) >= most_records):
            yield part
            part, filled = [], 0
        part.append(record)
        filled += size
    if part:
        yield part


def _encode(records: Sequence[ShareRecord], lease_id: str, columns: Sequence[str]) -> bytes:
    """Column by column, since a step of Python for each value would be most of what an agent does."""
    found = to_arrow([list(records)])
    arrays = {
        "key": found["key"],
        "value": found["value"],
        "topic": found["topic"].dictionary_decode(),
        "partition": found["partition"],
        "offset": found["offset"],
        "timestamp": found["timestamp"].cast(_TIMESTAMP),
        "timestampType": pa.array([record.timestamp_type for record in records], pa.int32()),
        "deliveryCount": found["delivery_count"],
        "leaseId": pa.repeat(pa.scalar(lease_id, pa.string()), len(records)),
    }
    if "headers" in columns:
        pairs = [record.headers for record in records]
        arrays["headers"] = pa.array([[{"key": n, "value": v} for n, v in one] or None for one in pairs], _HEADERS)
    batch = pa.record_batch([arrays[name] for name in columns], names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_split(data: bytes, columns: Sequence[str]) -> Iterator[Any]:
    """The record batches of a split with these columns, named as asked for: Spark compares names and types."""
    with pa.ipc.open_stream(data) as reader:
        place = {name.lower(): index for index, name in enumerate(reader.schema.names)}
        for batch in reader:
            chosen = [batch.column(place[name.lower()]) for name in columns]
            yield pa.record_batch(chosen, names=list(columns))
