"""Which transactions are open in a log, and which were aborted: what the last stable offset and consumers depend on.

Owned by `Log`, which tells it of each transactional batch and each marker. It is made anew from the batches when a log
is read from disk. Source: KIP-98.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from kafka_share.protocol.record_batches import RecordBatch

_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0


class _Aborted(NamedTuple):
    """An aborted transaction. `stable` was the last stable offset after it: later ones begin there or behind."""

    producer_id: int
    first: int
    last: int
    stable: int


def _last(aborted: _Aborted) -> int:
    return aborted.last


def is_commit(marker: RecordBatch) -> bool:
    """How the transaction ended of which this is the marker; it has its record still."""
    key = marker.records()[0][2]
    assert key is not None, "a control record has a key"
    _, kind = _CONTROL_KEY.unpack_from(key)
    return bool(kind != _ABORT)


class TransactionIndex:
    """The transactions of one log."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """Open transactions: producer id -> first offset, ascending."""
        self._aborted: list[_Aborted] = []

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def open_since(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction, None if it has none."""
        return self._open.get(producer_id)

    def open(self) -> list[tuple[int, int]]:
        """Producer id and first offset of each open transaction."""
        return list(self._open.items())

    def stable_offset(self, end_offset: int) -> int:
        """The offset before the first open transaction, or the log's end."""
        return next(iter(self._open.values()), end_offset)

    def wrote(self, producer_id: int, first_offset: int) -> None:
        """A batch of the producer's transaction was appended."""
        self._open.setdefault(producer_id, first_offset)

    def ended(self, marker: RecordBatch, last_offset: int, end_offset: int) -> None:
        """A marker was appended, which is the last offset of its transaction. `end_offset` is the log's before it."""
        first = self._open.pop(marker.producer_id, None)
        if first is not None and marker.record_count and not is_commit(marker):
            stable = self.stable_offset(end_offset)
            self._aborted.append(_Aborted(marker.producer_id, first, last_offset, stable))

    def aborted(self, first: int, last: int) -> Sequence[tuple[int, int, int]]:
        """Aborted transactions that overlap the range, as (producer_id, first_offset, last_offset)."""
        found = []
        for index in range(bisect_left(self._aborted, first, key=_last), len(self._aborted)):
            one = self._aborted[index]
            if one.first <= last:
                found.append((one.producer_id, one.first, one.last))
            if one.stable > last:
                break
        return found

    def cleaned(self, gone: Container[tuple[int, int, int]]) -> None:
        """Nothing is left of the records of these aborted transactions (producer_id, first_offset, last_offset)."""
        self._aborted = [one for one in self._aborted if (one.producer_id, one.first, one.last) not in gone]

    def start_moved(self, start_offset: int) -> None:
        """What lies below the log's new start counts no more."""
        self._aborted = [one for one in self._aborted if one.last >= start_offset]
