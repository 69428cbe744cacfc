"""Records as columns of Apache Arrow. Imported by `ShareRecords.to_arrow`, since pyarrow is no dependency of ours.

Where the record path is compiled, keys and values are copied from the broker's bytes into Arrow's at once, or stay
where they are; elsewhere they become Python objects on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_share.errors import InvalidArgumentError
from kafka_share.native import ShareRecord, columns, exported, listed, unpacked

if TYPE_CHECKING:
    from kafka_share.native import Column, Run

_TIMESTAMP: Final = pa.timestamp("ms", "UTC")
_HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_NO_HEADER: Final = pa.array([], _HEADERS.value_type)
_NAMES: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "delivery_count")

Records = list[ShareRecord[Any, Any]]


def to_arrow(runs: list[Run], *, copy: bool = True) -> pa.RecordBatch:
    """See `ShareRecords.to_arrow`."""
    export = exported(runs, not copy)
    if export is not None:
        # Of pyarrow's ways to take C data this is the one that needs no schema in C; it is the oldest, too.
        return pa.RecordBatch._import_from_c(export.address, _schema(copy))
    binary = pa.binary() if copy else pa.binary_view()
    found = columns(runs, not copy)
    arrays = _copied(listed(runs), binary) if found is None else _taken(runs, binary, *found)
    return pa.record_batch([arrays[name] for name in _NAMES], names=list(_NAMES))


@cache
def _schema(copy: bool) -> pa.Schema:
    binary = pa.binary() if copy else pa.binary_view()
    topic, number, offset = pa.dictionary(pa.int32(), pa.string()), pa.int32(), pa.int64()
    kinds = (topic, number, offset, _TIMESTAMP, binary, binary, _HEADERS, number)
    return pa.schema(list(zip(_NAMES, kinds, strict=True)))


def mask_of(rows: Any) -> bytes | None:
    """A byte for each bool of an Arrow array; None for what is none.

    Raises TypeError for an array of another type, and `InvalidArgumentError` for nulls.
    """
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if not isinstance(rows, pa.Array):
        return None
    if not pa.types.is_boolean(rows.type):
        raise TypeError(f"a mask in rows is an array of bool, not of {rows.type}")
    if rows.null_count:
        raise InvalidArgumentError(
            "the mask in rows has nulls: say with fill_null(False) or fill_null(True) what they mean"
        )
    return unpacked(memoryview(rows.buffers()[1]), rows.offset, len(rows)) if len(rows) else b""


def _taken(
    runs: list[Run],
    binary: pa.DataType,
    topics: list[str],
    chosen_topics: bytes,
    offsets: bytes,
    timestamps: bytes,
    partitions: bytes,
    deliveries: bytes,
    keys: Column,
    values: Column,
    has_headers: bool,
) -> dict[str, pa.Array]:
    count = sum(map(len, runs))

    def array(kind: pa.DataType, *buffers: bytes | memoryview | None) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None if b is None else pa.py_buffer(b) for b in buffers])

    def payloads(column: Column) -> pa.Array:
        if column is None:
            return pa.nulls(count, binary)
        validity, places, data = column
        return array(binary, validity, places, *(data if isinstance(data, list) else [data]))

    return {
        "topic": pa.DictionaryArray.from_arrays(array(pa.int32(), None, chosen_topics), _names_of(tuple(topics))),
        "partition": array(pa.int32(), None, partitions),
        "offset": array(pa.int64(), None, offsets),
        "timestamp": array(_TIMESTAMP, None, timestamps),
        "key": payloads(keys),
        "value": payloads(values),
        "headers": _headers(listed(runs)) if has_headers else _no_headers(count),
        "delivery_count": array(pa.int32(), None, deliveries),
    }


@lru_cache(maxsize=64)
def _names_of(topics: tuple[str, ...]) -> pa.Array:
    """Most polls bring records of the same few topics."""
    return pa.array(topics, pa.string())


def _no_headers(count: int) -> pa.Array:
    ends = pa.py_buffer(bytes(4 * (count + 1)))
    return pa.Array.from_buffers(_HEADERS, count, [None, ends], children=[_NO_HEADER])


def _headers(records: Records) -> pa.Array:
    return pa.array([[{"name": n, "value": v} for n, v in record.headers] for record in records], _HEADERS)


def _copied(records: Records, binary: pa.DataType) -> dict[str, pa.Array]:
    return {
        "topic": pa.array([record.topic for record in records], pa.string()).dictionary_encode(),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.timestamp for record in records], _TIMESTAMP),
        "key": _binary((record.key for record in records), binary),
        "value": _binary((record.value for record in records), binary),
        "headers": _headers(records),
        "delivery_count": pa.array([record.delivery_count for record in records], pa.int32()),
    }


def _binary(payloads: Iterable[Any], kind: pa.DataType) -> pa.Array:
    kept = list(payloads)
    for payload in kept:
        if not (payload is None or isinstance(payload, bytes)):
            raise TypeError(
                f"a key or value was deserialized to {type(payload).__name__}; Arrow takes bytes: "
                "make a consumer without deserializers"
            )
    return pa.array(kept, kind)
