"""Acknowledgements that could go twice, go to the wrong session, or get lost among others."""

from __future__ import annotations

import pytest
from core.scripted_cluster import (
    Harness,
    T,
    acknowledge_answer,
    batches,
    fetch_answer,
    fetch_data,
    runs,
    said_in,
    tp,
)

from kafka_share.core.events import Channel, CloseRequested, ConnectionLost, GatheredAcknowledgements
from kafka_share.errors import BrokerUnreachableError, InvalidRecordStateError, NotLeaderOrFollowerError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

HERE = (T, 0)


def offsets_sent(h: Harness) -> list[int]:
    """Every offset of every acknowledgement that was sent, in order."""
    return [
        offset
        for _, send in h.sent
        if isinstance(send.request, ShareFetchRequest | ShareAcknowledgeRequest)
        for said in said_in(send.request).values()
        for first, last, _ in said
        for offset in range(first, last + 1)
    ]


@pytest.mark.behaviour("commits")
def test_a_hundred_commits_are_few_requests_in_order_when_nobody_waits() -> None:
    """100 unwaited commits while one is under way make two requests; each offset is sent and reported once."""
    h = Harness().joined()
    h.delivering(last=99)
    for offset in range(100):
        h.commit(offset, h.said((offset, offset, 1)), wait=False)
    for _ in range(2):
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert offsets_sent(h) == list(range(100))
    assert [o.runs for o in h.outcomes] == [runs((0, 0, 1)), runs((1, 99, 1))]
    assert not h.data_pending


@pytest.mark.behaviour("commits")
def test_no_offset_is_sent_twice_when_fetch_and_commit_carry_the_same_partition() -> None:
    """Acknowledgements ride on a fetch while commits of the same partition come in: each offset travels once."""
    h = Harness().joined()
    h.delivering()
    h.start_poll(5_000, h.said((0, 3, 1)))
    h.commit(1, h.said((4, 5, 2)), wait=False)
    h.commit(2, h.said((6, 6, 3)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert said_in(h.acknowledge().request) == {HERE: batches((4, 6, [2, 2, 3]))}
    h.start_poll(5_000, h.said((7, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert offsets_sent(h) == list(range(10))
    assert [o.error for o in h.outcomes] == [None] * 3


@pytest.mark.behaviour("commits")
def test_everything_is_reported_before_the_end_when_commits_of_both_kinds_precede_close() -> None:
    """An unwaited commit, a waited one and close: all outcomes are reported, the last ones with the session's end."""
    h = Harness().joined()
    h.delivering()
    h.commit(1, h.said((0, 1, 1)), wait=False)
    h.commit(2, h.said((2, 3, 1)))
    h.handle(CloseRequested((h.said((4, 9, 2)),), h.now_ms + 30_000))
    for epoch in (1, -1):
        assert h.acknowledge().request.share_session_epoch == epoch
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert h.is_finished
    assert offsets_sent(h) == list(range(10))
    assert sum(run.last - run.first + 1 for o in h.outcomes for run in o.runs) == 10


def renewed_session(h: Harness) -> GatheredAcknowledgements:
    """Records 0..9 were delivered by a session that has ended; returns the application's acknowledgements of them."""
    h.delivering()
    stale = h.said((0, 9, 1))
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("idle")))
    h.start_poll()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (20, 29, 1))))
    return stale


@pytest.mark.behaviour("commits")
def test_only_the_stale_ones_fail_when_words_of_two_sessions_come_together() -> None:
    """Acknowledgements of an ended session fail at once; gaps and those of the living session are still sent."""
    h = Harness().joined()
    stale = renewed_session(h)
    live = h.said((20, 24, 1), (25, 29, 0))
    h.start_poll(5_000, stale, live)
    assert [(o.runs, type(o.error)) for o in h.outcomes] == [(runs((0, 9, 1)), NotLeaderOrFollowerError)]
    assert said_in(h.fetch().request) == {HERE: batches((20, 29, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]))}
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert [type(o.error) for o in h.outcomes] == [NotLeaderOrFollowerError, type(None)]


@pytest.mark.behaviour("commits")
def test_a_commit_completes_when_its_words_are_partly_stale() -> None:
    """A waited commit of stale and living acknowledgements ends when the living ones are answered."""
    h = Harness().joined()
    stale = renewed_session(h)
    h.commit(7, stale, h.said((20, 29, 1)))
    assert not h.commits
    assert said_in(h.acknowledge().request) == {HERE: batches((20, 29, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [c.timed_out for c in h.commits] == [False]


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize(("second", "expected"), [(0, type(None)), (121, InvalidRecordStateError)])
def test_the_second_answer_counts_when_the_first_try_had_been_applied(second: int, expected: type) -> None:
    """The first try was applied but its answer was a passing error: the repetition succeeds, or is refused, once."""
    h = Harness().joined()
    h.delivering()
    h.commit(1, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 7)))
    h.advance(150)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), second)))
    assert [type(o.error) for o in h.outcomes] == [expected]
    assert [c.timed_out for c in h.commits] == [False]
    h.advance(10_000)
    assert not h.asked(ShareAcknowledgeRequest)


@pytest.mark.behaviour("explicit acknowledgement")
def test_three_refusals_of_the_coordinator_are_outlasted_when_time_allows() -> None:
    """A waited commit succeeds within its timeout although the coordinator was not available three times."""
    h = Harness().joined()
    h.delivering()
    begun_at_ms = h.now_ms
    h.commit(1, h.said((0, 9, 1)), timeout_ms=5_000)
    for _ in range(3):
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))
        h.advance(1_200)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [(c.timed_out, o.error) for c, o in zip(h.commits, h.outcomes, strict=True)] == [(False, None)]
    assert h.now_ms - begun_at_ms <= 5_000
