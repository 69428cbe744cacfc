"""The twin of `_compiled.pyx` in Python: the same names, the same results, the same errors, more time.

`kafka_share.native` imports it where there is no compiled module, or where KAFKA_SHARE_PURE_PYTHON=1 asks for it. The
tests in tests/native hold that the two are the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, compress, groupby
from operator import attrgetter
from typing import Any, TypeAlias

from kafka_share.native.pure_ledger import Ledger
from kafka_share.native.pure_lock import LockFacts
from kafka_share.native.pure_record import ShareRecord, with_values
from kafka_share.native.pure_tasks import OneTask

__all__ = [
    "Gate",
    "Ledger",
    "LedgersByLock",
    "LockFacts",
    "OneTask",
    "RecordBlock",
    "RecordRun",
    "ShareRecord",
    "Slab",
    "WholeAnswer",
    "WholeMaker",
    "PlainCalls",
    "WholePartition",
    "columns",
    "crc32c",
    "exported",
    "listed",
    "places",
    "shut_all_gates",
    "unpacked",
    "with_values",
]

Run: TypeAlias = "Sequence[ShareRecord[Any, Any]]"
"""Records of one partition in offset order: a list, or what makes each of them when it is looked at."""

Places: TypeAlias = "tuple[Any, str, int, array[int]]"
"""Records of one partition under one lock: the lock (an `AcquisitionLock`, or None), topic, partition, offsets."""

_place_of = attrgetter("lock", "topic", "partition")
_offset_of = attrgetter("offset")

RecordBlock = None
"""Records are found batch by batch, as those are that the compiled one leaves out."""
RecordRun = None
"""Where there are no blocks, runs are lists."""
LedgersByLock = Gate = None
"""There is no short way that would be shorter."""

WholeAnswer = WholePartition = WholeMaker = PlainCalls = None
"""No answer is held as a whole: its records stand in no block."""


def listed(runs: list[Run]) -> list[ShareRecord[Any, Any]]:
    """All records of these, as one list."""
    if len(runs) == 1 and isinstance(runs[0], list):
        return runs[0]
    return list(chain.from_iterable(runs))


def columns(runs: list[Run], views: bool) -> None:
    """There are no blocks whose bytes could be copied at once, or referred to."""


def exported(runs: list[Run], views: bool) -> None:
    """The same."""


def unpacked(bits: bytes | memoryview, start: int, count: int) -> bytes:
    """A byte, 0 or 1, for each of `count` bits from one on, as Arrow packs masks. Raises ValueError beyond the last."""
    packed = memoryview(bits)
    if start < 0 or count < 0 or start > packed.nbytes * 8 - count:
        raise ValueError("there are fewer bits")
    return bytes(packed[at >> 3] >> (at & 7) & 1 for at in range(start, start + count))


def places(runs: list[Run], mask: bytes | None) -> list[Places]:
    """Where records stand, for `Ledger.acknowledge_each`: (lock, topic, partition, offsets) of neighbours.

    `mask`: one byte for each record, not 0 for those that are meant; None: all.
    """
    records = chain.from_iterable(runs)
    meant = records if mask is None else compress(records, mask)
    return [(*place, array("q", map(_offset_of, those))) for place, those in groupby(meant, _place_of)]


Slab = bytearray
"""Memory is not used again."""

DirectLine = Ear = None
"""No thread but the network thread uses its connections."""


def read_plain_fetch(
    frame: bytes, correlation_id: int, places: Any, most_offsets: int, range_type: Any, part_type: Any
) -> None:
    """Everything goes through the general codec."""


def read_plain_acknowledge(frame: bytes, correlation_id: int, version: int) -> None:
    """The same."""


def shut_all_gates() -> None:
    """There is none."""


def crc32c(data: bytes | bytearray | memoryview, /) -> int:
    """The checksum of some bytes, an unsigned 32-bit number."""
    # Imported late: the import reads the metadata of installed packages. This package rather than google-crc32c, which
    # is as fast: kafka-python's producer uses it too when it is installed.
    from crc32c import crc32c as compute

    return int(compute(data))
