"""Record batches: walk, check and decode those of every format, write those of format 2. The entrance to all of it.

Called by the client (decoding what was fetched) and by the broker (checking and storing what was produced). Works on
bytes in memory; does not know partitions, offsets in demand or transactions. Bytes that cannot be read raise
`RecordBatchError`, a `RemoteProtocolError`, and nothing else: `CorruptBatchError` if they are damaged for everybody,
`UnsupportedBatchError` if another reader may understand them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_share.protocol.record_batch import RecordBatch
from kafka_share.protocol.record_encoder import (
    control_batch,
    encode_batch,
    with_append_time,
    with_offsets,
    with_records,
)
from kafka_share.protocol.record_format import (
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    SMALLEST_BATCH_BYTES,
    BatchTooLargeError,
    CorruptBatchError,
    RecordBatchError,
    RecordTuple,
    UnsupportedBatchError,
)

__all__ = [
    "BatchTooLargeError",
    "CorruptBatchError",
    "RecordBatch",
    "RecordBatchError",
    "RecordTuple",
    "UnsupportedBatchError",
    "control_batch",
    "encode_batch",
    "iter_batches",
    "with_append_time",
    "with_offsets",
    "with_records",
]


def iter_batches(data: bytes | memoryview) -> Iterator[RecordBatch]:
    """The batches in some bytes, one after the other; a batch that is cut off at the end is left out.

    The batches of a memoryview are views of it: nothing is copied.

    Raises `CorruptBatchError` at the first batch with an impossible length or offset, `UnsupportedBatchError` at one of
    an unknown format: nothing behind it can be told apart.
    """
    position, end = 0, len(data)
    while end - position > MAGIC_AT:
        length = int.from_bytes(data[position + 8 : position + LENGTH_END], "big", signed=True)
        magic = data[position + MAGIC_AT]
        if magic > MAGIC:
            raise UnsupportedBatchError(f"the record batch at byte {position} has the unknown format {magic}")
        stop = position + LENGTH_END + length
        if stop < position + SMALLEST_BATCH_BYTES[magic]:
            raise CorruptBatchError(f"the record batch at byte {position} has the impossible length {length}")
        if stop > end:
            return
        yield _batch(magic, data[position:stop])
        position = stop


def _batch(magic: int, data: bytes | memoryview) -> RecordBatch:
    if magic == MAGIC:
        return RecordBatch(data)
    from kafka_share.protocol.legacy_batches import LegacyBatch  # no producer has written any since 2017

    return LegacyBatch(data)
