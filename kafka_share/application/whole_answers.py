"""Answers that are held as a whole: delivered, acknowledged and ended without an entry in any book.

Nearly every answer that a poll fetches by itself brings sound records without gaps, all of which are acknowledged
before the next poll, leave in one request, and are taken by the broker. The books of `Deliveries` would be written for
such an answer and struck out again, at a third of what a poll costs. So it stays one thing, which knows how far it has
come, and its entries are made (`file`) once somebody looks into the books: for whatever is not plain, for other
threads, after an interrupt.

Owned by `ApplicationSide`, which files before anybody gets to the books; each method is called under its guard. The
calls that make such answers, send what became of them and hear that it was taken are in the extension, as is what they
consist of (`plain_calls`): where nothing was compiled there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafka_share.application.decoding import Decoder, whole_maker
from kafka_share.application.deliveries import Deliveries
from kafka_share.application.delivery import Delivery, Record
from kafka_share.core.events import FetchedPartition
from kafka_share.locks import AcquisitionLock
from kafka_share.native import IS_COMPILED
from kafka_share.records import AcknowledgeType, ShareRecords

if TYPE_CHECKING:
    from kafka_share.native import Ledger, Places, WholeAnswer, WholeMaker, WholePartition
    from kafka_share.network.direct import Brought


NEXT_POLL_MS: Final = 20
"""Open window: so long after the delivery of an answer the next poll may come, and take its acknowledgements along; if
none has, they leave without it."""


class WholeAnswers:
    """Those that an application holds or has sent the acknowledgements of, each of another node."""

    def __init__(self, deliveries: Deliveries, decoder: Decoder, now_ms: Callable[[], int], *, is_on: bool) -> None:
        self._deliveries = deliveries
        self._now_ms = now_ms
        is_plain = is_on and IS_COMPILED and not decoder.deserializes
        self.maker: WholeMaker | None = whole_maker(decoder, now_ms) if is_plain else None
        """What makes them; None where there are none."""
        self.all: tuple[WholeAnswer, ...] = ()

    # ---- on the thread that polls

    def of(self, brought: Brought, node_id: int, session_id: int) -> WholeAnswer | None:
        """Make one; None if there is more to do with what was brought, or with what is in the books."""
        if self.maker is None or self._deliveries.has_any:
            return None
        return self.maker.make(
            brought.parts,
            self._deliveries.lock_end_ms(brought.sent_at_ms, brought.lock_ms),
            count=brought.records,
            node_id=node_id,
            session_id=session_id,
            lock_ms=brought.lock_ms,
            now_ms=self._now_ms(),
        )

    def take(self, answer: WholeAnswer) -> None:
        """Hold this one; once only."""
        if answer.is_filed or answer in self.all:
            return
        answer.collect()
        answer.delivered_at_ms = self._now_ms()
        short_way = self._deliveries.short_way
        for one in answer.partitions if short_way.exists else ():
            short_way.add(one.lock, one.ledger)
        self._deliveries.lock_ms = answer.lock_ms
        self.all = (*self.all, answer)
        self._deliveries.open_short_way()

    def collect(self) -> ShareRecords[Any, Any] | None:
        """The records of the one that no poll has returned."""
        answer = self._held()
        return None if answer is None or answer.is_returned else ShareRecords.of_runs(answer.by_partition)

    def returned(self) -> None:
        """What was collected has reached the application."""
        if self.all:
            self.all[-1].is_returned = True

    def unreturned(self) -> list[tuple[WholeAnswer, WholePartition]]:
        """What the application has not got."""
        if not self.all or self.all[-1].is_returned or self.all[-1].is_sent:
            return []
        return [(self.all[-1], one) for one in self.all[-1].partitions]

    def drop_all(self) -> None:
        """Others know what there is."""
        self.all = ()

    def acknowledge(self, offset: int, kind: AcknowledgeType, lock: AcquisitionLock | None) -> bool:
        """False if that has to be done by the books."""
        answer = self._held()
        if answer is None or kind is AcknowledgeType.RENEW or self._deliveries.is_pressing:
            return False
        return any(one.lock is lock and one.ledger.acknowledge(offset, kind) for one in answer.partitions)

    def acknowledge_once(self, offset: int, kind: AcknowledgeType, lock: AcquisitionLock | None) -> bool:
        """Open window: the same for one that has no final acknowledgement; any thread."""
        answer = self._held()
        if answer is None or lock is None or kind is AcknowledgeType.RENEW:
            return False
        return any(one.lock is lock and one.ledger.acknowledge_once(offset, kind) for one in answer.partitions)

    def acknowledge_all(self, places: Sequence[Places], kind: AcknowledgeType, *, once: bool) -> Sequence[Places]:
        """Acknowledge many records at once; what is left has to be done by the books. `once`: in an open window."""
        ledgers = self.held_ledgers()
        if not ledgers or kind is AcknowledgeType.RENEW or self._deliveries.is_pressing:
            return places
        rest: list[Places] = []
        for lock, topic, partition, offsets in places:
            ledger = None if lock is None else ledgers.get(lock)
            left = offsets if ledger is None else ledger.acknowledge_each(offsets, kind, once=once)
            if left:
                rest.append((lock, topic, partition, left))
        return rest

    def accept(self, records: Sequence[Record]) -> bool:
        """ACCEPT for these, which were collected last; False if that has to be done by the books."""
        answer = self._held()
        if answer is None:
            return False
        for one in answer.partitions:
            one.ledger.accept([record.offset for record in records if record.lock is one.lock])
        return True

    def is_acknowledged(self) -> bool:
        """Whether all that the application holds is one answer, each record of which has its acknowledgement."""
        answer = self._held()
        return answer is not None and not any(one.ledger.open for one in answer.partitions)

    def _held(self) -> WholeAnswer | None:
        """The one whose records the application holds."""
        answer = self.all[-1] if self.all else None
        return None if answer is None or answer.is_sent or answer.is_filed else answer

    # ---- on any thread

    def fresh_until_ms(self) -> int | None:
        """Open window: until when acknowledgements wait for the poll that is under way or follows; None: for none."""
        answer, now_ms = self.all[-1] if self.all else None, self._now_ms()
        if answer is None or answer.is_filed or self._deliveries.has_any:
            return None
        until_ms = (now_ms if answer.is_sent else answer.delivered_at_ms) + NEXT_POLL_MS
        return until_ms if now_ms < until_ms else None

    def count_open(self) -> int:
        """How many of the records that the application holds have no final acknowledgement."""
        answer = self._held()
        return 0 if answer is None else sum(one.ledger.open + one.ledger.renewing for one in answer.partitions)

    def file(self) -> None:
        """Make the entries in the books: what the application holds, and what awaits its outcome."""
        for answer in self.all:
            if not answer.is_filed:
                self._file(answer)
                answer.is_filed = True

    def _file(self, answer: WholeAnswer) -> None:
        if answer.is_sent:
            for one, gathered in zip(answer.partitions, answer.gathered(), strict=True):
                self._deliveries.book(gathered, one.lock)
            return
        for one in answer.partitions:
            delivery = entry_of(answer, one)
            delivery.delivered_at_ms = answer.delivered_at_ms
            self._deliveries.add(delivery)

    def held_ledgers(self) -> dict[AcquisitionLock, Ledger]:
        """Those of records that the application holds and no book knows, by their lock."""
        answer = self._held()
        return {} if answer is None else {one.lock: one.ledger for one in answer.partitions}

    def check(self) -> None:
        """Invariants."""
        assert not self.all or not self._deliveries.has_any or self.all[-1].is_filed, (
            "an answer is held beside the books"
        )
        assert all(one.is_sent for one in self.all[:-1]), "two answers are held"


def entry_of(answer: WholeAnswer, one: WholePartition) -> Delivery:
    """The delivery that it is in the books; the same each time."""
    known: Delivery | None = one.delivery
    if known is None:
        fetched = FetchedPartition(one.where, answer.node_id, answer.session_id, one.data, one.acquired, one.locks)
        one.delivery = known = Delivery(fetched, one.lock, one.ledger)
    return known
