"""close(): acknowledgements and session ends first, then the group, bounded by the deadline."""

from __future__ import annotations

import pytest
from core.scripted_cluster import (
    Harness,
    T,
    acknowledge_answer,
    batches,
    fetch_answer,
    fetch_data,
    heartbeat_answer,
    runs,
    said_in,
    tp,
)

from kafka_share.core.events import CloseRequested, CommitRequested, GatheredAcknowledgements, PollEnded, Unsubscribed
from kafka_share.errors import (
    InvalidRecordStateError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OutcomeUnknownError,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest as Heartbeat

HERE = (T, 0)


def delivered(**options: object) -> Harness:
    h = Harness(**options).joined()  # type: ignore[arg-type]
    h.delivering()
    h.heartbeat = None
    return h


def close(h: Harness, *said: GatheredAcknowledgements, timeout_ms: int = 30_000) -> None:
    h.handle(CloseRequested(said, h.now_ms + timeout_ms))


def test_close_finishes_at_once_when_nothing_was_ever_sent() -> None:
    h = Harness()
    h.subscribe()
    close(h)
    assert h.is_finished
    assert not h.sent


@pytest.mark.behaviour("misuse and close")
def test_acknowledgements_and_the_end_of_the_session_go_in_one_request_and_then_the_member_leaves() -> None:
    """close sends the last acknowledgements and the session's end in one request; then the member leaves its group."""
    h = delivered()
    close(h, h.said((0, 4, 1)))
    send = h.acknowledge()
    assert (send.request.share_session_epoch, said_in(send.request)) == (-1, {HERE: batches((0, 4, [1]))})
    assert not h.asked(Heartbeat)
    h.answer(send, acknowledge_answer((tp(), 0)))
    assert [(o.runs, o.error) for o in h.outcomes] == [(runs((0, 4, 1)), None)]
    leave = h.beat().request
    assert (leave.member_epoch, leave.subscribed_topic_names) == (-1, [])
    assert not h.is_finished
    h.answer(h.beat(), heartbeat_answer(-1, interval_ms=0))
    assert h.is_finished
    assert h.core.wake_at_ms() is None


@pytest.mark.behaviour("misuse and close")
def test_the_session_ends_without_topics_when_nothing_was_acknowledged() -> None:
    """When there is nothing to acknowledge, close ends the session with a request that names no topic."""
    h = delivered()
    close(h)
    assert h.acknowledge().request.topics == []
    h.answer(h.acknowledge(), acknowledge_answer())
    assert not h.outcomes
    h.beat()


def test_close_waits_for_the_fetch_under_way_and_drops_its_records() -> None:
    h = Harness().joined()
    h.heartbeat = None
    close(h)
    assert not h.asked(ShareAcknowledgeRequest)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    assert not h.delivered
    assert h.acknowledge().request.share_session_epoch == -1


@pytest.mark.behaviour("misuse and close")
def test_close_comes_after_the_commit_under_way_and_both_are_reported() -> None:
    """close waits for the commit that is under way and takes along what waited behind it; all of it is reported."""
    h = delivered()
    h.commit(1, h.said((0, 0, 1)), wait=False)
    h.commit(2, h.said((1, 1, 1)), wait=False)
    close(h, h.said((2, 2, 3)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    send = h.acknowledge()
    assert (send.request.share_session_epoch, said_in(send.request)) == (-1, {HERE: batches((1, 2, [1, 3]))})
    h.answer(send, acknowledge_answer((tp(), 121)))
    assert [type(o.error) for o in h.outcomes] == [type(None), InvalidRecordStateError]


@pytest.mark.behaviour("share sessions")
def test_every_node_with_a_session_is_closed_when_there_are_several() -> None:
    """close ends the session on each broker that has one, with one request each."""
    h = Harness({tp(): 1, tp(1): 2, tp(2): 3}).joined()
    h.heartbeat = None
    for node in (1, 2):
        h.answer(h.fetch(node), fetch_answer())
    h.handle(PollEnded())
    h.answer(h.fetch(1), fetch_answer())
    close(h)
    assert h.acknowledge(1).request.share_session_epoch == -1
    assert not h.asked(ShareAcknowledgeRequest, 2)
    h.answer(h.fetch(2), fetch_answer())
    h.answer(h.fetch(3), fetch_answer(error=133))  # this one never got a session
    h.answer(h.acknowledge(1), acknowledge_answer())
    assert not h.asked(Heartbeat)
    h.answer(h.acknowledge(2), acknowledge_answer())
    assert not h.data_pending
    h.answer(h.beat(), heartbeat_answer(-1))
    assert h.is_finished


@pytest.mark.behaviour("misuse and close")
@pytest.mark.parametrize("code", [5, 122, 123, 15, -1])
def test_close_goes_on_without_another_try_when_the_end_of_the_session_is_refused(code: int) -> None:
    """When a broker refuses the end of a session, close goes on and does not ask again."""
    h = delivered()
    close(h, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer(error=code))
    assert len(h.outcomes) == 1
    assert not h.data_pending
    h.beat()
    assert LeaderNotAvailableError.code == 5


def test_a_passing_error_is_not_tried_again_when_closing() -> None:
    h = delivered()
    close(h, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))
    assert len(h.outcomes) == 1
    assert not h.data_pending


def test_what_waits_to_be_tried_again_goes_with_the_end_of_the_session() -> None:
    h = delivered()
    h.commit(1, h.said((0, 0, 1)), wait=False)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))
    close(h, h.said((1, 1, 1)))
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 1, [1]))}


@pytest.mark.behaviour("share sessions")
def test_close_finishes_without_an_error_when_the_broker_dies() -> None:
    """A broker dies while it is asked to end the session: close goes on without an error."""
    h = delivered()
    close(h, h.said((0, 9, 1)))
    h.fail(h.acknowledge())
    assert [type(o.error) for o in h.outcomes] == [OutcomeUnknownError]
    h.advance(200)
    h.fail(h.beat())
    assert h.is_finished
    assert not h.errors


@pytest.mark.behaviour("share sessions")
def test_close_finishes_at_the_deadline_when_the_broker_is_frozen() -> None:
    """A broker that does not answer any more holds close up for its timeout, not longer."""
    h = Harness({tp(): 1, tp(1): 2}).joined()
    h.heartbeat = None
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    h.answer(h.fetch(2), fetch_answer(fetch_data(tp(1), (0, 9, 1))))
    h.start_poll()
    h.handle(CommitRequested(1, (), h.now_ms + 90_000, True))
    close(h, h.said((0, 9, 1)), timeout_ms=5_000)
    h.advance(4_999)
    assert not h.is_finished
    h.advance(1)
    assert h.is_finished
    assert [(o.runs, type(o.error)) for o in h.outcomes] == [(runs((0, 9, 1)), NotLeaderOrFollowerError)]


def test_what_is_under_way_ends_as_unknown_when_the_deadline_comes() -> None:
    h = delivered()
    h.commit(1, h.said((0, 4, 1)), timeout_ms=90_000)
    close(h, h.said((5, 9, 1)), timeout_ms=1_000)
    h.advance(1_000)
    assert [(o.runs, type(o.error)) for o in h.outcomes] == [
        (runs((0, 4, 1)), OutcomeUnknownError),
        (runs((5, 9, 1)), NotLeaderOrFollowerError),
    ]
    assert [(c.request_id, c.timed_out) for c in h.commits] == [(1, False)]
    assert h.is_finished


def test_close_finishes_at_once_and_sends_what_it_can_when_it_has_no_time() -> None:
    h = delivered()
    close(h, h.said((0, 9, 1)), timeout_ms=0)
    assert h.is_finished
    assert h.acknowledge().request.share_session_epoch == -1
    assert h.beat().request.member_epoch == -1
    assert len(h.outcomes) == 1
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert len(h.outcomes) == 1


@pytest.mark.behaviour("misuse and close")
def test_acknowledgements_are_sent_and_no_leave_when_the_membership_had_failed() -> None:
    """After a fatal error of its membership a consumer's close still sends acknowledgements, but leaves no group."""
    h = Harness().joined()
    h.delivering()
    h.heartbeat = lambda request: heartbeat_answer(error=30)
    h.advance(1_000)
    h.start_poll(0, h.said((0, 4, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    close(h, h.said((5, 9, 1)))
    send = h.acknowledge()
    assert (send.request.share_session_epoch, said_in(send.request)) == (-1, {HERE: batches((5, 9, [1]))})
    h.answer(send, acknowledge_answer((tp(), 0)))
    assert h.is_finished
    assert [o.error for o in h.outcomes] == [None, None]
    assert all(request.member_epoch != -1 for _, request in h.sent_of(Heartbeat))


@pytest.mark.behaviour("misuse and close")
def test_close_ends_the_session_and_no_membership_when_unsubscribed_before() -> None:
    """After unsubscribe close ends the share session only, as the group has been left already."""
    h = delivered()
    h.handle(Unsubscribed(1, h.now_ms + 5_000))
    h.answer(h.beat(), heartbeat_answer(-1))
    close(h)
    h.answer(h.acknowledge(), acknowledge_answer())
    assert h.is_finished


def test_unsubscribing_is_completed_when_close_gives_up() -> None:
    h = delivered()
    h.handle(Unsubscribed(3, h.now_ms + 60_000))
    close(h, timeout_ms=10)
    h.advance(10)
    assert h.unsubscribed == [3]
    assert h.is_finished


def test_heartbeats_go_on_while_the_sessions_are_closed() -> None:
    h = delivered()
    close(h)
    h.advance(2_000)
    assert h.beat().request.member_epoch == 1
    h.answer(h.acknowledge(), acknowledge_answer())
    h.answer(h.beat(), heartbeat_answer(1))
    assert h.beat().request.member_epoch == -1


def test_nothing_is_sent_after_the_end_when_the_last_request_fails() -> None:
    """The broken connection asks for fresh metadata; the core has finished by then and says nothing more."""
    h = delivered()
    h.heartbeat = lambda request: heartbeat_answer(error=30)
    h.advance(5_000)
    close(h)
    h.fail(h.acknowledge())
    assert h.is_finished
