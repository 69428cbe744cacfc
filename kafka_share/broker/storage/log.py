"""The log of one partition: the interface that share partitions see, and the log in memory.

Called by the cluster (produce, fetch, list offsets, delete records), by retention, by the log cleaner, and by share
partitions (read). With `LogFiles` it writes what is appended to files as well, before it changes anything in memory; it
never reads there. Knows nothing of groups or connections.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafka_share.broker.storage.log_settings import DEFAULTS
from kafka_share.broker.storage.segments import Segment, dirty_segments, old_segments
from kafka_share.broker.storage.stored_batch import BatchSpan, StoredBatch
from kafka_share.broker.storage.transaction_index import TransactionIndex, is_commit
from kafka_share.errors import InvalidArgumentError, OffsetOutOfRangeError
from kafka_share.protocol.record_batches import iter_batches, with_offsets
from kafka_share.protocol.record_format import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from kafka_share.broker.storage.log_settings import LogSettings
    from kafka_share.protocol.record_batches import RecordBatch

_NO_TIMESTAMP: Final = -1


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


class LogFiles(Protocol):
    """Where a log is kept besides, one file for each segment. Segments are named by their base offsets."""

    def append(self, base_offset: int, data: bytes) -> None:
        """Add batches to a segment, which begins with them if there is none yet. Raises `Refusal`; then nothing has
        changed."""

    def start_moved(self, gone: Iterable[int]) -> None:
        """The log begins later now, and these segments lie before its start."""

    def replace(self, base_offset: int, data: bytes, gone: Iterable[int]) -> None:
        """Give a segment that is not written to any more this content, which takes the place of others, too.

        Raises `Refusal`. Whenever the broker is killed, all of it has happened or nothing.
        """

    def cleaned(self) -> None:
        """More of the log is clean now."""

    def delete(self) -> None:
        """The log is no more."""


class _Place(NamedTuple):
    """Where some segments are: the index of the first one, and of their batches."""

    segment: int
    first: int
    stop: int


class Log:
    """A `PartitionLog` in memory. All replicas of a partition share it, so the high watermark is always the end.

    `settings` are asked for whenever they count. With `files` whatever appends may raise `Refusal`.
    """

    def __init__(self, settings: Callable[[], LogSettings] = lambda: DEFAULTS, files: LogFiles | None = None) -> None:
        self._settings = settings
        self._files = files
        self._segments = [Segment(0)]
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._sizes: list[int] = []
        """Bytes of all batches ever appended up to and with this one, so that a span is a difference."""
        self._gone_bytes = 0
        """The same of the last batch that is not there any more."""
        self._start_offset = 0
        self._end_offset = 0
        self._epochs: list[tuple[int, int]] = []
        """Leader epochs with records and their first offsets, ascending."""
        self._transactions = TransactionIndex()
        self._clean_to = 0

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def high_watermark(self) -> int:
        return self._end_offset

    @property
    def last_stable_offset(self) -> int:
        return self._transactions.stable_offset(self._end_offset)

    def open_since(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction, None if it has none."""
        return self._transactions.open_since(producer_id)

    @property
    def max_timestamp(self) -> int | None:
        """The highest timestamp of any record, None for an empty log."""
        return max((batch.max_timestamp for batch in self._batches), default=None)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, to look at; the last one is active."""
        return self._segments

    @property
    def clean_to(self) -> int:
        """What lies before this offset has been compacted."""
        return max(self._clean_to, self._start_offset)

    # ---- writing

    def append(self, records: bytes, leader_epoch: int, now_ms: int) -> tuple[int, int]:
        """See `PartitionLog.append`. `records` holds at least one batch."""
        first = offset = self._end_offset
        placed: list[tuple[RecordBatch, bytes, int]] = []
        size, max_timestamp = 0, _NO_TIMESTAMP
        for batch in iter_batches(records):
            data, last = _placed(batch, offset, leader_epoch)
            placed.append((batch, data, last))
            size += len(data)
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            offset = last + 1
        assert placed, "nothing was appended"
        segment = self._segments[-1]
        if segment.is_full(size, max_timestamp, offset - 1, self._settings(), now_ms):
            segment = Segment(first)
        if self._files is not None:
            self._files.append(segment.base_offset, b"".join(data for _, data, _ in placed))
        if segment is not self._segments[-1]:
            self._segments.append(segment)
        for batch, data, last in placed:
            self._add(batch, data, last, leader_epoch, now_ms)
        return first, self._end_offset - 1

    def _add(self, batch: RecordBatch, data: bytes, last: int, leader_epoch: int, now_ms: int) -> None:
        """Take a batch into the active segment; `data` is what `batch` has become at this place."""
        first = self._end_offset
        if not self._epochs or self._epochs[-1][0] < leader_epoch:
            self._epochs.append((leader_epoch, first))
        self._segments[-1].wrote(len(data), batch.max_timestamp, now_ms)
        if batch.is_control:
            self._transactions.ended(batch, last, first)
        elif batch.is_transactional:
            self._transactions.wrote(batch.producer_id, first)
        self._batches.append(_stored(batch, data, (first, last), now_ms))
        self._sizes.append((self._sizes[-1] if self._sizes else self._gone_bytes) + len(data))
        self._last_offsets.append(last)
        self._end_offset = last + 1

    def begin_segment(self) -> None:
        """What is appended next begins a new segment."""
        if self._segments[-1].size_bytes:
            self._segments.append(Segment(self._end_offset))

    # ---- what lies in the files already, read when the broker starts

    def restore_segment(self, base_offset: int, batches: Iterable[RecordBatch], now_ms: int) -> None:
        """Take a segment of the files, behind all others."""
        if not self._segments[-1].size_bytes:
            self._segments.pop()
        self._segments.append(Segment(base_offset))
        self._end_offset = max(self._end_offset, base_offset)
        for batch in batches:
            self._end_offset = batch.base_offset
            self._add(batch, bytes(batch.data), batch.last_offset, batch.partition_leader_epoch, now_ms)

    def restored(self, start_offset: int, clean_to: int = 0) -> None:
        """All segments are here. The log begins at this offset, or with the first segment if that is later.

        It was compacted up to `clean_to`, unless it has lost its end since.
        """
        self._clean_to = clean_to if clean_to <= self._end_offset else 0
        self._end_offset = max(self._end_offset, start_offset)
        self.begin_segment()
        if not self._batches:
            self._segments = [Segment(self._end_offset)]
        self._start_offset = max(start_offset, self._segments[0].base_offset)
        self._forget_below_start()

    # ---- reading

    def read(self, offset: int, max_bytes: int, end_offset: int) -> BatchSpan:
        """See `PartitionLog.read`."""
        if not self._start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRangeError(f"{offset} is not within {self._start_offset} to {self._end_offset}")
        first = bisect_left(self._last_offsets, offset)
        before = self._sizes[first - 1] if first else self._gone_bytes
        fit = bisect_right(self._sizes, before + max_bytes)
        stop = min(max(fit, first + 1), self._behind(end_offset))
        return BatchSpan(self._batches, first, stop, self._sizes[stop - 1] - before if stop > first else 0)

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """See `PartitionLog.bytes_between`."""
        if offset >= end_offset:
            return 0
        first = bisect_left(self._last_offsets, max(offset, self._start_offset))
        last = self._behind(end_offset)
        if last <= first:
            return 0
        return self._sizes[last - 1] - (self._sizes[first - 1] if first else self._gone_bytes)

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
        return self._transactions.aborted(first, last)

    def open_transactions(self) -> list[tuple[int, int]]:
        """The producers with an open transaction, each with its first offset."""
        return self._transactions.open()

    def ended_since(self, producer_id: int, offset: int) -> tuple[bool, int] | None:
        """(Whether it was committed, the marker's epoch) of the producer's first transaction that ended at this offset
        or behind it; None if none did."""
        for stored in self._batches[bisect_left(self._last_offsets, offset) :]:
            if stored.is_control and stored.producer_id == producer_id:
                (batch,) = iter_batches(stored.data)
                if batch.record_count:
                    return is_commit(batch), batch.producer_epoch
        return None

    # ---- what goes

    def delete_records(self, before_offset: int) -> int:
        """See `PartitionLog.delete_records`. The batch that holds the new start offset stays whole."""
        start_offset = min(before_offset, self._end_offset)
        if start_offset <= self._start_offset:
            return self._start_offset
        self._start_offset = start_offset
        gone = self._forget_below_start()
        if self._files is not None:
            self._files.start_moved(segment.base_offset for segment in gone)
        return self._start_offset

    def _forget_below_start(self) -> list[Segment]:
        """Forget the batches below the log's start; returns the segments that are no more."""
        gone = bisect_left(self._last_offsets, self._start_offset)
        if gone:
            self._gone_bytes = self._sizes[gone - 1]
            del self._batches[:gone], self._last_offsets[:gone], self._sizes[:gone]
        self._transactions.start_moved(self._start_offset)
        whole = sum(segment.base_offset <= self._start_offset for segment in self._segments[1:])
        segments = self._segments[:whole]
        del self._segments[:whole]
        return segments

    def delete(self) -> None:
        """Delete the files, if there are any: nobody asks for this log any more."""
        self._segments = [Segment(self._end_offset)]  # for a round of compaction that is under way
        if self._files is not None:
            self._files.delete()

    def delete_old(self, now_ms: int) -> bool:
        """Delete the segments that are too old or too much; returns whether the start offset has moved."""
        settings, before = self._settings(), self._start_offset
        gone = old_segments(self._segments, settings, now_ms)
        if not gone:
            return False
        if gone == len(self._segments):
            self._segments.append(Segment(self._end_offset))
        self.delete_records(self._segments[gone].base_offset)
        return self._start_offset > before

    # ---- compaction

    def to_compact(self, now_ms: int) -> Sequence[Segment]:
        """The segments of the next round of compaction; none if it can wait, or the topic is not compacted."""
        settings = self._settings()
        if not settings.is_compacted:
            return []
        count = dirty_segments(self._segments, self.clean_to, self.last_stable_offset, settings, now_ms)
        return self._segments[:count]

    def batches_of(self, segments: Sequence[Segment]) -> Sequence[StoredBatch]:
        """The batches of neighbouring closed segments; none if a segment is not there any more."""
        at = self._place_of(segments)
        return [] if at is None else self._batches[at.first : at.stop]

    def _place_of(self, segments: Sequence[Segment]) -> _Place | None:
        """Where neighbouring closed segments are, None if they are gone."""
        index = next((index for index, segment in enumerate(self._segments) if segment is segments[0]), None)
        if index is None or self._segments[index : index + len(segments)] != list(segments):
            return None
        first = bisect_left(self._last_offsets, segments[0].base_offset)
        stop = bisect_left(self._last_offsets, self._segments[index + len(segments)].base_offset)
        return _Place(index, first, stop)

    def rewrite(self, segments: Sequence[Segment], kept: Sequence[bytes]) -> bool:
        """Make one segment of neighbouring closed ones, with these batches; returns whether they were still there.

        Raises `Refusal`, and has changed nothing then.
        """
        at = self._place_of(segments)
        if at is None:
            return False
        if self._files is not None:
            gone = [segment.base_offset for segment in segments[1:]]
            self._files.replace(segments[0].base_offset, b"".join(kept), gone)
        segment = Segment(segments[0].base_offset)
        appended_at_ms = {batch.base_offset: batch.appended_at_ms for batch in self._batches[at.first : at.stop]}
        batches = []
        for data in kept:
            (batch,) = iter_batches(data)
            segment.wrote(len(data), batch.max_timestamp, segments[-1].written_at_ms)
            offsets = (batch.base_offset, batch.last_offset)
            batches.append(_stored(batch, data, offsets, appended_at_ms[batch.base_offset]))
        self._segments[at.segment : at.segment + len(segments)] = [segment]
        self._batches[at.first : at.stop] = batches
        self._last_offsets[at.first : at.stop] = [batch.last_offset for batch in batches]
        before = self._sizes[at.first - 1] if at.first else self._gone_bytes
        sizes = (len(batch.data) for batch in self._batches[at.first :])
        self._sizes[at.first :] = list(accumulate(sizes, initial=before))[1:]
        return True

    def compacted(self, end_offset: int, gone: Container[tuple[int, int, int]]) -> None:
        """A round is over: everything before this offset has been compacted, and of these aborted transactions there is
        nothing left."""
        self._clean_to = end_offset
        self._transactions.cleaned(gone)
        if self._files is not None:
            self._files.cleaned()

    def check(self) -> None:
        """Assert the invariants."""
        assert 0 <= self._start_offset <= self._end_offset
        assert self._start_offset <= self.last_stable_offset <= self._end_offset or self._transactions.has_open
        assert len(self._batches) == len(self._last_offsets) == len(self._sizes)
        behind = self._segments[0].base_offset
        for batch in self._batches:
            assert batch.base_offset >= behind
            behind = batch.last_offset + 1
        assert behind == self._end_offset or not self._batches
        assert [s.base_offset for s in self._segments] == sorted({s.base_offset for s in self._segments})
        assert self._segments[-1].base_offset <= self._end_offset


def _stored(batch: RecordBatch, data: bytes, offsets: tuple[int, int], appended_at_ms: int) -> StoredBatch:
    first, last = offsets
    return StoredBatch(
        base_offset=first,
        last_offset=last,
        max_timestamp=batch.max_timestamp,
        data=data,
        is_control=batch.is_control,
        is_transactional=batch.is_transactional,
        producer_id=batch.producer_id,
        appended_at_ms=appended_at_ms,
    )


def _placed(batch: RecordBatch, offset: int, leader_epoch: int) -> tuple[bytes, int]:
    """The batch's bytes at an offset of the log, and its last offset there. A message of an old format has its offsets
    inside, and keeps them."""
    if batch.magic == MAGIC:
        return with_offsets(batch.data, offset, leader_epoch), offset + batch.last_offset - batch.base_offset
    if batch.last_offset < offset:
        raise InvalidArgumentError(
            f"a message of format {batch.magic} keeps its offset, {batch.last_offset}, and the log has that already"
        )
    return bytes(batch.data), batch.last_offset
