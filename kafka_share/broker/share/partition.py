"""The share partition: one group's deliveries of one topic partition, on the partition's leader.

Owned by `ShareNode`, which reads the log, keeps sessions and decides who is woken. This machine keeps the *window*:
the offsets from the start offset (everything below is finished) to the end offset (the last one ever acquired), as
batches with one state each, or one per offset (`record_state`). It stores results through the persister, which may
take its time: what follows from that is told to whoever asked, by a call.

A change by an acknowledgement or a release has two steps, because Kafka stores it in between: `acknowledge` and
`release` make the change pending, `complete` writes it and, once that has succeeded, moves the start offset over
finished records. So the write carries the start offset of before the move: what is stored lags one write behind. While
a write is under way nobody can acquire or acknowledge its records, and their locks cannot end; if it fails they are
held as before, and locks whose time is over by then end at once. (Kafka frees those without storing that, or waking
anybody.) The end of a lock changes the state first and writes afterwards, whether or not the write succeeds.

Source: KIP-932, Kafka 4.3's `SharePartition`, and what running brokers answered.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.kafka_version import KAFKA_4_3
from kafka_share.broker.refusals import Refusal, RequestFailedError, as_share_error
from kafka_share.broker.share.dead_letter import DeadLetter, Reason
from kafka_share.broker.share.persister import StateWrite
from kafka_share.broker.share.record_state import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NOBODY,
    InFlightBatch,
    InFlightState,
    RecordState,
)
from kafka_share.broker.share.share_counts import Distribution
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.window import GapWindow, InFlightWindow
from kafka_share.errors import (
    InvalidRecordStateError,
    InvalidRequestError,
    UnknownServerError,
)
from kafka_share.protocol.share_values import GAP
from kafka_share.records import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_share.broker.configs.configs import GroupSettings
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.exchange import AcknowledgementBatch
    from kafka_share.broker.share.persister import Persister
    from kafka_share.broker.share.share_coordinator import StoredState
    from kafka_share.broker.share.state_records import StateKey

STATE_AFTER: Final = {
    GAP: ARCHIVED,
    int(AcknowledgeType.ACCEPT): RecordState.ACKNOWLEDGED,
    int(AcknowledgeType.RELEASE): AVAILABLE,
    int(AcknowledgeType.REJECT): ARCHIVED,
}
"""Where each acknowledgement type leads; RENEW stays ACQUIRED and is not stored."""


STORABLE: Final = frozenset(int(state) for state in (AVAILABLE, RecordState.ACKNOWLEDGED, ARCHIVED))
"""The states that a share partition writes and loads, besides ARCHIVING where there are dead letters."""


@attrs.define(eq=False)
class PendingChange:
    """States that wait for their write; to be given to `SharePartition.complete` exactly once."""

    window: InFlightWindow
    pieces: list[tuple[int, int, InFlightState]] = attrs.Factory(list)
    spent: RecordState = ARCHIVED
    """Where records go that had their last delivery."""
    letters: list[tuple[int, int, int, Reason]] = attrs.Factory(list)
    """(first, last, delivery count, reason) of what becomes a dead letter."""
    takes_deliveries_back: bool = False
    """The deliveries that end with this change do not count (Kafka 4.1, for those that a session's end releases)."""

    def begin(self, first: int, last: int, state: InFlightState, target: RecordState, limit: int) -> None:
        if self.takes_deliveries_back:
            state.count -= 1
        state.begin(target, limit, self.spent)
        self.pieces.append((first, last, state))
        if state.state is ARCHIVING:
            self.letters.append((first, last, state.count, Reason.REJECTED if target is ARCHIVING else Reason.SPENT))
        if state.state.is_terminal:
            self.window.finished(first, last)

    def roll_back(self, locks_lost_by_ms: int | None = None) -> None:
        """The records are held as before. Locks that were to end by `locks_lost_by_ms` never do."""
        for first, last, state in self.pieces:
            if state.state.is_terminal:
                self.window.unfinished(first, last)
            state.roll_back(locks_lost_by_ms)
            state.count += self.takes_deliveries_back
            self.window.lock_started(first, state)

    def stored_batches(self) -> list[StateBatch]:
        return [StateBatch(first, last, int(state.state), state.count) for first, last, state in self.pieces]


class SharePartition:
    """One share partition. It exists from its load on; it is dropped, never emptied."""

    def __init__(
        self,
        key: StateKey,
        leader_epoch: int,
        persister: Persister,
        settings: Callable[[], GroupSettings],
        behaviour: Behaviour = KAFKA_4_3,
        first_lock_starts: Callable[[int], None] | None = None,
        bury: Callable[[DeadLetter], None] | None = None,
    ) -> None:
        """`first_lock_starts` is told the end of each lock that ends before all others.

        `bury` is given the dead letters of groups that want them; a call of `buried` has to follow for each.
        """
        self._first_lock_starts = first_lock_starts
        self.key = key
        self.leader_epoch = leader_epoch
        self.settings = settings
        self.behaviour = behaviour
        self.window: InFlightWindow = self._new_window(0)
        self.active: bool = False
        """Loaded and not fenced: records can be acquired."""
        self.read_position: int | None = None
        """The fetch offset that the log was last read at; `ShareNode` orders its reads by it."""
        self.lock_timeouts: int = 0
        """How many records have lost their lock by its end, each time counted."""
        self.batch_sizes: Distribution = Distribution()
        """Of the batches that came into the window."""
        self._persister = persister
        self._bury = bury
        self._is_fenced = False
        self._state_epoch = 0
        self._highest_start = 0

    # ---- life

    def _new_window(self, start_offset: int) -> InFlightWindow:
        return InFlightWindow(
            start_offset,
            sees_pending_releases=self.behaviour.sees_pending_releases,
            first_lock_starts=self._first_lock_starts,
        )

    def load(
        self, choose_start: Callable[[int], int], now_ms: int, then: Callable[[Refusal | None, int], None]
    ) -> None:
        """Read the stored state; `choose_start` applies the reset policy if no start offset is stored yet.

        `then` is told why that failed, and the partition is not `active`: one of the codes of `as_share_error`, or
        whatever `choose_start` raises. It is told nothing if the partition is fenced before the state has come.
        """

        def came(stored: StoredState | Refusal, at_ms: int) -> None:
            if not self._is_fenced:
                then(self._take(stored, choose_start, at_ms), at_ms)

        self._persister.read(self.key, self.leader_epoch, now_ms, came)

    def _take(self, stored: StoredState | Refusal, choose_start: Callable[[int], int], now_ms: int) -> Refusal | None:
        if isinstance(stored, Refusal):
            return as_share_error(stored)
        try:
            start = choose_start(now_ms) if stored.start_offset == -1 else stored.start_offset
            window = self._loaded_window(stored, start)
        except Refusal as refusal:
            return refusal
        self.window, self._highest_start = window, window.start_offset
        self._state_epoch = stored.state_epoch
        self.active = True
        self._bury_again()
        return None

    def _loaded_window(self, stored: StoredState, start: int) -> InFlightWindow:
        """Raises `Refusal` for state that cannot be."""
        window = self._new_window(start)
        gap_start, end = None, start - 1
        for batch in stored.batches:
            if batch.first < start or batch.state not in self._storable():
                raise Refusal(UnknownServerError, f"the stored state holds an impossible batch: {batch}")
            if gap_start is None and batch.first > end + 1:
                gap_start = end + 1
            end = batch.last
            window.append(
                InFlightBatch(batch.first, batch.last, InFlightState(RecordState(batch.state), batch.delivery_count))
            )
        if window.batches:
            window.end_offset = end
            window.gaps = None if gap_start is None else GapWindow(gap_start, end)
            window.drop_finished()
        return window

    def _storable(self) -> frozenset[int]:
        return STORABLE | {int(ARCHIVING)} if self.behaviour.max_share_version > 1 else STORABLE

    def _bury_again(self) -> None:
        """What was ARCHIVING when it was stored gets its dead letter, maybe a second time."""
        limit = self.settings().delivery_count_limit
        for batch in self.window.batches:
            for first, last, state in batch.pieces():
                if state.state is ARCHIVING:
                    self._dead(first, last, state.count, Reason.SPENT if state.count >= limit else Reason.REJECTED)

    def fence(self) -> None:
        """Not the leader any more, or the group's last session here has gone: nothing can be acquired ever again.

        Writes that are under way go on, and whoever waits for them is told how they ended.
        """
        self.active = False
        self._is_fenced = True

    # ---- acknowledging

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> PendingChange:
        """Check and begin what `member` acknowledges: all of it or nothing.

        Raises `Refusal`: INVALID_RECORD_STATE if an offset is not held by the member, INVALID_REQUEST for offsets
        beyond what was ever acquired. Offsets below the start offset are finished already and succeed.
        """
        change = PendingChange(self.window, spent=self._spent())
        try:
            for batch in batches:
                if batch.last >= self.window.start_offset:
                    self._acknowledge_batch(member, batch, change, now_ms)
        except (Refusal, RequestFailedError):
            change.roll_back()
            raise
        self._note_pending_releases(change)
        return change

    def _acknowledge_batch(self, member: str, batch: AcknowledgementBatch, change: PendingChange, now_ms: int) -> None:
        for cached in self._acknowledged_batches(batch):
            if cached.last < self.window.start_offset:
                continue
            if cached.whole is not None:
                self._require_held(cached.whole, member)
                partly = not cached.lies_within(batch.first, batch.last) or cached.first < self.window.start_offset
                if not partly and len(batch.types) == 1:
                    self._acknowledge_piece(cached.first, cached.last, cached.whole, batch.types[0], change, now_ms)
                    continue
                self.window.split(cached)
            for offset, state in cached.within(max(batch.first, self.window.start_offset), batch.last):
                self._require_held(state, member)
                self._acknowledge_piece(offset, offset, state, batch.type_of(offset), change, now_ms)

    def _acknowledged_batches(self, batch: AcknowledgementBatch) -> Sequence[InFlightBatch]:
        """The cached batches that the acknowledgement is about."""
        window = self.window
        floor = window.floor(batch.first)
        if floor is None and batch.first < window.start_offset:
            floor = window.floor(window.start_offset)
            if floor is None:
                # Kafka 4.3 fails the whole request here: nothing is in flight, and the batch spans the start offset.
                raise RequestFailedError("an acknowledgement spans the start offset of an empty window")
        if floor is None:
            raise Refusal(InvalidRecordStateError, "none of these offsets is in flight")
        cached = window.between(floor.first, batch.last)
        if cached[-1].last < batch.last:
            raise Refusal(InvalidRequestError, "the offsets go beyond the records that were acquired")
        return cached

    @staticmethod
    def _require_held(state: InFlightState, member: str) -> None:
        if state.state is not ACQUIRED or state.pending_from is not None:
            raise Refusal(InvalidRecordStateError, "the record is not acquired")
        if state.member != member:
            raise Refusal(InvalidRecordStateError, "the record is acquired by another member")

    def _acknowledge_piece(
        self, first: int, last: int, state: InFlightState, kind: int, change: PendingChange, now_ms: int
    ) -> None:
        settings = self.settings()
        if kind != AcknowledgeType.RENEW:
            target = change.spent if kind == AcknowledgeType.REJECT else STATE_AFTER[kind]
            change.begin(first, last, state, target, settings.delivery_count_limit)
            return
        if not settings.renew_enabled:
            raise Refusal(InvalidRecordStateError, "the group does not allow acquisition locks to be renewed")
        state.lock_expires_at_ms = now_ms + settings.record_lock_duration_ms
        self.window.lock_started(first, state)

    def release(self, member: str) -> PendingChange:
        """Begin to give back everything that `member` holds (its session has ended)."""
        change = PendingChange(
            self.window,
            spent=self._spent(),
            takes_deliveries_back=self.behaviour.session_end_takes_deliveries_back,
        )
        start, limit = self.window.start_offset, self.settings().delivery_count_limit
        for batch in self.window.batches:
            if batch.whole is not None and batch.whole.member == member and batch.first < start <= batch.last:
                self.window.split(batch)
            for first, last, state in batch.pieces():
                if state.state is ACQUIRED and state.member == member and state.pending_from is None:
                    change.begin(first, last, state, ARCHIVED if last < start else AVAILABLE, limit)
        self._note_pending_releases(change)
        return change

    def _note_pending_releases(self, change: PendingChange) -> None:
        """Kafka 4.1 lets fetches look at records before their release is stored; they can acquire none."""
        if self.behaviour.sees_pending_releases:
            self._note_releases(change)

    def _note_releases(self, change: PendingChange) -> None:
        for first, _, state in change.pieces:
            if state.state is AVAILABLE:
                self.window.came_free(first)

    def complete(self, change: PendingChange, now_ms: int, then: Callable[[bool | Refusal, int], None]) -> None:
        """Store a pending change; `then` is told whether the start offset moved by it, or why it could not be stored.

        After a failure the records are held as before, and their locks still run (see `failed_writes_lose_locks`).
        """
        if not change.pieces:
            then(False, now_ms)
            return

        write = self._write_of(change.stored_batches())
        self._persister.write(self.key, write, now_ms, partial(self._stored, change, then))

    def _stored(
        self,
        change: PendingChange,
        then: Callable[[bool | Refusal, int], None],
        refusal: Refusal | None,
        now_ms: int,
    ) -> None:
        if refusal is not None:
            change.roll_back(now_ms if self.behaviour.failed_writes_lose_locks else None)
            then(as_share_error(refusal), now_ms)
            return
        start = self.window.start_offset
        for _, _, state in change.pieces:
            state.commit()
        for first, last, _ in change.pieces:
            if first < start:  # records were deleted meanwhile
                self.window.archive(first, min(last, start - 1), only=AVAILABLE)
        self._note_releases(change)
        for letter in change.letters:
            self._dead(*letter)
        then(self.window.drop_finished(), now_ms)

    def _write_of(self, batches: Sequence[StateBatch]) -> StateWrite:
        window = self.window
        return StateWrite(
            self._state_epoch, self.leader_epoch, window.start_offset, window.delivery_complete_count(), batches
        )

    # ---- dead letters

    def _spent(self) -> RecordState:
        """Where records go that nobody is to get again: archived at once, or after their dead letter."""
        return ARCHIVING if self._bury is not None and self.settings().dead_letter_topic else ARCHIVED

    def _dead(self, first: int, last: int, delivery_count: int, reason: Reason) -> None:
        letter = DeadLetter(self.key, first, last, delivery_count, reason)
        assert self._bury is not None, "only partitions that can bury have dead letters"
        self._bury(letter)

    def buried(self, letter: DeadLetter, now_ms: int, then: Callable[[bool, int], None]) -> None:
        """The dead letter was written, or cannot be: its records are archived.

        `then` is told whether the start moved, once that is stored. If it cannot be, what is stored makes it a dead
        letter again when it is loaded.
        """
        batches = []
        floor = self.window.floor(letter.first)
        for batch in self.window.between(letter.first if floor is None else floor.first, letter.last):
            for first, last, state in batch.pieces():
                if state.state is ARCHIVING and letter.first <= first and last <= letter.last:
                    state.archive()
                    self.window.finished(first, last)
                    batches.append(StateBatch(first, last, int(ARCHIVED), state.count))

        def stored(refusal: Refusal | None, at_ms: int) -> None:
            then(self.window.drop_finished(), at_ms)

        self._persister.write(self.key, self._write_of(batches), now_ms, stored)

    # ---- time and the log

    def next_lock_end_at_ms(self) -> int | None:
        """When the first acquisition lock ends."""
        return self.window.next_lock_end_at_ms()

    def expire_locks(self, now_ms: int, late: Callable[[int], None]) -> bool:
        """End the locks that are due and store that, one write for each.

        If that cannot be stored they end all the same: what is stored only lets the delivery be counted again. Returns
        whether anything was stored at once: then `advance_start` has to follow, after those who wait for records had
        their chance, which is Kafka's order. `late` is told of each write that ends later: the same then.
        """
        start, limit, spent = self.window.start_offset, self.settings().delivery_count_limit, self._spent()
        is_late, stored_at_once = False, False

        def stored(first: int, last: int, state: RecordState, count: int, _: Refusal | None, at_ms: int) -> None:
            nonlocal stored_at_once
            if state is ARCHIVING:
                self._dead(first, last, count, Reason.SPENT)
            if is_late:
                late(at_ms)
            else:
                stored_at_once = True

        for first, last, state in self.window.take_expired(now_ms):
            state.leave_acquired(ARCHIVED if last < start else AVAILABLE, limit, spent)
            self.lock_timeouts += last - first + 1
            if state.state is AVAILABLE:
                self.window.came_free(first)
            elif state.state is ARCHIVED:
                self.window.finished(first, last)
            write = self._write_of([StateBatch(first, last, int(state.state), state.count)])
            self._persister.write(self.key, write, now_ms, partial(stored, first, last, state.state, state.count))
        is_late = True
        return stored_at_once

    def advance_start(self) -> None:
        """Move the start offset over finished records. Not stored by itself."""
        self.window.drop_finished()

    def log_start_raised(self, log_start: int) -> None:
        """A read found the fetch offset below the log's start: what is below it can never be delivered."""
        self.window.raise_start(log_start)

    def check(self) -> None:
        """Assert the invariants of the window, and that the start offset never went back."""
        self.window.check()
        assert self.window.start_offset >= self._highest_start, "the start offset moved back"
        self._highest_start = self.window.start_offset
        for batch in self.window.batches:
            for first, last, state in batch.pieces():
                held = state.state is ACQUIRED
                assert (state.member != NOBODY) == held, f"{first}-{last} is {state}"
                is_locked = state.lock_expires_at_ms is not None or self.behaviour.failed_writes_lose_locks
                assert is_locked or not held, f"{first}-{last} is held without a lock"
