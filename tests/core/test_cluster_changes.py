"""Topics that end, come back and grow, leaders that move, brokers that go: what the core asks, sends and reports."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from core.scripted_cluster import (
    Harness,
    T,
    U,
    acknowledge_answer,
    batches,
    fetch_answer,
    fetch_data,
    forgotten_in,
    heartbeat_answer,
    said_in,
    tp,
)

from kafka_share.core.events import Channel, CloseRequested, ConnectionLost
from kafka_share.core.metadata import MAX_UNCONFIRMED_NODES
from kafka_share.errors import (
    BrokerUnreachableError,
    NotControllerError,
    NotLeaderOrFollowerError,
    OutcomeUnknownError,
    UnknownTopicIdError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import Node, TopicIdPartition

AGAIN = tp()._replace(topic_id=U)
"""Partition 0 of t, after the topic was deleted and created again: same name, other id."""
V = UUID(int=3)
OTHER = TopicIdPartition(V, "other", 0)
"""A partition of a topic that nothing happens to."""


def outcomes(h: Harness) -> list[type | None]:
    return [None if outcome.error is None else type(outcome.error) for outcome in h.outcomes]


# ---- topics


@pytest.mark.behaviour("share sessions")
def test_acknowledgements_of_a_deleted_topic_go_by_its_old_id_when_it_was_made_again() -> None:
    """Records of a deleted topic are acknowledged by its old id, even when a new topic of its name is fetched.

    A broker up to 4.3 that is to forget an unknown topic id answers the request; one that is not refuses all of it.
    """
    h = Harness({tp(): 1, OTHER: 1}).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1)), fetch_data(OTHER, (0, 0, 1))))
    h.leaders = {AGAIN: 1, OTHER: 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [AGAIN, OTHER])
    h.advance(1_100)
    h.start_poll(60_000, h.said((0, 9, 1)), h.said((0, 0, 1), where=OTHER))
    request = h.fetch().request
    assert said_in(request) == {(T, 0): batches((0, 9, [1])), (V, 0): batches((0, 0, [1]))}
    assert forgotten_in(request) == [(T, 0)]
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), acknowledge_error=100), fetch_data(OTHER)))
    assert outcomes(h) == [UnknownTopicIdError, None]
    h.answer(h.fetch(), fetch_answer())
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({}, [])
    assert (U, 0) in {where for _, sent in h.sent_of(ShareFetchRequest) for where in said_in(sent)}


@pytest.mark.behaviour("share sessions")
def test_acknowledgements_ride_on_a_fetch_when_another_member_has_got_the_partition() -> None:
    """A partition that went to another member is acknowledged and forgotten with the next fetch to its broker."""
    h = Harness({tp(): 1, tp(1): 1, OTHER: 1}).joined()
    h.delivering()
    h.heartbeat = lambda request: heartbeat_answer(2, [tp(1), OTHER])
    h.advance(1_100)
    h.start_poll(60_000, h.said((0, 9, 1)))
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(T, 0): batches((0, 9, [1]))}, [(T, 0)])


# ---- brokers


@pytest.mark.behaviour("broker failures")
def test_nothing_more_is_sent_to_a_broker_that_left_the_cluster_when_its_last_request_has_ended() -> None:
    """A broker leaves the cluster while a request to it is under way: after that answer it is left alone."""
    h = Harness({tp(): 1, tp(1): 2}, metadata_max_age_ms=1_000).joined(timeout_ms=60_000)
    h.answer(h.fetch(2), fetch_answer())
    departed = h.fetch(2)
    del h.nodes[2]
    h.leaders[tp(1)] = 1
    h.leader_epochs[tp(1)] = 2
    h.advance(1_100)
    h.answer(departed, fetch_answer())
    assert not h.asked(ShareFetchRequest, 2)
    h.answer(h.fetch(1), fetch_answer())
    assert said_in(h.fetch(1).request) == {(T, 1): []}
    h.handle(CloseRequested((), h.now_ms + 30_000))
    h.answer(h.fetch(1), fetch_answer())
    assert [send.node.id for send in h.data_pending] == [1]


# ---- errors


@pytest.mark.behaviour("share sessions")
def test_the_other_partitions_are_asked_on_without_a_pause_when_one_is_in_lasting_trouble() -> None:
    """A partition that fails again and again does not slow the others: a broker that waited is asked again at once."""
    h = Harness({tp(): 1, tp(0, "u"): 1}, fetch_max_wait_ms=500).joined(timeout_ms=60_000)
    times = []
    for _ in range(10):
        times.append(h.now_ms)
        h.advance(500)  # the broker waits for records of u
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=29), fetch_data(tp(0, "u"))))
    assert [b - a for a, b in pairwise(times)] == [500] * 9
    h.fetch()


# ---- leaders


@pytest.mark.behaviour("share sessions")
def test_the_new_leader_is_found_when_the_connection_to_the_old_one_breaks() -> None:
    """A leader that cannot be reached makes the client ask for metadata, and fetch from the leader named there."""
    h = Harness({tp(): 1, tp(1): 2}).joined(tp(), timeout_ms=60_000)
    h.leaders[tp()] = 2
    h.leader_epochs[tp()] = 2
    before = len(h.sent_of(MetadataRequest))
    h.fail(h.fetch(1))
    h.advance(200)
    assert len(h.sent_of(MetadataRequest)) == before + 1
    assert said_in(h.fetch(2).request) == {(T, 0): []}
    assert not h.errors


@pytest.mark.behaviour("share sessions")
def test_a_partition_is_in_one_session_at_a_time_when_its_leader_moves_to_and_fro() -> None:
    """A leader moves away and back several times: each session adds and forgets the partition in turn, none twice."""
    h = Harness({tp(): 1, tp(1): 1, tp(2): 2}).joined(timeout_ms=600_000)
    sessions = Sessions(h)
    for epoch in range(2, 12):
        leader = h.core._metadata.leader(T, 0)
        assert leader is not None
        h.answer(h.fetch(leader), fetch_answer(fetch_data(tp(), error=6, leader=(3 - leader, epoch))))
        for _ in range(4):
            h.advance(300)
            for send in list(h.data_pending):
                h.answer(send, fetch_answer())
        assert sessions.with_partition() == [3 - leader]
    assert not h.errors


def test_few_nodes_are_believed_when_a_broker_names_a_new_one_with_every_answer() -> None:
    """Each costs a connection. The metadata, which name none of them, have the last word."""
    h = Harness({tp(): 1}).joined(timeout_ms=60_000)
    for number in range(100, 140):
        for send in list(h.data_pending):
            named = Node(number, "made.up", number)
            moved = fetch_data(tp(), error=6, leader=(number, number))
            h.answer(send, fetch_answer(moved, endpoints=[named]))
        h.advance(100)
    asked = {send.node.id for _, send in h.sent if isinstance(send.request, ShareFetchRequest)}
    assert 1 < len(asked) <= 1 + MAX_UNCONFIRMED_NODES
    before = len(h.sent)
    for _ in range(20):
        for send in list(h.data_pending):
            h.answer(send, fetch_answer())
        h.advance(100)
    assert {send.node.id for _, send in h.sent[before:] if isinstance(send.request, ShareFetchRequest)} == {1}


class Sessions:
    """What the brokers have in their sessions, as they were told."""

    def __init__(self, h: Harness) -> None:
        self._h = h
        self._seen = 0
        self._held: dict[int, set[tuple[UUID, int]]] = {1: set(), 2: set()}

    def with_partition(self) -> list[int]:
        """The brokers that have t-0 in their session."""
        for _, send in self._h.sent[self._seen :]:
            if isinstance(send.request, ShareFetchRequest):
                held, added, gone = (
                    self._held[send.node.id],
                    set(said_in(send.request)),
                    set(forgotten_in(send.request)),
                )
                assert not added & held, "added twice"
                assert gone <= held, "forgotten without being there"
                self._held[send.node.id] = (held | added) - gone
        self._seen = len(self._h.sent)
        return [node_id for node_id, held in self._held.items() if (T, 0) in held]


# ---- sessions


@pytest.mark.behaviour("share sessions")
def test_no_acknowledgement_is_sent_at_epoch_0_when_a_session_was_lost() -> None:
    """Without an open session nothing is acknowledged, neither by a commit nor by close: the errors are local."""
    h = Harness().joined()
    h.delivering()
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("broke")))
    h.commit(1, h.said((0, 4, 1)))
    assert len(h.commits) == 1
    h.handle(CloseRequested((h.said((5, 9, 1)),), h.now_ms + 30_000))
    assert outcomes(h) == [NotLeaderOrFollowerError] * 2
    assert not h.sent_of(ShareAcknowledgeRequest)


@pytest.mark.behaviour("share sessions")
def test_records_of_an_old_session_are_not_acknowledged_in_the_new_one_when_it_has_begun() -> None:
    """What came in an earlier session is refused locally, though a new one with the same broker is open."""
    h = Harness().joined(timeout_ms=60_000)
    h.delivering()
    old = h.said((0, 9, 1))
    h.start_poll(60_000)
    h.fail(h.fetch())
    h.advance(200)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    h.commit(1, old, h.said((10, 19, 1)))
    assert said_in(h.acknowledge().request) == {(T, 0): batches((10, 19, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [NotLeaderOrFollowerError, None]


@pytest.mark.behaviour("share sessions")
def test_the_new_session_stays_when_the_end_of_the_old_connection_is_noticed_late() -> None:
    """When the end of a connection is noticed after a new one is in use, the session on the new one goes on."""
    h = Harness(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0).joined(timeout_ms=60_000)
    h.fail(h.fetch())
    assert h.fetch().request.share_session_epoch == 0  # on a new connection
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("the old one")))
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.share_session_epoch == 1


@pytest.mark.behaviour("share sessions")
def test_a_broker_restart_ends_what_is_under_way_as_unknown_and_what_comes_later_locally() -> None:
    """A broker restarts: an acknowledgement under way ends as unknown, later ones locally, and fetching goes on."""
    h = Harness().joined()
    h.delivering()
    h.commit(1, h.said((0, 4, 1)))
    h.fail(h.acknowledge())
    h.commit(2, h.said((5, 9, 1)))
    assert outcomes(h) == [OutcomeUnknownError, NotLeaderOrFollowerError]
    h.start_poll()
    h.advance(200)
    assert (h.fetch().request.share_session_epoch, said_in(h.fetch().request)) == (0, {(T, 0): []})


@pytest.mark.behaviour("share sessions")
def test_the_requests_stay_few_when_every_session_is_refused() -> None:
    """A broker that calls every epoch wrong is asked with growing pauses: no loop of new sessions."""
    h = Harness().joined(timeout_ms=60_000)
    for _ in range(400):
        for send in list(h.data_pending):
            h.answer(send, fetch_answer(error=123))
        h.advance(25)
    assert 5 <= len(h.sent_of(ShareFetchRequest)) <= 20
    assert all(request.share_session_epoch == 0 for _, request in h.sent_of(ShareFetchRequest))
    assert not h.errors


@pytest.mark.parametrize("missing", [tp(topic="u"), tp(7)], ids=["topic id", "partition"])
def test_what_stays_missing_is_asked_for_less_and_less(missing: TopicIdPartition) -> None:
    """An assignment that nobody can resolve, after a broker's mistake, does not cost a question a second for ever."""
    harness = Harness()
    unknown = TopicIdPartition(UUID(int=999), "t", 0) if missing.topic == "u" else missing
    harness.heartbeat = lambda request: heartbeat_answer(1, [unknown, tp()] if request.member_epoch == 0 else None)
    harness.subscribe("t")

    def asked_at_ms(span_ms: int) -> list[int]:
        began_ms, before = harness.now_ms, len(harness.sent_of(MetadataRequest))
        while harness.now_ms < began_ms + span_ms:
            harness.start_poll(500)
            for send in harness.data_pending:
                harness.answer(send, fetch_answer())
            harness.advance(500)
        return [at_ms for at_ms, _ in harness.sent_of(MetadataRequest)][before:]

    soon = asked_at_ms(10_000)
    assert all(after - before <= 1_300 for before, after in pairwise(soon)), "a new leader is found soon"
    asked_at_ms(120_000)
    later = asked_at_ms(60_000)
    assert 5 <= len(later) <= 6
    harness.heartbeat = lambda request: heartbeat_answer(2, [tp(3), tp()])
    assert len(asked_at_ms(3_000)) >= 2, "something else is missing: that is asked for at once"
    asked_at_ms(60_000)
    harness.leaders[tp(3)] = 1
    asked_at_ms(7_000)
    assert harness.core._fetching._wanted.now() == {1: (tp(3), tp())}


@pytest.mark.behaviour("broker failures")
@pytest.mark.parametrize("code", [None, NotControllerError.code], ids=["request", "answer"])
def test_metadata_that_are_refused_are_not_asked_for_at_once_though_nothing_is_missing(code: int | None) -> None:
    """A broker that refuses every refresh costs no more than the back-off allows, also when all leaders are known."""
    h = Harness(metadata_max_age_ms=5_000).joined(timeout_ms=60_000)
    h.serves_metadata = False
    h.advance(5_000)
    pause_ms = 1_000 if code is None else 100
    for _ in range(3):
        if code is None:
            h.fail(h.only(MetadataRequest), UnsupportedVersionError("the broker offers Metadata in versions 0 to 5"))
        else:
            refusal = MetadataResponse(throttle_time_ms=0, brokers=[], topics=[], error_code=code)
            h.answer(h.only(MetadataRequest), refusal)
        assert not h.asked(MetadataRequest)
        h.advance(pause_ms - 1)
        assert not h.asked(MetadataRequest)
        h.advance(1)
