"""The half of the consumer that lives with the caller: delivered records, what was said about them, what is to raise.

The façades (`kafka_share.consumer`, later its asyncio twin) own one `ApplicationSide` each and do the waiting; this
class decides everything else, so that both behave alike. It takes what the mailbox holds (`take`), hands out records
(`collect`) and acknowledgements to be posted (`gather`). It never blocks, and reads a clock for locks alone.

With an open window (`window_records`) records are acknowledged by any thread while another one polls. Those calls
(`deliveries.say`) and those of the background thread (`observe`, `hand_over`, `ended`) are safe at any time; all others
belong to the thread that polls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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
    FetchedPartition,
    FinishClose,
    GatheredAcknowledgements,
    Output,
    RaiseError,
    ReportOutcomes,
)
from kafka_share.errors import IllegalStateError, KafkaShareError, OutcomeUnknownError
from kafka_share.locks import AcquisitionLock
from kafka_share.records import AcknowledgeType, ShareRecords, TopicIdPartition, TopicPartition


def _standing_clock() -> int:
    """By this clock no lock runs out."""
    return 0


class _Returning:
    """Records that a poll has yet to return, or return again; until then they are not in flight."""

    def __init__(self, source: Delivery, records: dict[int, Record]) -> None:
        self.source = source
        self.records = records


class _Decoding:
    """One fetched partition on its way to the application."""

    def __init__(self, fetched: FetchedPartition, decoder: Decoder, lock: AcquisitionLock) -> None:
        self.steps = PartitionDecoding(fetched, decoder, lock)
        self.holder = Delivery(fetched, lock)
        self.first_offset = fetched.acquired[0].first

    @property
    def topic(self) -> str:
        return self.holder.partition.topic

    @property
    def is_lost(self) -> bool:
        return self.holder.lock is not None and self.holder.lock.is_lost(self.first_offset)


class ApplicationSide:
    """What one consumer's application holds. Not thread-safe but for what the module's docstring names.

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
        self._arrived: deque[FetchedBatch] = deque()
        self._decoding: deque[_Decoding] = deque()
        self._problem: tuple[Delivery, Problem] | None = None
        self._renewing: dict[TopicIdPartition, list[_Returning]] = {}
        self._returning: deque[_Returning] = deque()
        self._errors: deque[KafkaShareError] = deque()
        self._outcomes: deque[AcknowledgementOutcome] = deque()
        self._completed: dict[int, bool] = {}

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """What a broker said last; None before the first delivery."""
        return self.deliveries.lock_ms

    # ---- what the mailbox brings

    def take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Deliver):
                self._arrived.append(output.batch)
                if self.has_window:
                    self._asked = None  # the core has stopped fetching
            elif isinstance(output, ReportOutcomes):
                for outcome in output.outcomes:
                    self._resolve(outcome)
            elif isinstance(output, RaiseError):
                self._errors.append(output.error)
            elif isinstance(output, CompleteCommit):
                self._completed[output.request_id] = output.timed_out
            elif isinstance(output, CompleteUnsubscribe):
                self._completed[output.request_id] = False
            else:
                assert isinstance(output, FinishClose), f"{output!r} is not for the application"
                self.closed = True

    def _resolve(self, outcome: AcknowledgementOutcome) -> None:
        self._outcomes.append(outcome)
        self.deliveries.reported(outcome)
        if outcome.acquisition_lock_timeout_ms is not None:
            self.deliveries.lock_ms = outcome.acquisition_lock_timeout_ms
        if self.has_window:
            return  # `observe` has done the rest, and renewed records were never away
        self.deliveries.resolve(outcome)
        for run in outcome.runs:
            if run.type == AcknowledgeType.RENEW:
                self._renewal_ended(outcome.partition, run.first, run.last, succeeded=outcome.error is None)

    def _renewal_ended(self, partition: TopicIdPartition, first: int, last: int, *, succeeded: bool) -> None:
        waiting = self._renewing.get(partition, [])
        for renewing in list(waiting):
            ended = {o: r for o, r in renewing.records.items() if first <= o <= last}
            for offset in ended:
                del renewing.records[offset]
            if ended and succeeded:
                self._returning.append(_Returning(renewing.source, ended))
            if not renewing.records:
                waiting.remove(renewing)
        if not waiting:
            self._renewing.pop(partition, None)

    def pop_error(self) -> KafkaShareError | None:
        """The next error of the background side, each to be raised once."""
        return self._errors.popleft() if self._errors else None

    def pop_outcome(self) -> AcknowledgementOutcome | None:
        """The oldest outcome that has not been reported to the application yet."""
        return self._outcomes.popleft() if self._outcomes else None

    def drop_outcomes(self) -> None:
        """Nobody wants to hear of what has ended so far."""
        self._outcomes.clear()

    def peek_outcomes(self) -> tuple[AcknowledgementOutcome, ...]:
        return tuple(self._outcomes)

    def pop_completion(self, request_id: int) -> bool | None:
        """None while a commit or unsubscribe is under way, else whether it ran out of time."""
        return self._completed.pop(request_id, None)

    @property
    def awaits_outcomes(self) -> bool:
        """Whether acknowledgements are under way whose outcome is not known."""
        return self.deliveries.awaits_outcomes

    # ---- open window: called by the background thread

    def observe(self, outputs: Iterable[Output]) -> None:
        """See outputs before the mailbox has them: whoever waits for an outcome does not wait for a poll."""
        notices: list[Notice] = []
        for output in outputs:
            if isinstance(output, ReportOutcomes):
                for outcome in output.outcomes:
                    notices += self.deliveries.resolve(outcome)
        for told, error in notices:
            told(error)

    def hand_over(self, post: Callable[[AcknowledgementsGathered], None]) -> None:
        """Post what was said (answer to `GatherAcknowledgements`)."""
        with self.guard:
            gathered = self.deliveries.gather_announced()
            if gathered:
                post(AcknowledgementsGathered(gathered))

    def ended(self) -> None:
        """The background thread has ended, well or badly: nobody is left waiting."""
        error = OutcomeUnknownError("the consumer ended before the outcome of the acknowledgement was known")
        for told, why in self.deliveries.abandon(error):
            told(why)

    # ---- records

    @property
    def has_ready(self) -> bool:
        """Whether `collect` has something to give without another answer of a broker."""
        if self._renewing or not self.has_room:
            return False
        return bool(self._arrived or self._decoding or self._problem or self._returning)

    @property
    def has_room(self) -> bool:
        """Whether a poll may return records: always, but for a full window."""
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
        if not self.has_window and self.deliveries.has_words and not self.deliveries.unacknowledged:
            return room  # the batch had gaps only
        return None

    @property
    def is_renewing(self) -> bool:
        return bool(self._renewing)

    def collect(self) -> ShareRecords[object, object] | None:
        """The records for one poll, renewed ones first; None if there are none (yet), or no room for any.

        Raises `DataError` for a record or batch that could not be decoded, when no records come before it.
        """
        if self._renewing or not self.has_room:
            return None
        found: dict[TopicPartition, list[Record]] = {}
        try:
            self._fill(found)
        except BaseException:
            self._put_back(record for records in found.values() for record in records)
            raise
        if found:
            return ShareRecords(found)
        if self._problem is not None:
            # What is said about the offsets counts from now on: only now can the application override it.
            (holder, problem), self._problem = self._problem, None
            self.deliveries.fail(holder, problem.runs)
            raise problem.error
        return None

    def put_back(self, records: ShareRecords[Any, Any]) -> None:
        """The poll that collected these could not return them after all: they belong to the next one."""
        self._put_back(records)

    def _put_back(self, records: Iterable[Record]) -> None:
        self._returning.extend(_Returning(holder, taken) for holder, taken in self.deliveries.take_back(records))

    def _fill(self, found: dict[TopicPartition, list[Record]]) -> None:
        """Returning records, then decoded ones until a problem, or until one broker's answer more would be too much.

        An open window ends it behind the record batch that fills it; the rest of the answer waits for a later poll.
        """
        while self._returning:
            returning = self._returning[0]
            self._hold(returning.source, [returning.records[o] for o in sorted(returning.records)], found)
            self._returning.popleft()
        limit = self._max_poll_records
        if self.has_window:
            limit = min(limit, _count(found) + self.deliveries.room())
        left = limit - _count(found)
        self._drop_unwanted()
        while self._problem is None and not (self.has_window and _count(found) >= limit):
            if not self._decoding:
                if not self._arrived:
                    return
                size = sum(r.last - r.first + 1 for p in self._arrived[0].partitions for r in p.acquired)
                if found and size > left:
                    return
                left -= size
                self._begin_batch(self._arrived.popleft())
            self._drop_unwanted()
            if self._decoding:
                self._decode_partition(self._decoding[0], found, limit)

    def _begin_batch(self, batch: FetchedBatch) -> None:
        lock_ms = batch.acquisition_lock_timeout_ms
        self.deliveries.lock_ms = lock_ms
        for fetched in batch.partitions:
            lock = self.deliveries.new_lock(fetched, batch.acquired_at_ms, lock_ms)
            self._decoding.append(_Decoding(fetched, self._decoder, lock))

    def _decode_partition(self, decoding: _Decoding, found: dict[TopicPartition, list[Record]], limit: int) -> None:
        steps, holder = decoding.steps, decoding.holder
        while not (self.has_window and _count(found) >= limit):
            step = steps.next_step()
            if step is None:
                self._decoding.popleft()
                break
            if isinstance(step, Problem):
                self._problem = (holder, step)
                break
            self._hold(holder, step, found)
        self.deliveries.settle(holder, steps.take_gaps())

    def _drop_unwanted(self) -> None:
        """Give back what came for topics that have been left since: no poll returns or raises it.

        What waited until its lock was lost, for room in an open window or for the answer to a renewal, is dropped
        without a word: it is another's.
        """
        while self._decoding:
            decoding = self._decoding[0]
            has_left = decoding.topic not in self.topics
            if not has_left and (self._problem is not None or not decoding.is_lost):
                return
            self._decoding.popleft()
            if not has_left:
                continue
            if self._problem is not None:
                # It is the partition that is being decoded: nothing is decoded behind a problem.
                (_, problem), self._problem = self._problem, None
                self.deliveries.settle(decoding.holder, problem.runs)
            self.deliveries.settle(decoding.holder, decoding.steps.release_rest())

    def _hold(self, holder: Delivery, records: list[Record], found: dict[TopicPartition, list[Record]]) -> None:
        self.deliveries.deliver(holder, records)
        found.setdefault(holder.partition.topic_partition, []).extend(records)

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
        """Take out all that has been said, to be posted now under the same `guard`; the caller must not drop it."""
        if self.has_window:
            return self.deliveries.gather_said()
        gathered, renewing = self.deliveries.gather()
        for holder, records in renewing:
            self._renewing.setdefault(holder.partition, []).append(_Returning(holder, records))
        return gathered

    def gather_last(self) -> tuple[GatheredAcknowledgements, ...]:
        """The same for close, after which nothing can be acknowledged any more."""
        with self.guard:
            self.deliveries.is_closed = True
            return self.gather()

    def check(self) -> None:
        """Invariants, called by tests after every step."""
        self.deliveries.check()


def _count(found: Mapping[TopicPartition, list[Record]]) -> int:
    return sum(map(len, found.values()))
