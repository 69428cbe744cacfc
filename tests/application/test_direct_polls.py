"""Polls and commits that send by themselves: when they give sessions back, and whether the core is woken for it."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, NoReturn

import pytest
from simulation.line import SimulatedLine

from kafka_share.application.direct import DirectPolls, Wait
from kafka_share.core.events import Deliver, GatheredAcknowledgements, Lend, ReportOutcomes, SessionReturned
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import WakeupError
from kafka_share.locks import LockGeneration
from kafka_share.native import IS_COMPILED
from kafka_share.network.direct import DirectSession
from kafka_share.network.wire import Lent
from kafka_share.protocol.messages import encode_response
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchResponse
from kafka_share.records import Node, TopicIdPartition

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Acknowledged = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse

compiled = pytest.mark.skipif(not IS_COMPILED, reason="answers are read directly by the compiled module only")

LIMITS = (500, 1, 1_000_000, 500)
WHERE = TopicIdPartition(uuid.UUID(int=5), "t", 0)


class Shared(dict[int, DirectSession]):
    """The network thread may put something in at any time: who goes through it takes a copy first."""

    def values(self) -> NoReturn:
        raise RuntimeError("dictionary changed size during iteration")

    __iter__ = items = values


class Surroundings:
    """All that a poll needs: an application that subscribes to "t", a mailbox with sessions, and a core."""

    def __init__(self, nodes: int = 1, *, sends_ahead: bool = False) -> None:
        self.guard: Any = contextlib.nullcontext()
        self.has_unposted = False
        self.made: list[GatheredAcknowledgements] = []
        """What the application has acknowledged since it was asked."""
        self.handed_over: list[GatheredAcknowledgements] = []
        """What the core was given, to send it by itself."""
        self.topics = frozenset({"t"})
        self.events: list[tuple[SessionReturned, bool]] = []
        """With whether the core was woken."""
        self.asked: list[int] = []
        """The nodes that a fetch was sent to."""
        self.taken: list[int] = []
        """The nodes whose records the application has got."""
        self.ended: list[int] = []
        """The numbers of the acknowledgements that have had their outcome."""
        self.looks: list[BaseException] = []
        """What the application meets when it looks around a wait."""
        self.direct: dict[int, DirectSession] = Shared()
        for node_id in range(1, nodes + 1):
            self._lend(node_id)
        self.mail = False
        """Whether the core has brought records."""
        application: Any = self
        hand_over = self.handed_over.extend if sends_ahead else None
        self.polls = DirectPolls(application, self, self, lambda: self.mail, hand_over)

    def _lend(self, node_id: int) -> None:
        places = ((WHERE, LockGeneration()),)
        lend = Lend(node_id, Node(node_id, "h", 9092), 7, 3, places, self.topics, 100, "g", "m", LIMITS)
        line = SimulatedLine(lambda *_: self.asked.append(node_id), lambda: None)
        self.direct[node_id] = DirectSession(lend, line, Lent(2, 2, 0), "c", lambda: 0)

    def take(self, output: Any) -> None:
        if isinstance(output, Deliver):
            self.taken += [fetched.node_id for fetched in output.batch.partitions]
        elif isinstance(output, ReportOutcomes):
            self.ended += [ended.number for outcome in output.outcomes for ended in outcome.ended]

    def gather(self) -> list[GatheredAcknowledgements]:
        return self.made

    def whole(self, *_: Any) -> None:
        """Nothing is held as a whole here."""

    def posted(self) -> None:
        """What was gathered is no more the application's."""

    @property
    def unanswered(self) -> list[int]:
        lines: dict[int, Any] = {node_id: direct.line for node_id, direct in self.direct.copy().items()}
        return [node_id for node_id, line in lines.items() if line.awaits and not line.is_ready]

    def answer(self, *node_ids: int) -> None:
        """These nodes have answered."""
        data = _Topic.PartitionData(
            current_leader=_Topic.PartitionData.LeaderIdAndEpoch(),
            acquired_records=[_Topic.PartitionData.AcquiredRecords(first_offset=0, last_offset=9, delivery_count=1)],
        )
        topics = [_Topic(topic_id=WHERE.topic_id, partitions=[data])]
        response = ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=topics)
        for node_id in node_ids:
            direct = self.direct[node_id]
            assert isinstance(direct.line, SimulatedLine)
            direct.line.received(encode_response(direct.correlation_id, response, 2))

    def answer_commit(self, *node_ids: int, error_code: int = 0) -> None:
        data = _Acknowledged.PartitionData
        of_one = data(error_code=error_code, current_leader=data.LeaderIdAndEpoch())
        response = ShareAcknowledgeResponse(responses=[_Acknowledged(topic_id=WHERE.topic_id, partitions=[of_one])])
        for node_id in node_ids:
            direct = self.direct[node_id]
            assert isinstance(direct.line, SimulatedLine)
            direct.line.received(encode_response(direct.correlation_id, response, 2))

    def committing(self, *acknowledged: int) -> Any:
        """A commit that has sent what was acknowledged of these nodes, and waits."""
        held = self.polls.acknowledge([said(node_id) for node_id in acknowledged], 5_000)
        assert held
        wait = self.polls.outcomes(held, 1_000, self.look)
        assert next(wait) == Wait(1_000, direct=[direct for direct in held if direct.node_id in acknowledged])
        return wait

    def look(self) -> None:
        if self.looks:
            raise self.looks.pop()

    def post(self, event: Any, *, wake: bool = True) -> None:
        self.events.append((event, wake))

    def waiting(self, *acknowledged: int) -> Any:
        """A poll that has sent its fetches, and waits; it has acknowledged records of these nodes."""
        held = self.polls.fetch([said(node_id) for node_id in acknowledged])
        assert held
        wait = self.polls.wait(held, 1_000)
        assert next(wait) == Wait(1_000, with_records=True, direct=held)
        return wait


def said(node_id: int) -> GatheredAcknowledgements:
    return GatheredAcknowledgements(WHERE, node_id, 7, (AcknowledgementRun(0, 9, 1),), number=node_id)


def ended(wait: Any) -> bool:
    with pytest.raises(StopIteration) as end:
        next(wait)
    return bool(end.value.value)


def test_the_session_goes_back_with_its_fetch_when_no_answer_comes_in_time() -> None:
    """The poll asks the core right after that, which wakes it."""
    around = Surroundings()
    assert not ended(around.waiting())
    ((event, is_woken),) = around.events
    assert event.flight is not None
    assert not is_woken
    assert not around.direct
    assert not around.polls.fetch([])


def test_the_core_is_woken_when_the_poll_ends_by_an_error() -> None:
    """Nobody reads the answer before the core knows of it."""
    around = Surroundings()
    wait = around.waiting()
    with pytest.raises(WakeupError):
        wait.throw(WakeupError("wakeup() was called"))
    ((event, is_woken),) = around.events
    assert event.flight is not None
    assert is_woken


def test_what_an_interrupted_poll_holds_goes_back_with_the_next_call() -> None:
    around = Surroundings()
    around.waiting()
    around.polls.recover()
    assert [is_woken for _, is_woken in around.events] == [True]
    around.polls.recover()
    assert len(around.events) == 1


# ---- several nodes


@compiled
def test_a_fetch_that_a_node_has_not_answered_stays_in_flight_for_the_next_poll() -> None:
    around = Surroundings(nodes=2)
    wait = around.waiting()
    around.answer(1)
    assert ended(wait)
    assert around.taken == [1]
    assert not any(direct.is_held for direct in around.direct.copy().values())
    wait = around.waiting(1)
    assert around.asked == [1, 2, 1]
    around.answer(2)
    assert ended(wait)
    assert around.taken == [1, 2]
    assert not around.events


@compiled
def test_nodes_that_have_all_answered_are_taken_in_turn() -> None:
    """Else one with much to give would leave the records of the others waiting, with their locks running."""
    around = Surroundings(nodes=3)
    for _ in range(6):
        wait = around.waiting()
        around.answer(*around.unanswered)
        assert ended(wait)
    assert sorted(around.taken[:3]) == sorted(around.taken[3:]) == [1, 2, 3]


def test_records_that_come_by_the_core_end_the_poll_and_leave_the_sessions_lent() -> None:
    around = Surroundings()
    wait = around.waiting()
    around.mail = True
    assert ended(wait)
    assert not around.events
    around.mail = False
    around.waiting()
    assert around.asked == [1]


def test_all_go_back_when_acknowledgements_are_for_a_node_that_was_asked_before() -> None:
    """One request at a time: the core sends them behind the answer."""
    around = Surroundings(nodes=2)
    wait = around.waiting()
    around.mail = True
    assert ended(wait)
    assert not around.polls.fetch([said(2)])
    assert [event.flight is not None for event, _ in around.events] == [True, True]
    assert not around.direct


def test_the_core_is_told_what_is_in_flight_before_a_commit_waits_for_it() -> None:
    """A poll may have returned another node's records before the answer to its acknowledgements came."""
    around = Surroundings(nodes=2)
    wait = around.waiting(1)
    around.mail = True
    assert ended(wait)
    around.polls.end()
    assert [event.flight and len(event.flight.acknowledgements) for event, _ in around.events] == [1, 0]
    assert not around.direct


def test_all_go_back_when_acknowledgements_are_for_a_node_that_is_not_lent() -> None:
    around = Surroundings(nodes=2)
    assert not around.polls.fetch([said(3)])
    assert [event.flight for event, _ in around.events] == [None, None]
    assert not around.asked


def test_all_go_back_when_one_was_recalled() -> None:
    around = Surroundings(nodes=2)
    assert around.direct[1].recall(lambda event: around.post(event))
    assert not around.polls.fetch([])
    assert [event.lend_id for event, _ in around.events] == [1, 2]
    assert not around.direct


# ---- commits


@compiled
def test_a_commit_takes_the_outcomes_of_all_nodes_and_leaves_the_sessions_lent() -> None:
    around = Surroundings(nodes=3)
    wait = around.committing(1, 3)
    assert around.asked == [1, 3]
    around.answer_commit(3)
    assert next(wait) == Wait(1_000, direct=[around.direct[1]])
    around.answer_commit(1)
    assert ended(wait)
    assert around.ended == [3, 1]
    assert not around.events
    around.waiting(1)
    assert around.asked == [1, 3, 1, 2, 3]


@compiled
def test_a_commit_leaves_a_fetch_of_another_node_in_flight() -> None:
    around = Surroundings(nodes=2)
    wait = around.waiting()
    around.answer(1)
    assert ended(wait)
    wait = around.committing(1)
    around.answer_commit(1)
    assert ended(wait)
    assert around.direct[2].line.awaits
    wait = around.waiting()
    around.answer(2)
    assert ended(wait)
    assert around.taken == [1, 2]


@compiled
@pytest.mark.parametrize("has_answer", [False, True], ids=["late", "an error"])
def test_the_sessions_go_back_when_not_all_is_plain_and_the_core_goes_on_with_what_is_open(*, has_answer: bool) -> None:
    """The commit asks the core right after that, which wakes it."""
    around = Surroundings(nodes=2)
    wait = around.committing(1, 2)
    around.answer_commit(1)
    next(wait)
    if has_answer:
        around.answer_commit(2, error_code=6)
    assert not ended(wait)
    assert around.ended == [1]
    (first, second), woken = zip(*around.events, strict=True)
    assert woken == (False, False)
    assert first.flight is None
    assert (second.flight.is_fetch, second.flight.retry_until_ms) == (False, 5_000)
    assert second.flight.acknowledgements == (said(2),)
    assert not around.direct


@pytest.mark.parametrize("node_ids", [(2, 3), (1, 2)], ids=["another node", "a node that was asked before"])
def test_a_commit_sends_nothing_when_the_core_has_to(node_ids: tuple[int, ...]) -> None:
    around = Surroundings(nodes=2)
    wait = around.waiting()
    around.mail = True
    assert ended(wait)
    around.asked.clear()
    assert not around.polls.acknowledge([said(node_id) for node_id in node_ids], 5_000)
    assert not around.asked
    assert len(around.events) == 2
    assert not around.direct


def test_what_a_commit_has_sent_before_it_met_something_else_is_known_as_in_flight() -> None:
    """The core is asked with all of them, and takes each once."""
    around = Surroundings(nodes=2)
    unknown = GatheredAcknowledgements(WHERE, 2, 6, (AcknowledgementRun(0, 9, 1),), number=2)
    assert not around.polls.acknowledge([said(1), unknown], 5_000)
    assert around.asked == [1]
    assert [event.flight and event.flight.acknowledgements for event, _ in around.events] == [(said(1),), None]


def test_the_core_is_woken_when_a_commit_ends_by_an_error() -> None:
    around = Surroundings()
    wait = around.committing(1)
    around.looks = [WakeupError("wakeup() was called")]
    with pytest.raises(WakeupError):
        next(wait)
    ((event, is_woken),) = around.events
    assert event.flight is not None
    assert is_woken


def test_a_wakeup_before_the_commit_ends_it_before_it_waits() -> None:
    around = Surroundings()
    held = around.polls.acknowledge([said(1)], 5_000)
    around.looks = [WakeupError("wakeup() was called")]
    with pytest.raises(WakeupError):
        next(around.polls.outcomes(held, 1_000, around.look))
    assert [event.flight and event.flight.acknowledgements for event, _ in around.events] == [(said(1),)]


# ---- send_ahead


@compiled
def test_with_send_ahead_the_fetch_of_the_next_poll_leaves_with_the_acknowledgements_when_an_answer_has_come() -> None:
    around = Surroundings(sends_ahead=True)
    wait = around.waiting()
    around.answer(1)
    around.made = [said(1)]
    assert ended(wait)
    assert around.asked == [1, 1]
    assert around.polls.is_ahead
    assert around.polls.fetch_ahead()
    wait = around.waiting()
    assert around.asked == [1, 1], "it was asked for already"
    around.answer(1)
    assert ended(wait)
    assert around.taken == [1, 1]
    assert not around.events


def test_with_send_ahead_a_poll_that_the_core_has_served_sends_ahead_when_the_session_has_been_lent() -> None:
    around = Surroundings(sends_ahead=True)
    assert not around.polls.is_ahead
    assert around.polls.fetch_ahead()
    assert around.asked == [1]
    assert around.polls.is_ahead


def test_with_send_ahead_the_core_gets_all_that_cannot_go_with_the_fetch() -> None:
    around = Surroundings(sends_ahead=True)
    around.made = [said(2)]
    assert not around.polls.fetch_ahead()
    assert around.handed_over == [said(2)]
    assert len(around.events) == 1
    assert not around.asked


def test_with_send_ahead_the_core_sends_the_fetch_when_nothing_is_lent() -> None:
    around = Surroundings(nodes=0, sends_ahead=True)
    assert not around.polls.fetch_ahead()
    assert not around.handed_over
