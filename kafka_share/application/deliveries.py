"""Everything that one application holds or has acknowledged without an outcome yet, across partitions.

Owned by `core.application`. With an open window other threads come in too: `guard`, a re-entrant lock that the façade
brings along, makes each method here atomic, and is never held while something waits, decodes or calls the application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

from kafka_share.application.awaited_outcomes import AwaitedOutcomes, Notice, OnOutcome
from kafka_share.application.delivery import Delivery
from kafka_share.core.events import AcknowledgementOutcome, FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import ConsumerClosedError, IllegalStateError, InvalidArgumentError, KafkaShareError
from kafka_share.locks import AcquisitionLock
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS
from kafka_share.records import AcknowledgeType, ShareRecord

Record = ShareRecord[Any, Any]
Renewing = tuple[Delivery, dict[int, Record]]


class Deliveries:
    """One `Delivery` per fetched partition, found by place or by the lock that its records name."""

    def __init__(
        self, *, explicit: bool, window_records: int, guard: AbstractContextManager[Any], now_ms: Callable[[], int]
    ) -> None:
        self.guard = guard
        self._explicit = explicit
        self.lock_ms: int | None = None
        """What brokers said last."""
        self.is_closed = False
        self._window_records = window_records
        self._now_ms = now_ms
        self._by_place: dict[tuple[str, int], list[Delivery]] = {}
        self._by_lock: dict[AcquisitionLock, Delivery] = {}
        self._changed: dict[Delivery, None] = {}
        """Open window: those with something to gather."""
        self._awaited = AwaitedOutcomes()
        self._unreported: dict[int, int] = {}
        """How many offsets of each number have no outcome that has reached the application."""
        self._numbers = count(1)
        self._held = 0
        """Open window: delivered, and without a final word."""
        self._is_announced = False
        self._waits_for_room = False

    # ---- delivery

    def new_lock(self, fetched: FetchedPartition, acquired_at_ms: int, lock_ms: int) -> AcquisitionLock:
        deadline_at_ms = acquired_at_ms + (lock_ms if lock_ms > 0 else DEFAULT_LOCK_MS)
        return AcquisitionLock(deadline_at_ms, fetched.locks, self._now_ms)

    def deliver(self, holder: Delivery, records: list[Record]) -> None:
        with self.guard:
            if not self._window_records:
                self._supersede(holder, records)
            holder.deliver(records)
            if self._window_records:
                self._held += len(records)
            self._keep(holder)

    def _supersede(self, holder: Delivery, records: list[Record]) -> None:
        """Forget older deliveries of these records: a record that is handed out anew was not locked any more.

        It is acknowledged by its place, so that a word about it is for the latest delivery; nobody could say one about
        the older ones, and the next poll would demand it. In an open window a record names its delivery.
        """
        for older in list(self._by_place.get(holder.partition.topic_partition, ())):
            if older is not holder and older.partition == holder.partition:
                older.take_back(record.offset for record in records)
                self._drop_if_done(older)

    def settle(self, holder: Delivery, runs: Iterable[AcknowledgementRun]) -> None:
        """Gaps, and what is given back unseen."""
        with self.guard:
            holder.settle(runs)
            self._keep(holder)

    def fail(self, holder: Delivery, runs: Iterable[AcknowledgementRun]) -> None:
        with self.guard:
            holder.fail(runs)
            self._keep(holder)

    def take_back(self, records: Iterable[Record]) -> list[Renewing]:
        """Take out records that did not reach the application after all."""
        by_lock: dict[AcquisitionLock, list[int]] = {}
        for record in records:
            assert record.lock is not None, "a record that was not delivered"
            by_lock.setdefault(record.lock, []).append(record.offset)
        found: list[Renewing] = []
        with self.guard:
            for lock, offsets in by_lock.items():
                holder = self._by_lock.get(lock)
                taken = {} if holder is None else holder.take_back(offsets)
                if holder is not None and taken:
                    found.append((holder, taken))
                    if self._window_records:
                        self._held -= len(taken)
                    self._drop_if_done(holder)
        return found

    def _keep(self, holder: Delivery) -> None:
        if holder.is_done:
            return
        if holder.lock not in self._by_lock:
            self._by_place.setdefault(holder.partition.topic_partition, []).append(holder)
            if holder.lock is not None:
                self._by_lock[holder.lock] = holder
        if holder.has_words:
            self._changed[holder] = None

    def _drop_if_done(self, holder: Delivery) -> None:
        if holder.is_done:
            self._changed.pop(holder, None)
            where = holder.partition.topic_partition
            self._by_place[where].remove(holder)
            if not self._by_place[where]:
                del self._by_place[where]
            if holder.lock is not None:
                del self._by_lock[holder.lock]

    # ---- what is held

    def _holders(self) -> list[Delivery]:
        return [holder for holders in self._by_place.values() for holder in holders]

    @property
    def unacknowledged(self) -> int:
        """Delivered records without a word."""
        with self.guard:
            return sum(holder.unacknowledged for holder in self._holders())

    @property
    def has_words(self) -> bool:
        """Whether there is something to gather."""
        return any(holder.has_words for holder in self._holders())

    def room(self) -> int:
        """Open window: how many more records fit, perhaps less than none. Who finds no room is to be woken for it."""
        with self.guard:
            room = self._window_records - self._held
            self._waits_for_room = room <= 0
            return room

    # ---- words

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Raises IllegalStateError in implicit mode, or if the record is not in flight. Not for the open window."""
        if not self._explicit:
            raise _implicit()
        for holder in self._by_place.get((topic, partition), ()):
            if holder.acknowledge(offset, kind):
                return
        raise _not_in_flight(topic, partition, offset)

    def acknowledge_delivery(
        self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome | None
    ) -> tuple[bool, bool]:
        """Open window, any thread: whether to post `AcknowledgementsMade`, and whether to wake the poll.

        A record names its delivery by its lock; one that was made by hand is known by its place alone. Raises
        IllegalStateError if it is not in flight or has had its final word, ConsumerClosedError after close.
        """
        with self.guard:
            if self.is_closed:
                raise ConsumerClosedError("This consumer has already been closed.")
            holder = self._acknowledge_delivery(record, kind, on_outcome)
            self._changed[holder] = None
            if kind is not AcknowledgeType.RENEW:
                self._held -= 1
            must_announce, self._is_announced = not self._is_announced, True
            makes_room = self._waits_for_room and self._held < self._window_records
            return must_announce, makes_room

    def _acknowledge_delivery(self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> Delivery:
        if record.lock is not None:
            holder = self._by_lock.get(record.lock)
            if holder is not None and holder.acknowledge_delivery(record.offset, kind, on_outcome):
                return holder
        else:
            for holder in reversed(self._by_place.get((record.topic, record.partition), [])):
                if holder.acknowledge_delivery(record.offset, kind, on_outcome):
                    return holder
        raise _not_in_flight(record.topic, record.partition, record.offset)

    def override(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Like `acknowledge`, for an offset whose record could not be delivered; InvalidArgumentError for RENEW."""
        if not self._explicit:
            raise _implicit()
        if kind is AcknowledgeType.RENEW:
            # Nothing would ever end the lock of a record that nobody holds.
            raise InvalidArgumentError(
                f"Offset {offset} of {topic}-{partition} was not delivered, so it cannot be renewed."
            )
        with self.guard:
            for holder in self._by_place.get((topic, partition), ()):
                if holder.override(offset, kind):
                    return
        raise IllegalStateError(
            f"Offset {offset} of {topic}-{partition} cannot be acknowledged by its offset: "
            f"that is for records that could not be delivered and have not been committed since."
        )

    def accept_rest(self) -> None:
        for holder in self._holders():
            holder.accept_rest()

    # ---- handing over

    def gather(self) -> tuple[tuple[GatheredAcknowledgements, ...], list[Renewing]]:
        """Take out all that has been said, and the records that it renews."""
        gathered: list[GatheredAcknowledgements] = []
        renewing: list[Renewing] = []
        for holder in self._holders():
            said, renewed = holder.gather(self._numbers)
            if said is None:
                continue
            gathered.append(said)
            self._book(holder, said, {})
            if renewed:
                renewing.append((holder, renewed))
            self._drop_if_done(holder)
        self._changed.clear()
        return tuple(gathered), renewing

    def gather_said(self, *, spares_failed: bool = False) -> tuple[GatheredAcknowledgements, ...]:
        """The same in the open window. What is gathered and the event that carries it belong under one `guard`."""
        gathered: list[GatheredAcknowledgements] = []
        with self.guard:
            for holder in list(self._changed):
                for said, waiting in holder.gather_said(self._numbers, spares_failed=spares_failed):
                    gathered.append(said)
                    self._book(holder, said, waiting)
                if not holder.has_words:
                    del self._changed[holder]
                self._drop_if_done(holder)
        return tuple(gathered)

    def gather_announced(self) -> tuple[GatheredAcknowledgements, ...]:
        """The same for the background thread, which was told that there is something; from now on it is to be told."""
        with self.guard:
            self._is_announced = False
            return self.gather_said(spares_failed=True)

    def _book(self, holder: Delivery, gathered: GatheredAcknowledgements, waiting: dict[int, list[OnOutcome]]) -> None:
        self._unreported[gathered.number] = sum(run.last - run.first + 1 for run in gathered.runs)
        self._awaited.add(gathered, holder.lock, waiting)

    # ---- outcomes

    @property
    def awaits_outcomes(self) -> bool:
        return bool(self._unreported)

    def reported(self, outcome: AcknowledgementOutcome) -> None:
        """The outcome has reached the application."""
        with self.guard:
            for ended in outcome.ended:
                left = self._unreported.get(ended.number, 0) - sum(run.last - run.first + 1 for run in ended.runs)
                assert left >= 0, f"{outcome.partition} has more outcomes than acknowledgements"
                if left:
                    self._unreported[ended.number] = left
                else:
                    del self._unreported[ended.number]

    def resolve(self, outcome: AcknowledgementOutcome) -> list[Notice]:
        """Renew and lose locks. Returns whom to tell."""
        with self.guard:
            lock_ms = outcome.acquisition_lock_timeout_ms or self.lock_ms or DEFAULT_LOCK_MS
            return self._awaited.resolve(outcome, lock_ms)

    def abandon(self, error: KafkaShareError) -> list[Notice]:
        """Nothing is sent or answered any more: whoever waits gets this error."""
        with self.guard:
            self.is_closed = True
            notices = self._awaited.abandon(error)
            for holder in self._holders():
                notices += [(told, error) for waiting in holder.unsaid.values() for told in waiting]
                holder.unsaid.clear()
            return notices

    def check(self) -> None:
        assert all(left > 0 for left in self._unreported.values()), "what has been reported is kept"
        self._awaited.check()
        for holders in self._by_place.values():
            assert holders, "an empty list of in-flight partitions was kept"
            for holder in holders:
                assert not holder.is_done, f"{holder.partition} is kept without anything in flight"
                assert holder.lock is None or self._by_lock[holder.lock] is holder
                holder.check()
        assert len(self._by_lock) == len(self._holders()), "a holder is found by its place or its lock only"
        if self._window_records:
            assert all(h in self._changed for h in self._holders() if h.has_words), "a word that nobody gathers"
            assert self._held == sum(holder.count_open() for holder in self._holders())


def _implicit() -> IllegalStateError:
    return IllegalStateError(
        "The consumer acknowledges implicitly; set share_acknowledgement_mode to explicit to do it yourself."
    )


def _not_in_flight(topic: str, partition: int, offset: int) -> IllegalStateError:
    return IllegalStateError(
        f"The record of {topic}-{partition} at offset {offset} cannot be acknowledged: it is not in flight here."
    )
