"""Answers that are held as a whole: delivered, acknowledged and ended without an entry in any book.

Nearly every answer that a poll fetches by itself brings sound records without gaps, all of which are acknowledged
before the next poll, leave in one request, and are taken by the broker. The books of `Deliveries` would be written for
such an answer and struck out again, at a third of what a poll costs. So it stays one thing, which knows how far it has
come, and its entries are made (`file`) once somebody looks into the books: for whatever is not plain, for other
threads, after an interrupt.

Owned by `ApplicationSide`, which files before anybody gets to the books; each method is called under its guard. How far
an answer has come is one store, so that an interrupt finds it before or after a step. Where nothing was compiled there
are no such answers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafka_share.application.decoding import Decoder, whole_run
from kafka_share.application.deliveries import Deliveries
from kafka_share.application.delivery import Delivery, Record
from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.core.fetching.share_session import encode_runs
from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.native import IS_COMPILED, Ledger
from kafka_share.records import AcknowledgeType, ShareRecords, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.native import Places, Run
    from kafka_share.network.direct import AcquiredRecords, Brought
    from kafka_share.protocol.direct_fetch import Acknowledged
    from kafka_share.protocol.share_values import AcquiredRange


class _State(enum.Enum):
    """How far an answer has come."""

    FRESH = "taken"
    HELD = "collected by a poll"
    LEAVING = "acknowledged; perhaps that has been sent"
    SENT = "acknowledged, and that has been sent"


_NOTHING = memoryview(b"")
_AT_HAND = (_State.FRESH, _State.HELD)


class WholePartition:
    """What one partition has in it. `number` and `runs` are those of its acknowledgements, once they leave."""

    __slots__ = ("acquired", "data", "delivery", "ledger", "lock", "locks", "number", "records", "runs", "where")

    def __init__(self, acquired: AcquiredRecords, lock: AcquisitionLock, records: Run) -> None:
        where, locks, data, ranges = acquired
        self.where: TopicIdPartition = where
        self.locks: LockGeneration = locks
        self.data: memoryview = data
        self.acquired: tuple[AcquiredRange, ...] = ranges
        self.lock: AcquisitionLock = lock
        self.records: Run = records
        self.ledger: Ledger = Ledger()
        self.number: int = 0
        self.runs: tuple[AcknowledgementRun, ...] = ()
        self.delivery: Delivery | None = None
        """Its entry in the books, once there is one."""


class WholeAnswer:
    """One answer to a ShareFetch, of one node."""

    __slots__ = (
        "count", "delivered_at_ms", "is_filed", "is_returned", "is_taken", "lock_ms", "node_id", "partitions",
        "session_id", "state",
    )  # fmt: skip

    def __init__(
        self, partitions: Sequence[WholePartition], count: int, node_id: int, session_id: int, lock_ms: int
    ) -> None:
        self.partitions: Sequence[WholePartition] = partitions
        self.count: int = count
        self.node_id: int = node_id
        self.session_id: int = session_id
        self.lock_ms: int = lock_ms
        self.delivered_at_ms: int = 0
        self.state: _State = _State.FRESH
        self.is_taken: bool = False
        self.is_returned: bool = False
        """The application has got the records."""
        self.is_filed: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether its acknowledgements have been sent."""
        return self.state is _State.SENT

    @property
    def places(self) -> list[tuple[Any, ...]]:
        """Topic and number of each partition."""
        return [one.where[1:] for one in self.partitions]

    def gathered(self) -> tuple[GatheredAcknowledgements, ...]:
        """What is sent of it, or has been."""
        return tuple(
            GatheredAcknowledgements(one.where, self.node_id, self.session_id, one.runs, number=one.number)
            for one in self.partitions
        )

    def pieces(self, *, accepts: bool) -> Acknowledged | None:
        """What to send; None if that is not plain. `accepts`: what has no acknowledgement is accepted."""
        pieces: list[Any] = []
        for one in self.partitions:
            runs = None if one.lock.may_be_lost else one.ledger.runs_of_all(AcknowledgementRun, accepts=accepts)
            if runs is None:
                return None
            one.runs = runs
            topic_id, _, partition = one.where
            pieces.append((topic_id, partition, encode_runs(runs)))
        return pieces


class WholeAnswers:
    """Those that an application holds or has sent the acknowledgements of, each of another node."""

    def __init__(self, deliveries: Deliveries, decoder: Decoder, now_ms: Callable[[], int], *, is_on: bool) -> None:
        self._deliveries = deliveries
        self._decoder = decoder
        self._now_ms = now_ms
        self._is_on = is_on and IS_COMPILED and decoder.key_deserializer is decoder.value_deserializer is None
        self.all: tuple[WholeAnswer, ...] = ()

    # ---- on the thread that polls

    def of(self, brought: Brought, node_id: int, session_id: int) -> WholeAnswer | None:
        """Make one; None if there is more to do with what was brought, or with what is in the books."""
        if not self._is_on or self._deliveries.has_any:
            return None
        partitions: list[WholePartition] = []
        for acquired in brought.parts:
            where, locks, data, ranges = acquired
            lock = self._deliveries.new_lock(locks, brought.sent_at_ms, brought.lock_ms)
            records = None if lock.may_be_lost else whole_run(where, data, ranges, self._decoder, lock)
            if records is None:
                return None
            partitions.append(WholePartition(acquired, lock, records))
        return WholeAnswer(partitions, brought.records, node_id, session_id, brought.lock_ms)

    def take(self, answer: WholeAnswer | None, ended: object) -> None:
        """Hold this one, if there is one, and no more the one that has ended; once only."""
        if answer is None:
            self.all = tuple([one for one in self.all if one is not ended])
        elif not answer.is_taken:
            self._deliveries.lock_ms = answer.lock_ms
            self.all = (*[one for one in self.all if one is not ended], answer)
            answer.is_taken = True

    def collect(self) -> ShareRecords[Any, Any] | None:
        """The records of the one that no poll has returned."""
        answer = self.all[-1] if self.all else None
        if answer is None or answer.is_filed or answer.is_returned or answer.state not in _AT_HAND:
            return None
        for one in answer.partitions:
            one.ledger.add(one.records)
            self._deliveries.short_way.add(one.lock, one.ledger)
        answer.delivered_at_ms = self._now_ms()
        answer.state = _State.HELD
        self._deliveries.open_short_way()
        return ShareRecords.of_runs({one.where.topic_partition: [one.records] for one in answer.partitions})

    def returned(self) -> None:
        """What was collected has reached the application."""
        if self.all and self.all[-1].state is not _State.FRESH:
            self.all[-1].is_returned = True

    def unreturned(self) -> list[tuple[WholeAnswer, WholePartition]]:
        """What the application has not got."""
        if not self.all or self.all[-1].is_returned or self.all[-1].state not in _AT_HAND:
            return []
        return [(self.all[-1], one) for one in self.all[-1].partitions]

    def drop_all(self) -> None:
        """Others know what there is."""
        for answer in self.all:
            answer.is_taken = True
        self.all = ()

    def acknowledge(self, offset: int, kind: AcknowledgeType, lock: AcquisitionLock | None) -> bool:
        """False if that has to be done by the books."""
        answer = self._last(_State.HELD)
        if answer is None or kind is AcknowledgeType.RENEW or self._deliveries.is_pressing:
            return False
        return any(one.lock is lock and one.ledger.acknowledge(offset, kind) for one in answer.partitions)

    def acknowledge_all(self, places: Sequence[Places], kind: AcknowledgeType) -> Sequence[Places]:
        """Acknowledge many records at once; what is left has to be done by the books."""
        ledgers = self.held_ledgers()
        if not ledgers or kind is AcknowledgeType.RENEW or self._deliveries.is_pressing:
            return places
        rest: list[Places] = []
        for lock, topic, partition, offsets in places:
            ledger = None if lock is None else ledgers.get(lock)
            left = offsets if ledger is None else ledger.acknowledge_each(offsets, kind, once=False)
            if left:
                rest.append((lock, topic, partition, left))
        return rest

    def accept(self, records: Sequence[Record]) -> bool:
        """ACCEPT for these, which were collected last; False if that has to be done by the books."""
        answer = self._last(_State.HELD)
        if answer is None:
            return False
        for one in answer.partitions:
            one.ledger.accept([record.offset for record in records if record.lock is one.lock])
        return True

    def is_acknowledged(self) -> bool:
        """Whether all that the application holds is one answer, each record of which has its acknowledgement."""
        answer = self._last(_State.HELD)
        return answer is not None and not any(one.ledger.open for one in answer.partitions)

    def held(self) -> WholeAnswer | None:
        """The one that the application has got and not sent the acknowledgements of."""
        answer = self._last(_State.HELD)
        return answer if answer is not None and answer.is_returned else None

    def _last(self, state: _State) -> WholeAnswer | None:
        if self.all:
            answer = self.all[-1]
            if answer.state is state and not answer.is_filed:
                return answer
        return None

    def leave(self, answer: WholeAnswer) -> None:
        """Its acknowledgements are about to be sent."""
        for one in answer.partitions:
            one.number = self._deliveries.next_number()
        answer.state = _State.LEAVING
        for one in answer.partitions:
            self._deliveries.short_way.drop(one.lock)

    def stay(self, answer: WholeAnswer) -> None:
        """They were not."""
        for one in answer.partitions:
            self._deliveries.short_way.add(one.lock, one.ledger)
        answer.state = _State.HELD

    def sent(self, answer: WholeAnswer) -> None:
        """They were; what is awaited needs no records."""
        answer.state = _State.SENT
        for one in answer.partitions:
            one.data, one.records, one.ledger = _NOTHING, [], Ledger()

    # ---- on any thread

    def file(self) -> None:
        """Make the entries in the books: what the application holds, and what awaits its outcome."""
        for answer in self.all:
            if not answer.is_filed:
                self._file(answer)
                answer.is_filed = True

    def _file(self, answer: WholeAnswer) -> None:
        if answer.state is _State.HELD:
            for one in answer.partitions:
                delivery = entry_of(answer, one)
                delivery.delivered_at_ms = answer.delivered_at_ms
                self._deliveries.add(delivery)
        elif answer.state is not _State.FRESH:
            is_posted = answer.state is _State.SENT
            for one, gathered in zip(answer.partitions, answer.gathered(), strict=True):
                self._deliveries.book(gathered, one.lock, is_posted=is_posted)

    def held_ledgers(self) -> dict[AcquisitionLock, Ledger]:
        """Those of records that the application holds and no book knows, by their lock."""
        answer = self._last(_State.HELD)
        return {} if answer is None else {one.lock: one.ledger for one in answer.partitions}

    def check(self) -> None:
        """Invariants."""
        assert not self.all or not self._deliveries.has_any or self.all[-1].is_filed, (
            "an answer is held beside the books"
        )
        assert all(one.is_taken for one in self.all), "an answer is kept that was not taken"


def entry_of(answer: WholeAnswer, one: WholePartition) -> Delivery:
    """The delivery that it is in the books; the same each time."""
    if one.delivery is None:
        fetched = FetchedPartition(one.where, answer.node_id, answer.session_id, one.data, one.acquired, one.locks)
        one.delivery = Delivery(fetched, one.lock, one.ledger)
    return one.delivery
