"""One ShareFetch from its acceptance to its answer: which partitions it may use, and the order in which it reads them.

Made and kept by `ShareNode`. `try_round` looks at the partitions once; it acquires nothing unless that completes the
fetch. The order of reading is Kafka's (`DelayedShareFetch`) and decides who gets a scarce budget: partitions whose
fetch offset has moved since they were last read are read first to see whether there is enough, and served last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.share.acquisition import LogRead, acquire, offset_to_read
from kafka_share.broker.share.exchange import NOTHING_FETCHED, FetchedData
from kafka_share.broker.storage.stored_batch import NO_BATCHES
from kafka_share.errors import OffsetOutOfRangeError, UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.share.exchange import AcquireMode, Outcome
    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.share.sessions import PartitionKey, SessionKey, ShareSession
    from kafka_share.broker.storage.log import PartitionLog
    from kafka_share.broker.storage.stored_batch import BatchSpan, StoredBatch
    from kafka_share.protocol.share_values import AcquiredRange


@attrs.frozen
class FetchLimits:
    """What the request allows, and how the group reads."""

    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode
    read_committed: bool

    def with_mode(self, mode: AcquireMode) -> FetchLimits:
        return self if mode is self.mode else attrs.evolve(self, mode=mode)


@attrs.frozen(eq=False)
class FetchSource:
    """One partition of a fetch."""

    key: PartitionKey
    partition: SharePartition
    log: PartitionLog

    def has_something(self, *, read_committed: bool) -> bool:
        """Whether a fetch that reads here would find records, or find out that they were deleted."""
        offset = offset_to_read(self.partition)
        if offset is None:
            return False
        end = self.log.last_stable_offset if read_committed else self.log.high_watermark
        return offset != end or offset < self.log.start_offset


@attrs.define(eq=False)
class DelayedShareFetch:
    """A ShareFetch in work. It is answered once its data and its acknowledgements are there."""

    context: RequestContext
    owner: SessionKey
    epoch: int
    session: ShareSession | None
    """None for a request that opened its session: its answer lists everything."""
    limits: FetchLimits
    expires_at_ms: int
    sources: list[FetchSource] = attrs.Factory(list)
    fetched: dict[PartitionKey, FetchedData] = attrs.Factory(dict)
    acknowledged: dict[PartitionKey, Outcome] = attrs.Factory(dict)
    is_doomed: bool = False
    """It names a topic that does not exist. Up to 4.3 Kafka finds that out when it has acquired already, and answers
    UNKNOWN_SERVER_ERROR for the request; 4.4 answers UNKNOWN_TOPIC_ID for the partition."""
    is_fetched: bool = False
    is_acknowledged: bool = False
    waiting_id: int | None = None
    """The number that `DelayedShareFetches` knows it by while it waits."""

    def fail(self, key: PartitionKey, code: int) -> None:
        """The answer carries an error for this partition."""
        self.fetched[key] = FetchedData(code)

    def try_round(self, now_ms: int) -> bool:
        """Complete the fetch if it can be answered now; returns whether it took part in any partition's work."""
        return _Round(self).complete_if_enough(now_ms)

    def complete(self, now_ms: int) -> bool:
        """Complete the fetch with whatever there is; returns the same as `try_round`."""
        return _Round(self).complete(now_ms)


_NOTHING_READ: Final = LogRead(-1, NO_BATCHES)
"""Of a partition that is at its end."""


class _Round:
    """One look at the partitions that can be acquired from at this moment."""

    def __init__(self, fetch: DelayedShareFetch) -> None:
        self._fetch = fetch
        self._offsets = {
            source: offset for source in fetch.sources if (offset := offset_to_read(source.partition)) is not None
        }
        self._sources = list(self._offsets)
        self._reads: dict[FetchSource, LogRead | None] = {}
        """None where the offset is out of range."""

    def complete_if_enough(self, now_ms: int) -> bool:
        if not self._sources:
            return False
        if not self._can_share_bytes():
            return self._fail()
        moved = [s for s, offset in self._offsets.items() if s.partition.read_position != offset]
        self._read(moved)
        for source in moved:
            if self._reads[source] is not None:
                source.partition.read_position = self._offsets[source]
        out_of_range = any(read is None for read in self._reads.values())
        return (out_of_range or self._has_min_bytes()) and self.complete(now_ms)

    def _fail(self) -> bool:
        """Kafka trips over a number of bytes that cannot be shared out."""
        for source in self._sources:
            self._fetch.fail(source.key, UnknownServerError.code)
        self._fetch.is_fetched = True
        return True

    def _can_share_bytes(self) -> bool:
        """Only Kafka 4.1 gets here with 0 bytes; later versions have answered such a request before."""
        return self._fetch.limits.max_bytes > 0

    def _share_bytes(self) -> int:
        return self._fetch.limits.max_bytes // len(self._sources)

    def _end_offset(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._fetch.limits.read_committed else log.high_watermark

    def _has_min_bytes(self) -> bool:
        total, wanted, share = 0, self._fetch.limits.min_bytes, self._share_bytes()
        for source, offset in self._offsets.items():
            end = self._end_offset(source.log)
            if offset > end:
                return True
            if offset < end:
                total += min(source.log.bytes_between(offset, end), share)
                if total >= wanted:
                    return True
        return total >= wanted

    def _read(self, sources: Sequence[FetchSource]) -> None:
        """Read from the log. The first partition that has data gets one record batch at least, however big."""
        remaining, unread = self._fetch.limits.max_bytes, True
        for source in sources:
            offset, end = self._offsets[source], self._end_offset(source.log)
            if offset == end and offset >= source.log.start_offset:
                self._reads[source] = _NOTHING_READ
                continue
            allowed = min(self._share_bytes(), remaining)
            try:
                batches = source.log.read(offset, max(allowed, 0), end)
            except OffsetOutOfRangeError:
                self._reads[source] = None
                continue
            size = batches.size_bytes
            if size > allowed and not unread:
                batches, size = NO_BATCHES, 0
            unread = unread and not size
            remaining = max(0, remaining - size)
            self._reads[source] = LogRead(offset, batches, self._aborted(source.log, batches))

    def _aborted(self, log: PartitionLog, batches: Sequence[StoredBatch]) -> Sequence[tuple[int, int, int]]:
        if not self._fetch.limits.read_committed or not batches:
            return ()
        return log.aborted_ranges(batches[0].base_offset, batches[-1].last_offset)

    def complete(self, now_ms: int) -> bool:
        """Acquire from what was read, the partitions that were not read yet first."""
        self._fetch.is_fetched = True
        if self._sources and not self._can_share_bytes():
            return self._fail()
        rest = [source for source in self._sources if source not in self._reads]
        served = [*rest, *(source for source in self._sources if source in self._reads)]
        self._read(rest)
        budget = self._fetch.limits.max_records
        for source in served:
            read = self._reads[source]
            if read is _NOTHING_READ:
                self._fetch.fetched.setdefault(source.key, NOTHING_FETCHED)
                continue
            data = self._serve(source, read, budget, now_ms)
            budget -= sum(last - first + 1 for first, last, _ in data.acquired)
            self._fetch.fetched.setdefault(source.key, data)
        return bool(self._sources)

    def _serve(self, source: FetchSource, read: LogRead | None, budget: int, now_ms: int) -> FetchedData:
        limits = self._fetch.limits
        if read is None:
            # deleted records: the answer is empty, and the next fetch begins at the log's start
            source.partition.log_start_raised(source.log.start_offset)
            return NOTHING_FETCHED
        acquired = acquire(
            source.partition, self._fetch.owner.member_id, limits.mode, limits.batch_size, budget, read, now_ms
        )
        return FetchedData(0, _records(read.batches, acquired), acquired) if acquired else NOTHING_FETCHED


def _records(batches: BatchSpan, acquired: Sequence[AcquiredRange]) -> bytes:
    """The record batches from the one with the first acquired offset to the one with the last."""
    first = max(0, batches.at_or_before(acquired[0].first))
    last = batches.at_or_before(acquired[-1].last)
    return b"".join(batches[index].data for index in range(first, last + 1))
