"""The log of one partition: the interface that a durable log will fit too, and the log in memory.

Called by the cluster (produce, fetch, list offsets, delete records) and by share partitions (read). Knows nothing of
groups or connections.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, overload

import attrs

from kafka_share.errors import InvalidArgumentError, OffsetOutOfRangeError
from kafka_share.protocol.record_batches import RecordBatch, iter_batches, with_offsets
from kafka_share.protocol.record_format import MAGIC

_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0


@attrs.frozen
class StoredBatch:
    """One record batch as it lies in the log: `data` has the final offsets, leader epoch and CRC in it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes
    is_control: bool
    is_transactional: bool
    producer_id: int
    appended_at_ms: int


class BatchSpan(Sequence[StoredBatch]):
    """Neighbouring batches of a log, as they lie there: none is copied, however many they are.

    To be used before the log changes.
    """

    __slots__ = ("_batches", "_indexes")

    def __init__(self, batches: Sequence[StoredBatch], first: int, stop: int) -> None:
        self._batches = batches
        self._indexes = range(first, stop)

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int) -> StoredBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredBatch]: ...
    def __getitem__(self, index: int | slice) -> StoredBatch | Sequence[StoredBatch]:
        found = self._indexes[index]
        if isinstance(found, int):
            return self._batches[found]
        return [self._batches[at] for at in found]

    def __iter__(self) -> Iterator[StoredBatch]:
        batches = self._batches
        for index in self._indexes:
            yield batches[index]

    def at_or_before(self, offset: int) -> int:
        """The index of the last batch that begins at the offset or before it; -1 if all begin behind it."""
        return bisect_right(self, offset, key=_base_offset) - 1


def _base_offset(batch: StoredBatch) -> int:
    return batch.base_offset


NO_BATCHES: Final = BatchSpan((), 0, 0)


class PartitionLog(Protocol):
    """What every log offers. Offsets are integers; the end offset is the offset that the next record will get."""

    @property
    def start_offset(self) -> int:
        """The first offset that still exists (Kafka's log start offset)."""

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may read."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed consumers may read: before the first open transaction."""

    def append(self, records: bytes, leader_epoch: int, now_ms: int) -> tuple[int, int]:
        """Append validated record batches; returns the base offset and the last offset they got."""

    def read(self, offset: int, max_bytes: int, end_offset: int) -> BatchSpan:
        """Whole batches from the one that holds `offset` (or the next later one) on, none starting at or after
        `end_offset`, together at most `max_bytes` but at least one. Raises `OffsetOutOfRangeError` below the start
        offset or above the end."""

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes `read` could return from `offset` up to `end_offset`; 0 if there is nothing."""

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record not older than `timestamp`, None if there is none."""

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch with records that is not above `leader_epoch`, and where the next one began or the log
        ends; (-1, -1) if there is none."""

    def aborted_ranges(self, first: int, last: int) -> Sequence[tuple[int, int, int]]:
        """Aborted transactions that overlap the range, as (producer_id, first_offset, last_offset)."""

    def delete_records(self, before_offset: int) -> int:
        """Raise the start offset; returns the new one."""


class _Aborted(NamedTuple):
    """An aborted transaction. `stable` was the last stable offset after it: later ones begin there or behind."""

    producer_id: int
    first: int
    last: int
    stable: int


def _last(aborted: _Aborted) -> int:
    return aborted.last


class MemoryLog:
    """A `PartitionLog` in memory. It keeps everything until records are deleted; there is no retention.

    All replicas of a partition share it, so the high watermark is always the end.
    """

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._sizes: list[int] = []
        """Bytes of all batches ever appended up to and with this one, so that a span is a difference."""
        self._start_offset = 0
        self._end_offset = 0
        self._epochs: list[tuple[int, int]] = []
        """Leader epochs with records and their first offsets, ascending."""
        self._open: dict[int, int] = {}
        """Open transactions: producer id -> first offset, ascending."""
        self._aborted: list[_Aborted] = []

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def high_watermark(self) -> int:
        return self._end_offset

    @property
    def last_stable_offset(self) -> int:
        return next(iter(self._open.values()), self._end_offset)

    def open_since(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction, None if it has none."""
        return self._open.get(producer_id)

    @property
    def max_timestamp(self) -> int | None:
        """The highest timestamp of any record, None for an empty log."""
        return max((batch.max_timestamp for batch in self._batches), default=None)

    def append(self, records: bytes, leader_epoch: int, now_ms: int) -> tuple[int, int]:
        """See `PartitionLog.append`. `records` holds at least one batch."""
        first = self._end_offset
        if not self._epochs or self._epochs[-1][0] < leader_epoch:
            self._epochs.append((leader_epoch, first))
        for produced in iter_batches(records):
            self._append_batch(produced, leader_epoch, now_ms)
        assert self._end_offset > first, "nothing was appended"
        return first, self._end_offset - 1

    def _append_batch(self, produced: RecordBatch, leader_epoch: int, now_ms: int) -> None:
        first = self._end_offset
        data, last = self._placed(produced, leader_epoch)
        stored = StoredBatch(
            base_offset=first,
            last_offset=last,
            max_timestamp=produced.max_timestamp,
            data=data,
            is_control=produced.is_control,
            is_transactional=produced.is_transactional,
            producer_id=produced.producer_id,
            appended_at_ms=now_ms,
        )
        if produced.is_control:
            self._end_transaction(produced, last)
        elif produced.is_transactional:
            self._open.setdefault(produced.producer_id, first)
        self._sizes.append((self._sizes[-1] if self._sizes else 0) + len(data))
        self._batches.append(stored)
        self._last_offsets.append(last)
        self._end_offset = last + 1

    def _placed(self, batch: RecordBatch, leader_epoch: int) -> tuple[bytes, int]:
        """The batch's bytes at the end of the log, and its last offset there. A message of an old format has its
        offsets inside, and keeps them."""
        if batch.magic == MAGIC:
            last = self._end_offset + batch.last_offset - batch.base_offset
            return with_offsets(batch.data, self._end_offset, leader_epoch), last
        if batch.last_offset < self._end_offset:
            raise InvalidArgumentError(
                f"a message of format {batch.magic} keeps its offset, {batch.last_offset}, and the log has that already"
            )
        return bytes(batch.data), batch.last_offset

    def _end_transaction(self, batch: RecordBatch, last_offset: int) -> None:
        first = self._open.pop(batch.producer_id, None)
        key = batch.records()[0][2]
        assert key is not None, "a control record has a key"
        _, kind = _CONTROL_KEY.unpack_from(key)
        if first is not None and kind == _ABORT:
            self._aborted.append(_Aborted(batch.producer_id, first, last_offset, self.last_stable_offset))

    def read(self, offset: int, max_bytes: int, end_offset: int) -> BatchSpan:
        """See `PartitionLog.read`."""
        if not self._start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRangeError(f"{offset} is not within {self._start_offset} to {self._end_offset}")
        first = bisect_left(self._last_offsets, offset)
        before = self._sizes[first - 1] if first else 0
        fit = bisect_right(self._sizes, before + max_bytes)
        return BatchSpan(self._batches, first, min(max(fit, first + 1), self._behind(end_offset)))

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """See `PartitionLog.bytes_between`."""
        if offset >= end_offset:
            return 0
        first = bisect_left(self._last_offsets, max(offset, self._start_offset))
        last = self._behind(end_offset)
        if last <= first:
            return 0
        return self._sizes[last - 1] - (self._sizes[first - 1] if first else 0)

    def _behind(self, end_offset: int) -> int:
        """The index behind the last batch that begins before this offset."""
        index = bisect_left(self._last_offsets, end_offset - 1)
        if index < len(self._batches) and self._batches[index].base_offset < end_offset:
            index += 1
        return index

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """See `PartitionLog.offset_for_timestamp`."""
        for stored in self._batches:
            if stored.max_timestamp < timestamp or stored.last_offset < self._start_offset:
                continue
            (batch,) = iter_batches(stored.data)
            for offset, record_timestamp, *_ in batch.iter_records():
                if record_timestamp >= timestamp and offset >= self._start_offset:
                    return offset, record_timestamp
        return None

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """See `PartitionLog.epoch_end`."""
        found = -1
        for epoch, first in self._epochs:
            if epoch > leader_epoch:
                return (found, first) if found >= 0 else (-1, -1)
            found = epoch
        return (found, self._end_offset) if found >= 0 else (-1, -1)

    def aborted_ranges(self, first: int, last: int) -> Sequence[tuple[int, int, int]]:
        """See `PartitionLog.aborted_ranges`."""
        found = []
        for index in range(bisect_left(self._aborted, first, key=_last), len(self._aborted)):
            one = self._aborted[index]
            if one.first <= last:
                found.append((one.producer_id, one.first, one.last))
            if one.stable > last:
                break
        return found

    def delete_records(self, before_offset: int) -> int:
        """See `PartitionLog.delete_records`. The batch that holds the new start offset stays whole."""
        self._start_offset = max(self._start_offset, min(before_offset, self._end_offset))
        gone = bisect_left(self._last_offsets, self._start_offset)
        del self._batches[:gone], self._last_offsets[:gone]
        dropped = self._sizes[gone - 1] if gone else 0
        self._sizes = [size - dropped for size in self._sizes[gone:]]
        self._aborted = [one for one in self._aborted if one.last >= self._start_offset]
        return self._start_offset

    def check(self) -> None:
        """Assert the invariants."""
        assert 0 <= self._start_offset <= self._end_offset
        assert self._start_offset <= self.last_stable_offset <= self._end_offset or self._open
        assert len(self._batches) == len(self._last_offsets) == len(self._sizes)
        expected = self._batches[0].base_offset if self._batches else self._end_offset
        for batch in self._batches:
            assert batch.base_offset == expected
            expected = batch.last_offset + 1
        assert expected == self._end_offset
