"""Topics that end, come back and grow, leaders that move, brokers that go: what the core asks, sends and reports."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from scripted_cluster import (
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

from kafka_share.core.events import CloseRequested
from kafka_share.errors import (
    UnknownTopicIdError,
)
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import TopicIdPartition

AGAIN = tp()._replace(topic_id=U)
"""Partition 0 of t, after the topic was deleted and created again: same name, other id."""
V = UUID(int=3)
OTHER = TopicIdPartition(V, "other", 0)
"""A partition of a topic that nothing happens to."""


def outcomes(h: Harness) -> list[type | None]:
    return [None if outcome.error is None else type(outcome.error) for outcome in h.outcomes]


# ---- topics


@pytest.mark.pitfall(32)
@pytest.mark.scenario(227, 230)
def test_acknowledgements_of_a_deleted_topic_go_alone_and_by_its_old_id_when_it_was_made_again() -> None:
    """Records of a deleted topic are acknowledged by its old id, in a request that no fetch can fail with.

    Brokers up to 4.3 refuse a whole ShareFetch for one unknown topic id, a ShareAcknowledge only its partition.
    """
    h = Harness({tp(): 1, OTHER: 1}).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1)), fetch_data(OTHER, (0, 0, 1))))
    h.leaders = {AGAIN: 1, OTHER: 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [AGAIN, OTHER])
    h.advance(1_100)
    h.start_poll(60_000, h.said((0, 9, 1)), h.said((0, 0, 1), where=OTHER))
    assert not h.asked(ShareFetchRequest)
    assert said_in(h.acknowledge().request) == {(T, 0): batches((0, 9, [1])), (V, 0): batches((0, 0, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 100), (OTHER, 0)))
    assert outcomes(h) == [UnknownTopicIdError, None]
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(U, 0): []}, [(T, 0)])


@pytest.mark.pitfall(31, 52)
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


@pytest.mark.scenario(244)
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


@pytest.mark.pitfall(39, 55)
def test_the_other_partitions_are_asked_on_without_a_pause_when_one_is_in_lasting_trouble() -> None:
    """A partition that fails again and again does not slow the others: a broker that waited is asked again at once."""
    h = Harness({tp(): 1, tp(0, "u"): 1}, fetch_max_wait_ms=500).joined(timeout_ms=60_000)
    times = []
    for _ in range(10):
        times.append(h.now_ms)
        h.advance(500)  # the broker waits for records of u
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=29), fetch_data(tp(0, "u"))))
    assert [b - a for a, b in pairwise(times)] == [500] * 9
    assert h.fetch()
