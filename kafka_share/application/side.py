"""The half of the consumer that lives with the caller: delivered records, their acknowledgements, what is to be raised.

A façade owns one `ApplicationSide` and runs `ConsumerCalls` with it. It takes what has arrived (`take`), and gives
records (`collect`) and acknowledgements to be posted (`gather`). It never blocks, and reads a clock for locks alone.

The background thread asks it for what was acknowledged between two polls (`post_acknowledgements`) and shows it
outcomes before they reach the mailbox (`tell_outcomes`). These calls and `ended` are safe at any time, and so is
`deliveries.acknowledge_delivery` with an open window (`window_records`), where any thread acknowledges while another
one polls. All others belong to the thread that polls.

An interrupt may end a call between any two instructions. So a call `begins` and ends with a store: `is_returned`, or
`has_ended`. The next one that finds neither puts the books in order first (`_recover`), and what the interrupted poll
had collected goes to the next poll.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafka_share.application.awaited_outcomes import Notice, OnOutcome
from kafka_share.application.decoding import Decoder, Record
from kafka_share.application.deliveries import Deliveries
from kafka_share.application.delivery import Settled
from kafka_share.application.incoming import IncomingRecords
from kafka_share.application.reading import Reading
from kafka_share.application.reports import Reports
from kafka_share.application.whole_answers import WholeAnswers, entry_of
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    FinishClose,
    GatheredAcknowledgements,
    Output,
    RaiseError,
    ReportOutcomes,
)
from kafka_share.core.fetching.waits import window_wait_ms
from kafka_share.errors import IllegalStateError, OutcomeUnknownError
from kafka_share.health import UnacknowledgedRecord
from kafka_share.locks import AcquisitionLock
from kafka_share.records import AcknowledgeType, ShareRecords

if TYPE_CHECKING:
    from kafka_share.native import Places, WholeAnswer
    from kafka_share.network.direct import Brought

_offset_of = attrgetter("offset")

MAX_HELD_RECORDS = 1_000
"""So many records may wait for their release while further ones are fetched."""


def _nobody() -> None:
    """Who is woken where no poll waits."""


def _standing_clock() -> int:
    """By this clock no lock runs out."""
    return 0


class Call(enum.Enum):
    """Where the latest call has come to."""

    ENDED = "ended"
    RETURNED = "ended, and returned what it had collected"
    OPEN = "under way, or ended by an exception"


class ApplicationSide:
    """What one consumer's application holds. Thread-safe only where the module's docstring says so.

    `now_ms` is the clock of the core's events. `guard` is a re-entrant lock, needed where the background thread is
    another one. `protects_locks`: acknowledgements leave before their locks end, and loops keep the locks of what they
    have not come to, until they have stood still for `longest_work_ms`.
    """

    def __init__(
        self,
        *,
        explicit: bool,
        decoder: Decoder,
        max_poll_records: int,
        now_ms: Callable[[], int] = _standing_clock,
        window_records: int = 0,
        window_bytes: int = 0,
        protects_locks: bool = False,
        longest_work_ms: int = 300_000,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.explicit = explicit
        self.topics: frozenset[str] = frozenset()
        self.closed: bool = False
        self.has_window: bool = window_records > 0
        self.guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard
        """To be held while acknowledgements are gathered and the event that carries them is posted."""
        self._deliveries = Deliveries(
            explicit=explicit,
            window_records=window_records,
            window_bytes=window_bytes,
            protects_locks=protects_locks,
            guard=self.guard,
            now_ms=now_ms,
        )
        has_room = window_records >= max_poll_records and not window_bytes
        self._wholes = WholeAnswers(self._deliveries, decoder, now_ms, is_on=has_room or not self.has_window)
        self.reports: Reports = Reports()
        self.wake: Callable[[], None] = _nobody
        """Ends the wait of a poll, which looks whether there is room; to be set by whoever runs the calls."""
        self.begun_calls: int = 0
        self.latest_batch_id: int = 0
        """Of the batches that were taken from the mailbox; what a poll has fetched by itself has no number."""
        self.reading: Reading | None = None
        """What a loop over the consumer is about to get."""
        self.leased: Callable[[], Sequence[Record]] = tuple
        """Open window: the records whose locks are to be kept now. Called on the background thread under the guard; to
        be set by whoever knows which records are worked on."""
        self._incoming = IncomingRecords(decoder, self._deliveries, self._is_wanted, has_window=self.has_window)
        self._protects_locks = protects_locks
        self._longest_work_ms = longest_work_ms
        self._now_ms = now_ms
        self.max_poll_records = max_poll_records
        self._asked: int | None = None
        """How many records the present poll has asked for since the last batch came."""
        self.call: Call = Call.ENDED
        self._last_taken: Output | None = None

    # ---- answers that are held as a whole

    @property
    def deliveries(self) -> Deliveries:
        """The books. Whoever looks into them finds what was held as a whole until then: on the thread that polls."""
        if self._wholes.all:
            self._file_wholes()
        return self._deliveries

    def _file_wholes(self) -> None:
        with self.guard:
            self._wholes.file()
            for answer, one in self._wholes.unreturned():
                self._incoming.return_whole(entry_of(answer, one), one.records)
            self._wholes.drop_all()

    def whole(self, brought: Brought, node_id: int, session_id: int) -> WholeAnswer | None:
        """Records as one thing, to be taken; None if they have to be taken as a `Deliver`."""
        is_more_than_a_poll = self.has_window and brought.records > self.max_poll_records
        if is_more_than_a_poll or self._incoming.has_ready(counts_returning=True):
            return None
        return self._wholes.of(brought, node_id, session_id)

    def window_wait_ms(self, left_ms: int) -> int | None:
        """Open window: how long a broker may hold back a fetch by this poll itself, which has so much time and has
        gathered what it sends along. Under the guard.

        None: the core is to fetch, because something is in the window, or somebody waits for an outcome.
        """
        deliveries = self._deliveries
        is_empty = not (deliveries.has_any or deliveries.has_waiting or deliveries.behind())
        if self._wholes.maker is None or not is_empty:
            return None
        return window_wait_ms(left_ms, deliveries.known_lock_ms)

    def take_whole(self, answer: WholeAnswer) -> None:
        """The same as `take`, for records that are one thing."""
        with self.guard:
            self._wholes.take(answer)

    def books(self) -> Deliveries:
        """As `deliveries`, for other threads of an application with an open window; under the guard."""
        self._wholes.file()
        return self._deliveries

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing is held, is to be returned, or awaits being sent or its outcome as one thing."""
        known = self._wholes.all or self._deliveries.has_any or self._deliveries.unposted
        return not (known or self._incoming.has_ready(counts_returning=True))

    @property
    def wholes(self) -> WholeAnswers:
        """To be used under the guard."""
        return self._wholes

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """What a broker said last; None before the first delivery."""
        return self._deliveries.lock_ms

    def _is_wanted(self, topic: str) -> bool:
        return topic in self.topics

    # ---- calls

    def begin_call(self) -> None:
        """Every call that changes something begins here."""
        if self.call is Call.OPEN:
            self._recover()
        elif self.call is Call.RETURNED:
            self._incoming.returned()
            self._wholes.returned()
        if self.has_window and self._wholes.all:
            self._file_wholes()  # what room there is, only the books know
        self.call = Call.OPEN
        self.begun_calls += 1

    def end_call(self, *, is_returned: bool = False) -> None:
        """The call has done its work; `is_returned`: what it has collected is on its way to the application."""
        self.call = Call.RETURNED if is_returned else Call.ENDED

    def interrupt_call(self) -> None:
        """The call has not ended after all: its result does not reach the application."""
        self.call = Call.OPEN

    def _recover(self) -> None:
        """Put the books in order. May itself be interrupted, and is then done again."""
        self.deliveries.heal()
        self._incoming.recover()

    # ---- what the mailbox brings

    def take(self, output: Output) -> None:
        """Take over one output. Until the mailbox has dropped it, it may come again, which changes nothing."""
        if self._wholes.all:
            self._file_wholes()
        if isinstance(output, Deliver):
            self._incoming.arrive(output.batch)
            self.latest_batch_id = output.batch.batch_id or self.latest_batch_id
            if self.has_window:
                self._asked = None  # the core has stopped fetching
            return
        is_again, self._last_taken = output is self._last_taken, output
        if isinstance(output, ReportOutcomes):
            for outcome in output.outcomes:
                self._take_outcome(outcome, is_again=is_again)
        elif isinstance(output, RaiseError):
            self.reports.add_error(output.error, is_again=is_again)
        elif isinstance(output, CompleteCommit):
            self.reports.complete(output.request_id, timed_out=output.timed_out)
        elif isinstance(output, CompleteUnsubscribe):
            self.reports.complete(output.request_id, timed_out=False)
        else:
            assert isinstance(output, FinishClose), f"{output!r} is not for the application"
            self.closed = True

    def _take_outcome(self, outcome: AcknowledgementOutcome, *, is_again: bool) -> None:
        self.deliveries.reported(outcome, is_again=is_again)
        if not outcome.is_own:
            self.reports.add_outcome(outcome, is_again=is_again)
        if outcome.acquisition_lock_timeout_ms is not None:
            self.deliveries.lock_ms = outcome.acquisition_lock_timeout_ms
        if self.has_window:
            # `tell_outcomes` has done the rest, unless a poll has heard of it by itself; nobody waits for that then.
            self._deliveries.resolve(outcome)
            return  # renewed records were never away
        self.deliveries.resolve(outcome)
        for ended in outcome.ended:
            offsets = {o for r in ended.runs if r.type == AcknowledgeType.RENEW for o in range(r.first, r.last + 1)}
            if offsets and ended.number in self.deliveries.renewing:
                self._renewal_ended(ended.number, offsets, succeeded=outcome.error is None)

    def _renewal_ended(self, number: int, offsets: set[int], *, succeeded: bool) -> None:
        delivery, records = self.deliveries.renewing[number]
        renewed = sorted((r for r in records if r.offset in offsets), key=_offset_of)
        if succeeded and renewed:
            self._incoming.return_again(delivery, renewed)
        left = [r for r in records if r.offset not in offsets]
        if left:
            self.deliveries.renewing[number] = delivery, left
        else:
            self.deliveries.renewing.pop(number, None)

    @property
    def awaits_outcomes(self) -> bool:
        """Whether there are acknowledgements whose outcome is not known."""
        return self.deliveries.awaits_outcomes

    # ---- called by the background thread

    def tell_outcomes(self, outputs: Iterable[Output]) -> None:
        """See outputs before the mailbox has them: who waits for an outcome does not wait for a poll."""
        notices: list[Notice] = []
        for output in outputs:
            if isinstance(output, ReportOutcomes):
                with self.guard:
                    self._wholes.file()
                for outcome in output.outcomes:
                    notices += self._deliveries.resolve(outcome)
        for told, error in notices:
            told(error)

    def post_acknowledgements(self, post: Callable[[AcknowledgementsGathered], None]) -> None:
        """Post what was acknowledged, and when to ask again (answer to `GatherAcknowledgements`)."""
        with self.guard:
            until_ms = self._wholes.fresh_until_ms() if self.has_window else None
            if until_ms is not None:
                post(AcknowledgementsGathered((), until_ms))  # the next poll takes along what is acknowledged
                return
            deliveries = self.books()
            if deliveries.is_closed:
                return
            self._accept_passed()
            gathered, lost = deliveries.gather_early(self._awaited), deliveries.take_lost()
            again_at_ms = deliveries.look_again_at_ms()
            if gathered or lost or again_at_ms is not None:
                post(AcknowledgementsGathered(gathered, again_at_ms, lost))
                deliveries.posted()
        if gathered or lost:
            self.wake()  # there may be room

    def _awaited(self) -> Sequence[Record]:
        """The records whose locks are kept: what a loop has not dealt with, unless it has stood still for so long that
        it hangs. In the open window what is leased."""
        if self.has_window:
            return self.leased()
        reading = self.reading
        if reading is None or reading.stands_for_ms(self._now_ms()) >= self._longest_work_ms:
            return ()
        return reading.awaited

    def ended(self) -> None:
        """The background thread has ended, well or badly: nobody is left waiting."""
        error = OutcomeUnknownError("the consumer ended before the outcome of the acknowledgement was known")
        with self.guard:
            self._wholes.file()
        for told, why in self._deliveries.abandon(error):
            told(why)

    # ---- records

    @property
    def has_ready(self) -> bool:
        """Whether `collect` has something to give without another answer of a broker."""
        if self._deliveries.renewing or not self.has_room:
            return False
        if self._wholes.unreturned() and self.call is not Call.RETURNED:
            return True
        return self._incoming.has_ready(counts_returning=self.call is not Call.RETURNED)

    @property
    def has_more(self) -> bool:
        """Whether the next poll will find records at hand, beside those that this one returns."""
        return self._incoming.has_ready(counts_returning=False)

    @property
    def has_room(self) -> bool:
        """Whether a poll may return records: always, unless the window is full or too many wait for their release."""
        if self.has_window:
            return self._deliveries.room() > 0
        return not self._deliveries.has_held or self._deliveries.held < MAX_HELD_RECORDS

    def wake_for_room(self) -> None:
        """Something has happened that may have made room in the open window. Any thread."""
        if self._deliveries.has_found_room():
            self.wake()

    def begin_poll(self) -> None:
        self._asked = None

    def next_ask(self) -> int | None:
        """How many records the present poll has to ask for now; None while what it asked for stands, 0 without room.

        A poll asks when it begins, when there is room in its full window, and when a batch had nothing for it.
        """
        room = max(0, self._limit())
        if self._asked is None or self._asked == 0 < room:
            self._asked = room
            return room
        if not self.has_window and self.deliveries.has_acknowledgements and not self.deliveries.unacknowledged:
            return room  # the batch had gaps only
        return None

    def _limit(self) -> int:
        if self.has_window:
            return min(self.max_poll_records, self._deliveries.room())
        return self.max_poll_records if self.has_room else 0

    def collect(self) -> ShareRecords[object, object] | None:
        """The records for one poll, renewed ones first; None if there are none (yet), or no room for any.

        They are the application's when the call ends with `is_returned`, and stay to be returned if it does not. Raises
        `DataError` for a record or batch that could not be decoded, when no other records are at hand.
        """
        if self._wholes.all:
            with self.guard:
                records = self._wholes.collect()
            if records is not None:
                return records
            self._file_wholes()
        if self._deliveries.renewing or not self.has_room:
            return None
        return self._incoming.collect(self._limit())

    def put_back(self, records: Iterable[Record]) -> None:
        """These were returned, and did not reach the application after all: they belong to the next poll."""
        if self._wholes.all:
            self._file_wholes()
        self._incoming.put_back(records)

    # ---- loops

    def begin_reading(self, records: Iterable[Record], is_over: Callable[[], bool]) -> Reading:
        """A loop gets these one by one; what it has moved past is accepted in implicit mode."""
        self.reading = Reading(records, is_over, self._step)
        return self.reading

    def end_reading(self) -> None:
        """The loop is over. What it has not come to belongs to the next poll."""
        if self.reading is not None:
            self._accept_passed()
            if rest := self.reading.rest:
                self.put_back(rest)
            self.reading = None

    def _step(self, record: Record) -> bool:
        """The loop moves on to this record; False if it has been lost meanwhile."""
        lock = record.lock
        if lock is not None and lock.is_lost(record.offset):
            self.deliveries.give_up(record)
            return False
        if self._deliveries.is_pressing and not self.explicit:
            self._deliveries.announce_made()
        return True

    def _accept_passed(self) -> None:
        """Implicit mode: ACCEPT what a loop has moved past."""
        if self.reading is not None and not self.explicit and self._protects_locks:
            with self.guard:
                passed = self.reading.take_passed()
                if not self._wholes.accept(passed):
                    self._deliveries.accept(passed)

    @property
    def unaccepted(self) -> int:
        """Implicit mode: how many records of the last poll nothing has accepted, unless a loop has them."""
        return 0 if self.explicit or self.reading is not None else self.deliveries.unacknowledged

    # ---- acknowledgements

    def acknowledge(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType, lock: AcquisitionLock | None = None
    ) -> None:
        """Raises IllegalStateError in implicit mode, or if the record is not in flight. Not for the open window."""
        with self.guard:
            if not (self.explicit and self._wholes.acknowledge(offset, kind, lock)):
                self.deliveries.acknowledge(topic, partition, offset, kind, lock)

    def acknowledge_all(self, places: Iterable[Places], kind: AcknowledgeType) -> IllegalStateError | None:
        """The same for many, of which each that can be is acknowledged; in an open window on any thread.

        Returns why the first of the others cannot be. Raises ConsumerClosedError after close.
        """
        with self.guard:
            if self.explicit and self._wholes.all:
                places = self._wholes.acknowledge_all([*places], kind, once=self.has_window)
                if self.has_window:
                    self._deliveries.announce_made()
                if not places:
                    return None
            return (self.books() if self.has_window else self.deliveries).acknowledge_all(places, kind)

    def acknowledge_delivery(self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        """As `Deliveries.acknowledge_delivery`."""
        with self.guard:
            if on_outcome is None and self._wholes.acknowledge_once(record.offset, kind, record.lock):
                self._deliveries.announce_made()
                return False
            self._wholes.file()
        return self._deliveries.acknowledge_delivery(record, kind, on_outcome)

    def acknowledge_deliveries(self, settled: Collection[Settled]) -> tuple[bool, list[Settled]]:
        """As `Deliveries.acknowledge_deliveries`."""
        with self.guard:
            self._wholes.file()
        return self._deliveries.acknowledge_deliveries(settled)

    def hold(self, record: Record, delay_ms: int) -> None:
        """As `Deliveries.hold`."""
        with self.guard:
            (self.books() if self.has_window else self.deliveries).hold(record, delay_ms)

    @property
    def window_records(self) -> int:
        """Open window: the delivered records without a final acknowledgement. Any thread."""
        with self.guard:
            return self._deliveries.window_records + (self._wholes.count_open() if self.has_window else 0)

    def override(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Like `acknowledge`, for an offset whose record could not be delivered; InvalidArgumentError for RENEW."""
        self.deliveries.override(topic, partition, offset, kind)

    def oldest_unacknowledged(self, now_ms: int) -> UnacknowledgedRecord | None:
        """The delivered record that has been held longest. Any thread may ask."""
        with self.guard:
            self._wholes.file()
            return self._deliveries.oldest_unacknowledged(now_ms)

    def demand_all_acknowledged(self) -> None:
        """Explicit mode without a window: raises IllegalStateError while a delivered record has no acknowledgement.

        A record whose lock is lost needs none.
        """
        if not self.explicit or self.has_window or self._wholes.is_acknowledged() or not self.deliveries.unacknowledged:
            return
        self.deliveries.give_up_lost()
        open_records = self.deliveries.unacknowledged
        if open_records:
            first = self.deliveries.oldest_unacknowledged(0)
            assert first is not None, "something is open"
            where = f"{first.topic}-{first.partition}@{first.offset}"
            how_many = "1 record" if open_records == 1 else f"{open_records} records"
            raise IllegalStateError(
                f"{how_many} of the last poll {'has' if open_records == 1 else 'have'} not been acknowledged: {where}"
                f"{'' if open_records == 1 else ' and others'}; "
                f"with explicit acknowledgement each needs one before the next poll."
            )

    def accept_delivered(self) -> None:
        """Implicit mode: ACCEPT what was delivered. Explicit mode: nothing."""
        if not self.explicit:
            self.deliveries.accept_rest()

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        """All acknowledgements that have to be posted now, under the same `guard`; `posted` says that they were."""
        return self.deliveries.gather()

    @property
    def has_unposted(self) -> bool:
        """Whether an interrupted call has gathered what it has perhaps not posted."""
        return bool(self._deliveries.unposted)

    def posted(self) -> None:
        """What was gathered has been posted."""
        self._deliveries.posted()

    def gather_last(self) -> tuple[GatheredAcknowledgements, ...]:
        """The same as `gather` for close, after which nothing can be acknowledged any more."""
        with self.guard:
            self._accept_passed()
            return self.deliveries.gather_last()

    def check(self) -> None:
        """Invariants, called by tests after every step."""
        self._wholes.check()
        self._deliveries.check(self._wholes.held_ledgers())
