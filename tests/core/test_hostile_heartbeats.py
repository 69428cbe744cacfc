"""Membership with a coordinator that answers what none should: how often it is asked, what is believed."""

from __future__ import annotations

import tracemalloc
from itertools import cycle
from uuid import UUID

import pytest
from core.scripted_cluster import Harness, T, heartbeat_answer, tp

from kafka_share.core.membership import MAX_ASSIGNED_PARTITIONS
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest as Heartbeat
from kafka_share.records import TopicIdPartition


def beats(h: Harness) -> list[int]:
    return [at_ms for at_ms, _ in h.sent_of(Heartbeat)]


@pytest.mark.parametrize("topic_ids", [[T], [UUID(int=n) for n in range(1_000, 2_000)]], ids=["to and fro", "unknown"])
def test_heartbeats_back_off_when_each_answer_brings_another_assignment(topic_ids: list[UUID]) -> None:
    """Each new assignment is to be confirmed at once: a broker that never stops got thousands a second."""
    h = Harness()
    assignments = cycle([[], *([TopicIdPartition(topic_id, "?", 0)] for topic_id in topic_ids)])
    h.heartbeat = lambda request: heartbeat_answer(1, next(assignments), interval_ms=5_000)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert len(beats(h)) <= 30
    assert len(h.sent_of(MetadataRequest)) <= 30
    h.heartbeat = lambda request: heartbeat_answer(1, [tp()], interval_ms=5_000)
    h.advance(10_000)
    h.heartbeat = None
    h.advance(5_000)
    h.answer(h.beat(), heartbeat_answer(1, [tp(), tp(1)], interval_ms=5_000))
    assert len(h.asked(Heartbeat)) == 1, "the next change is confirmed at once"


def test_an_epoch_no_member_can_have_counts_as_fencing_when_it_comes_without_an_error() -> None:
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(-7, [tp()])
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert len(beats(h)) <= 20
    assert all(request.member_epoch == 0 for _, request in h.sent_of(Heartbeat))


def test_heartbeats_do_not_pour_when_the_broker_names_no_interval() -> None:
    h = Harness()
    h.subscribe()
    h.start_poll(60_000)
    h.answer(h.beat(), heartbeat_answer(1, [tp()], interval_ms=-5))
    h.heartbeat = lambda request: heartbeat_answer(1, interval_ms=0)
    h.answer(h.beat(), heartbeat_answer(1, interval_ms=1))
    h.advance(1_000)
    assert len(beats(h)) <= 2 + 1_000 // 50


def test_an_assignment_is_cut_off_and_an_error_raised_when_it_names_a_million_partitions() -> None:
    h = Harness()
    h.subscribe()
    h.start_poll(60_000)
    answer = heartbeat_answer(1, [tp()])
    assert answer.assignment is not None
    answer.assignment.topic_partitions[0].partitions = list(range(1_000_000))
    tracemalloc.start()
    try:
        h.answer(h.beat(), answer)
        assert tracemalloc.get_traced_memory()[0] < 400 * MAX_ASSIGNED_PARTITIONS
    finally:
        tracemalloc.stop()
    (error,) = h.errors
    assert isinstance(error.error, RemoteProtocolError)
    assert str(error.error) == "more than 100000 partitions were assigned to one member; the others are left out"
    assert [[p.partition_index for p in t.partitions] for t in h.fetch().request.topics] == [[0]]
