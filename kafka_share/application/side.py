"""The half of the consumer that lives with the caller: delivered records, their acknowledgements, what is to be raised.

A façade owns one `ApplicationSide` and runs `ConsumerCalls` with it. It takes what has arrived (`take`), and gives
records (`collect`) and acknowledgements to be posted (`gather`). It never blocks, and reads a clock for locks alone.

With an open window (`window_records`) records are acknowledged by any thread while another one polls. Those calls
(`deliveries.acknowledge_delivery`) and those of the background thread (`tell_outcomes`, `post_acknowledgements`,
`ended`) are safe at any time; all others belong to the thread that polls.

An interrupt may end a call between any two instructions. So a call `begins` and ends with a store: `is_returned`, or
`has_ended`. The next one that finds neither puts the books in order first (`_recover`), and what the interrupted poll
had collected goes to the next poll.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

import attrs

from kafka_share.application.awaited_outcomes import Notice
from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.application.deliveries import Deliveries
from kafka_share.application.delivery import Delivery
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    FetchedBatch,
    FinishClose,
    GatheredAcknowledgements,
    Output,
    RaiseError,
    ReportOutcomes,
)
from kafka_share.errors import DataError, IllegalStateError, KafkaShareError, OutcomeUnknownError
from kafka_share.records import AcknowledgeType, ShareRecords, TopicPartition

_offset_of = attrgetter("offset")


def _standing_clock() -> int:
    """By this clock no lock runs out."""
    return 0


class _Call(enum.Enum):
    """Where the latest call has come to."""

    ENDED = "ended"
    RETURNED = "ended, and returned what it had collected"
    OPEN = "under way, or ended by an exception"


@attrs.define(eq=False)
class _Returning:
    """Records that a poll has yet to return, or return again."""

    delivery: Delivery
    records: list[Record]
    decoding: PartitionDecoding | None = None
    """Where they come from, if they were decoded for this poll."""


@attrs.define(eq=False)
class _Decoding:
    """One fetched partition on its way to the application."""

    batch: FetchedBatch
    steps: PartitionDecoding
    delivery: Delivery
    first_offset: int

    @property
    def topic(self) -> str:
        return self.delivery.partition.topic

    @property
    def is_lost(self) -> bool:
        return self.delivery.lock.is_lost(self.first_offset)


class ApplicationSide:
    """What one consumer's application holds. Thread-safe only where the module's docstring says so.

    `now_ms` is the clock of the core's events. `guard` is a re-entrant lock, needed with `window_records` only.
    """

    def __init__(
        self,
        *,
        explicit: bool,
        decoder: Decoder,
        max_poll_records: int,
        now_ms: Callable[[], int] = _standing_clock,
        window_records: int = 0,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.explicit = explicit
        self.topics: frozenset[str] = frozenset()
        self.closed = False
        self.has_window = window_records > 0
        self.guard = nullcontext() if guard is None else guard
        """To be held while acknowledgements are gathered and the event that carries them is posted."""
        self.deliveries = Deliveries(explicit=explicit, window_records=window_records, guard=self.guard, now_ms=now_ms)
        # Called for each record: as attributes they cost one call less.
        self.acknowledge = self.deliveries.acknowledge
        self.override = self.deliveries.override
        self._decoder = decoder
        self._max_poll_records = max_poll_records
        self._asked: int | None = None
        """How many records the present poll has asked for since the last batch came."""
        self.begun_calls = 0
        self._call = _Call.ENDED
        self._last_taken: Output | None = None
        self._arrived: deque[FetchedBatch] = deque()
        self._decoding: deque[_Decoding] = deque()
        self._problems: deque[tuple[_Decoding, Problem]] = deque()
        """To be raised one by one, when all records that are at hand have been returned: an application that ends with
        the error then costs no other record a delivery."""
        self._returning: list[_Returning] = []
        self._errors: deque[KafkaShareError] = deque()
        self._outcomes: deque[AcknowledgementOutcome] = deque()
        self._completed: dict[int, bool] = {}

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """What a broker said last; None before the first delivery."""
        return self.deliveries.lock_ms

    # ---- calls

    def begin_call(self) -> None:
        """Every call that changes something begins here."""
        if self._call is _Call.OPEN:
            self._recover()
        elif self._call is _Call.RETURNED:
            self._returning.clear()
        self._call = _Call.OPEN
        self.begun_calls += 1

    def end_call(self, *, is_returned: bool = False) -> None:
        """The call has done its work; `is_returned`: what it has collected is on its way to the application."""
        self._call = _Call.RETURNED if is_returned else _Call.ENDED

    def interrupt_call(self) -> None:
        """The call has not ended after all: its result does not reach the application."""
        self._call = _Call.OPEN

    def _recover(self) -> None:
        """Put the books in order. May itself be interrupted, and is then done again."""
        self.deliveries.heal()
        for returning in self._returning:
            self.deliveries.take_back(returning.delivery, returning.records)
            if returning.decoding is not None:
                returning.decoding.confirm_up_to(returning.records[-1].offset)
        for decoding, problem in self._problems:
            decoding.steps.confirm_up_to(problem.runs[-1].last)
        for decoding in self._decoding:
            self._preset_gaps(decoding)
        self._drop_begun()
        self._drop_unwanted()

    # ---- what the mailbox brings

    def take(self, output: Output) -> None:
        """Take over one output. Until the mailbox has dropped it, it may come again, which changes nothing."""
        if isinstance(output, Deliver):
            if not any(batch is output.batch for batch in self._arrived):
                self._arrived.append(output.batch)
            if self.has_window:
                self._asked = None  # the core has stopped fetching
            return
        is_again, self._last_taken = output is self._last_taken, output
        if isinstance(output, ReportOutcomes):
            for outcome in output.outcomes:
                if not (is_again and any(known is outcome for known in self._outcomes)):
                    self._outcomes.append(outcome)
                self._resolve(outcome, is_again=is_again)
        elif isinstance(output, RaiseError):
            if not (is_again and any(known is output.error for known in self._errors)):
                self._errors.append(output.error)
        elif isinstance(output, CompleteCommit):
            self._completed[output.request_id] = output.timed_out
        elif isinstance(output, CompleteUnsubscribe):
            self._completed[output.request_id] = False
        else:
            assert isinstance(output, FinishClose), f"{output!r} is not for the application"
            self.closed = True

    def _resolve(self, outcome: AcknowledgementOutcome, *, is_again: bool) -> None:
        self.deliveries.reported(outcome, is_again=is_again)
        if outcome.acquisition_lock_timeout_ms is not None:
            self.deliveries.lock_ms = outcome.acquisition_lock_timeout_ms
        if self.has_window:
            return  # `tell_outcomes` has done the rest, and renewed records were never away
        self.deliveries.resolve(outcome)
        for ended in outcome.ended:
            offsets = {o for r in ended.runs if r.type == AcknowledgeType.RENEW for o in range(r.first, r.last + 1)}
            if offsets and ended.number in self.deliveries.renewing:
                self._renewal_ended(ended.number, offsets, succeeded=outcome.error is None)

    def _renewal_ended(self, number: int, offsets: set[int], *, succeeded: bool) -> None:
        delivery, records = self.deliveries.renewing[number]
        renewed = sorted((r for r in records if r.offset in offsets), key=_offset_of)
        if succeeded and renewed and not any(known.records == renewed for known in self._returning):
            self._returning.append(_Returning(delivery, renewed))
        left = [r for r in records if r.offset not in offsets]
        if left:
            self.deliveries.renewing[number] = delivery, left
        else:
            self.deliveries.renewing.pop(number, None)

    def raise_error(self) -> None:
        """Raise the next error of the background side, each once."""
        if self._errors:
            try:
                raise self._errors[0]
            except KafkaShareError:
                self._errors.popleft()
                raise

    def pop_error(self) -> KafkaShareError | None:
        """The next error that no call has raised."""
        return self._errors.popleft() if self._errors else None

    def first_outcome(self) -> AcknowledgementOutcome | None:
        """The oldest outcome that has not been reported to the application yet."""
        return self._outcomes[0] if self._outcomes else None

    def drop_outcome(self) -> None:
        """It has been reported."""
        self._outcomes.popleft()

    def drop_outcomes(self) -> None:
        """Nobody wants to hear of what has ended so far."""
        self._outcomes.clear()

    def peek_outcomes(self) -> tuple[AcknowledgementOutcome, ...]:
        return tuple(self._outcomes)

    def pop_completion(self, request_id: int) -> bool | None:
        """None until a commit or unsubscribe has been completed, then whether it ran out of time."""
        return self._completed.pop(request_id, None)

    @property
    def awaits_outcomes(self) -> bool:
        """Whether there are acknowledgements whose outcome is not known."""
        return self.deliveries.awaits_outcomes

    # ---- open window: called by the background thread

    def tell_outcomes(self, outputs: Iterable[Output]) -> None:
        """See outputs before the mailbox has them: whoever waits for an outcome does not wait for a poll."""
        notices: list[Notice] = []
        for output in outputs:
            if isinstance(output, ReportOutcomes):
                for outcome in output.outcomes:
                    notices += self.deliveries.resolve(outcome)
        for told, error in notices:
            told(error)

    def post_acknowledgements(self, post: Callable[[AcknowledgementsGathered], None]) -> None:
        """Post what was acknowledged (answer to `GatherAcknowledgements`)."""
        with self.guard:
            gathered = self.deliveries.gather_announced()
            if gathered:
                post(AcknowledgementsGathered(gathered))
                self.deliveries.posted()

    def ended(self) -> None:
        """The background thread has ended, well or badly: nobody is left waiting."""
        error = OutcomeUnknownError("the consumer ended before the outcome of the acknowledgement was known")
        for told, why in self.deliveries.abandon(error):
            told(why)

    # ---- records

    @property
    def has_ready(self) -> bool:
        """Whether `collect` has something to give without another answer of a broker."""
        if self.deliveries.renewing or not self.has_room:
            return False
        has_returning = bool(self._returning) and self._call is not _Call.RETURNED
        return bool(self._arrived or self._decoding or self._problems or has_returning)

    @property
    def has_room(self) -> bool:
        """Whether a poll may return records: always, unless the window is full."""
        return not self.has_window or self.deliveries.room() > 0

    def begin_poll(self) -> None:
        self._asked = None

    def next_ask(self) -> int | None:
        """How many records the present poll has to ask for now; None while what it asked for stands, 0 without room.

        A poll asks when it begins, when there is room in its full window, and when a batch had nothing for it.
        """
        room = (
            min(self._max_poll_records, max(0, self.deliveries.room())) if self.has_window else self._max_poll_records
        )
        if self._asked is None or self._asked == 0 < room:
            self._asked = room
            return room
        if not self.has_window and self.deliveries.has_acknowledgements and not self.deliveries.unacknowledged:
            return room  # the batch had gaps only
        return None

    @property
    def is_renewing(self) -> bool:
        return bool(self.deliveries.renewing)

    def collect(self) -> ShareRecords[object, object] | None:
        """The records for one poll, renewed ones first; None if there are none (yet), or no room for any.

        They are the application's when the call ends with `is_returned`, and stay to be returned if it does not. Raises
        `DataError` for a record or batch that could not be decoded, when no other records are at hand.
        """
        if self.is_renewing or not self.has_room:
            return None
        self._fill()
        if self._returning:
            found: dict[TopicPartition, list[Record]] = {}
            for returning in self._returning:
                self.deliveries.deliver(returning.delivery, returning.records)
                found.setdefault(returning.delivery.partition.topic_partition, []).extend(returning.records)
            return ShareRecords(found)
        if self._problems:
            self._raise_problem(*self._problems[0])
        return None

    def _raise_problem(self, decoding: _Decoding, problem: Problem) -> None:
        # The offsets count as acknowledged from now on: only now can the application override their type.
        self.deliveries.fail(decoding.delivery, problem.runs)
        try:
            raise problem.error
        except DataError:
            self._problems.popleft()
            raise

    def put_back(self, records: Iterable[Record]) -> None:
        """These were returned, and did not reach the application after all: they belong to the next poll."""
        present = [_Returning(delivery, there) for delivery, there in self.deliveries.present(records)]
        self._returning.extend(present)
        for returning in present:
            self.deliveries.take_back(returning.delivery, returning.records)

    def _fill(self) -> None:
        """Decode until one broker's answer more would be too much for one poll.

        An open window ends it behind the record batch that fills it; the rest of the answer waits for a later poll.
        """
        limit = self._max_poll_records
        if self.has_window:
            limit = min(limit, self.deliveries.room())
        left = limit - self._count_returning()
        self._drop_unwanted()
        while not (self.has_window and self._count_returning() >= limit):
            if not self._decoding:
                if not self._arrived:
                    return
                size = sum(r.last - r.first + 1 for p in self._arrived[0].partitions for r in p.acquired)
                if self._returning and size > left:
                    return
                left -= size
                self._begin_batch(self._arrived[0])
            self._drop_unwanted()
            if self._decoding:
                self._decode_partition(self._decoding[0], limit)

    def _count_returning(self) -> int:
        return sum(len(returning.records) for returning in self._returning)

    def _begin_batch(self, batch: FetchedBatch) -> None:
        lock_ms = batch.acquisition_lock_timeout_ms
        self.deliveries.lock_ms = lock_ms
        begun: list[_Decoding] = []
        for fetched in batch.partitions:
            lock = self.deliveries.new_lock(fetched, batch.acquired_at_ms, lock_ms)
            steps = PartitionDecoding(fetched, self._decoder, lock)
            begun.append(_Decoding(batch, steps, Delivery(fetched, lock), fetched.acquired[0].first))
        self._decoding.extend(begun)
        self._drop_begun()

    def _drop_begun(self) -> None:
        """A batch that is being decoded has not merely arrived."""
        if self._arrived and any(decoding.batch is self._arrived[0] for decoding in self._decoding):
            self._arrived.popleft()

    def _decode_partition(self, decoding: _Decoding, limit: int) -> None:
        steps, delivery = decoding.steps, decoding.delivery
        while not (self.has_window and self._count_returning() >= limit):
            step = steps.next_step()
            if step is None:
                self._preset_gaps(decoding)
                self._decoding.popleft()
                return
            if isinstance(step, Problem):
                self._problems.append((decoding, step))
            else:
                self._returning.append(_Returning(delivery, step, steps))
            steps.confirm(step)
        self._preset_gaps(decoding)

    def _preset_gaps(self, decoding: _Decoding) -> None:
        self.deliveries.preset(decoding.delivery, decoding.steps.gaps())
        decoding.steps.drop_gaps()

    def _drop_unwanted(self) -> None:
        """Give back what came for topics that have been left since: no poll returns or raises it.

        What waited until its lock was lost, for room in an open window or for the answer to a renewal, is dropped and
        not acknowledged: it is another's.
        """
        for decoding, problem in self._problems:
            if decoding.topic not in self.topics:
                self.deliveries.preset(decoding.delivery, list(problem.runs))
        self._problems = deque(known for known in self._problems if known[0].topic in self.topics)
        while self._decoding:
            decoding = self._decoding[0]
            has_left = decoding.topic not in self.topics
            if not has_left and not decoding.is_lost:
                return
            if has_left:
                self.deliveries.preset(decoding.delivery, decoding.steps.released_rest())
            self._decoding.popleft()

    @property
    def holds_records(self) -> bool:
        """Whether the application holds delivered records that it has not acknowledged."""
        return self.deliveries.unacknowledged > 0

    # ---- acknowledgements

    def demand_all_acknowledged(self) -> None:
        """Explicit mode without a window: raises IllegalStateError while a delivered record has no acknowledgement."""
        if not self.explicit or self.has_window:
            return
        open_records = self.deliveries.unacknowledged
        if open_records:
            raise IllegalStateError(
                f"{open_records} records of the last poll have not been acknowledged; "
                f"with explicit acknowledgement each needs one before the next poll."
            )

    def accept_delivered(self) -> None:
        """Implicit mode: ACCEPT what was delivered. Explicit mode: nothing."""
        if not self.explicit:
            self.deliveries.accept_rest()

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        """All acknowledgements that have to be posted now, under the same `guard`; `posted` says that they were."""
        return self.deliveries.gather()

    def posted(self) -> None:
        """What was gathered has been posted."""
        self.deliveries.posted()

    def gather_last(self) -> tuple[GatheredAcknowledgements, ...]:
        """The same as `gather` for close, after which nothing can be acknowledged any more."""
        with self.guard:
            self.deliveries.is_closed = True
            return self.gather()

    def check(self) -> None:
        """Invariants, called by tests after every step."""
        self.deliveries.check()
