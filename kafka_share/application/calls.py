"""The calls of a consumer, each written once, for every façade.

A call that waits is a generator: it yields a `Wait`, goes on when the wait is over, and returns what the call returns.
`KafkaShareConsumer` runs it by blocking in the mailbox, the simulation under virtual time; an asyncio façade can run it
by awaiting. Nothing here blocks or knows a thread. The façade sees to it that there is one call at a time; only
`acknowledge_delivery` may be called at any time, by any thread, in an open window.

The order of the steps is the promise. What has arrived is taken before anything is accepted; acknowledgements are
gathered and posted under one guard; the callback hears of outcomes however a call ends; a poll that raises is ended.

An interrupt may strike between any two instructions. Then the next call begins with putting things in order: whatever
was booked and perhaps not posted is posted again, and what a poll has not returned goes to the next one
(docs/adr/0008-interrupts.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kafka_share.application.awaited_outcomes import OnOutcome
from kafka_share.application.delivery import Settled
from kafka_share.application.direct import DirectPolls, Wait
from kafka_share.application.plain_calls import plain_calls
from kafka_share.application.reading import Reading
from kafka_share.application.refusals import not_in_flight
from kafka_share.application.side import ApplicationSide
from kafka_share.core.condition import Condition
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsMade,
    CloseRequested,
    CommitRequested,
    Event,
    GatheredAcknowledgements,
    Output,
    PollEnded,
    PollStarted,
    SubscriptionChanged,
    Unsubscribed,
    WorkBegun,
)
from kafka_share.errors import (
    ConsumerClosedError,
    IllegalStateError,
    KafkaShareError,
    OperationTimeoutError,
    WakeupError,
)
from kafka_share.records import AcknowledgeType, ArrowRecords, ShareRecord, ShareRecords, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.core.metrics.measurements import Measurements
    from kafka_share.native import Places, PlainCalls
    from kafka_share.network.direct import DirectSession

LAST_OUTCOMES_MS = 1_000
"""What close adds to its timeout for a background side that is late; usually it needs a millisecond of it."""

Records: TypeAlias = ShareRecords[Any, Any]
CommitResult: TypeAlias = dict[TopicIdPartition, KafkaShareError | None]
T = TypeVar("T")


Steps: TypeAlias = Generator[Wait, None, T]


class Arrivals(Protocol):
    """What a call needs of the mailbox."""

    condition: Condition
    direct: dict[int, DirectSession]

    def arrived(self, *, with_records: bool, one_batch: bool = False) -> Sequence[Output]: ...
    def drop(self, output: Output) -> None: ...
    def consume_wakeup(self) -> bool: ...
    def interrupt(self) -> None: ...


class Background(Protocol):
    """What a call needs of the side that talks to the brokers."""

    @property
    def mailbox(self) -> Arrivals: ...
    @property
    def measurements(self) -> Measurements: ...
    def post(self, event: Event, *, wake: bool = True) -> None: ...
    def now_ms(self) -> int: ...


class ConsumerCalls:
    """The calls of one consumer."""

    def __init__(
        self,
        application: ApplicationSide,
        background: Background,
        *,
        api_timeout_ms: int,
        sends_ahead: bool = False,
    ) -> None:
        self.is_closing: bool = False
        """Close has come so far that there is no way back."""
        self._application = application
        self._report: Callable[[AcknowledgementOutcome], None] | None = None
        self._background = background
        self._api_timeout_ms = api_timeout_ms
        self._sends_ahead = sends_ahead
        hand_over = self._hand_over if sends_ahead else None
        self._direct = DirectPolls(application, background, background.mailbox, self._take_records, hand_over)
        self._last_request_id = 0
        application.deliveries.announce = self._announce
        application.wake = background.mailbox.interrupt
        self.has_open_poll: bool = False
        """A poll was begun, and the core was not told that it has ended."""
        self.posted_topics: frozenset[str] | None = frozenset()
        """What the core takes for the subscription; None: an interrupt struck before that was known."""
        self.plain: PlainCalls | None = plain_calls(application, self, background, sends_ahead=sends_ahead)

    @property
    def report(self) -> Callable[[AcknowledgementOutcome], None] | None:
        """Who hears how acknowledgements ended; None: nobody."""
        return self._report

    @report.setter
    def report(self, report: Callable[[AcknowledgementOutcome], None] | None) -> None:
        self._report = report
        self._application.reports.is_wanted = report is not None

    def _begin(self) -> None:
        """The beginning of every call: it puts in order what an interrupted one has left."""
        self._application.begin_call()
        self._direct.recover()
        if self._application.reading is not None and self._application.reading.is_over():
            self._application.end_reading()
        if self.has_open_poll:
            self._end_poll()
        if not self._application.topics:
            self._leave_group()

    def recover(self) -> None:
        """A call that went the short way was cancelled: the core is given back what it held, and goes on with it."""
        self._direct.recover()

    # ---- subscription

    def subscribe(self, topics: frozenset[str]) -> None:
        """Replace the subscription by these topics, of which there is at least one."""
        self._begin()
        self._application.topics = topics
        self.posted_topics = None
        self._post_subscription()
        self._application.end_call()

    def unsubscribe(self) -> Steps[None]:
        self._begin()
        self._application.topics = frozenset()
        request_id = self._leave_group()
        if request_id is not None:
            deadline_at_ms = self._deadline(self._api_timeout_ms)
            yield from self._wait(
                deadline_at_ms, lambda: self._application.reports.completion_of(request_id) is not None
            )
        self._application.end_call()

    def _post_subscription(self) -> None:
        """It takes effect with the poll that follows."""
        topics = self._application.topics
        if topics != self.posted_topics:
            self.posted_topics = None
            self._background.post(SubscriptionChanged(topics), wake=False)
            self.posted_topics = topics

    def _leave_group(self) -> int | None:
        """Tell the core that there is no subscription any more, unless it knows; the id of the request."""
        if self.posted_topics == frozenset():
            return None
        self.posted_topics = None
        request_id = self._new_request_id()
        self._background.post(Unsubscribed(request_id, self._deadline(self._api_timeout_ms)))
        self.posted_topics = frozenset()
        return request_id

    # ---- records

    def poll(self, timeout_ms: int, *, makes_objects: bool = True) -> Steps[Records]:
        deadline_at_ms = self._deadline(timeout_ms)
        records = yield from self._poll_plainly(deadline_at_ms, makes_objects=makes_objects)
        if records is None:
            return (yield from self._poll(deadline_at_ms, makes_objects=makes_objects))
        self._report_outcomes()
        self._application.end_call(is_returned=True)
        return records

    def _poll_plainly(self, deadline_at_ms: int, *, makes_objects: bool) -> Steps[Records | None]:
        """None: the poll has to go the long way."""
        plain = self.plain
        held = None if plain is None else plain.begin_poll(max(0, deadline_at_ms - self._background.now_ms()))
        if plain is None or held is None:
            return None
        try:
            yield Wait(deadline_at_ms, with_records=True, direct=held)
            return plain.take_records(makes_objects=makes_objects)
        except BaseException:
            self._direct.recover()
            raise

    def _poll(self, deadline_at_ms: int, *, makes_objects: bool) -> Steps[Records]:
        application = self._application
        self._begin()
        self._take(with_records=application.has_room)
        application.reports.raise_error()
        self._report_outcomes()
        if not application.topics:
            raise IllegalStateError("The consumer is not subscribed to any topics.")
        application.demand_all_acknowledged()
        self._raise_wakeup()
        try:
            direct, has_asked = self._start_poll(deadline_at_ms)
            try:
                if direct:
                    has_come = yield from self._direct.wait(direct, deadline_at_ms)
                    self._raise_wakeup()
                    if not has_come:
                        with application.guard:
                            self._ask(deadline_at_ms)
                        has_asked = True
                records = yield from self._wait_for_records(deadline_at_ms, has_asked=has_asked)
                if makes_objects:
                    records.make_objects()
            finally:
                self._report_outcomes()
        except BaseException:
            self._end_poll()
            raise
        is_ahead = bool(records) and self._sends_ahead and self._direct.fetch_ahead()
        self.has_open_poll = False
        if self._sends_ahead and records and not is_ahead:
            begun = WorkBegun(application.latest_batch_id, application.has_more)
            self._background.post(begun, wake=not has_asked)
        application.end_call(is_returned=len(records) > 0)
        return records

    def poll_arrow(self, timeout_ms: int, as_columns: Callable[[Records], ArrowRecords]) -> Steps[ArrowRecords]:
        """If `as_columns` raises, the records belong to the next poll, as after every interrupt."""
        return as_columns((yield from self.poll(timeout_ms, makes_objects=False)))

    def _start_poll(self, deadline_at_ms: int) -> tuple[Sequence[DirectSession], bool]:
        """Returns whether records were asked for, because none are at hand: directly, or by the core."""
        application = self._application
        application.begin_poll()
        self._post_subscription()
        with application.guard:
            application.accept_delivered()
            # What an interrupted call has gathered, the core may know already.
            is_known_here_only = not application.has_unposted
            is_ahead = is_known_here_only and self._direct.is_ahead and not application.has_ready
            acknowledgements = () if is_ahead else application.gather()  # they go with the fetch that is next
            if not application.has_ready:
                may_fetch = is_known_here_only and application.has_room
                wait_ms: int | None = None
                if may_fetch and application.has_window:
                    wait_ms = application.window_wait_ms(max(0, deadline_at_ms - self._background.now_ms()))
                    may_fetch = wait_ms is not None
                direct = self._direct.fetch(acknowledgements, wait_ms) if may_fetch else ()
                if direct:
                    application.posted()
                    return direct, False
                self._ask(deadline_at_ms, None if is_ahead else acknowledgements)
                return (), True
            # Records are at hand: nothing is fetched, and the acknowledgements do not wait for the next fetch, unless
            # that leaves when these records have been returned.
            if self._sends_ahead:
                self._hand_over(acknowledgements)
                self._application.posted()
                return (), False
            if acknowledgements:
                self._commit(acknowledgements, self._deadline(self._api_timeout_ms), wait=False)
        self._hand_over(())
        return (), False

    def _hand_over(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> None:
        """A poll has its records already: the core sends these with its next fetch; what follows wakes it."""
        now_ms, taken = self._background.now_ms(), self._application.latest_batch_id
        started = PollStarted(now_ms, tuple(acknowledgements), wants_records=False, taken_batch_id=taken)
        self._post_poll(started, wake=False)

    def _post_poll(self, event: PollStarted, *, wake: bool = True) -> None:
        self.has_open_poll = True
        self._background.post(event, wake=wake)

    def _ask(self, deadline_at_ms: int, gathered: tuple[GatheredAcknowledgements, ...] | None = None) -> None:
        """Have records fetched if that is due; under the application side's guard, as was what is `gathered`."""
        asked = self._application.next_ask()
        if asked is not None:
            if gathered is None:
                gathered = self._application.gather()
            taken = self._application.latest_batch_id
            self._post_poll(PollStarted(deadline_at_ms, gathered, asked > 0, asked, taken))
            self._application.posted()

    def _wait_for_records(self, deadline_at_ms: int, *, has_asked: bool) -> Steps[Records]:
        application = self._application
        while True:
            if not has_asked:
                records = application.collect()
                if records is not None:
                    if application.has_window and self.has_open_poll:
                        # Perhaps without the core's knowing: they were at hand when room was made.
                        self._end_poll()
                    return records
                application.reports.raise_error()
                with application.guard:
                    self._ask(deadline_at_ms)
            has_asked = False
            if self._background.now_ms() >= deadline_at_ms:
                self._raise_trouble()
                return ShareRecords({})
            yield Wait(deadline_at_ms, with_records=application.has_room)
            self._take(with_records=application.has_room)
            self._raise_wakeup()

    def _raise_trouble(self) -> None:
        """What lasts is raised again by each poll that has waited in vain, so that nobody takes it for quiet."""
        trouble = self._background.mailbox.condition.trouble
        if trouble is not None and trouble.is_raised:
            raise trouble.error.with_traceback(None)

    def _end_poll(self) -> None:
        # send_ahead: acknowledgements may wait for a fetch that does not come now.
        self._background.post(PollEnded(), wake=self._sends_ahead)
        self.has_open_poll = False

    def read(self, timeout_ms: int, is_over: Callable[[], bool]) -> Steps[Reading]:
        """Poll for a loop over the consumer, which takes its records from the result and then calls again.

        `is_over` says whether the loop has ended. When it has, the next call puts back what the loop has not come to;
        `stop_reading` does so at once.
        """
        self._application.end_reading()
        records = yield from self.poll(timeout_ms)
        return self._application.begin_reading(records, is_over)

    def stop_reading(self) -> None:
        """A loop has ended: what it has not come to belongs to the next poll."""
        self._begin()
        self._application.end_reading()
        self._application.end_call()

    # ---- acknowledgements

    def acknowledge_delivery(
        self, record: ShareRecord[Any, Any], kind: AcknowledgeType, on_outcome: OnOutcome | None
    ) -> None:
        """Open window, any thread: acknowledge a record, known by its delivery; `on_outcome` hears how it ends."""
        if self._application.acknowledge_delivery(record, kind, on_outcome):
            self._background.mailbox.interrupt()
        if on_outcome is not None:
            self._announce_urgently()

    def acknowledge_deliveries(self, settled: Collection[Settled]) -> None:
        """The same for many; `on_outcome` hears it of one that is not in flight."""
        has_found_room, left = self._application.acknowledge_deliveries(settled)
        if has_found_room:
            self._background.mailbox.interrupt()
        for record, _, on_outcome in left:
            if on_outcome is not None:
                on_outcome(not_in_flight(record.topic, record.partition, record.offset))
        self._announce_urgently()

    def acknowledge_all(self, places: Iterable[Places], kind: AcknowledgeType) -> None:
        """Acknowledge many records at once; in an open window on any thread."""
        error = self._application.acknowledge_all(places, kind)
        self._application.wake_for_room()
        if error is not None:
            raise error

    def _announce(self) -> None:
        with contextlib.suppress(ConsumerClosedError):  # close on another thread has just taken it along
            self._background.post(AcknowledgementsMade(), wake=False)
            # Append first, look second: who recalls what is lent sees to what was posted before.
            if not self._direct.is_lent:
                self._background.post(AcknowledgementsMade())

    def _announce_urgently(self) -> None:
        """Somebody waits for the outcome, and not for the end of a loan."""
        if self._direct.is_lent:
            with contextlib.suppress(ConsumerClosedError):
                self._background.post(AcknowledgementsMade())

    def commit_sync(self, timeout_ms: int | None, *, spent_ms: int = 0) -> Steps[CommitResult]:
        """`spent_ms`: of that time, before this."""
        wait_ms = self._api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_at_ms = self._deadline(max(0, wait_ms - spent_ms))
        results = (yield from self._commit_plainly(deadline_at_ms)) if wait_ms > 0 else None
        if results is not None:
            self._report_outcomes()
            self._application.end_call()
            return results
        application = self._application
        self._begin()
        self._take()
        with application.guard:
            direct, request_id = self._start_commit(deadline_at_ms, wait_ms)
        if direct and not (yield from self._direct.outcomes(direct, deadline_at_ms, self._raise_wakeup)):
            with application.guard:
                request_id = self._commit((), deadline_at_ms, wait=True)
        timed_out = bool(request_id) and (yield from self._wait_for_commit(request_id, deadline_at_ms))
        results = {}
        for outcome in application.reports.peek_outcomes():
            results[outcome.partition] = results.get(outcome.partition) or outcome.error
        self._report_outcomes()
        application.end_call()
        if timed_out:
            raise OperationTimeoutError(
                f"No answer to the acknowledgements within {wait_ms} ms; they stay under way, "
                f"and their outcome is reported to the acknowledgement commit callback."
            )
        return results

    def _commit_plainly(self, deadline_at_ms: int) -> Steps[CommitResult | None]:
        """None: the commit has to go the long way."""
        plain = self.plain
        held = None if plain is None else plain.begin_commit(deadline_at_ms)
        if plain is None or held is None:
            return None
        try:
            yield Wait(deadline_at_ms, direct=held)
            return plain.take_outcomes()
        except BaseException:
            self._direct.recover()
            raise

    def _start_commit(self, deadline_at_ms: int, wait_ms: int) -> tuple[Sequence[DirectSession], int]:
        """Under the guard: who has got the acknowledgements, or the id of the request to the core; 0: there is none."""
        application = self._application
        application.accept_delivered()
        # The result is to tell of all that has no outcome yet, some of which may be under way already.
        is_all = wait_ms > 0 and not (application.awaits_outcomes or application.has_unposted or application.has_window)
        if not is_all:
            self._direct.end()
        acknowledgements = application.gather()
        direct = self._direct.acknowledge(acknowledgements, deadline_at_ms) if is_all and acknowledgements else ()
        if direct:
            application.posted()
            return direct, 0
        if acknowledgements or application.awaits_outcomes:
            return (), self._commit(acknowledgements, deadline_at_ms, wait=True)
        return (), 0

    def _wait_for_commit(self, request_id: int, deadline_at_ms: int) -> Steps[bool]:
        """Whether time ran out."""
        completion: list[bool] = []

        def ended() -> bool:
            self._raise_wakeup()
            timed_out = self._application.reports.completion_of(request_id)
            if timed_out is not None:
                completion.append(timed_out)
            return timed_out is not None

        yield from self._wait(deadline_at_ms, ended)
        return not completion or completion[0]

    def commit_async(self) -> None:
        """Waits for nothing."""
        application = self._application
        self._begin()
        self._take()
        self._report_outcomes()
        application.accept_delivered()
        with application.guard:
            acknowledgements = application.gather()
            if acknowledgements:
                self._commit(acknowledgements, self._deadline(self._api_timeout_ms), wait=False)
        application.end_call()

    def _commit(
        self, acknowledgements: tuple[GatheredAcknowledgements, ...], deadline_at_ms: int, *, wait: bool
    ) -> int:
        request_id = self._new_request_id()
        self._background.post(CommitRequested(request_id, acknowledgements, deadline_at_ms, wait))
        self._application.posted()
        return request_id

    def _report_outcomes(self) -> None:
        """Tell what has arrived so far. An outcome whose report was interrupted is reported again."""
        if self._report is None:
            self._application.reports.drop_outcomes()
            return
        for outcome in iter(self._application.reports.first_outcome, None):
            self._report(outcome)
            self._application.reports.drop_outcome()

    # ---- the end

    def close(self, timeout_ms: int) -> Steps[None]:
        application = self._application
        deadline_at_ms = self._deadline(timeout_ms)
        application.begin_call()
        self._direct.recover()
        with application.guard:
            acknowledgements = application.gather_last()
            if application.reading is not None:
                application.reading.end()
            self.is_closing = True
            self._background.post(CloseRequested(acknowledgements, deadline_at_ms))
            application.posted()
        # At the deadline the background side gives up by itself, and reports the outcomes a moment later.
        yield from self._wait(deadline_at_ms + LAST_OUTCOMES_MS, lambda: application.closed)
        self._report_outcomes()
        application.end_call()

    # ---- waiting

    def _wait(self, deadline_at_ms: int, ended: Callable[[], bool]) -> Steps[None]:
        """Take what arrives until `ended`, at the latest until the deadline."""
        while not ended():
            if self._background.now_ms() >= deadline_at_ms:
                return
            yield Wait(deadline_at_ms)
            self._take()

    def _take(self, *, with_records: bool = False) -> None:
        """Take what has arrived; records only for a poll: what no poll takes in time has to be released.

        send_ahead: of batches the first only, for the same reason.
        """
        mailbox = self._background.mailbox
        for output in mailbox.arrived(with_records=with_records, one_batch=self._sends_ahead):
            self._application.take(output)
            mailbox.drop(output)

    def _take_records(self) -> bool:
        self._take(with_records=True)
        return self._application.has_ready

    def _deadline(self, timeout_ms: int) -> int:
        return self._background.now_ms() + timeout_ms

    def _new_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    def _raise_wakeup(self) -> None:
        if self._background.mailbox.consume_wakeup():
            raise WakeupError("wakeup() was called")
