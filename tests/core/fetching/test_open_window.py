"""The core's share of an open window: acknowledgements between polls, how much is asked for, when locks are lost."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from core.scripted_cluster import Harness, T, acknowledge_answer, batches, fetch_answer, fetch_data, runs, said_in, tp

from kafka_share.core.events import (
    AcknowledgementsGathered,
    AcknowledgementsMade,
    Channel,
    CloseRequested,
    ConnectionLost,
    GatheredAcknowledgements,
    PollStarted,
)
from kafka_share.core.fetching.fetcher import ACKNOWLEDGE_LINGER_MS, GATHER_PAUSE_MS
from kafka_share.errors import BrokerUnreachableError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import Node

HERE = (T, 0)

WINDOW: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "explicit_window_records": 1_000}


def delivered(**settings: Any) -> Harness:
    """Records 0..9 of t-0 are in the application's hands, and no request is under way."""
    h = Harness(**WINDOW, **settings).joined()
    h.delivering()
    return h


def late(said: GatheredAcknowledgements) -> GatheredAcknowledgements:
    return attrs.evolve(said, is_late=True)


# ---- acknowledgements between polls


def test_acknowledgements_go_by_themselves_when_no_poll_comes() -> None:
    """Announced once or more, they are asked for once after a moment, and travel as ShareAcknowledge."""
    h = delivered()
    start_ms = h.now_ms
    h.handle(AcknowledgementsMade(), AcknowledgementsMade())
    assert h.gathers == []
    h.advance(100)
    assert h.gathers == [start_ms + ACKNOWLEDGE_LINGER_MS]
    h.handle(AcknowledgementsGathered((h.said((3, 3, 1), (7, 7, 2)),)))
    assert said_in(h.acknowledge().request) == {HERE: batches((3, 3, [1]), (7, 7, [2]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [o.runs for o in h.outcomes] == [runs((3, 3, 1), (7, 7, 2))]
    h.handle(AcknowledgementsMade())
    h.advance(100)
    assert len(h.gathers) == 2


def test_acknowledgements_ride_on_the_next_fetch_when_a_poll_waits() -> None:
    """A poll waits and its fetch is under way: what is acknowledged meanwhile goes with the fetch that follows."""
    h = delivered()
    h.start_poll(5_000)
    h.handle(AcknowledgementsMade())
    h.advance(100)
    h.handle(AcknowledgementsGathered((h.said((3, 3, 1)),)))
    assert not h.asked(ShareAcknowledgeRequest)
    h.answer(h.fetch(), fetch_answer())
    assert said_in(h.fetch().request) == {HERE: batches((3, 3, [1]))}


def test_a_batch_is_asked_about_in_time_when_it_came_while_an_announcement_waited() -> None:
    """The application may not have taken the batch when the announcement is due: it is asked again within its lock."""
    h = delivered()
    start_ms = h.now_ms
    h.handle(AcknowledgementsMade())
    h.start_poll(timeout_ms=60_000)
    h.advance(1)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1)), lock_ms=3_000))
    h.advance(1_500)
    assert h.gathers == [start_ms + ACKNOWLEDGE_LINGER_MS, start_ms + 1 + 1_000]


def test_nothing_is_asked_for_when_the_consumer_closes() -> None:
    """Close has taken all acknowledgements along; an announcement before or after it asks for nothing."""
    h = delivered()
    h.handle(AcknowledgementsMade())
    h.handle(CloseRequested((h.said((0, 0, 1)),), h.now_ms + 1_000), AcknowledgementsMade())
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    h.advance(1_000)
    assert h.gathers == []
    assert h.is_finished


def test_a_waiting_poll_goes_on_fetching_when_a_renewal_has_succeeded() -> None:
    """The renewed record never left the application, so there is nothing to end the poll for."""
    h = delivered()
    h.start_poll(10_000)
    h.handle(AcknowledgementsMade())
    h.advance(100)
    h.handle(AcknowledgementsGathered((h.said((3, 3, 4)),)))
    h.answer(h.fetch(), fetch_answer())
    sent_at_ms = h.now_ms
    h.advance(40)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert h.outcomes[-1].sent_at_ms == sent_at_ms
    assert h.fetch().request.max_records == 500


def test_late_words_travel_apart_and_hold_up_nobody() -> None:
    """In one request with others they would have those refused too; the later of the two goes with the next."""
    h = delivered()
    h.commit(1, h.said((0, 1, 1)), late(h.said((2, 2, 1))), h.said((5, 5, 1)))
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 1, [1]), (5, 5, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert said_in(h.acknowledge().request) == {HERE: batches((2, 2, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 121)))
    assert [(o.runs, o.error is None) for o in h.outcomes] == [
        (runs((0, 1, 1), (5, 5, 1)), True),
        (runs((2, 2, 1)), False),
    ]
    assert h.commits


def test_close_sends_everything_when_one_request_cannot_carry_it() -> None:
    """A renewal, and the final acknowledgement of the same record: two requests, and the second ends the session."""
    h = delivered()
    h.handle(AcknowledgementsGathered((h.said((3, 3, 4)),)))
    h.handle(CloseRequested((h.said((3, 3, 1)), late(h.said((4, 4, 1)))), h.now_ms + 10_000))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    said = []
    while h.asked(ShareAcknowledgeRequest):
        request = h.acknowledge().request
        said.append((request.share_session_epoch, said_in(request)[HERE]))
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert said == [(2, batches((3, 3, [1]))), (-1, batches((4, 4, [1])))]
    h.advance(1_000)
    assert h.is_finished
    assert all(outcome.error is None for outcome in h.outcomes)


# ---- how much


@pytest.mark.parametrize(("room", "asked"), [(None, 500), (7, 7), (900, 500)])
def test_a_fetch_asks_for_what_the_poll_has_room_for(room: int | None, asked: int) -> None:
    h = delivered()
    h.handle(PollStarted(h.now_ms + 1_000, (), max_records=room))
    assert (h.fetch().request.max_records, h.fetch().request.batch_size) == (asked, asked)


def test_a_parked_batch_is_reclaimed_in_time_when_the_polls_have_no_room_for_it() -> None:
    """A poll without room does not take what has arrived, so half the lock time later it goes back to the broker."""
    h = Harness(**WINDOW).joined(timeout_ms=10)
    h.advance(20)
    h.delivering()
    h.handle(PollStarted(h.now_ms + 1_000, (), wants_records=False, max_records=0))
    assert not h.asked(ShareFetchRequest)
    h.advance(15_000)
    assert h.reclaims == [1]


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(10_000, 500), (100, 50), (9, 4), (1, 1), (0, 500)])
def test_a_broker_may_wait_for_half_of_what_the_poll_has_left(timeout_ms: int, waits_ms: int) -> None:
    """So its answer is here before the poll ends. One without time asks as ever: the next one takes what comes."""
    h = delivered(fetch_max_wait_ms=500)
    h.start_poll(timeout_ms)
    assert h.fetch().request.max_wait_ms == waits_ms


@pytest.mark.parametrize(("lock_ms", "waits_ms"), [(1_000, 166), (6_000, 500)])
def test_a_broker_may_wait_for_a_sixth_of_the_lock_time_while_records_are_held(lock_ms: int, waits_ms: int) -> None:
    """A renewal would have to wait behind the fetch. When nothing is held any more, the broker waits as ever."""
    h = Harness(**{**WINDOW, "fetch_max_wait_ms": 500}).joined()
    h.delivering(lock_ms=lock_ms)
    h.start_poll(20_000)
    assert h.fetch().request.max_wait_ms == waits_ms
    h.advance(lock_ms // 3)
    assert h.gathers, "the fetch of the same moment is held back no longer than others"
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.max_wait_ms == waits_ms
    h.handle(AcknowledgementsGathered(()))
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.max_wait_ms == 500


def test_a_poll_that_is_about_to_end_asks_for_nothing_more() -> None:
    """100 ms: an empty answer after 50 leaves time for another fetch; the one after 97 does not."""
    h = delivered(fetch_max_wait_ms=500)
    h.start_poll(100)
    h.advance(50)
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.max_wait_ms == 25
    h.advance(47)
    h.answer(h.fetch(), fetch_answer())
    h.advance(3)
    assert not h.asked(ShareFetchRequest)


def test_without_a_window_a_broker_waits_as_long_as_it_may() -> None:
    h = Harness(fetch_max_wait_ms=500).joined(timeout_ms=100)
    assert h.fetch().request.max_wait_ms == 500


# ---- locks


def locks(h: Harness) -> list[bool]:
    """Whether the locks of each delivered partition have ended, in the order of delivery."""
    return [fetched.locks.has_ended for batch in h.delivered for fetched in batch.partitions]


def test_the_locks_of_a_session_end_when_its_connection_is_lost() -> None:
    """Idle, or with a request under way; what is delivered by the next session has locks of its own."""
    h = delivered()
    assert locks(h) == [False]
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("broke")))
    assert locks(h) == [True]
    h.start_poll(60_000)
    h.advance(100)
    h.delivering()
    assert locks(h) == [True, False]
    h.start_poll(60_000)
    h.fail(h.fetch())
    assert locks(h) == [True, True]


@pytest.mark.parametrize("code", [122, 123])
def test_the_locks_of_a_session_end_when_the_broker_does_not_know_it(code: int) -> None:
    """SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
    h = delivered()
    h.start_poll(60_000)
    h.answer(h.fetch(), fetch_answer(error=code))
    assert locks(h) == [True]


def test_only_the_locks_of_a_partition_end_when_its_leader_has_moved() -> None:
    """t-0 moves from node 1 to node 2 and t-1 stays: its records are still ours. Back on node 1 there is a new lock."""
    h = Harness({tp(0): 1, tp(1): 1}, **WINDOW)
    h.nodes[2] = Node(2, "node2", 9092)
    h.joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(0), (0, 4, 1)), fetch_data(tp(1), (0, 4, 1))))
    h.start_poll(60_000)
    h.leaders[tp(0)] = 2
    h.leader_epochs[tp(0)] = 2
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(0), error=6, leader=(2, 2))))
    h.advance(1_000)
    assert locks(h) == [True, False]
    h.leaders[tp(0)] = 1
    h.leader_epochs[tp(0)] = 3
    h.answer(h.fetch(2), fetch_answer(fetch_data(tp(0), error=6, leader=(1, 3))))
    h.advance(1_000)
    h.answer(h.fetch(1), fetch_answer())
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(0), (5, 9, 1))))
    assert locks(h) == [True, False, False]


def test_all_locks_end_when_the_session_is_closed() -> None:
    h = delivered()
    h.handle(CloseRequested((), h.now_ms + 1_000))
    assert locks(h) == [True]


def test_the_application_s_side_is_not_asked_without_end_when_a_lock_has_no_time() -> None:
    """A broker that names a lock of 2 ms has acknowledgements asked for now and then, not in a circle."""
    h = delivered()
    h.handle(AcknowledgementsMade())
    h.advance(ACKNOWLEDGE_LINGER_MS)
    before = len(h.gathers)
    for _ in range(3):
        h.handle(AcknowledgementsGathered((), again_at_ms=h.now_ms))
        assert len(h.gathers) == before
        h.advance(GATHER_PAUSE_MS)
        before += 1
        assert len(h.gathers) == before


def test_brokers_may_wait_a_moment_when_three_take_turns_and_the_poll_has_little_time() -> None:
    """Without it they were asked in turns without a pause, until the poll ended."""
    h = Harness(
        {tp(partition): partition + 1 for partition in range(3)},
        share_acknowledgement_mode="explicit",
        explicit_window_records=10,
        share_acquire_mode="record_limit",
    ).joined(timeout_ms=5)
    assert h.data_pending[0].request.max_wait_ms == 1
