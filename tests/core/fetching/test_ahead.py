"""send_ahead: the next batch is fetched while the application works on one."""

from __future__ import annotations

from typing import Any

import pytest
from core.scripted_cluster import (
    Harness,
    acknowledge_answer,
    batches,
    fetch_answer,
    fetch_data,
    heartbeat_answer,
    said_in,
    tp,
)

from kafka_share.core.events import (
    BatchReclaimed,
    CloseRequested,
    GatheredAcknowledgements,
    PollEnded,
    PollStarted,
    SubscriptionChanged,
    Unsubscribed,
    WorkBegun,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

LOCK_MS = 30_000


def ahead(leaders: Any = None, **settings: Any) -> Harness:
    return Harness(leaders, send_ahead=True, **settings)


def taken(h: Harness, *, has_more: bool = False) -> WorkBegun:
    """A poll returns the latest batch."""
    return WorkBegun(h.delivered[-1].batch_id if h.delivered else 0, has_more)


def take_parked(h: Harness, *said: GatheredAcknowledgements, has_more: bool = False) -> None:
    """A poll finds records at hand, and returns them."""
    h.handle(PollStarted(h.now_ms, said, wants_records=False), taken(h, has_more=has_more))


def bring(h: Harness, first: int, last: int, node_id: int | None = None, partition: int = 0) -> None:
    h.answer(h.fetch(node_id), fetch_answer(fetch_data(tp(partition), (first, last, 1))))


@pytest.mark.behaviour("fetching")
def test_the_next_fetch_leaves_before_the_batch_is_handed_over_when_a_poll_waits() -> None:
    """With `send_ahead` the broker works on the next batch while the application works on this one."""
    h = ahead().joined()
    sent_before = len(h.sent_of(ShareFetchRequest))
    bring(h, 0, 9)
    assert len(h.delivered) == 1
    assert len(h.sent_of(ShareFetchRequest)) == sent_before + 1
    assert h.fetch().request.max_records == 500


def test_one_batch_waits_at_most_and_its_poll_has_the_next_one_fetched() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)  # nobody waits for it
    assert not h.data_pending
    h.advance(1_000)
    assert not h.data_pending
    take_parked(h, h.said((0, 9, 1)))
    assert said_in(h.fetch().request) == {(tp().topic_id, 0): batches((0, 9, [1]))}
    assert not h.sent_of(ShareAcknowledgeRequest), "acknowledgements ride on the fetch"


def test_the_poll_that_waits_for_the_batch_under_way_asks_for_nothing_more() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    h.start_poll(10_000, h.said((0, 9, 1)))
    assert len(h.sent_of(ShareFetchRequest)) == 2
    bring(h, 10, 19)
    assert said_in(h.fetch().request) == {(tp().topic_id, 0): batches((0, 9, [1]))}


def test_an_empty_answer_is_not_asked_for_again_until_a_poll_waits() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    h.answer(h.fetch(), fetch_answer())
    h.advance(2_000)
    assert not h.data_pending
    h.start_poll()
    h.fetch()


def test_acknowledgements_do_not_wait_when_there_is_no_fetch_to_carry_them() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)
    take_parked(h, h.said((0, 9, 1)), has_more=True)
    assert said_in(h.acknowledge().request) == {(tp().topic_id, 0): batches((0, 9, [1]))}


def test_the_fetch_follows_when_acknowledgements_have_left_before_the_poll_returned() -> None:
    """The network thread may run between the two events of one poll."""
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)
    h.handle(PollStarted(h.now_ms, (h.said((0, 9, 1)),), wants_records=False))
    acknowledge = h.acknowledge()
    h.handle(taken(h))
    h.answer(acknowledge, acknowledge_answer((tp(), 0)))
    h.fetch()


@pytest.mark.parametrize(("work_ms", "is_ahead"), [(LOCK_MS // 5, True), (LOCK_MS // 2, False)])
def test_nothing_is_fetched_ahead_when_the_application_takes_too_long_for_a_batch(work_ms: int, is_ahead: bool) -> None:
    """A batch that waits has its locks running: no more than half of them may pass before it has been worked on."""
    h = ahead().joined(timeout_ms=60_000)
    for first in (0, 10, 20, 30):
        if first:
            h.advance(work_ms)
            h.start_poll(60_000)
        bring(h, first, first + 9)
        h.handle(taken(h))
    assert bool(h.data_pending) == is_ahead


def test_it_begins_again_when_the_application_has_become_quick() -> None:
    h = ahead().joined(timeout_ms=60_000)
    bring(h, 0, 9)
    h.handle(taken(h))
    h.answer(h.fetch(), fetch_answer())
    h.advance(LOCK_MS)
    first = 10
    while True:
        h.start_poll(60_000)
        bring(h, first, first + 9)
        h.handle(taken(h))
        if h.data_pending:
            break
        assert first < 200, "one slow batch is never forgotten"
        first += 10
        h.advance(10)
    assert first > 10


def test_a_batch_that_no_poll_takes_in_time_is_released() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)
    h.advance(LOCK_MS // 2)
    assert h.delivered[-1].batch_id in h.reclaims
    h.handle(BatchReclaimed(h.delivered[-1].batch_id))
    assert said_in(h.acknowledge().request) == {(tp().topic_id, 0): batches((10, 19, [2]))}


def test_a_batch_that_waits_is_taken_back_at_once_when_the_application_leaves() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)
    h.handle(Unsubscribed(1, h.now_ms + 1_000))
    assert h.delivered[-1].batch_id in h.reclaims


def test_what_comes_for_a_topic_that_has_been_left_is_released_unseen() -> None:
    h = ahead({tp(): 1, tp(0, "u"): 1}).joined(tp())
    bring(h, 0, 9)
    h.handle(taken(h), SubscriptionChanged(frozenset(["u"])))
    h.start_poll()
    bring(h, 10, 19)
    assert len(h.delivered) == 1
    assert said_in(h.acknowledge().request) == {(tp().topic_id, 0): batches((10, 19, [2]))}


def test_nothing_is_fetched_ahead_when_the_poll_was_ended_by_an_error_or_the_consumer_closes() -> None:
    h = ahead().joined()
    bring(h, 0, 9)
    h.answer(h.fetch(), fetch_answer())
    h.handle(taken(h), PollEnded())
    assert not h.data_pending
    h.start_poll()
    bring(h, 10, 19)
    ahead_of_close = h.fetch()
    h.handle(CloseRequested((), h.now_ms + 10_000), taken(h))
    h.answer(ahead_of_close, fetch_answer(fetch_data(tp(), (20, 29, 1))))
    assert h.acknowledge().request.share_session_epoch == -1, "the end of the session releases what came"
    assert len(h.delivered) == 2


def test_each_broker_is_asked_once_and_none_while_a_batch_of_it_waits() -> None:
    h = ahead({tp(): 1, tp(1): 2}).joined()
    bring(h, 0, 9, node_id=1)
    assert len(h.asked(ShareFetchRequest, 1)) == 1, "the one that has been handed over"
    h.handle(taken(h))
    bring(h, 0, 9, node_id=2, partition=1)
    assert not h.asked(ShareFetchRequest, 2), "its batch waits"
    bring(h, 10, 19, node_id=1)
    assert not h.data_pending
    take_parked(h, has_more=True)
    assert not h.data_pending
    take_parked(h)
    assert {send.node.id for send in h.asked(ShareFetchRequest)} == {1, 2}


def test_nothing_is_fetched_ahead_without_the_option() -> None:
    h = Harness().joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    assert not h.data_pending


def test_polls_are_missed_all_the_same_when_a_batch_waits() -> None:
    """max.poll.interval.ms: a batch at hand is no poll."""
    h = ahead(max_poll_interval_ms=20_000).joined()
    bring(h, 0, 9)
    h.handle(taken(h))
    bring(h, 10, 19)
    h.heartbeat = lambda request: heartbeat_answer(max(1, request.member_epoch))
    h.advance(20_001)
    assert h.delivered[-1].batch_id in h.reclaims
    assert any(log.event == "stale" for log in h.logs)


def test_what_a_poll_has_not_taken_is_still_taken_back_in_time() -> None:
    """Two batches came before the application looked: its poll took the first, and the second waits."""
    h = ahead().joined()
    bring(h, 0, 9)
    first = taken(h)
    bring(h, 10, 19)
    h.handle(first)
    assert not h.data_pending, "one waits"
    h.handle(Unsubscribed(1, h.now_ms + 1_000))
    assert h.reclaims == [h.delivered[-1].batch_id]
