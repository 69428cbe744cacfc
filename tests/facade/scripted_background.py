"""A background side that answers at once and keeps a ledger: what was handed out, seen, acknowledged, and ended.

It stands where a consumer has its network thread, so that a test can break a call off at any of its instructions,
thousands of times, and look afterwards whether every record ends exactly once.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache, singledispatchmethod
from typing import Any
from uuid import UUID

from simulation.line import SimulatedLine

from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    AcknowledgementsMade,
    CloseRequested,
    CommitRequested,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    EndedAcknowledgements,
    Event,
    FetchedBatch,
    FetchedPartition,
    FinishClose,
    GatheredAcknowledgements,
    Lend,
    PollEnded,
    PollStarted,
    ReportOutcomes,
    SessionReturned,
    SubscriptionChanged,
    Unsubscribed,
    WorkBegun,
)
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.locks import LockGeneration
from kafka_share.network.direct import DirectSession
from kafka_share.network.futures import DoneCallbacks
from kafka_share.network.mailbox import Mailbox
from kafka_share.network.wire import Lent
from kafka_share.protocol.messages import encode_response
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, Node, TopicIdPartition

PARTITIONS = [TopicIdPartition(UUID(int=1), "t", 0), TopicIdPartition(UUID(int=1), "t", 1)]
NODE = Node(1, "broker", 9092)
BATCH = 4
"""Offsets in one record batch; the third of them is a gap, where there are gaps."""
LOCK_MS = 60_000
Place = tuple[int, int]


@cache
def _encoded(base: int, *, has_gap: bool) -> bytes:
    records: list[Any] = [(base + i, 0, None, b"v", []) for i in range(BATCH) if i != 2 or not has_gap]
    return encode_batch(records, base_offset=base)


class Ledger:
    """What became of every offset, by (partition, offset)."""

    def __init__(self) -> None:
        self.locked: set[Place] = set()
        self.ended: dict[Place, int] = {}
        self.seen: list[Place] = []
        """What the application has got from its calls."""

    def acknowledge(self, place: Place, kind: int) -> None:
        assert place in self.locked, (
            f"{place} is acknowledged with {kind}, but it is not locked: {self.ended.get(place)}"
        )
        if kind == AcknowledgeType.ACCEPT:
            assert place in self.seen, f"{place} is accepted, and the application has never seen it"
        if kind != AcknowledgeType.RENEW:
            self.locked.remove(place)
            self.ended[place] = kind


class ScriptedBackground:
    """Stands in for `ConsumerBackground`. `produce` makes batches that the next polls get, one for each partition."""

    def __init__(self, core: Any, config: Any, *, application: Any = None, notify: Any = None) -> None:
        self._now_ms = time.monotonic_ns() // 1_000_000
        self.measurements = Measurements()
        self.mailbox = ScriptedMailbox(notify, self.measurements, self.now_ms)
        self.lends = False
        """Whether polls fetch by themselves as soon as they have got records, and commits send by themselves."""
        self.has_gaps = True
        self.answers_commits = True
        """Whether those get their answer, before the session comes back."""
        self._flown: int | None = None
        """The batch that is in the answer to the fetch in flight."""
        self._lend_id = 0
        self.callbacks = DoneCallbacks("nobody adds any")
        self.is_current_thread = False
        self.ledger = Ledger()
        self.is_closed = False
        self._poll_ends_at_ms = 0
        self._application = application
        self._topics: frozenset[str] = frozenset()
        self._waiting: deque[int] = deque()
        self._next_offset = 0
        self._numbers: set[int] = set()

    def start(self) -> None:
        """Nothing runs here."""

    def stop(self, *_: int) -> None:
        self.mailbox.stop()

    def now_ms(self) -> int:
        """A millisecond later at each reading, so that a run comes to the same lines each time."""
        self._now_ms += 1
        return self._now_ms

    def produce(self, batches: int = 1) -> None:
        for _ in range(batches):
            self._waiting.append(self._next_offset)
            self._next_offset += BATCH

    @property
    def has_open_poll(self) -> bool:
        return self.now_ms() < self._poll_ends_at_ms

    @property
    def all_places(self) -> set[Place]:
        return {(p.partition, offset) for p in PARTITIONS for offset in range(self._next_offset)}

    @property
    def all_records(self) -> set[Place]:
        return {
            (partition, offset) for partition, offset in self.all_places if offset % BATCH != 2 or not self.has_gaps
        }

    # ---- what the application posts

    def post(self, event: Event, *, wake: bool = True) -> None:
        assert not self.is_closed or isinstance(event, AcknowledgementsMade), f"{event} after close"
        tracing = sys.gettrace()
        sys.settrace(None)  # what follows runs on a thread that nobody interrupts
        try:
            self._take(getattr(event, "acknowledgements", ()))
            self._handle(event)
        finally:
            sys.settrace(tracing)

    @singledispatchmethod
    def _handle(self, event: Event) -> None:
        raise AssertionError(f"nobody expects {event}")

    @_handle.register
    def _(self, event: PollStarted) -> None:
        assert self._topics, "a poll without a subscription"
        self._poll_ends_at_ms = event.deadline_at_ms if event.wants_records else 0
        if event.wants_records and self._waiting:
            self._deliver(self._waiting.popleft())

    @_handle.register
    def _(self, _: PollEnded) -> None:
        self._poll_ends_at_ms = 0

    @_handle.register
    def _(self, event: CommitRequested) -> None:
        if event.wait:
            self.mailbox.put(CompleteCommit(event.request_id, timed_out=False))

    @_handle.register
    def _(self, event: SubscriptionChanged) -> None:
        self._topics = event.topics

    @_handle.register
    def _(self, event: Unsubscribed) -> None:
        self._topics = frozenset()
        self.mailbox.put(CompleteUnsubscribe(event.request_id))

    @_handle.register
    def _(self, _: AcknowledgementsMade) -> None:
        self._application.post_acknowledgements(self.post)

    @_handle.register
    def _(self, _: AcknowledgementsGathered) -> None:
        """They have been taken already."""

    @_handle.register
    def _(self, _: CloseRequested) -> None:
        self.is_closed = True
        self.mailbox.put(FinishClose())

    @_handle.register
    def _(self, _: WorkBegun) -> None:
        """The core would send the next fetch; here the next poll asks for it."""

    @_handle.register
    def _(self, event: SessionReturned) -> None:
        """As the core does: what comes back again has come back before."""
        if event.lend_id != self._lend_id:
            return
        self._lend_id += 1
        if event.flight is not None:
            self._report(event.flight.acknowledgements)
            if self._flown is not None:
                self._waiting.appendleft(self._flown)  # the answer ends the poll that is about to ask
        self._flown = None

    def _take(self, acknowledgements: tuple[GatheredAcknowledgements, ...]) -> None:
        """As the core does: a number that comes again has been taken before."""
        new = [one for one in acknowledgements if one.number not in self._numbers]
        self._apply(new)
        self._report(new)

    def _apply(self, acknowledgements: Iterable[GatheredAcknowledgements]) -> None:
        for one in acknowledgements:
            assert one.number > max(self._numbers, default=0), "numbers ascend"
            self._numbers.add(one.number)
            for first, last, kind in one.runs:
                for offset in range(first, last + 1):
                    self.ledger.acknowledge((one.partition.partition, offset), kind)

    def _report(self, acknowledgements: Iterable[GatheredAcknowledgements]) -> None:
        outcomes: list[AcknowledgementOutcome] = []
        for one in acknowledgements:
            ended = (EndedAcknowledgements(one.number, one.runs),)
            outcomes.append(AcknowledgementOutcome(one.partition, ended, None, LOCK_MS, self.now_ms()))
        if outcomes:
            reported = ReportOutcomes(tuple(outcomes))
            if self._application is not None:
                self._application.tell_outcomes([reported])
            self.mailbox.put(reported)

    def _deliver(self, base: int) -> None:
        fetched: list[FetchedPartition] = []
        for partition in PARTITIONS:
            acquired = (AcquiredRange(base, base + BATCH - 1, 1),)
            fetched.append(FetchedPartition(partition, 1, 1, _encoded(base, has_gap=self.has_gaps), acquired))
            self.ledger.locked.update((partition.partition, base + i) for i in range(BATCH))
        self._poll_ends_at_ms = 0
        self.mailbox.put(Deliver(FetchedBatch(base, tuple(fetched), self.now_ms(), LOCK_MS)))
        if self.lends:
            self._lend()

    # ---- polls that fetch by themselves

    def _lend(self) -> None:
        self._lend_id += 1
        partitions = tuple((where, LockGeneration()) for where in PARTITIONS)
        limits = (500, 1, 1_000_000, 500)
        lend = Lend(self._lend_id, NODE, 1, 1, partitions, self._topics, 1 << 62, "g", "m", limits)
        line = SimulatedLine(lambda _, flight: self._fly(line, flight), lambda: None)
        session = DirectSession(lend, line, Lent(2, 2, 0), "c", self.now_ms)
        self.mailbox.direct = {self._lend_id: session}

    def _fly(self, line: SimulatedLine, flight: Any) -> None:
        """The broker gets a request, and answers at once; a fetch, if it has something."""
        tracing = sys.gettrace()
        sys.settrace(None)
        try:
            correlation_id = self.mailbox.direct[self._lend_id].correlation_id
            self._apply(flight.acknowledgements)
            self._flown = None
            if not flight.is_fetch:
                if self.answers_commits:
                    line.received(_committed(flight.acknowledgements, correlation_id))
            elif self._waiting:
                self._flown = self._waiting.popleft()
                line.received(_answer(self._flown, correlation_id, has_gap=self.has_gaps))
                places = {(p.partition, self._flown + i) for p in PARTITIONS for i in range(BATCH)}
                self.ledger.locked.update(places)
        finally:
            sys.settrace(tracing)


class ScriptedMailbox(Mailbox):
    def wait_on(self, lent: Sequence[DirectSession], timeout_ms: int, *, with_records: bool) -> None:
        """Whatever comes is there."""
        self.end_wait(with_records=with_records)

    def hear(self, lines: list[Any], timeout_ms: int, has_news: object) -> None:
        """The same."""


def _answer(base: int, correlation_id: int, *, has_gap: bool) -> bytes:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    acquired = topic.PartitionData.AcquiredRecords(first_offset=base, last_offset=base + BATCH - 1, delivery_count=1)
    partitions = [
        topic.PartitionData(
            partition_index=where.partition,
            current_leader=topic.PartitionData.LeaderIdAndEpoch(),
            records=_encoded(base, has_gap=has_gap),
            acquired_records=[acquired],
        )
        for where in PARTITIONS
    ]
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=LOCK_MS, responses=[topic(topic_id=PARTITIONS[0].topic_id, partitions=partitions)]
    )
    return encode_response(correlation_id, response, 2)


def _committed(acknowledgements: Iterable[GatheredAcknowledgements], correlation_id: int) -> bytes:
    topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    data = topic.PartitionData
    partitions = [
        data(partition_index=one.partition.partition, current_leader=data.LeaderIdAndEpoch())
        for one in acknowledgements
    ]
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=LOCK_MS, responses=[topic(topic_id=PARTITIONS[0].topic_id, partitions=partitions)]
    )
    return encode_response(correlation_id, response, 2)
