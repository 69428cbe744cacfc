"""How a share partition acquires records for a member: which offsets, in which ranges, under which locks.

Called by `ShareNode` with what it read from the log. The rules, all of them Kafka 4.3's (`SharePartition.acquire`):

- The budget is `max_records`, cut to what is left of the record lock limit. In the mode batch_optimized it is rounded
  up to the end of a record batch; in record_limit it is exact, and what is left of a cut batch stays AVAILABLE.
- New offsets are reported in ranges along record batch borders, merged until one has at least `batch_size` offsets
  (record_limit: one range). Offsets that were in flight before keep the borders of their cached batch.
- Records that were delivered often are given out in ever smaller portions, so that a record which kills its consumers
  takes fewer and fewer others with it; the last attempt goes out alone.
- read_committed: batches of aborted transactions are archived instead of delivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.share.exchange import AcquireMode
from kafka_share.broker.share.record_state import ACQUIRED, AVAILABLE, InFlightBatch, InFlightState
from kafka_share.protocol.share_values import AcquiredRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.storage.stored_batch import BatchSpan, StoredBatch


@attrs.frozen
class LogRead:
    """Whole record batches as read from `fetch_offset` on, and the aborted transactions that reach into them."""

    fetch_offset: int
    batches: BatchSpan
    aborted: Sequence[tuple[int, int, int]] = ()
    """(producer_id, first_offset, last_offset); empty unless the group is read_committed."""


def offset_to_read(partition: SharePartition) -> int | None:
    """Where a fetch should read this partition; None if it should not look there at all: nothing is free in the window
    while it is full."""
    if not partition.active:
        return None
    window = partition.window
    offset = window.next_fetch_offset()
    if offset == window.end_offset + 1 and window.span >= partition.settings().max_record_locks:
        return None
    return offset


def throttle_from(delivery_count_limit: int) -> int:
    """The number of deliveries after which records go out in smaller portions (Kafka 4.2 and later)."""
    return max(2, -(-delivery_count_limit // 2))


def acquire(
    partition: SharePartition,
    member: str,
    mode: AcquireMode,
    batch_size: int,
    max_records: int,
    read: LogRead,
    now_ms: int,
) -> list[AcquiredRange]:
    """Acquire what the read allows; the ranges as they go into the answer, ascending."""
    if not partition.active or max_records <= 0 or not read.batches:
        return []
    return _Acquisition(partition, member, mode, batch_size, read, now_ms).run(max_records)


class _Acquisition:
    """One acquire: its parameters, its result so far and what is left of its budget."""

    def __init__(
        self,
        partition: SharePartition,
        member: str,
        mode: AcquireMode,
        batch_size: int,
        read: LogRead,
        now_ms: int,
    ) -> None:
        settings = partition.settings()
        self.window = partition.window
        self.batch_sizes = partition.batch_sizes
        self.behaviour = partition.behaviour
        self.member = member
        self.exact = mode is AcquireMode.RECORD_LIMIT
        self.batch_size = batch_size
        self.read = read
        self.limit = settings.delivery_count_limit
        self.max_record_locks = settings.max_record_locks
        self.lock_expires_at_ms = now_ms + settings.record_lock_duration_ms
        self.base_offset = read.batches[0].base_offset
        self.last_offset = read.batches[-1].last_offset
        self.ranges: list[AcquiredRange] = []
        self.taken = 0
        self.budget = 0

    def run(self, max_records: int) -> list[AcquiredRange]:
        window = self.window
        if self.last_offset < window.start_offset:
            return []
        self._set_budget(max_records)
        if self.budget <= 0:
            return []
        self._archive_hole()
        first = self._first_offset()
        cached = window.between(min(first, self.base_offset), self.last_offset)
        if not cached:
            self._acquire_new(first, self.last_offset)
        else:
            self._acquire_cached(first, cached)
            if self.taken < self.budget and cached[-1].last < self.last_offset:
                self._acquire_new(cached[-1].last + 1, self.last_offset)
            if self.ranges:
                window.gaps_read_up_to(self.ranges[-1].last + 1)
        return self._without_aborted()

    def _set_budget(self, max_records: int) -> None:
        window = self.window
        self.budget = min(max_records, self.max_record_locks - window.span)
        if self.budget <= 0 and self.read.fetch_offset <= window.end_offset:
            # the window is full: what is free inside it may still be taken
            self.budget = min(max_records, window.end_offset - self.read.fetch_offset + 1)
            self.last_offset = min(self.last_offset, window.end_offset)

    def _archive_hole(self) -> None:
        """The log gave a later first offset than asked for: what is AVAILABLE before it does not exist any more."""
        if self.window.batches and self.read.fetch_offset < self.base_offset:
            self.window.archive(self.read.fetch_offset, self.base_offset - 1, only=AVAILABLE)

    def _first_offset(self) -> int:
        floor = self.window.floor(self.base_offset)
        if floor is None:
            return max(self.base_offset, self.window.start_offset)
        return floor.first if floor.last >= self.base_offset else self.base_offset

    # ---- offsets that are in the window already

    def _acquire_cached(self, first: int, cached: Sequence[InFlightBatch]) -> None:
        gap_start = first
        for batch in cached:
            if self.taken >= self.budget:
                return
            if self.window.gaps_active:
                if gap_start < batch.first:
                    self._acquire_new(gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if self.taken >= self.budget:
                    return
            throttled = self._is_throttled(batch)
            if throttled and self.taken:
                self.budget = 0  # such records wait for a fetch of their own
                return
            taken = self._acquire_batch(batch, throttled)
            self.taken += taken
            if throttled and taken:
                self.budget = 0
                return

    def _acquire_batch(self, batch: InFlightBatch, throttled: bool) -> int:
        in_parts = (
            throttled
            or not batch.lies_within(self.base_offset, self.last_offset)
            or (self.exact and batch.size > self.budget - self.taken)
        )
        if batch.whole is not None:
            if not batch.whole.acquirable:
                return 0
            if not in_parts:
                batch.whole.acquire(self.member, self.lock_expires_at_ms)
                self.window.lock_started(batch.first, batch.whole)
                self.ranges.append(AcquiredRange(batch.first, batch.last, batch.whole.count))
                return batch.size
            self.window.split(batch)
        return self._acquire_offsets(batch)

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        if not self.behaviour.throttles_deliveries:
            return False
        low, high = max(batch.first, self.base_offset), min(batch.last, self.last_offset)
        states = [batch.whole] if batch.whole is not None else [state for _, state in batch.within(low, high)]
        return any(state.acquirable and state.count >= throttle_from(self.limit) for state in states)

    def _acquire_offsets(self, batch: InFlightBatch) -> int:
        """Take the free offsets of a split batch; record_limit and throttling take only the first of them."""
        taken, portion = 0, None
        throttled = self.behaviour.throttles_deliveries
        budget = self.budget - self.taken if self.exact else None
        ranges: list[AcquiredRange] = []
        for offset, state in batch.within(self.base_offset, self.last_offset):
            if not state.acquirable:
                continue
            last_attempt = throttled and self.limit > 2 and state.count == self.limit - 1
            if last_attempt and taken:
                break
            if throttled and portion is None and state.count >= throttle_from(self.limit):
                portion = max(1, batch.size >> (state.count - throttle_from(self.limit) + 1))
            state.acquire(self.member, self.lock_expires_at_ms)
            self.window.lock_started(offset, state)
            taken += 1
            before = ranges[-1] if ranges and self.behaviour.joins_acquired_offsets else None
            if before is not None and before.last + 1 == offset and before.delivery_count == state.count:
                ranges[-1] = before._replace(last=offset)
            else:
                ranges.append(AcquiredRange(offset, offset, state.count))
            if last_attempt or taken in (budget, portion):
                break
        self.ranges.extend(ranges)
        return taken

    # ---- offsets that come into the window

    def _acquire_new(self, first: int, last: int) -> None:
        """Take offsets that the window does not know.

        Some may lie below its start offset: records were deleted up to the middle of a record batch, and a batch in the
        window lies before. Kafka hands them out nevertheless.
        """
        window = self.window
        if not window.batches:
            first = max(first, window.end_offset)
        budget = self.budget - self.taken
        if budget < last - first + 1:
            rounded = self._end_of_record_batch(first + budget - 1)
            last = min(rounded, last) if window.gaps_active else rounded
        if not window.batches or first < window.batches[0].first:
            window.begin_at(first)
        window.end_offset = max(window.end_offset, last)
        if self.exact and last - first + 1 > budget:
            last = self._insert_in_part(first, last, budget)
        else:
            for low, high in [(first, last)] if self.exact else self._along_record_batches(first, last):
                if low <= high:
                    window.insert(InFlightBatch(low, high, self._acquired()))
                    self.batch_sizes.add(high - low + 1)
                self.ranges.append(AcquiredRange(low, high, 1))
        window.gaps_read_up_to(last + 1)
        self.taken += last - first + 1

    def _acquired(self) -> InFlightState:
        return InFlightState(ACQUIRED, 1, self.member, self.lock_expires_at_ms)

    def _insert_in_part(self, first: int, last: int, count: int) -> int:
        offsets = [self._acquired() if i < count else InFlightState(AVAILABLE, 0) for i in range(last - first + 1)]
        for state in offsets[count : max(count, self.window.start_offset - first)]:
            # Kafka 4.3 leaves what was deleted AVAILABLE: each fetch reads there, in vain, for good.
            state.archive()
        self.window.insert(InFlightBatch(first, last, None, offsets))
        self.batch_sizes.add(last - first + 1)
        self.ranges.append(AcquiredRange(first, first + count - 1, 1))
        return first + count - 1

    def _end_of_record_batch(self, offset: int) -> int:
        """The last offset of the record batch that holds `offset`; `offset` itself if it lies in a hole of the log."""
        at = self.read.batches.at_or_before(offset)
        return offset if at < 0 else max(offset, self.read.batches[at].last_offset)

    def _along_record_batches(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of at least `batch_size` offsets that begin where record batches begin.

        A size below 1 is not refused by Kafka: it adds an empty range in front, as it does here.
        """
        ranges = []
        if last - first + 1 > self.batch_size:
            for batch in self.read.batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset >= first and batch.base_offset - first >= self.batch_size:
                    ranges.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        ranges.append((first, last))
        return ranges

    # ---- isolation

    def _without_aborted(self) -> list[AcquiredRange]:
        if not self.read.aborted:
            return self.ranges
        aborted = [batch for batch in self.read.batches if self._is_aborted(batch)]
        for batch in aborted:
            self.window.archive(batch.base_offset, batch.last_offset, only=ACQUIRED)
        ranges = self.ranges
        for batch in aborted:
            ranges = [piece for found in ranges for piece in _cut_out(found, batch.base_offset, batch.last_offset)]
        return ranges

    def _is_aborted(self, batch: StoredBatch) -> bool:
        return (
            batch.is_transactional
            and not batch.is_control
            and any(
                producer_id == batch.producer_id and first <= batch.last_offset and batch.base_offset <= last
                for producer_id, first, last in self.read.aborted
            )
        )


def _cut_out(found: AcquiredRange, first: int, last: int) -> list[AcquiredRange]:
    if found.last < first or found.first > last:
        return [found]
    pieces = (found._replace(last=first - 1), found._replace(first=last + 1))
    return [piece for piece in pieces if piece.first <= piece.last]
