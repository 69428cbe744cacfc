"""The half of the consumer that lives with the caller: delivered records, what was said about them, what is to raise.

The façades (`kafka_share.consumer`, later its asyncio twin) own one `ApplicationSide` each and do the waiting; this
class decides everything else, so that both behave alike. It takes what the mailbox holds (`take`), hands out records
(`collect`) and acknowledgements to be posted (`gather`). It never blocks and knows no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafka_share.core.decoding import Decoder, PartitionDecoding, Record
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
from kafka_share.errors import DataError, IllegalStateError, KafkaShareError
from kafka_share.records import AcknowledgeType, ShareRecords, TopicIdPartition, TopicPartition


class _Renewing:
    """Records whose renewal is under way; they are in flight again once a poll has returned them."""

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
        self._problem: DataError | None = None
        self._in_flight: dict[TopicPartition, list[InFlightPartition]] = {}
        self._renewing: dict[TopicIdPartition, list[_Renewing]] = {}
        self._renewed: deque[_Renewing] = deque()
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
                self._renewed.append(_Renewing(renewing.source, ended))
            if not renewing.records:
                waiting.remove(renewing)
        if not waiting:
            self._renewing.pop(partition, None)

    def pop_error(self) -> KafkaShareError | None:
        """The next error of the background side, each to be raised once."""
        return self._errors.popleft() if self._errors else None

    def pop_outcomes(self) -> list[AcknowledgementOutcome]:
        """The outcomes that have not been reported to the application yet."""
        outcomes = list(self._outcomes)
        self._outcomes.clear()
        return outcomes

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
        return bool(self._parked or self._decoding or self._problem or self._renewed)

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
        while self._renewed:
            renewed = self._renewed.popleft()
            self._hold(renewed.source, list(renewed.records.values()), found)
        room = self._max_poll_records - sum(map(len, found.values()))
        if self._problem is None:
            self._decode_into(found, room)
        if found:
            return ShareRecords(found)
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return None

    def _decode_into(self, found: dict[TopicPartition, list[Record]], room: int) -> None:
        """Decode until a problem or until the next broker's answer would exceed what one poll may return."""
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
            self._decode_partition(self._decoding[0], found)

    def _decode_partition(self, decoding: PartitionDecoding, found: dict[TopicPartition, list[Record]]) -> None:
        holder = InFlightPartition(decoding.fetched)
        while True:
            step = decoding.next_step()
            if step is None:
                self._decoding.popleft()
                break
            if isinstance(step, DataError):
                self._problem = step
                break
            self._hold(holder, step, found)
        holder.settle(decoding.settled)
        decoding.settled.clear()
        self._keep(holder)

    def _hold(
        self, holder: InFlightPartition, records: list[Record], found: dict[TopicPartition, list[Record]]
    ) -> None:
        holder.deliver(records)
        self._keep(holder)
        found.setdefault(holder.partition.topic_partition, []).extend(records)

    def _keep(self, holder: InFlightPartition) -> None:
        holders = self._in_flight.setdefault(holder.partition.topic_partition, [])
        if holder not in holders and not holder.is_done:
            holders.append(holder)
        if not holders:
            del self._in_flight[holder.partition.topic_partition]

    @property
    def holds_records(self) -> bool:
        """Whether the application holds delivered records that it has not acknowledged."""
        return any(h.unacknowledged for holders in self._in_flight.values() for h in holders)

    # ---- acknowledgements

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Raises IllegalStateError in implicit mode, or if the record is not in flight."""
        self._demand_explicit()
        for holder in self._in_flight.get(TopicPartition(topic, partition), ()):
            if holder.acknowledge(offset, kind):
                return
        raise IllegalStateError(
            f"The record of {topic}-{partition} at offset {offset} cannot be acknowledged: it is not in flight here."
        )

    def override(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Like `acknowledge`, for an offset whose record could not be delivered."""
        self._demand_explicit()
        for holder in self._in_flight.get(TopicPartition(topic, partition), ()):
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
        for where, holders in list(self._in_flight.items()):
            for holder in list(holders):
                said, renewing = holder.gather()
                if said is not None:
                    gathered.append(said)
                    self._unsettled += sum(run.last - run.first + 1 for run in said.runs)
                if renewing:
                    self._renewing.setdefault(said.partition, []).append(_Renewing(holder, renewing))  # type: ignore[union-attr]
                if holder.is_done:
                    holders.remove(holder)
            if not holders:
                del self._in_flight[where]
        return tuple(gathered)

    def check(self) -> None:
        """Invariants, called by tests after every step."""
        assert self._unsettled >= 0
        for holders in self._in_flight.values():
            assert holders, "an empty list of in-flight partitions was kept"
            for holder in holders:
                assert not holder.is_done, f"{holder.partition} is kept without anything in flight"
                holder.check()
