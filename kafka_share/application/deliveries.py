"""Everything that one application holds or has acknowledged without an outcome yet, across partitions.

Owned by `ApplicationSide`. With an open window other threads come in too: `guard`, a re-entrant lock that the façade
brings along, makes each method here atomic, and is never held while something waits, decodes or calls the application.

Acknowledgements leave in three steps: what is gathered is booked (`_leaving`, one store), then its traces are moved
from one book to the other, and it stays in `unposted` until `posted`. Whoever comes after an interrupt finishes what
was begun; an event that is posted twice has the same numbers, which the core takes once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs

from kafka_share.application.awaited_outcomes import AwaitedOutcomes, Notice, OnOutcome, Waiting
from kafka_share.application.delivery import Delivery, Leaving, Record, Settled, runs_of
from kafka_share.application.refusals import given_up, implicit, not_in_flight, not_renewable, not_undelivered
from kafka_share.application.short_way import ShortWay
from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements, LostRecords
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import ConsumerClosedError, IllegalStateError, KafkaShareError, UnsupportedVersionError
from kafka_share.health import UnacknowledgedRecord
from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS
from kafka_share.records import AcknowledgeType, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.native import Ledger, Places, Run

_END_OF_TIME_MS = 1 << 62


class Deliveries:
    """One `Delivery` per fetched partition, found by place or by the lock that its records name."""

    def __init__(
        self,
        *,
        explicit: bool,
        window_records: int,
        window_bytes: int = 0,
        protects_locks: bool,
        guard: AbstractContextManager[Any],
        now_ms: Callable[[], int],
    ) -> None:
        self.guard = guard
        self.lock_ms: int | None = None
        """The lock time that a broker named last."""
        self.is_closed: bool = False
        self.renewing: dict[int, tuple[Delivery, list[Record]]] = {}
        """Records that are being renewed, by the number of their acknowledgement. Not in the open window."""
        self.announce: Callable[[], None] = _nobody
        """Tells the background side that there is something to gather; to be set by whoever runs the calls."""
        self.has_held: bool = False
        """Whether any record ever waited for its release."""
        self.is_pressing: bool = False
        """Whether a lock ends soon, so that each acknowledgement is announced."""
        self.behind: Callable[[], int] = int
        """How many outcomes the application has not heard of yet: they take room in the open window; to be set by
        whoever tells them."""
        self._protects_locks = protects_locks
        self._can_renew = True
        self._lost: dict[TopicIdPartition, list[int]] = {}
        """Records that were given up because their lock was lost, and not been told to the background side."""
        self._explicit = explicit
        self._window_records = window_records
        self._window_bytes = window_bytes
        self._has_window = window_records > 0
        self._now_ms = now_ms
        self._by_place: dict[tuple[str, int], list[Delivery]] = {}
        self._by_lock: dict[AcquisitionLock, Delivery] = {}
        self.short_way: ShortWay = ShortWay(explicit=explicit, is_final=self._has_window)
        self.numbers: Iterator[int] = count(1)
        """Of acknowledgements that leave."""
        self._leaving: tuple[Delivery, Leaving] | None = None
        """Booked, and perhaps not moved from one book to the other."""
        self.unposted: dict[int, GatheredAcknowledgements] = {}
        self.awaited: AwaitedOutcomes = AwaitedOutcomes()
        self._is_announced = False
        self._waits_for_room = False

    def open_short_way(self) -> None:
        """Unless something has to be done with the next acknowledgement beside booking it."""
        if not self.short_way.exists:
            return
        is_quiet = not self.is_pressing
        if self._has_window:
            is_quiet = self._is_announced and not self._waits_for_room
        self.short_way.is_open = is_quiet and not self.is_closed and self._leaving is None

    # ---- delivery

    def lock_end_ms(self, acquired_at_ms: int, lock_ms: int) -> int:
        return acquired_at_ms + (lock_ms if lock_ms > 0 else DEFAULT_LOCK_MS)

    def new_lock(self, locks: LockGeneration, acquired_at_ms: int, lock_ms: int) -> AcquisitionLock:
        return AcquisitionLock(self.lock_end_ms(acquired_at_ms, lock_ms), locks, self._now_ms)

    @property
    def has_any(self) -> bool:
        """Whether any delivery stands in the books, or is away for a renewal."""
        return bool(self._by_place or self.renewing)

    def add(self, delivery: Delivery) -> None:
        """Take over one whose records the application holds; under the guard."""
        self._file(delivery)
        self.open_short_way()

    def deliver(self, delivery: Delivery, records: Run) -> None:
        with self.guard:
            if not self._has_window:
                self._supersede(delivery, records)
            if not delivery.unacknowledged:
                delivery.delivered_at_ms = self._now_ms()
            delivery.deliver(records)
            self._file(delivery)
            self.open_short_way()

    def _supersede(self, delivery: Delivery, records: Run) -> None:
        """Forget older deliveries of these records: a record that is handed out anew was not locked any more.

        It is acknowledged by its place, so an acknowledgement is for the latest delivery; nobody could acknowledge the
        older ones, and the next poll would demand it. In an open window a record names its delivery.
        """
        for older in list(self._by_place.get(delivery.place, ())):
            if older is not delivery and older.partition == delivery.partition:
                older.take_back(record.offset for record in records)
                self._file(older)

    def preset(self, delivery: Delivery, runs: list[AcknowledgementRun]) -> None:
        """Gaps, and what is given back unseen."""
        if runs:
            with self.guard:
                delivery.preset(runs)
                self._file(delivery)

    def fail(self, delivery: Delivery, runs: Iterable[AcknowledgementRun]) -> None:
        with self.guard:
            delivery.fail(runs)
            self._file(delivery)

    def present(self, records: Iterable[Record]) -> list[tuple[Delivery, list[Record]]]:
        """Those of the records that the application still holds, by delivery."""
        by_lock: dict[AcquisitionLock, list[int]] = {}
        for record in records:
            assert record.lock is not None, "a record that was not delivered"
            by_lock.setdefault(record.lock, []).append(record.offset)
        with self.guard:
            found = [(self._by_lock[lock], offsets) for lock, offsets in by_lock.items() if lock in self._by_lock]
            return [(one, there) for one, offsets in found if (there := one.present(offsets))]

    def take_back(self, delivery: Delivery, records: Run) -> None:
        """Take out records that did not reach the application after all."""
        with self.guard:
            delivery.take_back(record.offset for record in records)
            self._file(delivery)

    def _file(self, delivery: Delivery) -> None:
        """Have it found as long as there is something in it."""
        where, lock = delivery.place, delivery.lock
        here = self._by_place.setdefault(where, [])
        if not delivery.is_done:
            if delivery not in here:
                here.append(delivery)
            self._by_lock[lock] = delivery
            self.short_way.add(lock, delivery.ledger)
            return
        if delivery in here:
            here.remove(delivery)
        if not here:
            self._by_place.pop(where, None)
        self._by_lock.pop(lock, None)
        self.short_way.drop(lock)

    def heal(self) -> None:
        """After an interrupt: finish what was begun, so that every book agrees with the others."""
        with self.guard:
            self._finish_leaving()
            for delivery in dict.fromkeys([*self._all(), *self._by_lock.values()]):
                delivery.heal()
                self._file(delivery)

    # ---- what is held

    def _all(self) -> list[Delivery]:
        return [delivery for here in self._by_place.values() for delivery in here]

    @property
    def unacknowledged(self) -> int:
        """How many delivered records are not acknowledged."""
        with self.guard:
            return sum(delivery.unacknowledged for delivery in self._all())

    def oldest_unacknowledged(self, now_ms: int) -> UnacknowledgedRecord | None:
        """The delivered record that has been held longest. Any thread may ask while others change what is held."""
        with self.guard:
            held = [delivery for here in self._by_place.copy().values() for delivery in here.copy()]
            open_ones = [(one.delivered_at_ms, offset, one) for one in held if (offset := one.first_open()) is not None]
        if self.is_closed or not open_ones:
            return None
        at_ms, offset, delivery = min(open_ones, key=itemgetter(0))
        where = delivery.partition
        return UnacknowledgedRecord(where.topic, where.partition, offset, max(0, now_ms - at_ms))

    @property
    def has_acknowledgements(self) -> bool:
        """Whether there is something to gather."""
        return any(delivery.has_acknowledgements for delivery in self._all())

    def room(self) -> int:
        """Open window: how many more records fit, perhaps less than none. Who finds no room is to be woken for it."""
        with self.guard:
            if self._waits_for_room is not ((room := self._room()) <= 0):
                self._waits_for_room = room <= 0
                self.open_short_way()
            return room

    def has_found_room(self) -> bool:
        """Open window, any thread: whether a poll is to be woken, because it waits for room and there is some."""
        with self.guard:
            return self._waits_for_room and self._room() > 0

    def _room(self) -> int:
        if self._window_bytes and self._count_bytes() >= self._window_bytes:
            return 0
        return self._window_records - self._count_open() - self.behind()

    def _count_bytes(self) -> int:
        """What came with the records that are open; an answer is kept as a whole as long as one of them is."""
        return sum([delivery.size_bytes for delivery in self._all() if delivery.count_open()])

    def _count_open(self) -> int:
        return sum([delivery.count_open() for delivery in self._all()])  # a list is made in half the time

    @property
    def window_records(self) -> int:
        """Open window: the delivered records without a final acknowledgement."""
        with self.guard:
            return self._count_open() if self._has_window else 0

    # ---- acknowledgements

    def acknowledge(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType, lock: AcquisitionLock | None = None
    ) -> None:
        """Raises IllegalStateError in implicit mode, or if the record is not in flight. Not for the open window."""
        if not self._explicit:
            raise implicit()
        with self.guard:
            if self._leaving is not None:
                self._finish_leaving()
            for delivery in self._candidates(topic, partition, lock):
                if delivery.acknowledge(offset, kind):
                    if self.is_pressing:
                        self._announce_once()
                    return
        raise not_in_flight(topic, partition, offset)

    def acknowledge_delivery(self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        """Open window, any thread. True if the poll is to be woken: it waits for room, and there is some.

        One that was given up because its lock was lost has failed already: `on_outcome` is told so at once. Raises
        IllegalStateError if it is not in flight or has had its final acknowledgement, ConsumerClosedError after close.
        """
        has_found_room, left = self.acknowledge_deliveries([(record, kind, on_outcome)])
        if left:
            raise not_in_flight(record.topic, record.partition, record.offset)
        return has_found_room

    def acknowledge_deliveries(self, settled: Collection[Settled]) -> tuple[bool, list[Settled]]:
        """The same for many. Returns also those for which it would raise IllegalStateError."""
        with self.guard:
            if self.is_closed:
                raise ConsumerClosedError("This consumer has already been closed.")
            if self._leaving is not None:
                self._finish_leaving()
            left = [one for one in settled if not self._acknowledge_once(*one)]
            if len(left) < len(settled):
                self._announce_once()
            has_found_room = self.has_found_room()
        judged = [(one, _is_lost(one[0])) for one in left]
        for (record, _, on_outcome), is_lost in judged:
            if is_lost and on_outcome is not None:
                on_outcome(given_up(record))
        return has_found_room, [one for one, is_lost in judged if not is_lost]

    def _acknowledge_once(self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        for delivery in self._candidates(record.topic, record.partition, record.lock):
            if delivery.acknowledge_once(record.offset, kind, on_outcome):
                return True
        return False

    def acknowledge_all(self, places: Iterable[Places], kind: AcknowledgeType) -> IllegalStateError | None:
        """The same for many records, of which each that can be is acknowledged; in an open window on any thread.

        Returns why the first of the others cannot be. Raises ConsumerClosedError after close.
        """
        errors: list[IllegalStateError] = []
        with self.guard:
            if self.is_closed:
                raise ConsumerClosedError("This consumer has already been closed.")
            if self._leaving is not None:
                self._finish_leaving()
            for lock, topic, partition, offsets in places:
                if not self._explicit:
                    return implicit()
                left = self._acknowledge_each(lock, topic, partition, offsets, kind)
                errors += [not_in_flight(topic, partition, offset) for offset in left[:1]]
        return errors[0] if errors else None

    def _acknowledge_each(
        self, lock: AcquisitionLock | None, topic: str, partition: int, offsets: array[int], kind: AcknowledgeType
    ) -> Sequence[int]:
        """Returns those that cannot be."""
        count = len(offsets)
        for delivery in self._candidates(topic, partition, lock):
            offsets = delivery.acknowledge_each(offsets, kind, once=self._has_window)
        if len(offsets) < count and (self._has_window or self.is_pressing):
            self._announce_once()
        if not (self._has_window and lock is not None and len(offsets)):
            return offsets
        given_up = set(lock.lost_among(offsets))
        return [offset for offset in offsets if offset not in given_up]

    def _announce_once(self) -> None:
        """Unless the background side knows already that there is something to gather."""
        if not self._is_announced:
            self.announce()
            self._is_announced = True
            self.open_short_way()

    def announce_made(self) -> None:
        """There is something to gather that was not acknowledged here: in an answer held as a whole, or by a loop."""
        with self.guard:
            self._announce_once()

    def hold(self, record: Record, delay_ms: int) -> None:
        """Release a record after a while, and keep its lock until then. Any thread, with an open window.

        One that was given up because its lock was lost is free already. Raises IllegalStateError in implicit mode, or
        if the record is not in flight.
        """
        if not self._explicit:
            raise implicit()
        with self.guard:
            if self.is_closed:
                raise ConsumerClosedError("This consumer has already been closed.")
            self._finish_leaving()
            self.has_held = True
            until_ms = self._now_ms() + delay_ms
            for delivery in self._candidates(record.topic, record.partition, record.lock):
                if delivery.hold(record.offset, until_ms):
                    self._announce_once()
                    return
        if not _is_lost(record):
            raise not_in_flight(record.topic, record.partition, record.offset)

    def _candidates(self, topic: str, partition: int, lock: AcquisitionLock | None) -> list[Delivery]:
        """What may hold the records of a place, the likeliest first.

        In an open window they name it by their lock, those made by hand by their place alone. Without a window all do,
        and a place may be held twice, when its topic was deleted and created again: the lock says which is meant, and
        without one it is the later delivery.
        """
        if not self._has_window or lock is None:
            here = self._by_place.get((topic, partition), [])
            return sorted(here, key=lambda delivery: delivery.lock is lock)[::-1] if len(here) > 1 else here
        return [self._by_lock[lock]] if lock in self._by_lock else []

    @property
    def held(self) -> int:
        """How many records wait for their release."""
        with self.guard:
            return sum(delivery.held for delivery in self._all())

    def override(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Like `acknowledge`, for an offset whose record could not be delivered; InvalidArgumentError for RENEW."""
        if not self._explicit:
            raise implicit()
        if kind is AcknowledgeType.RENEW:
            # Nothing would ever end the lock of a record that nobody holds.
            raise not_renewable(topic, partition, offset)
        with self.guard:
            self._finish_leaving()
            if not any(one.override(offset, kind) for one in self._by_place.get((topic, partition), [])[::-1]):
                raise not_undelivered(topic, partition, offset)

    def accept_rest(self) -> None:
        with self.guard:
            for delivery in self._all():
                delivery.accept_rest()

    def accept(self, records: Iterable[Record]) -> None:
        """Implicit mode: ACCEPT those of these that are still here."""
        with self.guard:
            for delivery, there in self.present(records):
                delivery.accept(there)

    # ---- lost locks

    def give_up(self, record: Record) -> None:
        """The lock of a record was lost before the application came to it: it is not delivered here after all."""
        with self.guard:
            for delivery, there in self.present([record]):
                self._give_up(delivery, there)

    def give_up_lost(self) -> None:
        """The same for all records without an acknowledgement."""
        with self.guard:
            for delivery in self._all():
                self._give_up(delivery, delivery.lost_unacknowledged())

    def _give_up(self, delivery: Delivery, records: list[Record]) -> None:
        if records:
            self.take_back(delivery, records)
            for record in records:  # for good: a late renewal that succeeds brings none of them back
                delivery.lock.lose(record.offset, record.offset)
            self._lost.setdefault(delivery.partition, []).extend(record.offset for record in records)
            self._announce_once()

    # ---- gathering

    def gather_last(self) -> tuple[GatheredAcknowledgements, ...]:
        """The same as `gather` for close: what waits for its release is released."""
        with self.guard:
            self.is_closed = True
            self.short_way.is_open = False
            for delivery in self._all():
                delivery.hold_no_longer_than(self.known_lock_ms, self._now_ms())
                delivery.release_held(_END_OF_TIME_MS)
            return self.gather()

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        """All that has to be posted now, under the same `guard`; `posted` says that it was."""
        with self.guard:
            if not self._has_window:
                self.is_pressing = False
            return self._gather(is_early=False)

    def _gather(self, *, is_early: bool) -> tuple[GatheredAcknowledgements, ...]:
        self.short_way.is_open = False
        self._finish_leaving()
        for delivery in self._all():
            leaving = delivery.gathered(self.numbers, has_window=self._has_window, is_early=is_early)
            if leaving is not None:
                self._leaving = (delivery, leaving)
                self._finish_leaving()
        self.open_short_way()
        return tuple(self.unposted.values())

    def _finish_leaving(self) -> None:
        if self._leaving is None:
            return
        delivery, leaving = self._leaving
        for gathered, waiting in leaving.parts:
            self._book(gathered, delivery, waiting)
            if leaving.renewing and (renewed := leaving.renewed_in(gathered)):
                self.renewing[gathered.number] = delivery, renewed
        delivery.leave(leaving, has_window=self._has_window)
        self._file(delivery)
        self._leaving = None

    def posted(self) -> None:
        """What was gathered has been posted."""
        self.unposted.clear()

    def gather_early(self, awaited: Callable[[], Iterable[Record]]) -> tuple[GatheredAcknowledgements, ...]:
        """The same for the background thread, between two polls; renews locks, too.

        `awaited` returns the records whose locks are kept; it is called only if locks may be about to end. From now on
        the background side is to be told of what follows.
        """
        with self.guard:
            self._is_announced = False
            self.short_way.is_open = False
            if self._has_window:
                self.give_up_lost()
            self._release_held()
            gathered = self._gather(is_early=True) if self._protects_locks or self._has_window else ()
            return gathered + self._renewals(awaited if self._protects_locks else tuple)

    def _release_held(self) -> None:
        now_ms = self._now_ms()
        for delivery in self._all():
            if not (self._can_renew and delivery.is_renewable):
                delivery.hold_no_longer_than(self.known_lock_ms // 4, now_ms)
            delivery.release_held(now_ms)

    def _renewals(self, awaited: Callable[[], Iterable[Record]]) -> tuple[GatheredAcknowledgements, ...]:
        lock_ms, now_ms = self.known_lock_ms, self._now_ms()
        held = self._all()
        self.is_pressing = self._protects_locks and any(delivery.has_pressing(lock_ms // 2) for delivery in held)
        self.open_short_way()
        held = [delivery for delivery in held if not delivery.lock.all_last(lock_ms // 2)]
        if not self._can_renew or not held:
            return ()
        waiting: dict[AcquisitionLock | None, list[int]] = {}
        for record in awaited():
            waiting.setdefault(record.lock, []).append(record.offset)
        renewals: list[GatheredAcknowledgements] = []
        for delivery in held:
            due = delivery.renewals_due(waiting.get(delivery.lock, ()), lock_ms, now_ms)
            if due is not None:
                renewals.append(self._book(attrs.evolve(due, number=next(self.numbers)), delivery, {}))
        return tuple(renewals)

    def book(self, gathered: GatheredAcknowledgements, lock: AcquisitionLock) -> None:
        """Take over acknowledgements that have left a delivery which is not in the books; nothing changes if it has."""
        self.awaited.add(gathered, lock, {})

    def _book(
        self, gathered: GatheredAcknowledgements, delivery: Delivery, waiting: Waiting
    ) -> GatheredAcknowledgements:
        self.unposted[gathered.number] = gathered
        self.awaited.add(gathered, delivery.lock, waiting, delivery.refuse_renewals)
        return gathered

    def look_again_at_ms(self) -> int | None:
        """When the background thread asks again, if at all; in a window sooner, as renewals wait behind fetches."""
        with self.guard:
            releases = [at for delivery in self._all() if (at := delivery.next_release_at_ms()) is not None]
            if not self._by_place or not (self._protects_locks or self._has_window or releases):
                return None
            return min([self._now_ms() + self.known_lock_ms // (6 if self._has_window else 3), *releases])

    def take_lost(self) -> tuple[LostRecords, ...]:
        """What was given up since this was last asked."""
        with self.guard:
            lost, self._lost = self._lost, {}
            return tuple(
                LostRecords(where, tuple(runs_of((o, 0) for o in sorted(offsets)))) for where, offsets in lost.items()
            )

    @property
    def known_lock_ms(self) -> int:
        """How long locks last, as far as is known."""
        return self.lock_ms or DEFAULT_LOCK_MS

    # ---- outcomes

    @property
    def awaits_outcomes(self) -> bool:
        return self.awaited.has_unreported

    @property
    def has_waiting(self) -> bool:
        """Whether somebody is to be told of the outcome of what has been gathered."""
        return self.awaited.has_waiting

    def reported(self, outcome: AcknowledgementOutcome, *, is_again: bool) -> None:
        """The outcome has reached the application; perhaps not for the first time, after an interrupt."""
        with self.guard:
            self.awaited.reported(outcome, is_again=is_again)

    def resolve(self, outcome: AcknowledgementOutcome) -> list[Notice]:
        """Renew and lose locks. Returns whom to tell."""
        with self.guard:
            if outcome.is_own and outcome.error is not None:
                self._can_renew &= not isinstance(outcome.error, UnsupportedVersionError)
                self._announce_once()  # what is held has to be released in time
            return self.awaited.resolve(outcome, outcome.acquisition_lock_timeout_ms or self.known_lock_ms)

    def abandon(self, error: KafkaShareError) -> list[Notice]:
        """Nothing is sent or answered any more: whoever waits gets this error."""
        with self.guard:
            self.is_closed = True
            self.short_way.is_open = False
            notices = self.awaited.abandon(error)
            for delivery in self._all():
                waiting = delivery.waiting()
                notices += [(told, error) for those in waiting.values() for told in those]
                waiting.clear()
            return notices

    def check(self, held_beside: Mapping[AcquisitionLock, Ledger]) -> None:
        assert self._leaving is None, "acknowledgements stay half gathered"
        self.awaited.check()
        for here in self._by_place.values():
            assert here, "an empty list of deliveries is kept"
            for delivery in here:
                assert not delivery.is_done, f"{delivery.partition} is kept without anything in flight"
                assert self._by_lock[delivery.lock] is delivery
                delivery.check()
        assert len(self._by_lock) == len(self._all()), "a delivery is found by its place or its lock only"
        self.short_way.check({**held_beside, **{lock: one.ledger for lock, one in self._by_lock.items()}})


def _nobody() -> None:
    """Who is told where nobody gathers between polls."""


def _is_lost(record: Record) -> bool:
    return record.lock is not None and record.lock.is_lost(record.offset)
