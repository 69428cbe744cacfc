"""The half of the consumer that lives with the caller: delivered records, what was said about them, what is to raise.

The façades (`kafka_share.consumer`, later its asyncio twin) own one `ApplicationSide` each and do the waiting; this
class decides everything else, so that both behave alike. It takes what the mailbox holds (`take`), hands out records
(`collect`) and acknowledgements to be posted (`gather`). It never blocks and knows no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from kafka_share.core.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.core.events import (
    AcknowledgementOutcome,
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
from kafka_share.core.in_flight import InFlightPartition
from kafka_share.errors import IllegalStateError, InvalidArgumentError, KafkaShareError
from kafka_share.records import AcknowledgeType, ShareRecords, TopicIdPartition, TopicPartition


class _Held:
    """Records that a poll has yet to return, or return again; until then they are not in flight."""

    def __init__(self, source: InFlightPartition, records: dict[int, Record]) -> None:
        self.source = source
        self.records = records


class ApplicationSide:
    """What one consumer's application holds. Not thread-safe: the façade guards it."""

    def __init__(self, *, explicit: bool, decoder: Decoder, max_poll_records: int) -> None:
        self.explicit = explicit
        self.topics: frozenset[str] = frozenset()
        self.acquisition_lock_timeout_ms: int | None = None
        self.closed = False
        self._decoder = decoder
        self._max_poll_records = max_poll_records
        self._parked: deque[FetchedBatch] = deque()
        self._decoding: deque[PartitionDecoding] = deque()
        self._problem: tuple[InFlightPartition, Problem] | None = None
        self._in_flight: dict[tuple[str, int], list[InFlightPartition]] = {}
        self._renewing: dict[TopicIdPartition, list[_Held]] = {}
        self._returning: deque[_Held] = deque()
        self._errors: deque[KafkaShareError] = deque()
        self._outcomes: deque[AcknowledgementOutcome] = deque()
        self._unsettled = 0
        self._completed: dict[int, bool] = {}

    # ---- what the mailbox brings

    def take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Deliver):
                self._parked.append(output.batch)
            elif isinstance(output, ReportOutcomes):
                for outcome in output.outcomes:
                    self._settle(outcome)
            elif isinstance(output, RaiseError):
                self._errors.append(output.error)
            elif isinstance(output, CompleteCommit):
                self._completed[output.request_id] = output.timed_out
            elif isinstance(output, CompleteUnsubscribe):
                self._completed[output.request_id] = False
            else:
                assert isinstance(output, FinishClose), f"{output!r} is not for the application"
                self.closed = True

    def _settle(self, outcome: AcknowledgementOutcome) -> None:
        self._outcomes.append(outcome)
        self._unsettled -= sum(run.last - run.first + 1 for run in outcome.runs)
        assert self._unsettled >= 0, f"{outcome.partition} has more outcomes than acknowledgements"
        if outcome.acquisition_lock_timeout_ms is not None:
            self.acquisition_lock_timeout_ms = outcome.acquisition_lock_timeout_ms
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
                self._returning.append(_Held(renewing.source, ended))
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
    def has_unsettled(self) -> bool:
        """Whether acknowledgements are under way whose outcome is not known."""
        return self._unsettled > 0

    # ---- records

    @property
    def has_ready(self) -> bool:
        """Whether `collect` has something to give without another answer of a broker."""
        if self._renewing:
            return False
        return bool(self._parked or self._decoding or self._problem or self._returning)

    @property
    def is_renewing(self) -> bool:
        return bool(self._renewing)

    def collect(self) -> ShareRecords[object, object] | None:
        """The records for one poll, renewed ones first; None if there are none (yet).

        Raises `DataError` for a record or batch that could not be decoded, when no records come before it.
        """
        if self._renewing:
            return None
        found: dict[TopicPartition, list[Record]] = {}
        try:
            self._fill(found)
        except BaseException:
            self._put_back(found)
            raise
        if found:
            return ShareRecords(found)
        if self._problem is not None:
            # What is said about the offsets counts from now on: only now can the application override it.
            (holder, problem), self._problem = self._problem, None
            holder.fail(problem.runs)
            self._keep(holder)
            raise problem.error
        return None

    def put_back(self, records: ShareRecords[Any, Any]) -> None:
        """The poll that collected these could not return them after all: they belong to the next one."""
        self._put_back({where: records.records(where) for where in sorted(records.partitions())})

    def _put_back(self, found: Mapping[TopicPartition, list[Record]]) -> None:
        for where, records in found.items():
            for holder in list(self._in_flight.get(where, ())):
                taken = holder.take_back(record.offset for record in records)
                if taken:
                    self._returning.append(_Held(holder, taken))
                self._drop_if_done(holder)

    def _fill(self, found: dict[TopicPartition, list[Record]]) -> None:
        """Returning records, then decoded ones until a problem, or until one broker's answer more would be too much."""
        while self._returning:
            returning = self._returning[0]
            self._hold(returning.source, [returning.records[o] for o in sorted(returning.records)], found)
            self._returning.popleft()
        room = self._max_poll_records - sum(map(len, found.values()))
        self._drop_unsubscribed()
        while self._problem is None:
            if not self._decoding:
                if not self._parked:
                    return
                size = sum(r.last - r.first + 1 for p in self._parked[0].partitions for r in p.acquired)
                if found and size > room:
                    return
                room -= size
                batch = self._parked.popleft()
                self.acquisition_lock_timeout_ms = batch.acquisition_lock_timeout_ms
                self._decoding.extend(PartitionDecoding(p, self._decoder) for p in batch.partitions)
            self._drop_unsubscribed()
            if self._decoding:
                self._decode_partition(self._decoding[0], found)

    def _decode_partition(self, decoding: PartitionDecoding, found: dict[TopicPartition, list[Record]]) -> None:
        holder = InFlightPartition(decoding.fetched)
        while True:
            step = decoding.next_step()
            if step is None:
                self._decoding.popleft()
                break
            if isinstance(step, Problem):
                self._problem = (holder, step)
                break
            self._hold(holder, step, found)
        holder.settle(decoding.take_gaps())
        self._keep(holder)

    def _drop_unsubscribed(self) -> None:
        """Give back what came for topics that have been left since: no poll returns or raises it."""
        while self._decoding and self._decoding[0].fetched.partition.topic not in self.topics:
            decoding = self._decoding.popleft()
            holder = InFlightPartition(decoding.fetched)
            if self._problem is not None:
                # It is the partition that is being decoded: nothing is decoded behind a problem.
                (_, problem), self._problem = self._problem, None
                holder.settle(problem.runs)
            holder.settle(decoding.release_rest())
            self._keep(holder)

    def _hold(
        self, holder: InFlightPartition, records: list[Record], found: dict[TopicPartition, list[Record]]
    ) -> None:
        holder.deliver(records)
        self._keep(holder)
        found.setdefault(holder.partition.topic_partition, []).extend(records)

    def _keep(self, holder: InFlightPartition) -> None:
        if not holder.is_done:
            holders = self._in_flight.setdefault(holder.partition.topic_partition, [])
            if holder not in holders:
                holders.append(holder)

    def _drop_if_done(self, holder: InFlightPartition) -> None:
        where = holder.partition.topic_partition
        if holder.is_done:
            self._in_flight[where].remove(holder)
            if not self._in_flight[where]:
                del self._in_flight[where]

    @property
    def holds_records(self) -> bool:
        """Whether the application holds delivered records that it has not acknowledged."""
        return any(h.unacknowledged for holders in self._in_flight.values() for h in holders)

    # ---- acknowledgements

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Raises IllegalStateError in implicit mode, or if the record is not in flight."""
        if not self.explicit:
            self._demand_explicit()
        for holder in self._in_flight.get((topic, partition), ()):
            if holder.acknowledge(offset, kind):
                return
        raise IllegalStateError(
            f"The record of {topic}-{partition} at offset {offset} cannot be acknowledged: it is not in flight here."
        )

    def override(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Like `acknowledge`, for an offset whose record could not be delivered.

        Raises InvalidArgumentError for RENEW: nothing would ever end the lock of a record that nobody holds.
        """
        self._demand_explicit()
        if kind is AcknowledgeType.RENEW:
            raise InvalidArgumentError(
                f"Offset {offset} of {topic}-{partition} was not delivered, so it cannot be renewed."
            )
        for holder in self._in_flight.get((topic, partition), ()):
            if holder.override(offset, kind):
                return
        raise IllegalStateError(
            f"Offset {offset} of {topic}-{partition} cannot be acknowledged by its offset: "
            f"that is for records that could not be delivered and have not been committed since."
        )

    def _demand_explicit(self) -> None:
        if not self.explicit:
            raise IllegalStateError(
                "The consumer acknowledges implicitly; set share_acknowledgement_mode to explicit to do it yourself."
            )

    def demand_all_acknowledged(self) -> None:
        """Explicit mode: raises IllegalStateError while a delivered record has no acknowledgement."""
        open_records = sum(h.unacknowledged for holders in self._in_flight.values() for h in holders)
        if self.explicit and open_records:
            raise IllegalStateError(
                f"{open_records} records of the last poll have not been acknowledged; "
                f"with explicit acknowledgement each needs one before the next poll."
            )

    def accept_delivered(self) -> None:
        """Implicit mode: ACCEPT what was delivered. Explicit mode: nothing."""
        if not self.explicit:
            for holders in self._in_flight.values():
                for holder in holders:
                    holder.accept_rest()

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        """Take out all that has been said, to be posted now; the caller must not drop it."""
        gathered = []
        for holder in [holder for holders in self._in_flight.values() for holder in holders]:
            said, renewing = holder.gather()
            if said is None:
                continue
            gathered.append(said)
            self._unsettled += sum(run.last - run.first + 1 for run in said.runs)
            if renewing:
                self._renewing.setdefault(said.partition, []).append(_Held(holder, renewing))
            self._drop_if_done(holder)
        return tuple(gathered)

    def check(self) -> None:
        """Invariants, called by tests after every step."""
        assert self._unsettled >= 0
        for holders in self._in_flight.values():
            assert holders, "an empty list of in-flight partitions was kept"
            for holder in holders:
                assert not holder.is_done, f"{holder.partition} is kept without anything in flight"
                holder.check()
