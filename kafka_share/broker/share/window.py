"""The window of a share partition: its cached batches in order, start and end offset, locks, gaps.

Used by `partition` and `acquisition` only. Batches never overlap; `end_offset` is the last offset ever acquired
or loaded, and the offset to read next while nothing is in flight.

A window that was loaded from stored state can have *gaps*: offsets between stored batches that were acquired but never
written. They are read again before anything beyond the loaded end.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.share.record_state import ACQUIRED, AVAILABLE, InFlightBatch, InFlightState, RecordState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_LOCK_NOTES: Final = 16_384
"""Above this many notes of lock ends the stale ones are thrown out."""


@attrs.define
class GapWindow:
    """Offsets from `start` to `end` may be missing in the window and have to be read again."""

    start: int
    end: int


def _first(batch: InFlightBatch) -> int:
    return batch.first


class InFlightWindow:
    """Batches in ascending order. All changes of their states are the share partition's business."""

    def __init__(
        self,
        start_offset: int,
        *,
        sees_pending_releases: bool = False,
        first_lock_starts: Callable[[int], None] | None = None,
    ) -> None:
        self.start_offset: int = start_offset
        self.sees_pending_releases = sees_pending_releases
        """Whether the next fetch offset may be one whose release is not stored yet."""
        self.end_offset: int = start_offset
        self.batches: list[InFlightBatch] = []
        self.gaps: GapWindow | None = None
        self._free_from: int | None = None
        """No offset below it can be acquired; None: none at all. Spares a search through what is held or finished."""
        self._finished = 0
        """How many offsets from the start offset on are finished: in a terminal state, stored or not."""
        self._first_lock_starts = first_lock_starts
        """Told when a lock starts that ends before all others."""
        self._lock_notes: list[tuple[int, int]] = []
        """Heap of (end of the lock, first offset); a note is stale unless the state there says the same. A lock whose
        end was rolled back may have two."""

    # ---- batches

    def append(self, batch: InFlightBatch) -> None:
        """Add a loaded batch behind all others."""
        assert not self.batches or self.batches[-1].last < batch.first
        self.batches.append(batch)
        self.came_free(self.start_offset)  # a gap may lie before it
        for first, last, state in batch.pieces():
            if state.state.is_terminal:
                self.finished(first, last)

    def insert(self, batch: InFlightBatch) -> None:
        """Add a batch that was just acquired, in whole or in part; the window grows to its end if need be."""
        at = bisect_left(self.batches, batch.first, key=_first)
        assert at == 0 or self.batches[at - 1].last < batch.first, "a batch is inserted over another one"
        assert at == len(self.batches) or batch.last < self.batches[at].first, "a batch is inserted over another one"
        self.batches.insert(at, batch)
        for first, last, state in batch.pieces():
            if state.state is ACQUIRED:
                self.lock_started(first, state)
            elif state.acquirable:
                self.came_free(first)
            else:
                self.finished(first, last)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The batch that holds `offset`, or else the one before it."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def between(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """The batches that begin in the range."""
        low = bisect_left(self.batches, first, key=_first)
        return self.batches[low : bisect_right(self.batches, last, key=_first)]

    # ---- offsets

    @property
    def span(self) -> int:
        """How many offsets the window covers, finished ones and gaps included: what the record lock limit is about."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def gaps_active(self) -> bool:
        return self.gaps is not None and self.gaps.end == self.end_offset

    def next_fetch_offset(self) -> int:
        """The first offset that could be acquired: one in the window, else the first one after it."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            self._free_from = None
            return self.end_offset
        if self._free_from is not None:
            found = self._first_in_gaps() if self.gaps_active else self._first_free(self._free_from)
            if found is not None:
                return found
            self._free_from = None
        return self.end_offset + 1

    def came_free(self, offset: int) -> None:
        """The offset, and maybe some behind it, may be acquired now, or as soon as what is pending is stored."""
        self._free_from = offset if self._free_from is None else min(offset, self._free_from)

    def _first_free(self, offset: int) -> int | None:
        """The first one from the offset on; remembered, so that nobody looks before it again."""
        for index in range(max(0, bisect_right(self.batches, offset, key=_first) - 1), len(self.batches)):
            found = self.batches[index].first_available(offset, even_pending=self.sees_pending_releases)
            if found is not None:
                self._free_from = found
                return found
        return None

    def _first_in_gaps(self) -> int | None:
        assert self.gaps is not None
        gap_start = self.gaps.start
        for batch in self.batches:
            if batch.first > gap_start:
                return gap_start
            gap_start = max(batch.last + 1, gap_start)
            found = batch.first_available(batch.first, even_pending=self.sees_pending_releases)
            if found is not None:
                return found
        return None

    def gaps_read_up_to(self, offset: int) -> None:
        """Everything before `offset` has been read; the gaps are done with at the end of the loaded window."""
        if self.gaps is None:
            return
        if self.gaps_active and offset <= self.gaps.end:
            self.gaps.start = offset
        else:
            self.gaps = None

    def delivery_complete_count(self) -> int:
        """Finished offsets from the start offset on: the lag is counted without them."""
        return self._finished

    def finished(self, first: int, last: int) -> None:
        """These offsets of one batch have gone to a terminal state."""
        self._finished += max(0, last - max(first, self.start_offset) + 1)

    def unfinished(self, first: int, last: int) -> None:
        """They have not, after all: the change could not be stored."""
        self._finished -= max(0, last - max(first, self.start_offset) + 1)

    def _count_anew(self) -> None:
        """The start offset has moved over offsets that need not be finished, or back."""
        self._finished = self._counted()

    def _counted(self) -> int:
        return sum(
            last - max(first, self.start_offset) + 1
            for batch in self.batches
            if batch.last >= self.start_offset
            for first, last, state in batch.pieces()
            if state.state.is_terminal and last >= self.start_offset
        )

    def begin_at(self, offset: int) -> None:
        """Offsets from here on come into the window, in front of all that are in it."""
        self.start_offset = offset
        self._count_anew()

    def drop_finished(self) -> bool:
        """Drop the finished front of the window and move the start offset behind it; returns whether it could."""
        if not self._front_is_finished():
            return False
        last_finished = self._last_finished()
        if last_finished is None:
            return False
        if last_finished == self.batches[-1].last:
            # Kafka 4.3 falls back here to below a start that deleted records have raised, until the next read
            self.start_offset = self.end_offset = max(self.start_offset, last_finished + 1)
            self.batches.clear()
            self._lock_notes.clear()
            self._finished = 0
            return True
        at = bisect_right(self.batches, last_finished, key=_first) - 1
        for batch in self.batches[: at + 1]:
            self.unfinished(batch.first, min(batch.last, last_finished))
        if self.batches[at].last == last_finished:
            at += 1
            self.start_offset = max(self.start_offset, self.batches[at].first)
            if self.gaps is not None and self.gaps_active:
                self.start_offset = min(self.gaps.start, self.start_offset)
        else:
            self.start_offset = max(self.start_offset, last_finished + 1)
        del self.batches[:at]
        return True

    def _front_is_finished(self) -> bool:
        floor = self.floor(self.start_offset)
        if floor is None:
            return False  # a gap that has to be read again comes first
        state = floor.at(min(self.start_offset, floor.last))
        return state.pending_from is None and state.state.is_terminal

    def _last_finished(self) -> int | None:
        last_finished = None
        for batch in self.batches:
            if self.gaps is not None and self.gaps_active and batch.last >= self.gaps.start:
                break
            finished = batch.finished_up_to()
            last_finished = last_finished if finished is None else finished
            if finished != batch.last:
                return last_finished
        return last_finished

    def raise_start(self, log_start: int) -> None:
        """The log begins at `log_start` now: AVAILABLE offsets below it are archived, held ones stay until they end."""
        if log_start <= self.start_offset:
            return
        if self.batches:
            self.archive(self.start_offset, log_start - 1, only=AVAILABLE)
            if self.gaps is not None and self.gaps.start < log_start:
                # Kafka 4.3 leaves the gap where it was: each fetch reads there, in vain, and nothing is handed out.
                self.gaps_read_up_to(log_start)
        else:
            self.end_offset = log_start
        self.start_offset = log_start
        self.end_offset = max(self.end_offset, log_start)
        self._count_anew()

    def archive(self, first: int, last: int, *, only: RecordState) -> None:
        """Archive what is in state `only` from `first` to `last`; batches that reach beyond are split.

        What waits for its write stays as it is: whoever ends that looks whether it may still be delivered.
        """
        floor = self.floor(first)
        for batch in self.between(first if floor is None else floor.first, last):
            if batch.last < first or (batch.whole is not None and batch.whole.pending_from is not None):
                continue
            if batch.whole is not None and batch.lies_within(first, last):
                if batch.whole.state == only:
                    batch.whole.archive()
                    self.finished(batch.first, batch.last)
            elif batch.whole is None or batch.whole.state == only:
                self.split(batch)
                for offset, state in batch.within(first, last):
                    if state.state == only and state.pending_from is None:
                        state.archive()
                        self.finished(offset, offset)

    # ---- locks

    def lock_started(self, first: int, state: InFlightState) -> None:
        """Note when the lock of the batch or offset that begins at `first` ends, if it does."""
        if state.lock_expires_at_ms is None:
            return
        if len(self._lock_notes) >= _MAX_LOCK_NOTES:
            self._lock_notes = [note for note in dict.fromkeys(self._lock_notes) if self._locked(note) is not None]
            heapq.heapify(self._lock_notes)
        is_first = not self._lock_notes or state.lock_expires_at_ms < self._lock_notes[0][0]
        heapq.heappush(self._lock_notes, (state.lock_expires_at_ms, first))
        if is_first and self._first_lock_starts is not None:
            self._first_lock_starts(state.lock_expires_at_ms)

    def split(self, batch: InFlightBatch) -> None:
        """Go over to one state per offset; if the batch is held, each offset has a lock of its own from now on."""
        if batch.whole is None:
            return
        batch.split()
        for first, _, state in batch.pieces():
            if state.state is ACQUIRED and first != batch.first:
                self.lock_started(first, state)

    def next_lock_end_at_ms(self) -> int | None:
        while self._lock_notes:
            if self._locked(self._lock_notes[0]) is not None:
                return self._lock_notes[0][0]
            heapq.heappop(self._lock_notes)
        return None

    def take_expired(self, now_ms: int) -> list[tuple[int, int, InFlightState]]:
        """(first, last, state) whose lock has ended, each once. One that reaches below the start offset is split."""
        expired: list[tuple[int, int, InFlightState]] = []
        seen: set[int] = set()
        while self._lock_notes and self._lock_notes[0][0] <= now_ms:
            note = heapq.heappop(self._lock_notes)
            batch = self._locked(note)
            if batch is None or note[1] in seen:
                continue
            if batch.whole is not None and batch.first < self.start_offset <= batch.last:
                self.split(batch)
            last = batch.last if batch.whole is not None else note[1]
            seen.add(note[1])
            expired.append((note[1], last, batch.at(note[1])))
        return sorted(expired, key=lambda piece: piece[0])

    def _locked(self, note: tuple[int, int]) -> InFlightBatch | None:
        """The batch whose lock the note is about, None if the note is stale.

        It is, too, while a change waits for its write: if that fails the lock is noted anew.
        """
        expires_at_ms, first = note
        batch = self.floor(first)
        if batch is None or batch.last < first or (batch.whole is not None and batch.first != first):
            return None
        state = batch.at(first)
        return batch if state.lock_expires_at_ms == expires_at_ms and state.pending_from is None else None

    def check(self) -> None:
        """Assert order and borders, and that no lock is without a note."""
        notes = set(self._lock_notes)
        before = None
        for batch in self.batches:
            assert batch.first <= batch.last
            assert before is None or before < batch.first, "batches overlap"
            assert batch.whole is not None or len(batch.offsets) == batch.size
            before = batch.last
            for first, _, state in batch.pieces():
                assert not state.acquirable or (self._free_from is not None and self._free_from <= first)
                if state.state is ACQUIRED and state.lock_expires_at_ms is not None:
                    assert (state.lock_expires_at_ms, first) in notes, f"the lock of {first} is not watched"
        if self.batches:
            assert before is not None
            assert self.end_offset >= before
        assert self._finished == self._counted()
