"""The core under random events: whatever order things happen in and whatever brokers answer, its promises hold."""

from __future__ import annotations

from typing import Any

import pytest
from core.scripted_cluster import (
    Harness,
    acknowledge_answer,
    fetch_answer,
    fetch_data,
    heartbeat_answer,
    runs,
    said_in,
    tp,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_share.core.events import (
    BatchReclaimed,
    Channel,
    CloseRequested,
    CommitRequested,
    ConnectionLost,
    GatheredAcknowledgements,
    PollEnded,
    PollStarted,
    SubscriptionChanged,
    Unsubscribed,
)
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    OperationTimeoutError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

PARTITIONS = [tp(0), tp(1), tp(0, "u"), tp(7)]
CODES = [0, 0, 0, 0, 0, 3, 6, 7, 14, 15, 16, 25, 29, 30, 42, 56, 74, 78, 100, 110, 121, 122, 123, 133, -1, 999]
TRANSIENT = [0, 0, 0, 0, 3, 6, 7, 14, 15, 16, 25, 29, 56, 74, 78, 100, 110, 121, 122, 123, 133, -1, 999]
FAILURES = [
    BrokerUnreachableError("broke"),
    OperationTimeoutError("too late"),
    AuthenticationError("refused"),
    RemoteProtocolError("nonsense"),
    UnsupportedVersionError("too old"),
]


class Chaos:
    """An application and a cluster whose every move is drawn; keeps the books that the promises are about."""

    def __init__(self, draw: Any, record_limit: bool) -> None:
        self.draw = draw
        self.harness = Harness(
            {tp(0): 1, tp(1): 2, tp(0, "u"): 1, tp(7): 3},
            share_acquire_mode="record_limit" if record_limit else "batch_optimized",
        )
        self.harness.serves_metadata = False
        self.held: list[tuple[GatheredAcknowledgements, set[int]]] = []
        self.acknowledged: dict[tuple[Any, int, int, int], int] = {}
        self.expected = 0
        self.reported = 0
        self.taken = 0
        self.subscribed = False
        self.request_id = 0
        self.waiting: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.checked = 0
        self.next_offset = 0

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    # ---- the application

    def take_batches(self) -> None:
        for batch in self.harness.delivered[self.taken :]:
            for fetched in batch.partitions:
                offsets = {o for r in fetched.acquired for o in range(r.first, r.last + 1)}
                said = GatheredAcknowledgements(fetched.partition, fetched.node_id, fetched.session_id, ())
                self.held.append((said, offsets))
        self.taken = len(self.harness.delivered)

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        """Say something about some of what is held; each offset once."""
        gathered = []
        for said, offsets in self.held:
            chosen = sorted(o for o in offsets if self.draw(st.booleans()))
            offsets.difference_update(chosen)
            if chosen:
                kinds = [(o, o, self.pick(0, 1, 1, 2, 3, 4)) for o in chosen]
                gathered.append(GatheredAcknowledgements(said.partition, said.node_id, said.session_id, runs(*kinds)))
                self.expected += len(chosen)
        self.held = [(said, offsets) for said, offsets in self.held if offsets]
        return tuple(gathered)

    def application(self) -> None:
        h = self.harness
        move = self.pick("poll", "poll", "poll", "commit", "subscribe", "unsubscribe", "end", "reclaim", "lost")
        if move == "subscribe" or (move == "poll" and not self.subscribed):
            self.subscribed = True
            h.handle(SubscriptionChanged(frozenset(self.pick(["t"], ["u"], ["t", "u"]))))
        elif move == "poll":
            self.take_batches()
            deadline = h.now_ms + self.pick(0, 10, 2_000)
            h.handle(PollStarted(deadline, self.gather(), self.pick(True, True, False)))
        elif move == "commit":
            self.take_batches()
            self.request_id += 1
            wait = self.draw(st.booleans())
            if wait:
                self.waiting.add(self.request_id)
            h.handle(CommitRequested(self.request_id, self.gather(), h.now_ms + self.pick(0, 5_000), wait))
        elif move == "unsubscribe":
            self.subscribed = False
            self.request_id += 1
            h.handle(Unsubscribed(self.request_id, h.now_ms + 1_000))
        elif move == "end":
            h.handle(PollEnded())
        elif move == "reclaim":
            if self.taken < len(h.delivered):
                batch_id = h.delivered.pop().batch_id
                h.handle(BatchReclaimed(batch_id))
        else:
            node, channel = self.pick(1, 2, 3), self.pick(*Channel)
            h.handle(ConnectionLost(node, channel, BrokerUnreachableError("idle")))

    # ---- the cluster

    def network(self) -> None:
        h = self.harness
        if not h.pending:
            return
        send = self.draw(st.sampled_from(h.pending))
        if self.pick(*range(8)) == 0:
            error = self.pick(*FAILURES[:4]) if isinstance(send.request, MetadataRequest) else self.pick(*FAILURES)
            h.fail(send, error)
        else:
            h.answer(send, self.response(send.request))

    def response(self, request: Any) -> Any:
        h = self.harness
        if isinstance(request, MetadataRequest):
            h.leaders = {where: self.pick(1, 2, 3, -1) for where in h.leaders}
            h.leader_epochs = {where: h.leader_epochs.get(where, 1) + 1 for where in h.leaders}
            h.topic_errors = {"u": self.pick(0, 0, 3, 17)}
            return h.metadata_answer(request)
        if isinstance(request, FindCoordinatorRequest):
            h.coordinator_error = self.pick(0, 0, 15)
            return h.coordinator_answer()
        if isinstance(request, ShareGroupHeartbeatRequest):
            assignment = self.pick(None, [], PARTITIONS[:1], PARTITIONS[:3], [*PARTITIONS, tp(-3), tp(0)])
            code = self.pick(*TRANSIENT[:-1]) if self.pick(0, 0, 1) else 0
            if code in (3, 7, 56, 74, 78, 100, 121, 122, 123, 133, -1):
                code = 0  # fatal for a heartbeat: has a test of its own
            return heartbeat_answer(self.pick(1, 5), assignment, error=code, interval_ms=self.pick(0, 1, 1_000))
        if isinstance(request, ShareFetchRequest):
            return self.fetch_response()
        results = [(where, self.pick(*CODES)) for where in PARTITIONS if self.draw(st.booleans())]
        return acknowledge_answer(*results, error=self.pick(0, 0, 0, *CODES), leader=(self.pick(-1, 1, 2, 9), 3))

    def fetch_response(self) -> Any:
        data = []
        for where in [*PARTITIONS, PARTITIONS[0]]:
            if not self.draw(st.booleans()):
                continue
            first = self.next_offset
            self.next_offset += 10
            acquired = self.pick([], [(first, first + 4, 1)], [(first + 5, first + 6, 1), (first, first + 5, 2)])
            if self.pick(*range(6)) == 0:
                acquired = [*acquired, (-5, -1, 1), (9, 3, 1), (0, 2**60, 1)]
            data.append(
                fetch_data(
                    where,
                    *acquired,
                    error=self.pick(*CODES),
                    acknowledge_error=self.pick(*CODES),
                    leader=(self.pick(-1, 0, 2, 9), self.pick(0, 99)),
                )
            )
        return fetch_answer(
            *data,
            error=self.pick(0, 0, 0, 0, *CODES),
            lock_ms=self.pick(-1, 0, 100, 30_000),
            throttle_ms=self.pick(0, 0, 50),
            endpoints=self.pick([], list(self.harness.nodes.values())),
        )

    # ---- the promises

    def check(self) -> None:
        h = self.harness
        for _, send in h.sent[self.checked :]:
            request = send.request
            if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
                said = [batch for batches in said_in(request).values() for batch in batches]
                assert request.share_session_epoch != 0 or not said, "acknowledgements at epoch 0"
                assert isinstance(request, ShareFetchRequest) or request.share_session_epoch != 0
                for first, last, types in said:
                    assert first <= last
                    assert len(types) in (1, last - first + 1)
                if isinstance(request, ShareFetchRequest):
                    assert not any(4 in types for _, _, types in said), "a renewal on a ShareFetch"
        self.checked = len(h.sent)
        at_ms = h.core.wake_at_ms()
        assert at_ms is None or at_ms > h.now_ms, "a timer that is due after a step"
        self.reported = sum(run.last - run.first + 1 for outcome in h.outcomes for run in outcome.runs)
        assert self.reported <= self.expected, "an outcome too many"
        seen = [
            (o.partition, offset) for o in h.outcomes for run in o.runs for offset in range(run.first, run.last + 1)
        ]
        assert len(seen) == len(set(seen)), "an offset has two outcomes"


@pytest.mark.timeout(120)  # two hundred stories of up to sixty steps
@settings(max_examples=100, deadline=None)
@given(st.data(), st.booleans())
def test_every_acknowledgement_gets_one_outcome_when_anything_happens(data: st.DataObject, record_limit: bool) -> None:
    chaos = Chaos(data.draw, record_limit)
    h = chaos.harness
    for _ in range(data.draw(st.integers(5, 60))):
        if data.draw(st.integers(0, 2)) == 0:
            chaos.application()
        else:
            chaos.network()
        if data.draw(st.integers(0, 3)) == 0:
            h.advance(data.draw(st.sampled_from([1, 60, 700, 20_000])))
        chaos.check()
    chaos.take_batches()
    h.handle(CloseRequested(chaos.gather(), h.now_ms + 30_000))
    h.advance(30_000)
    chaos.check()
    assert h.is_finished
    assert chaos.reported == chaos.expected
    assert {commit.request_id for commit in h.commits} == chaos.waiting
    assert len(h.commits) == len(chaos.waiting)
    assert h.core.wake_at_ms() is None
