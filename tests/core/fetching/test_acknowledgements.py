"""Acknowledgements: how they travel, how they end, commits, renewals, retries."""

from __future__ import annotations

import attrs
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

from kafka_share.core.events import Channel, CloseRequested, ConnectionLost, EndedAcknowledgements, PollEnded
from kafka_share.errors import (
    BrokerUnreachableError,
    InvalidRecordStateError,
    NotLeaderOrFollowerError,
    OperationTimeoutError,
    OutcomeUnknownError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

HERE = (T, 0)


def delivered(**settings: object) -> Harness:
    """Records 0..9 of t-0 are in the application's hands, and no request is under way."""
    h = Harness(**settings).joined()  # type: ignore[arg-type]
    h.delivering()
    return h


def outcomes(h: Harness) -> list[tuple[object, ...]]:
    return [(o.runs, type(o.error) if o.error else None) for o in h.outcomes]


@pytest.mark.behaviour("implicit acknowledgement")
def test_acknowledgements_ride_on_the_next_fetch_when_a_poll_brings_them() -> None:
    """A poll's acknowledgements travel inside its ShareFetch, once."""
    h = delivered()
    h.start_poll(5_000, h.said((0, 9, 1)))
    request = h.fetch().request
    assert (request.share_session_epoch, said_in(request)) == (1, {HERE: batches((0, 9, [1]))})
    assert request.forgotten_topics_data == []
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert outcomes(h) == [(runs((0, 9, 1)), None)]
    assert said_in(h.fetch().request) == {}


def test_acknowledgements_go_alone_when_the_poll_has_its_records() -> None:
    h = delivered()
    h.start_poll(0, h.said((0, 9, 1)), wants_records=False)
    assert not h.asked(ShareFetchRequest)
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 9, [1]))}
    assert h.acknowledge().request.share_session_epoch == 1
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [(runs((0, 9, 1)), None)]
    assert not h.data_pending


def test_acknowledgements_wait_for_the_answer_and_then_go_alone_when_the_poll_has_ended() -> None:
    h = delivered()
    h.start_poll(5_000)
    h.handle(PollEnded())
    h.start_poll(0, h.said((0, 9, 1)), wants_records=False)
    assert len(h.data_pending) == 1
    h.answer(h.fetch(), fetch_answer())
    assert h.acknowledge().request.share_session_epoch == 2


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_commit_goes_as_share_acknowledge_with_the_next_epoch_when_made() -> None:
    """A commit is a ShareAcknowledge with the next epoch; mixed types go as one batch with a type each."""
    h = delivered()
    h.commit(1, h.said((0, 4, 1), (5, 5, 3)))
    request = h.acknowledge().request
    assert (request.share_session_epoch, request.is_renew_ack) == (1, False)
    assert said_in(request) == {HERE: batches((0, 5, [1, 1, 1, 1, 1, 3]))}
    assert not h.commits
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [(c.request_id, c.timed_out) for c in h.commits] == [(1, False)]
    h.start_poll()
    assert (h.fetch().request.share_session_epoch, said_in(h.fetch().request)) == (2, {})


def test_the_acknowledge_goes_before_the_fetch_when_a_poll_follows_a_commit() -> None:
    h = delivered()
    h.commit(1, h.said((0, 9, 1)), wait=False)
    h.start_poll()
    h.acknowledge()
    assert not h.asked(ShareFetchRequest)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert h.fetch().request.share_session_epoch == 2
    assert not h.commits


@pytest.mark.behaviour("commits")
def test_unwaited_commits_are_merged_when_one_is_under_way() -> None:
    """Commits that nobody waits for are merged while one is under way; each offset is reported once."""
    h = delivered()
    for offset in range(10):
        h.commit(offset, h.said((offset, offset, 1)), wait=False)
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 0, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert said_in(h.acknowledge().request) == {HERE: batches((1, 9, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [(runs((0, 0, 1)), None), (runs((1, 9, 1)), None)]


@pytest.mark.better_than_java("commit-sync-waits-for-all")
@pytest.mark.behaviour("commits")
def test_a_waited_commit_is_not_behind_cached_ones_and_waits_for_all_before_it() -> None:
    """A waited commit waits for what was committed before it, and takes cached acknowledgements along."""
    h = delivered()
    h.commit(1, h.said((0, 0, 1)), wait=False)
    h.commit(2, h.said((1, 1, 1)), wait=False)
    h.commit(3, h.said((2, 2, 1)), timeout_ms=5_000)
    h.advance(2_000)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert not h.commits
    assert said_in(h.acknowledge().request) == {HERE: batches((1, 2, [1]))}
    h.advance(2_000)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [(c.request_id, c.timed_out) for c in h.commits] == [(3, False)]


def test_a_commit_completes_at_once_when_nothing_is_outstanding() -> None:
    h = delivered()
    h.commit(1)
    assert [(c.request_id, c.timed_out) for c in h.commits] == [(1, False)]
    assert not h.data_pending


@pytest.mark.behaviour("commits")
def test_a_commit_waits_for_acknowledgements_that_ride_when_they_came_before() -> None:
    """A commit after a poll waits for what rides on that poll's fetch, and sends nothing twice."""
    h = delivered()
    h.start_poll(5_000, h.said((0, 4, 1)))
    h.commit(1, h.said((5, 9, 1)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert not h.commits
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert len(h.commits) == 1


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("timeout_ms", [0, 2_000])
def test_a_commit_times_out_and_its_outcome_comes_later_when_the_answer_is_late(timeout_ms: int) -> None:
    """A commit that runs out of time leaves its acknowledgements under way; their outcome comes later."""
    h = delivered()
    h.commit(1, h.said((0, 9, 1)), timeout_ms=timeout_ms)
    h.advance(timeout_ms)
    assert [(c.request_id, c.timed_out) for c in h.commits] == [(1, True)]
    h.acknowledge()
    assert not h.outcomes
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [(runs((0, 9, 1)), None)]
    assert len(h.commits) == 1


# ---- results


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("code", [121, 42, 29, 3, 6, 100, 74, -1, 999])
def test_the_error_ends_the_acknowledgement_when_it_will_not_pass(code: int) -> None:
    """An error that will not pass (the leader has moved, the lock is gone, …) ends an acknowledgement at once."""
    h = delivered()
    h.commit(1, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), code)))
    assert outcomes(h) == [(runs((0, 9, 1)), type(error_for_code(code)))]
    assert len(h.commits) == 1
    h.advance(5_000)
    assert not h.asked(ShareAcknowledgeRequest)


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("code", [7, 14, 15, 16, 56])
def test_the_acknowledgement_is_repeated_until_it_succeeds_when_the_error_may_pass(code: int) -> None:
    """An acknowledgement is repeated, with growing pauses and new epochs, while its error may pass."""
    h = delivered()
    h.commit(1, h.said((0, 9, 1)))
    for attempt in range(3):
        h.answer(h.acknowledge(), acknowledge_answer((tp(), code)))
        assert not h.asked(ShareAcknowledgeRequest)
        h.advance(120 << attempt)
        assert h.acknowledge().request.share_session_epoch == 2 + attempt
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [(runs((0, 9, 1)), None)]
    assert [c.timed_out for c in h.commits] == [False]


def test_the_acknowledgement_ends_as_timed_out_when_it_was_repeated_until_the_deadline() -> None:
    h = delivered()
    h.commit(1, h.said((0, 9, 1)), timeout_ms=1_000)
    for _ in range(8):
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))
        if h.outcomes:
            break
        h.advance(1_200)
    assert outcomes(h) == [(runs((0, 9, 1)), OperationTimeoutError)]


def test_a_repeated_acknowledgement_does_not_hold_up_a_fetch_when_it_waits() -> None:
    h = delivered()
    h.commit(1, h.said((0, 9, 1)), wait=False)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))
    h.start_poll()
    assert said_in(h.fetch().request) == {}
    h.advance(200)
    h.answer(h.fetch(), fetch_answer())
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 9, [1]))}


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("code", [7, 15, 56, 121])
def test_a_riding_acknowledgement_is_never_repeated_when_it_fails(code: int) -> None:
    """An acknowledgement inside a ShareFetch is not repeated: its error is its outcome."""
    h = delivered()
    h.start_poll(5_000, h.said((0, 9, 1)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), acknowledge_error=code)))
    assert outcomes(h) == [(runs((0, 9, 1)), type(error_for_code(code)))]


@pytest.mark.behaviour("commits")
def test_a_partition_that_the_answer_leaves_out_ends_as_invalid_when_it_was_acknowledged() -> None:
    """A partition that the answer leaves out ends as an invalid record state, and nothing waits for ever."""
    h = delivered()
    h.commit(1, h.said((0, 4, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(5), 0)))
    h.start_poll(5_000, h.said((5, 9, 1)))
    h.answer(h.fetch(), fetch_answer())
    assert outcomes(h) == [(runs((0, 4, 1)), InvalidRecordStateError), (runs((5, 9, 1)), InvalidRecordStateError)]


@pytest.mark.behaviour("explicit acknowledgement")
def test_each_partition_has_its_own_result_when_one_of_them_fails() -> None:
    """Each partition of an acknowledgement has its own result."""
    h = Harness({tp(): 1, tp(1): 1}).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1)), fetch_data(tp(1), (0, 9, 1))))
    h.commit(1, h.said((0, 9, 1)), h.said((0, 9, 1), where=tp(1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 121), (tp(1), 0)))
    assert [(o.partition, type(o.error)) for o in h.outcomes] == [
        (tp(), InvalidRecordStateError),
        (tp(1), type(None)),
    ]


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize("code", [122, 123, 133, 30, 29, 42, -1])
def test_every_partition_has_the_error_when_the_whole_answer_failed(code: int) -> None:
    """The error of a whole answer is the result of the acknowledgements of each partition."""
    for by_commit in (True, False):
        h = Harness({tp(): 1, tp(1): 1}).joined()
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1)), fetch_data(tp(1), (0, 9, 1))))
        said = (h.said((0, 9, 1)), h.said((0, 9, 1), where=tp(1)))
        if by_commit:
            h.commit(1, *said)
            h.answer(h.acknowledge(), acknowledge_answer(error=code))
            assert len(h.commits) == 1
        else:
            h.start_poll(5_000, *said)
            h.answer(h.fetch(), fetch_answer(error=code))
        assert [type(o.error) for o in h.outcomes] == [type(error_for_code(code))] * 2


@pytest.mark.better_than_java("outcome-unknown")
@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("error", [BrokerUnreachableError("broke"), OperationTimeoutError("no answer")])
def test_the_outcome_is_unknown_when_no_answer_came(error: Exception) -> None:
    """Acknowledgements without an answer end with an unknown outcome; later ones of that session fail locally."""
    h = delivered()
    h.commit(1, h.said((0, 4, 1)))
    h.fail(h.acknowledge(), error)  # type: ignore[arg-type]
    assert outcomes(h) == [(runs((0, 4, 1)), OutcomeUnknownError)]
    assert len(h.commits) == 1
    h.commit(2, h.said((5, 9, 1)))  # delivered before: their session has ended
    assert outcomes(h)[1:] == [(runs((5, 9, 1)), NotLeaderOrFollowerError)]
    assert not h.data_pending


@pytest.mark.behaviour("share sessions")
def test_acknowledgements_fail_locally_when_their_session_has_ended() -> None:
    """Acknowledgements of a session that has ended are never sent: they end with a local error, each once."""
    h = delivered()
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("idle")))
    h.start_poll(5_000, h.said((0, 9, 1)))
    assert outcomes(h) == [(runs((0, 9, 1)), NotLeaderOrFollowerError)]
    request = h.fetch().request
    assert (request.share_session_epoch, said_in(request)) == (0, {HERE: []})
    h.fail(h.fetch())
    assert len(h.outcomes) == 1


def test_the_session_stays_when_only_the_control_connection_is_lost() -> None:
    h = delivered()
    h.handle(ConnectionLost(1, Channel.CONTROL, BrokerUnreachableError("idle")))
    h.commit(1, h.said((0, 9, 1)))
    assert h.acknowledge().request.share_session_epoch == 1


@pytest.mark.behaviour("explicit acknowledgement")
def test_acknowledgements_fail_locally_when_the_leader_is_another_node_now() -> None:
    """Acknowledgements go to nobody but the broker that delivered: after a leader move they fail locally."""
    h = Harness({tp(): 1, tp(1): 2}).joined()
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    h.start_poll()
    moved = fetch_data(tp(), error=6, leader=(2, 9))
    h.answer(h.fetch(1), fetch_answer(moved, endpoints=[h.nodes[2]]))
    h.commit(1, h.said((0, 9, 1)))
    assert outcomes(h) == [(runs((0, 9, 1)), NotLeaderOrFollowerError)]
    assert len(h.commits) == 1
    assert not h.asked(ShareAcknowledgeRequest)


# ---- renewals


@pytest.mark.better_than_java("renewal-returns-at-once")
@pytest.mark.behaviour("delivery counts")
def test_renewals_go_alone_and_end_the_wait_when_they_succeed() -> None:
    """Renewals go as a ShareAcknowledge, never inside a fetch, and end the poll's wait when they succeed."""
    h = delivered()
    h.start_poll(2_000, h.said((0, 0, 1), (1, 1, 4), (2, 2, 1), (3, 3, 4)))
    send = h.acknowledge()
    assert (send.request.is_renew_ack, send.min_version) == (True, 2)
    assert said_in(send.request) == {HERE: batches((0, 3, [1, 4, 1, 4]))}
    h.answer(send, acknowledge_answer((tp(), 0), lock_ms=15_000))
    assert outcomes(h) == [(runs((0, 0, 1), (1, 1, 4), (2, 2, 1), (3, 3, 4)), None)]
    assert h.outcomes[0].acquisition_lock_timeout_ms == 15_000
    assert not h.asked(ShareFetchRequest)
    h.start_poll(2_000, h.said((1, 1, 1), (3, 3, 1)))
    assert said_in(h.fetch().request) == {HERE: batches((1, 1, [1]), (3, 3, [1]))}


def test_the_poll_goes_on_when_its_renewals_failed() -> None:
    h = delivered()
    h.start_poll(2_000, h.said((0, 9, 4)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 121)))
    assert outcomes(h) == [(runs((0, 9, 4)), InvalidRecordStateError)]
    h.fetch()


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("final", [1, 2, 3])
def test_a_final_word_waits_for_the_renewal_of_its_offset_when_both_are_queued(final: int) -> None:
    """A renewal and the final acknowledgement of a record never go in one request, nor in the wrong order."""
    h = delivered()
    h.commit(1, h.said((9, 9, 1)), wait=False)
    h.commit(2, h.said((0, 4, 4)), wait=False)
    h.commit(3, h.said((2, 2, final), (7, 7, final)), wait=False)
    h.commit(4, h.said((8, 8, 1)), wait=False)
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 4, [4]), (8, 8, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 15)))  # the renewal has to be repeated
    assert not h.asked(ShareAcknowledgeRequest)
    h.advance(150)
    assert said_in(h.acknowledge().request) == {HERE: batches((0, 4, [4]), (8, 8, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert said_in(h.acknowledge().request) == {HERE: batches((2, 2, [final]), (7, 7, [final]))}


@pytest.mark.behaviour("delivery counts")
def test_only_renewals_fail_when_the_broker_is_too_old_for_them() -> None:
    """On a broker that knows no renewals only they fail; the other acknowledgements of the batch go through."""
    h = delivered()
    h.commit(1, h.said((0, 0, 4), (1, 2, 1)))
    h.fail(h.acknowledge(), UnsupportedVersionError("version 1 only"))
    assert outcomes(h) == [(runs((0, 0, 4)), UnsupportedVersionError)]
    assert not h.commits
    send = h.acknowledge()
    assert (send.min_version, send.request.share_session_epoch) == (0, 1)
    assert said_in(send.request) == {HERE: batches((1, 2, [1]))}
    h.answer(send, acknowledge_answer((tp(), 0)))
    assert len(h.commits) == 1


def test_each_part_of_a_number_is_named_once_when_renewals_end_apart_from_the_rest() -> None:
    h = delivered()
    said = attrs.evolve(h.said((0, 3, 1), (4, 4, 4), (5, 9, 1)), number=7)
    h.commit(1, said)
    h.fail(h.acknowledge(), UnsupportedVersionError("version 2"))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [(o.ended, o.error is None) for o in h.outcomes] == [
        ((EndedAcknowledgements(7, runs((4, 4, 4))),), False),
        ((EndedAcknowledgements(7, runs((0, 3, 1), (5, 9, 1))),), True),
    ]
    assert [c.timed_out for c in h.commits] == [False]


@pytest.mark.parametrize("ends_first", [False, True])
def test_acknowledgements_are_taken_once_when_they_are_posted_again(ends_first: bool) -> None:
    """An interrupted call posts the same number again: it is sent once and ends once, and the commit waits for it."""
    h = delivered()
    said = attrs.evolve(h.said((0, 9, 1)), number=3)
    h.start_poll(0, said, wants_records=False)
    if ends_first:
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    h.commit(1, said)
    if not ends_first:
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert outcomes(h) == [(runs((0, 9, 1)), None)]
    assert [c.timed_out for c in h.commits] == [False]
    assert not h.data_pending


def test_renewals_fail_and_the_session_is_closed_when_closing_on_an_old_broker() -> None:
    h = delivered()
    h.handle(CloseRequested((h.said((0, 0, 4), (1, 2, 1)),), h.now_ms + 30_000))
    h.fail(h.acknowledge(), UnsupportedVersionError("version 1 only"))
    send = h.acknowledge()
    assert (send.request.share_session_epoch, said_in(send.request)) == (-1, {HERE: batches((1, 2, [1]))})
    h.answer(send, acknowledge_answer((tp(), 0)))
    assert h.is_finished
    assert outcomes(h) == [(runs((0, 0, 4)), UnsupportedVersionError), (runs((1, 2, 1)), None)]
