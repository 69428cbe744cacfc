"""Record batches that were encoded once and are served again and again, with nothing but their offsets changed.

Used by the stub broker. The offset of a batch is not under its checksum, so a batch of any place in the log is the same
bytes but for eight of them.
"""

from __future__ import annotations

import random
import struct
import time
from array import array
from typing import Final

import attrs

from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_format import Codec

_OFFSET_BYTES: Final = 4
"""Of the eight; the others stay zero, which is enough for four thousand million records in a partition."""
_STAMP: Final = struct.Struct(">q")


@attrs.frozen
class Shape:
    """What the records are like. Values are hexadecimal digits: a codec makes half of them, as of text."""

    value_bytes: int = 100
    batch_records: int = 500
    codec: Codec = "none"
    headers: int = 0


class ReplayedBatches:
    """The log of every partition: one batch, repeated."""

    def __init__(self, shape: Shape) -> None:
        self.batch_records = shape.batch_records
        chance = random.Random(932)  # the same values in each run
        now_ms = int(time.time() * 1_000)
        headers = [(f"header-{number}", b"eight by") for number in range(shape.headers)]
        size = shape.value_bytes
        records = [
            (number, now_ms, None, chance.randbytes((size + 1) // 2).hex()[:size].encode(), headers)
            for number in range(shape.batch_records)
        ]
        self._batch = encode_batch(records, codec=shape.codec, partition_leader_epoch=0)
        self.batch_bytes = len(self._batch)
        self._run = bytearray(self._batch)

    def run(self, first_offset: int, count: int) -> memoryview:
        """`count` batches from this offset on, which begins one. Valid until the next call."""
        size = self.batch_bytes
        if len(self._run) < count * size:
            self._run = bytearray(self._batch * count)
        if count == 1:
            struct.pack_into(">q", self._run, 0, first_offset)
        else:
            self._number(first_offset, count)
        return memoryview(self._run)[: count * size]

    def _number(self, first_offset: int, count: int) -> None:
        """Write the offsets, one of their bytes for all batches at a time."""
        offsets = array("I", range(first_offset, first_offset + count * self.batch_records, self.batch_records))
        offsets.byteswap()
        encoded = offsets.tobytes()
        for at in range(_OFFSET_BYTES):
            begin = 8 - _OFFSET_BYTES + at
            self._run[begin : count * self.batch_bytes : self.batch_bytes] = encoded[at::_OFFSET_BYTES]


class StampedBatches:
    """Batches of one record, whose value begins with the time at which it became available, in ns since 1970."""

    batch_records = 1

    def __init__(self, value_bytes: int) -> None:
        self._rest = bytes(max(0, value_bytes - _STAMP.size))
        self.batch_bytes = len(self._encode(0, 0))
        self.stamps: list[int] = []
        """By offset."""

    def run(self, first_offset: int, count: int) -> memoryview:
        """As `ReplayedBatches.run`."""
        offsets = range(first_offset, first_offset + count)
        return memoryview(b"".join(self._encode(offset, self.stamps[offset]) for offset in offsets))

    def _encode(self, offset: int, stamp: int) -> bytes:
        value = _STAMP.pack(stamp) + self._rest
        return encode_batch([(offset, stamp // 1_000_000, None, value, [])], base_offset=offset)
