"""Every state of the core's machines meets every event: commands, each error code at each level, each kind of failure.

A situation brings the core into a state, a move is one event that can happen there. After each step the invariants of
all machines are checked (by `Harness.poll`); at the end the consumer must close in time, with one outcome for each
acknowledged offset and one completion for each commit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from core.scripted_cluster import (
    Harness,
    acknowledge_answer,
    fetch_answer,
    fetch_data,
    heartbeat_answer,
    runs,
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
    Send,
    SubscriptionChanged,
    Unsubscribed,
)
from kafka_share.core.membership import State
from kafka_share.errors import (
    ERRORS,
    AuthenticationError,
    BrokerUnreachableError,
    KafkaShareError,
    OperationTimeoutError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.records import TopicIdPartition

CODES = [0, *ERRORS, 999]
"""Every error code that Kafka has for the APIs of a share consumer, success, and one that does not exist."""
FAILURES = [
    BrokerUnreachableError("broke"),
    OperationTimeoutError("too late"),
    AuthenticationError("refused"),
    RemoteProtocolError("nonsense"),
    UnsupportedVersionError("too old"),
]
LEADERS = {tp(): 1, tp(1): 2}
Move = Callable[["Story"], None]


SESSION_ENDED = (122, 123, 133)
"""Codes after which a share session begins anew."""


class Witness(Harness):
    """Knows which share session epoch may come next on each node, by the plain rule."""

    def __init__(self, leaders: dict[TopicIdPartition, int], **options: Any) -> None:
        self.due: dict[int, int] = {}
        self.seen = 0
        super().__init__(leaders, **options)

    def answer(self, send: Send, response: Any) -> None:
        if send.channel is Channel.DATA and send.request.share_session_epoch >= 0:
            ended = response.error_code in SESSION_ENDED
            self.due[send.node.id] = 0 if ended else send.request.share_session_epoch + 1
        super().answer(send, response)

    def fail(self, send: Send, error: KafkaShareError | None = None) -> None:
        if send.channel is Channel.DATA and not isinstance(error, UnsupportedVersionError):
            self.due[send.node.id] = 0
        super().fail(send, error)

    def lose(self, node_id: int, channel: Channel) -> None:
        if channel is Channel.DATA:
            self.due[node_id] = 0
        self.handle(ConnectionLost(node_id, channel, BrokerUnreachableError("idle")))

    def poll(self) -> None:
        super().poll()
        for _, send in self.sent[self.seen :]:
            if send.channel is Channel.DATA:
                due, epoch = self.due.get(send.node.id, 0), send.request.share_session_epoch
                assert epoch in (due, 0) or (epoch == -1 and due > 0), f"epoch {epoch} where {due} was due"
        self.seen = len(self.sent)


@attrs.define
class Story:
    """A core under a scripted cluster, and the books of what its application has acknowledged."""

    h: Witness
    said: int = 0
    taken: int = 0
    unsaid: list[tuple[GatheredAcknowledgements, int, int]] = attrs.Factory(list)
    waiting: set[int] = attrs.Factory(set)
    next_id: int = 100
    is_subscribed: bool = True
    is_closing: bool = False
    next_offset: int = 1_000

    def take(self) -> None:
        for batch in self.h.delivered[self.taken :]:
            for fetched in batch.partitions:
                words = GatheredAcknowledgements(fetched.partition, fetched.node_id, fetched.session_id, ())
                self.unsaid += [(words, r.first, r.last) for r in fetched.acquired]
        self.taken = len(self.h.delivered)

    def words(self, kind: int) -> tuple[GatheredAcknowledgements, ...]:
        """Something about everything that is held."""
        self.take()
        gathered = [attrs.evolve(words, runs=runs((first, last, kind))) for words, first, last in self.unsaid]
        self.said += sum(last - first + 1 for _, first, last in self.unsaid)
        self.unsaid = []
        return tuple(gathered)

    # ---- commands

    def subscribe(self, *topics: str) -> None:
        self.is_subscribed = True
        self.h.handle(SubscriptionChanged(frozenset(topics)))

    def poll(self, timeout_ms: int = 2_000, kind: int = 1, *, wants_records: bool = True) -> None:
        if self.is_subscribed:
            self.h.handle(PollStarted(self.h.now_ms + timeout_ms, self.words(kind), wants_records))

    def commit(self, kind: int = 1, *, wait: bool, timeout_ms: int = 1_500) -> None:
        self.next_id += 1
        if wait:
            self.waiting.add(self.next_id)
        self.h.handle(CommitRequested(self.next_id, self.words(kind), self.h.now_ms + timeout_ms, wait))

    def unsubscribe(self) -> None:
        self.is_subscribed = False
        self.next_id += 1
        self.h.handle(Unsubscribed(self.next_id, self.h.now_ms + 1_000))

    def reclaim(self) -> None:
        if self.taken < len(self.h.delivered):
            self.h.handle(BatchReclaimed(self.h.delivered.pop().batch_id))

    def close(self, span_ms: int = 1_000) -> None:
        if not self.is_closing:
            self.is_closing = True
            self.h.handle(CloseRequested(self.words(1), self.h.now_ms + span_ms))

    # ---- the end

    def end(self) -> None:
        """Nobody answers any more: what was promised holds all the same."""
        h = self.h
        h.heartbeat = None
        self.close()
        h.advance(31_000)
        assert h.is_finished
        assert h.core.wake_at_ms() is None
        reported = [(o.partition, n, r.type) for o in h.outcomes for r in o.runs for n in range(r.first, r.last + 1)]
        assert len(reported) == self.said
        assert len(set(reported)) == len(reported), "an offset has two outcomes"
        assert sorted(commit.request_id for commit in h.commits) == sorted(self.waiting)
        assert sum(error.fatal for error in h.errors) <= 1


# ---- situations


def _new(**options: Any) -> Story:
    return Story(Witness(dict(LEADERS), **options))


def unsubscribed() -> Story:
    story = _new()
    story.is_subscribed = False
    return story


def subscribed() -> Story:
    story = _new()
    story.subscribe("t")
    return story


def without_metadata() -> Story:
    story = subscribed()
    story.h.serves_metadata = False
    story.poll()
    return story


def without_coordinator() -> Story:
    story = without_metadata()
    send = story.h.only(MetadataRequest)
    story.h.answer(send, story.h.metadata_answer(send.request))
    assert story.h.asked(FindCoordinatorRequest)
    return story


def joining() -> Story:
    story = subscribed()
    story.poll()
    return story


def acknowledging() -> Story:
    story = joining()
    story.h.answer(story.h.beat(), heartbeat_answer(1, list(LEADERS)))
    return story


def unassigned() -> Story:
    story = joining()
    story.h.answer(story.h.beat(), heartbeat_answer(1, []))
    return story


def fetching() -> Story:
    story = _new()
    story.h.joined(timeout_ms=4_000)
    return story


def strictly_fetching() -> Story:
    story = _new(share_acquire_mode="record_limit")
    story.h.joined(timeout_ms=4_000)
    return story


def holding() -> Story:
    story = fetching()
    for send in list(story.h.data_pending):
        where = tp(send.node.id - 1)
        story.h.answer(send, fetch_answer(fetch_data(where, (0, 9, 1))))
    story.take()
    return story


def parked() -> Story:
    story = fetching()
    story.h.handle(PollEnded())
    story.h.answer(story.h.fetch(1), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    return story


def riding() -> Story:
    story = holding()
    story.poll()
    return story


def committing() -> Story:
    story = holding()
    story.commit(wait=True)
    return story


def repeating() -> Story:
    story = committing()
    story.h.answer(story.h.acknowledge(1), acknowledge_answer((tp(), 15)))
    return story


def renewing() -> Story:
    story = holding()
    story.poll(kind=4)
    return story


def reset() -> Story:
    story = riding()
    story.h.answer(story.h.fetch(1), fetch_answer(error=122))
    return story


def fenced() -> Story:
    story = holding()
    story.h.heartbeat = None
    story.h.advance(1_000)
    story.h.answer(story.h.beat(), heartbeat_answer(error=110))
    return story


def beating() -> Story:
    story = fetching()
    story.h.heartbeat = None
    story.h.advance(1_000)
    story.h.beat()
    return story


def leaving() -> Story:
    story = holding()
    story.h.heartbeat = None
    story.unsubscribe()
    return story


def expiring() -> Story:
    story = _new(max_poll_interval_ms=2_000)
    story.h.joined(timeout_ms=0)
    story.h.heartbeat = lambda request: heartbeat_answer(max(1, request.member_epoch))
    story.h.advance(1_900)
    story.h.heartbeat = None
    story.h.advance(200)
    for send in story.h.asked(ShareGroupHeartbeatRequest):
        if send.request.member_epoch >= 0:
            story.h.answer(send, heartbeat_answer(1))
    return story


def stale() -> Story:
    story = expiring()
    story.h.answer(story.h.beat(), heartbeat_answer(-1))
    return story


def failed() -> Story:
    story = holding()
    story.h.heartbeat = lambda request: heartbeat_answer(error=30)
    story.h.advance(1_000)
    return story


def closing_sessions() -> Story:
    story = holding()
    story.close(5_000)
    return story


def closing_membership() -> Story:
    story = closing_sessions()
    story.h.heartbeat = None
    for send in list(story.h.data_pending):
        story.h.answer(send, acknowledge_answer((tp(send.node.id - 1), 0)))
    story.h.beat()
    return story


SITUATIONS = [
    unsubscribed,
    subscribed,
    without_metadata,
    without_coordinator,
    joining,
    acknowledging,
    unassigned,
    fetching,
    strictly_fetching,
    holding,
    parked,
    riding,
    committing,
    repeating,
    renewing,
    reset,
    fenced,
    beating,
    leaving,
    expiring,
    stale,
    failed,
    closing_sessions,
    closing_membership,
]


# ---- moves


COMMANDS: list[Move] = [
    lambda story: story.subscribe("t"),
    lambda story: story.subscribe("t", "u"),
    lambda story: story.poll(),
    lambda story: story.poll(0),
    lambda story: story.poll(0, wants_records=False),
    lambda story: story.poll(kind=4),
    lambda story: story.commit(wait=True),
    lambda story: story.commit(wait=False),
    lambda story: story.commit(kind=4, wait=True, timeout_ms=0),
    lambda story: story.unsubscribe(),
    lambda story: story.close(),
]
HAPPENINGS: list[Move] = [
    lambda story: story.h.handle(PollEnded()),
    lambda story: story.reclaim(),
    lambda story: story.h.advance(1),
    lambda story: story.h.advance(700),
    lambda story: story.h.advance(20_000),
    *(
        lambda story, node=node, channel=channel: story.h.lose(node, channel)
        for node in (-1, 1, 2, 9)
        for channel in Channel
    ),
]


def heartbeat_answers(send: Send) -> list[Callable[[Story], Any]]:
    shapes: list[Any] = [None, [], [tp()], [tp(1), tp(7), tp(0, "u")]]
    return [
        *(lambda _, code=code: heartbeat_answer(1, error=code) for code in CODES),
        *(lambda _, shape=shape: heartbeat_answer(5, shape) for shape in shapes),
        *(lambda _, epoch=epoch: heartbeat_answer(epoch) for epoch in (-1, 0)),
    ]


def fetch_answers(send: Send) -> list[Callable[[Story], Any]]:
    where = tp(max(0, send.node.id - 1))

    def acquired(story: Story, **options: Any) -> Any:
        story.next_offset += 10
        return fetch_data(where, (story.next_offset, story.next_offset + 4, 1), **options)

    return [
        *(lambda _, code=code: fetch_answer(error=code) for code in CODES),
        *(lambda _, code=code: fetch_answer(fetch_data(where, error=code)) for code in CODES),
        *(lambda story, code=code: fetch_answer(acquired(story, acknowledge_error=code)) for code in CODES),
        lambda story: fetch_answer(acquired(story), throttle_ms=500),
        lambda story: fetch_answer(fetch_data(where, error=6, leader=(2, 9)), endpoints=list(story.h.nodes.values())),
        lambda story: fetch_answer(fetch_data(tp(9), (0, 5, 1))),
    ]


def acknowledge_answers(send: Send) -> list[Callable[[Story], Any]]:
    where = tp(max(0, send.node.id - 1))
    return [
        *(lambda _, code=code: acknowledge_answer(error=code) for code in CODES),
        *(lambda _, code=code: acknowledge_answer((where, code), leader=(2, 9)) for code in CODES),
        lambda _: acknowledge_answer(),
    ]


def coordinator_answers(send: Send) -> list[Callable[[Story], Any]]:
    def answer(story: Story, code: int) -> Any:
        story.h.coordinator_error = code
        found = story.h.coordinator_answer()
        story.h.coordinator_error = 0
        return found

    return [partial(answer, code=code) for code in CODES]


def metadata_answers(send: Send) -> list[Callable[[Story], Any]]:
    def answer(story: Story, code: int, topic_code: int) -> Any:
        story.h.topic_errors = {"t": topic_code} if topic_code else {}
        found = story.h.metadata_answer(send.request)
        found.error_code = code
        story.h.topic_errors = {}
        return found

    return [
        *(lambda story, code=code: answer(story, 0, code) for code in CODES),
        *(lambda story, code=code: answer(story, code, 0) for code in CODES),
    ]


ANSWERS: dict[type[Any], Callable[[Send], list[Callable[[Story], Any]]]] = {
    ShareGroupHeartbeatRequest: heartbeat_answers,
    ShareFetchRequest: fetch_answers,
    ShareAcknowledgeRequest: acknowledge_answers,
    FindCoordinatorRequest: coordinator_answers,
    MetadataRequest: metadata_answers,
}
"""By request: each error code at each level of its answer, and answers that bring something."""


def moves_of(story: Story, *, first_of_each_kind: bool = False) -> list[Move]:
    """All that can happen now; of requests that wait for an answer all, or the first of each kind."""
    moves: list[Move] = list(HAPPENINGS)
    if not story.is_closing:
        moves += COMMANDS
    sends = story.h.pending
    if first_of_each_kind:
        sends = list({type(send.request): send for send in reversed(sends)}.values())
    for send in sends:
        moves += [lambda s, send=send, error=error: s.h.fail(send, error) for error in FAILURES]  # type: ignore[misc]
        makers = ANSWERS[type(send.request)](send)
        moves += [lambda s, send=send, make=make: s.h.answer(send, make(s)) for make in makers]  # type: ignore[misc]
    return moves


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_promises_hold_when_any_event_comes_in_any_state(situation: Callable[[], Story]) -> None:
    """Whatever state the consumer is in and whatever comes next: its invariants hold, and it closes in time."""
    for number in range(len(moves_of(situation(), first_of_each_kind=True))):
        story = situation()
        moves_of(story, first_of_each_kind=True)[number](story)
        story.h.advance(2_500)
        story.end()


@settings(max_examples=75, deadline=None)
@given(st.sampled_from(SITUATIONS), st.data())
def test_promises_hold_when_any_events_follow_one_another(situation: Callable[[], Story], data: st.DataObject) -> None:
    """Up to a dozen events of any kind, from any state: invariants hold, and each acknowledgement has one outcome."""
    story = situation()
    for _ in range(data.draw(st.integers(1, 12))):
        if story.h.is_finished:
            break
        data.draw(st.sampled_from(moves_of(story)))(story)
    story.end()


def test_the_situations_reach_every_state_of_a_membership() -> None:
    """The states of a membership that last are all among the situations."""
    passing = {State.RECONCILING, State.FENCED}
    reached = {situation().h.core._membership.state for situation in SITUATIONS}
    assert reached | passing == set(State)
