"""An open window under random acknowledgements, outcomes, losses and polls: each is reported once, the window holds."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import Any
from uuid import UUID

from application.called_side import CalledSide
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafka_share.application.decoding import Decoder
from kafka_share.core.events import (
    AcknowledgementOutcome,
    Deliver,
    EndedAcknowledgements,
    FetchedBatch,
    FetchedPartition,
    GatheredAcknowledgements,
    ReportOutcomes,
)
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import InvalidRecordStateError, KafkaShareError, OutcomeUnknownError, UnknownServerError
from kafka_share.locks import LockGeneration
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, ShareRecord, TopicIdPartition

PARTITIONS = [TopicIdPartition(UUID(int=1), "a", 0), TopicIdPartition(UUID(int=1), "a", 1)]
KINDS = st.sampled_from([1, 1, 1, 2, 3, 4])
ERRORS = st.sampled_from([None, None, None, InvalidRecordStateError(), UnknownServerError(), OutcomeUnknownError("?")])
WINDOW, LARGEST_BATCH, LOCK_MS = 12, 5, 100


class OpenWindow(RuleBasedStateMachine):
    """The test is the broker and the worker threads; its books have what is held, acknowledged and reported."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.application = CalledSide(
            explicit=True,
            decoder=Decoder(),
            max_poll_records=8,
            now_ms=lambda: self.now_ms,
            window_records=WINDOW,
            guard=threading.RLock(),
        )
        self.application.topics = frozenset({"a"})
        self.next_offset = [0, 0]
        self.sessions = [(1, LockGeneration()), (1, LockGeneration())]
        self.locks: dict[int, tuple[int, object]] = {}
        self.held: dict[tuple[int, int, int], ShareRecord[Any, Any]] = {}
        self.under_way: list[GatheredAcknowledgements] = []
        self.words = 0
        self.told: Counter[int] = Counter()
        self.sent: Counter[tuple[TopicIdPartition, int, int]] = Counter()
        self.reported: Counter[tuple[TopicIdPartition, int]] = Counter()

    # ---- the broker

    @rule(
        which=st.integers(0, 1),
        sizes=st.lists(st.integers(1, LARGEST_BATCH), min_size=1, max_size=3),
        again=st.booleans(),
    )
    def answer(self, which: int, sizes: list[int], again: bool) -> None:
        """A fetch is answered; `again`: with what was delivered before, as after the end of a lock."""
        if not self.application.has_room:
            return
        first = 0 if again else self.next_offset[which]
        data, at = b"", first
        for size in sizes:
            data += encode_batch([(at + i, 0, None, b"", []) for i in range(size)], base_offset=at)
            at += size
        self.next_offset[which] = max(self.next_offset[which], at)
        session_id, locks = self.sessions[which]
        ranges = (AcquiredRange(first, at - 1, 1),)
        fetched = FetchedPartition(PARTITIONS[which], which, session_id, data, ranges, locks)
        self.application.take_all([Deliver(FetchedBatch(1, (fetched,), self.now_ms, LOCK_MS))])

    @rule(which=st.integers(0, 1))
    def lose_session(self, which: int) -> None:
        session_id, locks = self.sessions[which]
        locks.has_ended = True
        self.sessions[which] = (session_id + 1, LockGeneration())

    @rule(span_ms=st.integers(1, LOCK_MS))
    def wait(self, span_ms: int) -> None:
        self.now_ms += span_ms

    # ---- the application

    @rule()
    def poll(self) -> None:
        for record in self.application.collect() or ():
            key = (record.partition, record.offset, self.number_of(record.lock))
            assert key not in self.held, "a delivery came twice"
            self.held[key] = record

    def number_of(self, lock: object) -> int:
        """Locks are numbered as they come: an address would put `held` into another order each time."""
        return self.locks.setdefault(id(lock), (len(self.locks), lock))[0]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=KINDS)
    def acknowledge(self, data: st.DataObject, kind: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        number, self.words = self.words, self.words + 1
        self.application.deliveries.acknowledge_delivery(
            self.held[key], AcknowledgeType(kind), partial(self.tell, number)
        )
        if kind != AcknowledgeType.RENEW:
            del self.held[key]

    def tell(self, number: int, _: KafkaShareError | None) -> None:
        self.told[number] += 1

    @rule(by_background=st.booleans())
    def gather(self, by_background: bool) -> None:
        if by_background:
            self.application.post_acknowledgements(lambda event: self.note(event.acknowledgements))
        else:
            self.note(self.application.gather())

    def note(self, gathered: tuple[GatheredAcknowledgements, ...]) -> None:
        self.under_way.extend(gathered)
        for said in gathered:
            for run in said.runs:
                for offset in range(run.first, run.last + 1):
                    self.sent[said.partition, said.session_id, offset] += 1

    @precondition(lambda self: self.under_way)
    @rule(together=st.integers(1, 3), error=ERRORS)
    def settle(self, together: int, error: KafkaShareError | None) -> None:
        """The oldest acknowledgements of one partition end, some of them in one outcome if they do not overlap."""
        where = self.under_way[0].partition
        runs: list[AcknowledgementRun] = []
        ended: list[EndedAcknowledgements] = []
        for said in [said for said in self.under_way if said.partition == where][:together]:
            if any(a.first <= b.last and b.first <= a.last for a in runs for b in said.runs):
                break
            runs += said.runs
            ended.append(EndedAcknowledgements(said.number, said.runs))
            self.under_way.remove(said)
        for run in runs:
            for offset in range(run.first, run.last + 1):
                self.reported[where, offset] += 1
        outcome = AcknowledgementOutcome(where, tuple(ended), error, LOCK_MS, self.now_ms)
        self.application.tell_outcomes([ReportOutcomes((outcome,))])
        self.application.take_all([ReportOutcomes((outcome,))])

    # ---- the promises

    @invariant()
    def the_window_holds(self) -> None:
        self.application.check()
        ours = [record for record in self.held.values() if not record.lock_lost]
        assert len(ours) < WINDOW + LARGEST_BATCH, "only what is lost makes room without an acknowledgement"

    @invariant()
    def nobody_is_told_twice(self) -> None:
        assert all(count == 1 for count in self.told.values())

    def teardown(self) -> None:
        for record in self.held.values():
            number, self.words = self.words, self.words + 1
            self.application.deliveries.acknowledge_delivery(record, AcknowledgeType.ACCEPT, partial(self.tell, number))
        self.note(self.application.gather_last())
        while self.under_way:
            self.settle(1, None)
        assert self.told == Counter(range(self.words)), "not every word was answered"
        by_place: Counter[tuple[TopicIdPartition, int]] = Counter()
        for (where, _, offset), count in self.sent.items():
            by_place[where, offset] += count
        assert by_place == self.reported
        assert not self.application.awaits_outcomes
        self.application.check()


OpenWindow.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestOpenWindow = OpenWindow.TestCase
