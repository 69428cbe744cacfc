"""A session that is lent: whose it is, what it sends, and what it takes for plain."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from simulation.line import SimulatedLine

from kafka_share.core.events import (
    Deliver,
    GatheredAcknowledgements,
    Lend,
    ReportOutcomes,
    SessionUsed,
)
from kafka_share.core.fetching.lending import LONGEST_LOAN_MS
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.locks import DeliveryLimit, LockGeneration
from kafka_share.native import IS_COMPILED
from kafka_share.network.direct import DirectSession
from kafka_share.network.wire import Lent
from kafka_share.protocol.messages import decode_request, encode_response
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse
from kafka_share.records import Node, TopicIdPartition

WHERE = TopicIdPartition(uuid.UUID(int=5), "t", 0)
OTHER = TopicIdPartition(uuid.UUID(int=5), "t", 1)
TOPICS = frozenset({"t"})
LIMITS = (500, 1, 1_000_000, 500)

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Data = _Topic.PartitionData
_Acknowledged = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse

compiled = pytest.mark.skipif(not IS_COMPILED, reason="answers are read directly by the compiled module only")


class LentSession:
    """A session that was lent at 0 ms until 100 ms."""

    def __init__(
        self,
        *acknowledgements: GatheredAcknowledgements,
        version: int = 2,
        due_at_ms: int | None = None,
        limits: tuple[int, int, int, int] = LIMITS,
    ) -> None:
        self.now_ms = 0
        self.sent: list[bytes] = []
        self.posted: list[Any] = []
        self.limit = DeliveryLimit()
        self.limit.value = 5
        self.line = SimulatedLine(lambda frame, _: self.sent.append(frame), lambda: None)
        locks = tuple((where, LockGeneration(self.limit)) for where in (WHERE, OTHER))
        lend = Lend(1, Node(1, "h", 9092), 7, 3, locks, TOPICS, 100, "g", "m", limits, acknowledgements)
        self.session = DirectSession(lend, self.line, Lent(2, version, 40, due_at_ms), "c", lambda: self.now_ms)

    def entered(self) -> DirectSession:
        assert self.session.enter(TOPICS, self.posted.append)
        return self.session

    def answer(self, *changes: Any, partitions: tuple[int, ...] = (0,), **of_data: Any) -> None:
        of_data = {
            "acquired_records": [_Data.AcquiredRecords(first_offset=0, last_offset=9, delivery_count=1)]
        } | of_data
        datas = [
            _Data(partition_index=partition, records=b"batches", current_leader=_Data.LeaderIdAndEpoch(), **of_data)
            for partition in partitions
        ]
        whole = ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000, responses=[_Topic(topic_id=WHERE.topic_id, partitions=datas)]
        )
        self.line.received(encode_response(self.session.correlation_id, whole, 2))
        assert self.line.receive_all()

    def answer_commit(self, *partitions: int, version: int = 2, error_code: int = 0) -> int:
        """Returns how long the answer is."""
        data = _Acknowledged.PartitionData
        datas = [
            data(partition_index=partition, error_code=error_code, current_leader=data.LeaderIdAndEpoch())
            for partition in partitions
        ]
        whole = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=30_000, responses=[_Acknowledged(topic_id=WHERE.topic_id, partitions=datas)]
        )
        frame = encode_response(self.session.correlation_id, whole, version)
        self.line.received(frame)
        assert self.line.receive_all()
        return len(frame)


def said(kind: int = 1, where: TopicIdPartition = WHERE, **changes: Any) -> GatheredAcknowledgements:
    values = {"node_id": 1, "session_id": 7, "number": 9} | changes
    return GatheredAcknowledgements(where, runs=(AcknowledgementRun(0, 9, kind),), **values)


# ---- whose it is


def test_it_is_the_applications_for_one_poll_at_a_time() -> None:
    lent = LentSession()
    session = lent.entered()
    assert session.is_held
    session.leave(lent.posted.append)
    assert not session.is_held
    assert lent.entered()
    assert not lent.posted


def test_the_core_gets_it_at_once_when_no_poll_uses_it() -> None:
    lent = LentSession()
    assert lent.session.recall(lent.posted.append)
    assert [event.epoch for event in lent.posted] == [3]
    assert not lent.session.enter(TOPICS, lent.posted.append)
    assert len(lent.posted) == 1


def test_the_core_gets_it_behind_the_poll_that_uses_it() -> None:
    lent = LentSession()
    session = lent.entered()
    assert not session.recall(lent.posted.append)
    assert session.is_recalled
    assert not lent.posted
    session.leave(lent.posted.append)
    assert len(lent.posted) == 1
    assert not session.enter(TOPICS, lent.posted.append)


def test_it_is_given_back_when_its_time_is_over_or_the_subscription_is_another() -> None:
    late, other = LentSession(), LentSession()
    late.now_ms = 100
    assert not late.session.enter(TOPICS, late.posted.append)
    assert not other.session.enter(frozenset({"u"}), other.posted.append)
    assert len(late.posted) == len(other.posted) == 1


# ---- what it sends


def test_what_is_in_flight_goes_back_with_it() -> None:
    lent = LentSession()
    session = lent.entered()
    assert session.fetch([said()])
    session.give_back(lent.posted.append)
    flight = lent.posted[0].flight
    assert flight is not None
    assert flight.acknowledgements == (said(),)
    assert session.correlation_id == 41


@pytest.mark.parametrize(
    "made",
    [
        [said(2)],
        [said(4)],
        [said(is_late=True)],
        [said(is_own=True)],
        [said(session_id=6)],
        [said(node_id=2)],
        [said(), said(number=10)],
    ],
    ids=["release", "renew", "late", "own", "another session", "another node", "a partition twice"],
)
def test_nothing_is_sent_when_the_core_has_more_to_do_with_an_acknowledgement(
    made: list[GatheredAcknowledgements],
) -> None:
    lent = LentSession()
    assert not lent.entered().fetch(made)
    assert not lent.session.acknowledge(made, 1_000)
    assert not lent.sent
    assert not lent.line.awaits


def test_what_the_core_had_queued_goes_with_the_first_fetch() -> None:
    lent = LentSession(said(number=8))
    assert lent.entered().fetch([said(3, OTHER)])
    lent.session.give_back(lent.posted.append)
    (event,) = lent.posted
    assert event.flight.acknowledgements == (said(number=8), said(3, OTHER))
    assert not event.unsent


def test_what_the_core_had_queued_goes_back_if_nothing_was_sent() -> None:
    lent = LentSession(said(number=8))
    assert not lent.entered().fetch([said(2, OTHER)])
    lent.session.give_back(lent.posted.append)
    assert lent.posted[0].unsent == (said(number=8),)


# ---- for how long


def fetched_at(lent: LentSession, now_ms: int) -> None:
    """A poll has got records by itself at this time."""
    session = lent.entered()
    session.fetch([])
    lent.now_ms = now_ms
    lent.answer()
    assert session.read()
    session.done()
    session.leave(lent.posted.append)


@compiled
def test_the_core_is_told_of_progress_from_time_to_time_and_the_loan_lasts_for_as_long_again() -> None:
    """100 ms, and 1 s at most: then the core has to have its turn."""
    lent = LentSession()
    fetched_at(lent, 40)
    assert not lent.posted
    fetched_at(lent, 60)
    fetched_at(lent, 70)
    assert lent.posted == [SessionUsed(1, lent.posted[0].tally, 60)]
    tally = lent.posted[0].tally
    assert (tally.fetches, tally.records, tally.latency_ms, tally.highest_latency_ms) == (2, 20, 60, 40)
    lent.now_ms = 150
    assert lent.entered().is_held


@compiled
@pytest.mark.parametrize(
    ("due_at_ms", "late_at_ms"),
    [(None, LONGEST_LOAN_MS), (2_000, 2_000), (LONGEST_LOAN_MS + 1_000, LONGEST_LOAN_MS)],
    ids=["nothing is due", "the connection authenticates again soon", "it does later"],
)
def test_a_session_that_was_lent_for_long_goes_back(due_at_ms: int | None, late_at_ms: int) -> None:
    lent = LentSession(due_at_ms=due_at_ms)
    for now_ms in range(50, late_at_ms + 1, 50):
        fetched_at(lent, now_ms)
        assert lent.session.is_late == (now_ms == late_at_ms)
    assert max(event.fetched_at_ms for event in lent.posted) < late_at_ms
    lent.now_ms = late_at_ms + 100
    assert not lent.session.enter(TOPICS, lent.posted.append)


@compiled
def test_a_broker_holds_a_fetch_back_for_as_long_as_the_poll_allows_but_never_longer_than_lent() -> None:
    lent = LentSession()
    session = lent.entered()
    for wait_ms, told_ms in ((200, 200), (900, LIMITS[0]), (1, 1)):
        session.wait_at_most(wait_ms)
        assert session.longest_wait_ms == told_ms
        assert session.fetch([])
        request: Any = decode_request(lent.sent[-1][4:])[-1]
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (told_ms, *LIMITS[1:3])
        lent.answer()
        assert session.read()
        session.done()


def test_a_broker_that_is_not_to_wait_does_not_because_of_a_poll() -> None:
    lent = LentSession(limits=(0, *LIMITS[1:]))
    session = lent.entered()
    session.wait_at_most(200)
    assert (session.longest_wait_ms, session.lent_wait_ms) == (0, 0)


@compiled
def test_it_is_out_until_the_core_wants_it_back_or_has_it() -> None:
    lent, returned = LentSession(), LentSession()
    assert lent.session.is_out
    lent.session.hold()
    assert lent.session.is_out
    lent.session.recall(lent.posted.append)
    assert not lent.session.is_out
    returned.entered().give_back(returned.posted.append)
    assert not returned.session.is_out


# ---- what it reads


@compiled
def test_an_answer_brings_outcomes_and_records_and_the_next_epoch() -> None:
    lent = LentSession()
    session = lent.entered()
    session.fetch([said(), said(3, OTHER, number=10)])
    lent.now_ms = 8
    lent.answer(partitions=(0, 1))
    assert session.read()
    outcomes, deliver = session.taken
    assert isinstance(outcomes, ReportOutcomes)
    assert [(o.partition, o.ended[0].number, o.error) for o in outcomes.outcomes] == [
        (WHERE, 9, None),
        (OTHER, 10, None),
    ]
    assert isinstance(deliver, Deliver)
    assert [p.partition for p in deliver.batch.partitions] == [WHERE, OTHER]
    assert deliver.batch.acquired_at_ms == 0
    session.done()
    session.leave(lent.posted.append)
    session.recall(lent.posted.append)
    (event,) = lent.posted
    assert (event.epoch, event.flight, event.fetched_at_ms) == (4, None, 8)
    tally = event.tally
    assert (tally.fetches, tally.records, tally.acknowledged, tally.latency_ms) == (1, 20, 20, 8)


@compiled
@pytest.mark.parametrize(
    "change",
    [
        {"acquired_records": []},
        {"acquired_records": [_Data.AcquiredRecords(first_offset=9, last_offset=0, delivery_count=1)]},
        {"acquired_records": [_Data.AcquiredRecords(first_offset=0, last_offset=9, delivery_count=5)]},
        {"error_code": 6},
        {"partitions": (2,)},
        {"partitions": (0, 0)},
        {"partitions": (1,)},
    ],
    ids=["nothing", "reversed", "last delivery", "error", "not asked for", "named twice", "no outcome"],
)
def test_the_core_reads_what_is_not_plain(change: dict[str, Any]) -> None:
    lent = LentSession()
    session = lent.entered()
    session.fetch([said()])
    lent.answer(**change)
    assert not session.read()
    assert not session.taken
    session.give_back(lent.posted.append)
    assert lent.posted[0].flight is not None
    assert lent.line.leftover, "the answer goes back unread"


# ---- acknowledgements by themselves


@compiled
@pytest.mark.parametrize(("version", "new_lock"), [(1, (None, None)), (2, (30_000, 5))])
def test_acknowledgements_by_themselves_bring_outcomes_and_the_next_epoch(
    version: int, new_lock: tuple[int | None, int | None]
) -> None:
    lent = LentSession(version=version)
    lent.now_ms = 5
    session = lent.entered()
    assert session.acknowledge([said(), said(3, OTHER, number=10)], 1_000)
    request = decode_request(lent.sent[0][4:])[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.share_session_epoch == 3
    assert session.is_committing
    lent.now_ms = 8
    answer_bytes = lent.answer_commit(1, 0, version=version)
    assert session.read()
    (outcomes,) = session.taken
    assert isinstance(outcomes, ReportOutcomes)
    assert [(o.partition, o.ended[0].number, o.error) for o in outcomes.outcomes] == [
        (OTHER, 10, None),
        (WHERE, 9, None),
    ]
    assert {(o.acquisition_lock_timeout_ms, o.sent_at_ms) for o in outcomes.outcomes} == {new_lock}
    session.done()
    assert not session.is_committing
    session.leave(lent.posted.append)
    session.recall(lent.posted.append)
    (event,) = lent.posted
    assert (event.epoch, event.flight, event.fetched_at_ms) == (4, None, None)
    tally = event.tally
    assert (tally.requests, tally.acknowledging, tally.acknowledged) == (1, 1, 20)
    assert (tally.fetches, tally.commits, tally.commit_latency_ms, tally.highest_commit_latency_ms) == (0, 1, 3, 3)
    assert (tally.request_bytes, tally.response_bytes) == (len(lent.sent[0]), answer_bytes)


@compiled
@pytest.mark.parametrize(
    "change",
    [{"partitions": (0, 1)}, {"partitions": (1,)}, {"partitions": (0, 0)}, {"partitions": ()}, {"error_code": 6}],
    ids=["one more", "another", "twice", "none", "error"],
)
def test_the_core_reads_an_answer_to_acknowledgements_that_is_not_plain(change: dict[str, Any]) -> None:
    lent = LentSession()
    session = lent.entered()
    session.acknowledge([said()], 1_000)
    lent.answer_commit(*change.pop("partitions", (0,)), **change)
    assert not session.read()
    assert not session.taken
    session.give_back(lent.posted.append)
    flight = lent.posted[0].flight
    assert (flight.acknowledgements, flight.is_fetch, flight.retry_until_ms) == ((said(),), False, 1_000)
    assert lent.line.leftover, "the answer goes back unread"


def test_acknowledgements_do_not_go_by_themselves_before_those_that_the_core_had_queued() -> None:
    lent = LentSession(said(number=8))
    assert not lent.entered().acknowledge([said(3, OTHER)], 1_000)
    assert not lent.sent


def test_acknowledgements_do_not_go_by_themselves_while_a_fetch_is_in_flight() -> None:
    lent = LentSession()
    session = lent.entered()
    assert session.fetch([])
    assert not session.acknowledge([said()], 1_000)
    assert len(lent.sent) == 1
