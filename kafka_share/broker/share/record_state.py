"""The state of the records that a share partition has in flight, by batch or by offset.

Used by `partition` only. A batch has one state for all its offsets until something concerns a part of it; from
then on it has one state per offset, for good. Theory of operation, as KIP-932 draws it::

    AVAILABLE --acquire (count + 1)--> ACQUIRED --accept--------------------------> ACKNOWLEDGED (terminal)
        ^                                 | |  '--reject, gap----------------------> ARCHIVED     (terminal)
        '-- release, lock end, session -- ' '---the same with count = limit--------> ARCHIVED
    AVAILABLE --log start moved past it, aborted transaction, hole in the log------> ARCHIVED

With a dead-letter queue (Kafka 4.4) rejected records, and those with count = limit, are ARCHIVING until their dead
letter is written.

A change that has to be stored first is *pending* until the write has ended: the new state is visible, but the record
cannot be acquired or acknowledged, and its lock is still there if the write fails.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY: Final = ""
"""The member of a record that nobody holds."""


class RecordState(enum.IntEnum):
    """Delivery states by their ids on the wire and in the stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ARCHIVING, ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED


@attrs.define
class InFlightState:
    """What is known of one record, or of all records of a batch."""

    state: RecordState
    count: int
    member: str = NOBODY
    lock_expires_at_ms: int | None = None
    """Of what is ACQUIRED; None for a lock that does not end by time."""
    pending_from: str | None = None
    """While a change waits for its write: who held the record before. None if no change is pending."""

    @property
    def acquirable(self) -> bool:
        return self.state is AVAILABLE and self.pending_from is None

    @property
    def is_finished(self) -> bool:
        """In a terminal state that is stored, or need not be."""
        return self.state.is_terminal and self.pending_from is None

    def acquire(self, member: str, lock_expires_at_ms: int) -> None:
        """One more delivery."""
        assert self.acquirable
        self.state, self.member, self.lock_expires_at_ms = ACQUIRED, member, lock_expires_at_ms
        self.count += 1

    def leave_acquired(self, state: RecordState, limit: int, spent: RecordState = ARCHIVED) -> None:
        """Leave ACQUIRED for `state`; a record at its delivery limit goes to `spent` instead of becoming AVAILABLE."""
        assert self.state is ACQUIRED
        if state is AVAILABLE and self.count >= limit:
            state = spent
        self.state, self.member, self.lock_expires_at_ms = state, NOBODY, None

    def begin(self, state: RecordState, limit: int, spent: RecordState = ARCHIVED) -> None:
        """As `leave_acquired`, but pending: `commit` or `roll_back` has to follow."""
        assert self.pending_from is None
        member, expires_at_ms = self.member, self.lock_expires_at_ms
        self.leave_acquired(state, limit, spent)
        self.pending_from, self.lock_expires_at_ms = member, expires_at_ms

    def commit(self) -> None:
        self.pending_from = self.lock_expires_at_ms = None

    def roll_back(self, locks_lost_by_ms: int | None) -> None:
        """The write failed: held as before. The lock is the same, even if its time has run out meanwhile; but one that
        was to end by `locks_lost_by_ms` never does."""
        assert self.pending_from is not None
        self.state, self.member, self.pending_from = ACQUIRED, self.pending_from, None
        ends_at_ms = self.lock_expires_at_ms
        if locks_lost_by_ms is not None and ends_at_ms is not None and ends_at_ms <= locks_lost_by_ms:
            self.lock_expires_at_ms = None

    def archive(self) -> None:
        """Whatever it is now, it is not to be delivered again."""
        self.state, self.member, self.lock_expires_at_ms = ARCHIVED, NOBODY, None

    def copy(self) -> InFlightState:
        return attrs.evolve(self)


@attrs.define(eq=False)
class InFlightBatch:
    """Neighbouring offsets that were acquired, or loaded, together; the borders stay for good."""

    first: int
    last: int
    whole: InFlightState | None
    """The state of all offsets; None once there is one per offset."""
    offsets: list[InFlightState] = attrs.Factory(list)
    _finished: int = 0
    """How many of the first offsets have been seen finished: they stay so."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def split(self) -> None:
        """Go over to one state per offset."""
        if self.whole is not None:
            assert self.whole.pending_from is None, "a batch is not split under a pending change"
            self.offsets = [self.whole.copy() for _ in range(self.size)]
            self.whole = None

    def at(self, offset: int) -> InFlightState:
        """The state of one offset of the batch."""
        return self.whole if self.whole is not None else self.offsets[offset - self.first]

    def within(self, first: int, last: int) -> Iterator[tuple[int, InFlightState]]:
        """(offset, state) of a split batch's offsets in the range, ascending."""
        assert self.whole is None
        low = max(first, self.first)
        return enumerate(self.offsets[low - self.first : max(0, last - self.first + 1)], low)

    def pieces(self) -> Iterator[tuple[int, int, InFlightState]]:
        """(first, last, state): the batch as one piece, or each offset as one."""
        if self.whole is not None:
            yield self.first, self.last, self.whole
        else:
            for offset, state in enumerate(self.offsets, self.first):
                yield offset, offset, state

    def lies_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def first_available(self, offset: int, *, even_pending: bool) -> int | None:
        """The first AVAILABLE offset from `offset` on; with `even_pending` also one that cannot be acquired before its
        write ends."""
        pieces = self.within(offset, self.last) if self.whole is None else ((self.first, self.whole),)
        for first, state in pieces:
            if state.state is AVAILABLE and (even_pending or state.pending_from is None):
                return first
        return None

    def finished_up_to(self) -> int | None:
        """The last of the first offsets that are finished for good, None if the first one is not."""
        if self.whole is not None:
            return self.last if self.whole.is_finished else None
        while self._finished < self.size and self.offsets[self._finished].is_finished:
            self._finished += 1
        return self.first + self._finished - 1 if self._finished else None
