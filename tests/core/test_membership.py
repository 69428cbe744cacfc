"""Membership: joining, heartbeats, their errors, fencing, the short series, max.poll.interval, leaving."""

from __future__ import annotations

from itertools import pairwise

import pytest
from core.scripted_cluster import MEMBER_ID, Harness, T, U, fetch_answer, heartbeat_answer, said_in, tp

from kafka_share.core.events import BatchReclaimed, CloseRequested, PollEnded, SubscriptionChanged, Unsubscribed
from kafka_share.core.membership import STEADY_MS, TRANSITIONS, State, Trigger
from kafka_share.errors import (
    BrokerUnreachableError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    OperationTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest as Heartbeat


def beats(h: Harness) -> list[int]:
    """When heartbeats left, since the first."""
    times = [at_ms for at_ms, _ in h.sent_of(Heartbeat)]
    return [at_ms - times[0] for at_ms in times]


def last_beat(h: Harness) -> Heartbeat:
    beat: Heartbeat = h.sent_of(Heartbeat)[-1][1]
    return beat


def test_every_state_can_be_left_when_it_is_not_final() -> None:
    for state in State:
        exits = [after for (before, _), after in TRANSITIONS.items() if before is state and after is not state]
        assert bool(exits) == (state is not State.FATAL)
    assert all((state, Trigger.FAILED) in TRANSITIONS for state in State if state is not State.FATAL)


@pytest.mark.behaviour("membership")
def test_nothing_is_sent_when_subscribed_without_a_poll() -> None:
    """subscribe alone sends nothing, however long the application waits: the first poll joins."""
    h = Harness()
    h.subscribe()
    h.advance(10_000)
    assert not h.sent


@pytest.mark.behaviour("membership")
def test_the_join_carries_everything_when_the_first_poll_comes() -> None:
    """The first heartbeat names group, member id, rack and topics; later ones leave out what has not changed."""
    h = Harness(client_rack="r1")
    h.subscribe("t", "a")
    h.start_poll()
    join = h.beat().request
    assert (join.group_id, join.member_id, join.member_epoch) == ("g", MEMBER_ID, 0)
    assert (join.rack_id, join.subscribed_topic_names) == ("r1", ["a", "t"])
    h.answer(h.beat(), heartbeat_answer(1, [tp()]))
    assert (h.beat().request.rack_id, h.beat().request.subscribed_topic_names) == (None, None)


def test_an_assignment_is_acknowledged_at_once_when_it_is_not_empty() -> None:
    """A new assignment is confirmed by a heartbeat at once, with the first fetch beside it, and then each interval."""
    h = Harness()
    h.subscribe()
    h.start_poll()
    h.answer(h.beat(), heartbeat_answer(3, [tp()]))
    acknowledging = h.beat().request
    assert beats(h) == [0, 0]
    assert (acknowledging.member_epoch, acknowledging.subscribed_topic_names) == (3, None)
    h.fetch()  # in parallel
    h.answer(h.beat(), heartbeat_answer(3))
    h.advance(999)
    assert len(beats(h)) == 2
    h.advance(1)
    assert beats(h) == [0, 0, 1000]


@pytest.mark.behaviour("membership")
def test_the_interval_of_the_latest_answer_counts_when_it_changes() -> None:
    """The group's heartbeat interval is changed: it counts from the next answer on."""
    h = Harness().joined()
    h.heartbeat = lambda request: heartbeat_answer(1, interval_ms=3_000)
    h.advance(1_000)
    h.advance(6_100)
    assert beats(h) == [0, 0, 1000, 4000, 7000]


@pytest.mark.better_than_java("first-record-in-a-second")
@pytest.mark.behaviour("membership")
def test_heartbeats_come_in_a_short_series_when_the_assignment_is_empty() -> None:
    """A joined member without an assignment asks again in a short series, then at the interval, and raises nothing."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(2, [], interval_ms=5_000)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(16_000)
    times = beats(h)
    assert times[:7] == [0, 50, 150, 350, 700, 1050, 1550]
    assert [b - a for a, b in pairwise(times)][5:12] == [500] * 7
    assert times[12] == 4550
    assert times[13:] == [9550, 14550]


def test_the_series_never_waits_longer_than_the_interval_and_ends_after_two_when_intervals_are_short() -> None:
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(2, [], interval_ms=300)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(1_300)
    assert beats(h) == [0, 50, 150, 350, 650, 950, 1250]


@pytest.mark.better_than_java("first-record-in-a-second")
@pytest.mark.behaviour("membership")
def test_the_series_ends_when_the_assignment_arrives() -> None:
    """The first heartbeats bring no partitions, a later one does: the member just waits, and fetches at once then."""
    h = Harness()
    answers = iter([heartbeat_answer(2, []), heartbeat_answer(2), heartbeat_answer(3, [tp()])])
    h.heartbeat = lambda request: next(answers, heartbeat_answer(3, interval_ms=5_000))
    h.subscribe()
    h.start_poll(60_000)
    h.advance(5_160)
    assert beats(h) == [0, 50, 150, 150, 5150]
    assert h.fetch().request.share_session_epoch == 0


@pytest.mark.better_than_java("subscription-change-at-once")
@pytest.mark.behaviour("membership")
def test_a_changed_subscription_is_sent_at_once_and_followed_by_the_series_when_a_poll_comes() -> None:
    """The first poll after a changed subscription sends it at once; the new topic is fetched when it is assigned."""
    h = Harness({tp(): 1, tp(0, "u"): 1}).joined(tp())
    h.advance(1_500)
    before = len(beats(h))
    h.handle(SubscriptionChanged(frozenset({"u"})))
    assert len(beats(h)) == before
    answers = iter([heartbeat_answer(2, []), heartbeat_answer(2)])
    h.heartbeat = lambda request: next(answers, None) or heartbeat_answer(3, [tp(0, "u")])
    h.start_poll()
    assert last_beat(h).subscribed_topic_names == ["u"]
    h.advance(150)
    assert [at - beats(h)[before] for at in beats(h)[before:]] == [0, 50, 150, 150]
    h.fetch(1)


def test_the_old_partition_of_a_kept_topic_does_not_end_the_series_when_topics_were_added() -> None:
    h = Harness({tp(): 1, tp(0, "u"): 1}).joined(tp())
    h.advance(1_000)
    before = len(beats(h))
    h.handle(SubscriptionChanged(frozenset({"t", "u"})))
    answers = iter([heartbeat_answer(2, [tp()]), heartbeat_answer(2)])
    h.heartbeat = lambda request: next(answers, None) or heartbeat_answer(3, [tp(), tp(0, "u")])
    h.start_poll()
    h.advance(160)
    assert [at - beats(h)[before] for at in beats(h)[before:]] == [0, 50, 150, 150]


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [15, 16])
def test_the_coordinator_is_looked_up_and_asked_at_once_when_it_has_moved(code: int) -> None:
    """The coordinator has moved: it is looked up, and the member goes on there at once with the epoch that it has."""
    h = Harness({tp(): 1, tp(1): 2}).joined(tp())
    h.heartbeat = None
    h.advance(1_000)
    h.coordinator = 2
    h.answer(h.beat(), heartbeat_answer(error=code))
    assert h.beat().node.id == 2
    assert h.beat().request.subscribed_topic_names == ["t"]  # a full one
    assert h.beat().request.member_epoch == 1


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [15, 16])
def test_look_ups_back_off_when_every_coordinator_refuses(code: int) -> None:
    """Each coordinator that is found refuses: look-ups come with growing pauses, and nothing is raised."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(error=code)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    lookups = h.sent_of(FindCoordinatorRequest)
    assert 8 <= len(lookups) <= 20
    assert len(h.sent_of(Heartbeat)) == len(lookups)
    assert not h.errors


@pytest.mark.behaviour("membership")
def test_no_heartbeat_is_sent_and_nothing_spins_when_the_coordinator_is_unknown() -> None:
    """While no coordinator is known no heartbeat is due and nothing spins; it goes on when there is one."""
    h = Harness()
    h.coordinator_error = 15
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert not h.sent_of(Heartbeat)
    assert len(h.sent_of(FindCoordinatorRequest)) <= 20
    h.coordinator_error = 0
    h.advance(1_200)
    h.beat()


def test_a_group_authorization_error_of_the_look_up_is_fatal_when_it_comes() -> None:
    h = Harness()
    h.coordinator_error = 30
    h.subscribe()
    h.start_poll()
    h.advance(1)
    assert [(type(e.error), e.fatal) for e in h.errors] == [(GroupAuthorizationFailedError, True)]


@pytest.mark.behaviour("membership")
def test_heartbeats_back_off_and_keep_the_coordinator_when_it_is_loading() -> None:
    """A coordinator that is loading is asked again with growing pauses, without being looked up anew."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(error=14)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    gaps = [b - a for a, b in pairwise(beats(h))]
    assert 80 <= gaps[0] <= 120
    assert 160 <= gaps[1] <= 240
    assert all(800 <= gap <= 1200 for gap in gaps[4:])
    assert len(h.sent_of(FindCoordinatorRequest)) == 1


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("error", [BrokerUnreachableError("broke"), OperationTimeoutError("late")])
def test_the_next_heartbeat_is_full_and_backed_off_when_no_answer_came(error: Exception) -> None:
    """A heartbeat without an answer is repeated after a pause, in full, with the epoch that it had; one at a time."""
    h = Harness(client_rack="r").joined()
    h.heartbeat = None
    h.advance(1_000)
    h.fail(h.beat(), error)  # type: ignore[arg-type]
    assert not h.asked(Heartbeat)
    h.advance(130)
    again = h.beat().request
    assert (again.member_epoch, again.subscribed_topic_names, again.rack_id) == (1, ["t"], "r")
    h.advance(20_000)
    assert len(h.asked(Heartbeat)) == 1  # one in flight, however long it takes


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [25, 110])
def test_the_member_joins_again_at_once_with_its_id_when_it_is_fenced(code: int) -> None:
    """A fenced or unknown member joins again at once with its old id, drops its assignment and keeps its sessions."""
    h = Harness().joined()
    h.heartbeat = None
    h.advance(1_000)
    h.answer(h.fetch(), fetch_answer())
    h.answer(h.beat(), heartbeat_answer(error=code))
    join = h.beat().request
    assert (join.member_epoch, join.member_id, join.subscribed_topic_names) == (0, MEMBER_ID, ["t"])
    assert not h.errors
    h.answer(h.fetch(), fetch_answer())
    assert not h.asked(ShareFetchRequest)  # the assignment is gone
    h.answer(h.beat(), heartbeat_answer(7, [tp()]))
    assert h.beat().request.member_epoch == 7
    assert h.fetch().request.share_session_epoch > 0  # the session goes on


@pytest.mark.behaviour("membership")
def test_joins_back_off_when_they_are_fenced_again_and_again() -> None:
    """A join that is fenced again and again is repeated with growing pauses."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(error=110)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert len(beats(h)) <= 20


@pytest.mark.behaviour("membership")
def test_the_topic_authorization_error_is_raised_once_and_passes_when_rights_are_given() -> None:
    """Missing rights on a topic are raised once, asked for again each interval, and forgotten when they are given."""
    h = Harness().joined()
    h.heartbeat = lambda request: heartbeat_answer(error=29, message="no DESCRIBE on t")
    h.advance(4_500)
    assert [type(e.error) for e in h.errors] == [TopicAuthorizationFailedError]
    assert not h.errors[0].fatal
    assert [b - a for a, b in pairwise(beats(h))][1:] == [1000] * 4
    h.heartbeat = lambda request: heartbeat_answer(2, [tp()])
    h.advance(1_000)
    h.heartbeat = lambda request: heartbeat_answer(error=29, message="no DESCRIBE on t")
    h.advance(1_000)
    assert len(h.errors) == 2


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [30, 69, 81, 42, 112, 35, 24, 999])
def test_the_consumer_ends_with_one_error_when_the_group_refuses_it(code: int) -> None:
    """An error with which the group refuses the member is raised once; afterwards nothing more is sent or raised."""
    h = Harness().joined()
    h.heartbeat = lambda request: heartbeat_answer(error=code, message="because")
    h.advance(1_000)
    expected = error_for_code(code)
    assert [(type(e.error), e.fatal) for e in h.errors] == [(type(expected), True)]
    assert "because" in str(h.errors[0].error)
    count = len(h.sent)
    h.answer(h.fetch(), fetch_answer())
    h.start_poll()
    h.advance(20_000)
    assert len(h.sent) == count
    assert len(h.errors) == 1


@pytest.mark.better_than_java("deleted-group-is-joined-again")
@pytest.mark.behaviour("membership")
def test_the_member_joins_again_when_its_group_was_deleted() -> None:
    """The group of an idle member was deleted: it joins again, which makes the group anew, and nothing is raised."""
    h = Harness().joined()
    h.heartbeat = None
    h.advance(1_000)
    h.answer(h.beat(), heartbeat_answer(error=69))
    join = h.beat().request
    assert (join.member_epoch, join.member_id, join.subscribed_topic_names) == (0, MEMBER_ID, ["t"])
    h.answer(h.beat(), heartbeat_answer(2, [tp()]))
    assert not h.errors


@pytest.mark.behaviour("membership")
def test_the_consumer_ends_when_its_group_id_belongs_to_a_group_of_another_type() -> None:
    """A group id that belongs to a group of another type is raised once, at the join, and the consumer ends."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(error=69, message="g is no share group")
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert [(type(e.error), e.fatal) for e in h.errors] == [(GroupIdNotFoundError, True)]
    assert len(h.sent_of(Heartbeat)) == 1


def test_the_consumer_ends_when_the_broker_has_no_heartbeat_api() -> None:
    h = Harness()
    h.subscribe()
    h.start_poll()
    h.fail(h.beat(), UnsupportedVersionError("no API 76"))
    assert [(type(e.error), e.fatal) for e in h.errors] == [(UnsupportedVersionError, True)]


def test_heartbeats_wait_when_the_coordinator_throttles() -> None:
    """A heartbeat's answer that asks for silence mutes the coordinator for that time; membership goes on after it."""
    h = Harness().joined()
    h.heartbeat = None
    h.advance(1_000)
    throttled = heartbeat_answer(1)
    throttled.throttle_time_ms = 2_500
    h.answer(h.beat(), throttled)
    h.advance(2_499)
    assert not h.asked(Heartbeat)
    h.advance(1)
    assert h.beat().request.member_epoch == 1


@pytest.mark.behaviour("membership")
def test_heartbeats_go_on_when_the_application_works_long_or_waits_for_a_commit() -> None:
    """Heartbeats do not depend on polls: they go on while records are worked on, and while a commit has no answer."""
    h = Harness().joined()
    h.delivering()
    h.advance(60_000)
    h.commit(1, h.said((0, 9, 1)))
    before = len(beats(h))
    h.advance(20_000)
    h.acknowledge()
    assert len(beats(h)) == before + 20
    assert last_beat(h).member_epoch == 1


@pytest.mark.behaviour("membership")
def test_the_error_is_raised_again_when_rights_are_missing_on_another_topic() -> None:
    """Missing rights on another topic are another error; a changed subscription asks at once whether they are there."""
    h = Harness().joined()
    h.heartbeat = lambda request: heartbeat_answer(error=29, message="no DESCRIBE on t")
    h.advance(3_500)
    h.heartbeat = lambda request: heartbeat_answer(error=29, message="no DESCRIBE on u")
    h.subscribe("u")
    h.start_poll()
    assert [str(e.error)[-1] for e in h.errors] == ["t", "u"]
    h.heartbeat = lambda request: heartbeat_answer(2, [tp(0, "u")])
    h.advance(1_000)
    assert (last_beat(h).subscribed_topic_names, last_beat(h).member_epoch) == (None, 2)


def test_unsubscribe_leaves_with_an_empty_list_and_completes_when_the_answer_comes() -> None:
    h = Harness().joined()
    h.heartbeat = None
    h.handle(Unsubscribed(5, h.now_ms + 60_000))
    leave = h.beat().request
    assert (leave.member_epoch, leave.subscribed_topic_names) == (-1, [])
    assert not h.unsubscribed
    h.answer(h.beat(), heartbeat_answer(-1))
    assert h.unsubscribed == [5]
    h.advance(10_000)
    assert not h.asked(Heartbeat)


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [69, 25, 30, 14])
def test_unsubscribe_completes_silently_when_the_leave_is_answered_with_an_error(code: int) -> None:
    """Whatever the coordinator answers to a leave, it ends the membership and is not raised."""
    h = Harness().joined()
    h.heartbeat = None
    h.handle(Unsubscribed(1, h.now_ms + 60_000))
    h.answer(h.beat(), heartbeat_answer(error=code))
    assert h.unsubscribed == [1]
    assert not h.errors


def test_unsubscribe_completes_when_the_leave_gets_no_answer() -> None:
    h = Harness().joined()
    h.heartbeat = None
    h.handle(Unsubscribed(1, h.now_ms + 60_000))
    h.fail(h.beat())
    assert h.unsubscribed == [1]
    assert not h.asked(Heartbeat)


def test_unsubscribe_completes_at_its_deadline_when_the_coordinator_is_frozen() -> None:
    h = Harness().joined()
    h.heartbeat = None
    h.handle(Unsubscribed(1, h.now_ms + 5_000))
    h.advance(4_999)
    assert not h.unsubscribed
    h.advance(1)
    assert h.unsubscribed == [1]


def test_the_leave_waits_for_the_heartbeat_under_way_when_there_is_one() -> None:
    h = Harness().joined()
    h.heartbeat = None
    h.advance(1_000)
    beat = h.beat()
    h.handle(Unsubscribed(1, h.now_ms + 60_000))
    assert h.beat() is beat
    h.answer(beat, heartbeat_answer(9, [tp()]))  # too late to matter
    assert h.beat().request.member_epoch == -1


def test_unsubscribe_completes_at_once_when_the_member_never_joined() -> None:
    h = Harness()
    h.subscribe()
    h.handle(Unsubscribed(1, h.now_ms + 60_000))
    assert h.unsubscribed == [1]
    assert not h.sent


def test_the_member_joins_again_when_it_subscribes_after_unsubscribing() -> None:
    h = Harness({tp(): 1, tp(0, "u"): 1}).joined(tp())
    h.handle(Unsubscribed(1, h.now_ms + 60_000))
    h.subscribe("u")
    h.heartbeat = None
    h.start_poll()
    assert (h.beat().request.member_epoch, h.beat().request.subscribed_topic_names) == (0, ["u"])
    h.answer(h.beat(), heartbeat_answer(4, [tp(0, "u")]))
    h.answer(h.fetch(), fetch_answer())
    assert [t.topic_id for t in h.fetch().request.topics] == [U]


@pytest.mark.behaviour("membership")
def test_the_member_leaves_without_names_and_joins_silently_when_polls_stay_away() -> None:
    """A member that does not poll for max.poll.interval.ms leaves its group; its next poll joins again silently."""
    h = Harness(max_poll_interval_ms=5_000).joined()
    h.delivering()
    h.advance(4_990)
    assert last_beat(h).member_epoch == 1
    h.heartbeat = None
    h.advance(10)
    leave = last_beat(h)
    assert (leave.member_epoch, leave.subscribed_topic_names) == (-1, None)
    h.answer(h.asked(Heartbeat)[-1], heartbeat_answer(-1))
    h.advance(20_000)
    assert last_beat(h) is leave
    h.start_poll()
    assert last_beat(h).member_epoch == 0
    assert not h.errors


@pytest.mark.better_than_java("long-poll")
@pytest.mark.behaviour("membership")
def test_the_member_stays_when_one_poll_lasts_longer_than_the_interval() -> None:
    """One poll may last longer than max.poll.interval.ms: the clock stands still while it waits."""
    h = Harness(max_poll_interval_ms=5_000).joined(timeout_ms=30_000)
    h.advance(30_000)
    assert all(request.member_epoch != -1 for _, request in h.sent_of(Heartbeat))
    h.advance(4_990)
    assert last_beat(h).member_epoch != -1
    h.advance(20)
    assert -1 in [request.member_epoch for _, request in h.sent_of(Heartbeat)]


def test_the_clock_runs_from_the_end_of_the_poll_when_it_ended_early() -> None:
    h = Harness(max_poll_interval_ms=5_000).joined(timeout_ms=30_000)
    h.handle(PollEnded())
    h.advance(5_000)
    assert last_beat(h).member_epoch == -1


def test_a_poll_while_leaving_for_staleness_joins_again_when_the_leave_has_ended() -> None:
    h = Harness(max_poll_interval_ms=5_000).joined()
    h.delivering()
    h.heartbeat = None
    for _ in range(6):
        h.advance(1_000)
        for send in h.asked(Heartbeat):
            if send.request.member_epoch > 0:
                h.answer(send, heartbeat_answer(1))
    assert h.beat().request.member_epoch == -1
    h.start_poll()
    assert h.beat().request.member_epoch == -1
    h.answer(h.beat(), heartbeat_answer(-1))
    assert h.beat().request.member_epoch == 0


@pytest.mark.behaviour("membership")
def test_impossible_assignments_are_ignored_when_a_broker_sends_them() -> None:
    """Negative partitions and repeated topic entries of an assignment are left out, and the rest is fetched."""
    h = Harness()
    h.subscribe()
    h.start_poll()
    h.answer(h.beat(), heartbeat_answer(1, [tp(-1), tp(), tp(), tp(-(2**31))]))
    assert [[p.partition_index for p in t.partitions] for t in h.fetch().request.topics] == [[0]]


@pytest.mark.behaviour("membership")
def test_joins_back_off_when_each_is_accepted_and_fenced_by_the_next_heartbeat() -> None:
    """A member that is fenced soon after its join, again and again, joins with growing pauses."""
    h = Harness()
    h.heartbeat = lambda request: heartbeat_answer(5) if request.member_epoch == 0 else heartbeat_answer(error=110)
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert len(beats(h)) <= 50
    h.heartbeat = lambda request: heartbeat_answer(6)
    h.advance(STEADY_MS + 2_000)
    h.heartbeat = None
    h.advance(1_000)
    h.answer(h.beat(), heartbeat_answer(error=110))
    assert h.beat().request.member_epoch == 0, "it had been a member for long: it joins at once"


@pytest.mark.behaviour("membership")
def test_unknown_topic_ids_are_resolved_later_when_the_metadata_lags() -> None:
    """Assigned topic ids that the metadata does not know yet are resolved later; known ones are fetched meanwhile."""
    h = Harness({})
    h.subscribe("t", "u")
    h.start_poll(60_000)
    h.answer(h.beat(), heartbeat_answer(1, [tp(), tp(0, "u")]))
    h.heartbeat = lambda request: heartbeat_answer(1)
    assert not h.asked(ShareFetchRequest)
    h.leaders = {tp(): 1}
    h.advance(1_200)
    assert [t.topic_id for t in h.fetch().request.topics] == [tp().topic_id]
    h.leaders = {tp(): 1, tp(0, "u"): 1}
    h.advance(1_200)
    h.answer(h.fetch(), fetch_answer())
    assert [t.topic_id for t in h.fetch().request.topics] == [U]


def test_the_leave_follows_the_join_under_way_when_closed_meanwhile() -> None:
    h = Harness()
    h.subscribe()
    h.start_poll()
    h.handle(CloseRequested((), h.now_ms + 30_000))
    h.answer(h.beat(), heartbeat_answer(1, [tp()]))
    assert h.beat().request.member_epoch == -1
    h.answer(h.beat(), heartbeat_answer(-1))
    assert h.is_finished


@pytest.mark.behaviour("membership")
def test_unseen_records_are_given_back_at_once_when_the_application_stalled() -> None:
    """Records that arrive for a member that has left because no poll came are released at once."""
    h = Harness({tp(): 1}, max_poll_interval_ms=5_000).joined(timeout_ms=100)
    h.advance(5_200)
    assert -1 in [request.member_epoch for _, request in h.sent_of(Heartbeat)]
    h.delivering()
    assert h.reclaims == [1]
    h.handle(BatchReclaimed(1))
    assert said_in(h.acknowledge().request) == {(T, 0): [(0, 9, [2])]}


def test_records_are_kept_for_a_poll_that_began_while_the_stalled_member_was_leaving() -> None:
    """A poll that comes while the member is still leaving gets the records that arrive for it."""
    h = Harness({tp(): 1}, max_poll_interval_ms=5_000).joined(timeout_ms=100)
    h.advance(4_000)
    h.heartbeat = None
    h.advance(1_200)
    for send in [send for send in h.asked(Heartbeat) if send.request.member_epoch > 0]:
        h.answer(send, heartbeat_answer(1))
    assert h.beat().request.member_epoch == -1
    h.start_poll()
    h.delivering()
    assert not h.reclaims
