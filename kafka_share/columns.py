"""Records as columns of Apache Arrow. Imported by `ShareRecords.to_arrow`, since pyarrow is no dependency of ours.

Where the record path is compiled, keys and values are copied from the broker's bytes into Arrow's at once; elsewhere
they become Python objects on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from kafka_share.native import ShareRecord, columns

_TIMESTAMP: Final = pa.timestamp("ms", "UTC")
_HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_NAMES: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "delivery_count")

Records = list[ShareRecord[Any, Any]]


def to_arrow(records: Records) -> pa.RecordBatch:
    """See `ShareRecords.to_arrow`."""
    found = columns(records)
    arrays = _copied(records) if found is None else _taken(records, *found)
    return pa.record_batch([arrays[name] for name in _NAMES], names=list(_NAMES))


def _taken(
    records: Records,
    topics: list[str],
    chosen_topics: bytes,
    offsets: bytes,
    timestamps: bytes,
    partitions: bytes,
    deliveries: bytes,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    has_headers: bool,
) -> dict[str, pa.Array]:
    def array(kind: pa.DataType, *buffers: bytes | None) -> pa.Array:
        return pa.Array.from_buffers(kind, len(records), [None if b is None else pa.py_buffer(b) for b in buffers])

    return {
        "topic": pa.DictionaryArray.from_arrays(array(pa.int32(), None, chosen_topics), pa.array(topics, pa.string())),
        "partition": array(pa.int32(), None, partitions),
        "offset": array(pa.int64(), None, offsets),
        "timestamp": array(_TIMESTAMP, None, timestamps),
        "key": array(pa.binary(), *keys),
        "value": array(pa.binary(), *values),
        "headers": _headers(records) if has_headers else _no_headers(len(records)),
        "delivery_count": array(pa.int32(), None, deliveries),
    }


def _no_headers(count: int) -> pa.Array:
    ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(bytes(4 * (count + 1)))])
    return pa.ListArray.from_arrays(ends, pa.array([], _HEADERS.value_type))


def _headers(records: Records) -> pa.Array:
    return pa.array([[{"name": n, "value": v} for n, v in record.headers] for record in records], _HEADERS)


def _copied(records: Records) -> dict[str, pa.Array]:
    return {
        "topic": pa.array([record.topic for record in records], pa.string()).dictionary_encode(),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.timestamp for record in records], _TIMESTAMP),
        "key": _binary(record.key for record in records),
        "value": _binary(record.value for record in records),
        "headers": _headers(records),
        "delivery_count": pa.array([record.delivery_count for record in records], pa.int32()),
    }


def _binary(payloads: Iterable[Any]) -> pa.Array:
    kept = list(payloads)
    for payload in kept:
        if not (payload is None or isinstance(payload, bytes)):
            raise TypeError(
                f"a key or value was deserialized to {type(payload).__name__}; Arrow takes bytes: "
                "make a consumer without deserializers"
            )
    return pa.array(kept, pa.binary())
