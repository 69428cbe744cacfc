"""When the core fetches, from which nodes, and what it does with the answers."""

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
    runs,
    said_in,
    tp,
)

from kafka_share.core.events import BatchReclaimed, PollEnded, PollStarted, SubscriptionChanged, Unsubscribed
from kafka_share.errors import (
    AuthenticationError,
    CorruptMessageError,
    GroupAuthorizationFailedError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import Node


def fetches(h: Harness) -> list[tuple[int, int, int]]:
    """(time, node, session epoch) of each ShareFetch."""
    return [
        (at_ms, s.node.id, s.request.share_session_epoch)
        for at_ms, s in h.sent
        if isinstance(s.request, ShareFetchRequest)
    ]


# ---- when


@pytest.mark.behaviour("fetching")
def test_no_fetch_is_sent_when_records_have_been_delivered_until_the_next_poll() -> None:
    """While the application works on records nothing is fetched; its next poll sends the next fetch."""
    h = Harness().joined(timeout_ms=60_000)
    h.delivering()
    h.advance(20_000)
    assert len(fetches(h)) == 1
    h.start_poll()
    assert len(fetches(h)) == 2


@pytest.mark.better_than_java("no-records-for-idle-applications")
@pytest.mark.behaviour("fetching")
def test_fetches_follow_one_another_while_the_poll_waits_and_stop_when_it_ends() -> None:
    """A poll without records fetches again and again, one request at a time, and only until its time is up."""
    h = Harness().joined(timeout_ms=2_000)
    for epoch in range(4):
        assert h.fetch().request.share_session_epoch == epoch
        h.advance(500)
        h.answer(h.fetch(), fetch_answer())
    assert not h.data_pending
    h.advance(30_000)
    assert len(fetches(h)) == 4


def test_no_fetch_follows_when_the_poll_ended_early() -> None:
    h = Harness().joined(timeout_ms=60_000)
    h.handle(PollEnded())
    h.answer(h.fetch(), fetch_answer())
    assert not h.data_pending


@pytest.mark.behaviour("polling")
def test_each_idle_node_is_asked_once_when_the_poll_has_no_time() -> None:
    """Polls without time send one fetch to each idle broker, and none to a broker that still owes an answer."""
    h = Harness({tp(): 1, tp(1): 2}).joined(timeout_ms=0)
    assert not h.data_pending  # the assignment came after that poll
    h.handle()
    h.start_poll(0)
    assert [node for _, node, _ in fetches(h)] == [1, 2]
    h.start_poll(0)
    assert len(fetches(h)) == 2
    h.answer(h.fetch(1), fetch_answer())
    assert len(fetches(h)) == 2
    h.start_poll(0)
    h.handle(PollEnded())
    assert [node for _, node, _ in fetches(h)] == [1, 2, 1]


@pytest.mark.behaviour("fetching")
def test_a_poll_without_time_asks_even_when_it_ended_before_the_core_ran() -> None:
    """A poll that has ended before the network thread heard of it still has its fetch sent."""
    h = Harness().joined(timeout_ms=0)
    h.core.handle(PollStarted(h.now_ms), h.now_ms)
    h.handle(PollEnded())
    h.fetch()


def test_nothing_is_fetched_for_a_poll_that_will_find_a_batch_which_came_when_it_began() -> None:
    """The answer comes between a poll's look into the mailbox and its question; more would be locked for nobody."""
    h = Harness().joined()
    taken = h.delivering().batch_id
    h.start_poll(10)
    h.advance(20)
    late = h.delivering()
    h.handle(PollStarted(h.now_ms + 1_000, taken_batch_id=taken))
    assert not h.data_pending
    h.handle(PollStarted(h.now_ms + 1_000, taken_batch_id=late.batch_id))  # it had gaps only
    h.fetch()


def test_a_poll_has_records_fetched_when_the_batch_that_it_would_have_found_was_taken_back() -> None:
    h = Harness().joined()
    taken = h.delivering().batch_id
    h.start_poll(10)
    h.advance(20)
    late = h.delivering()
    h.handle(PollStarted(h.now_ms + 60_000, taken_batch_id=taken))
    h.advance(15_000)
    assert h.reclaims == [late.batch_id]
    h.handle(BatchReclaimed(late.batch_id))
    h.fetch()


def test_all_nodes_are_asked_in_parallel_when_batches_are_optimized() -> None:
    h = Harness({tp(): 1, tp(1): 2, tp(0, "u"): 2}).joined()
    assert said_in(h.fetch(1).request) == {(T, 0): []}
    assert said_in(h.fetch(2).request) == {(T, 1): [], (U, 0): []}


def test_limits_are_those_of_the_settings_when_fetching() -> None:
    h = Harness(fetch_min_bytes=3, fetch_max_bytes=4, fetch_max_wait_ms=60_000, max_poll_records=5).joined()
    r = h.fetch().request
    assert (r.min_bytes, r.max_bytes, r.max_wait_ms, r.max_records, r.batch_size) == (3, 4, 60_000, 5, 5)
    assert (r.share_acquire_mode, r.is_renew_ack) == (0, False)
    assert h.fetch().timeout_ms > 60_000


@pytest.mark.behaviour("polling")
def test_the_batch_has_what_was_acquired_when_an_answer_comes() -> None:
    """What a fetch acquired comes with its delivery counts, the duration of its locks and the time of the request."""
    h = Harness().joined()
    sent_at_ms = h.now_ms
    h.advance(40)
    batch = h.delivering(lock_ms=12_345)
    assert (batch.acquired_at_ms, batch.acquisition_lock_timeout_ms) == (sent_at_ms, 12_345)
    assert batch.partitions[0].records == b"records"
    assert batch.partitions[0].acquired == (AcquiredRange(0, 9, 1),)


@pytest.mark.behaviour("fetching")
def test_the_node_is_left_alone_when_it_throttles() -> None:
    """After a throttled answer the broker is left alone for that time; the session goes on with its next epoch."""
    h = Harness().joined(timeout_ms=60_000)
    h.answer(h.fetch(), fetch_answer(throttle_ms=700))
    h.advance(699)
    assert not h.data_pending
    h.advance(1)
    assert h.fetch().request.share_session_epoch == 1


# ---- record_limit


@pytest.mark.behaviour("fetching")
def test_one_node_at_a_time_is_asked_in_turn_when_records_are_limited() -> None:
    """With record_limit one broker at a time gets a real fetch, each in its turn."""
    h = Harness({tp(): 1, tp(1): 2, tp(2): 3}, share_acquire_mode="record_limit").joined()
    order = []
    for _ in range(7):
        real = [s for s in h.data_pending if s.request.max_records]
        assert len(real) == 1
        assert (real[0].request.share_acquire_mode, real[0].min_version) == (1, 2)
        order.append(real[0].node.id)
        for send in [s for s in h.data_pending if not s.request.max_records]:
            h.answer(send, fetch_answer())
        h.answer(real[0], fetch_answer())
    assert sorted(order[:3]) == [1, 2, 3]
    assert order[3:6] == order[:3]


@pytest.mark.behaviour("fetching")
def test_the_others_get_zero_limits_and_only_what_there_is_to_carry_when_records_are_limited() -> None:
    """With record_limit the other brokers get a request only for acknowledgements and changes, with all limits 0."""
    h = Harness({tp(): 1, tp(1): 2}, share_acquire_mode="record_limit").joined()
    real = h.fetch(1).request
    other = h.fetch(2).request
    assert real.max_records == 500
    assert (other.max_wait_ms, other.min_bytes, other.max_bytes, other.max_records, other.batch_size) == (0,) * 5
    assert said_in(other) == {(T, 1): []}
    h.answer(h.fetch(2), fetch_answer())
    assert not h.asked(ShareFetchRequest, 2)
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    h.start_poll(5_000, h.said((0, 9, 1)))
    assert h.fetch(2).request.max_records == 500
    carrying = h.fetch(1).request
    assert (carrying.max_records, said_in(carrying)) == (0, {(T, 0): batches((0, 9, [1]))})


@pytest.mark.behaviour("fetching")
def test_the_turn_passes_on_when_the_chosen_node_dies() -> None:
    """With record_limit the fetch goes to another broker when the one whose turn it was dies."""
    h = Harness({tp(): 1, tp(1): 2}, share_acquire_mode="record_limit").joined()
    h.answer(h.fetch(2), fetch_answer())
    h.fail(h.fetch(1))
    assert h.fetch(2).request.max_records == 500


def test_the_error_is_raised_once_when_a_broker_cannot_limit_records() -> None:
    h = Harness(share_acquire_mode="record_limit").joined(timeout_ms=60_000)
    for _ in range(4):
        h.fail(h.fetch(), UnsupportedVersionError("version 1 only"))
        assert not h.data_pending
        h.advance(1_200)
    assert [type(e.error) for e in h.errors] == [UnsupportedVersionError]


# ---- partitions come and go


@pytest.mark.behaviour("membership")
def test_the_old_topic_is_forgotten_with_the_first_fetch_of_the_new_one_when_the_subscription_changed() -> None:
    """After a changed subscription the old topic is acknowledged at once, and forgotten when the new one is fetched."""
    h = Harness({tp(): 1, tp(0, "u"): 1}).joined(tp())
    h.delivering(last=2)
    h.heartbeat = None
    h.handle(SubscriptionChanged(frozenset({"u"})))
    h.start_poll(10_000, h.said((0, 2, 1)))
    assert said_in(h.acknowledge().request) == {(T, 0): batches((0, 2, [1]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert not h.data_pending
    h.answer(h.beat(), heartbeat_answer(2, []))
    h.advance(60)
    h.answer(h.beat(), heartbeat_answer(3, [tp(0, "u")]))
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(U, 0): []}, [(T, 0)])


@pytest.mark.better_than_java("unseen-records-given-back")
@pytest.mark.behaviour("polling")
def test_records_of_a_topic_no_longer_subscribed_are_released_when_they_arrive_late() -> None:
    """Records of a topic that has been left meanwhile are released at once, and the callback does not run for them."""
    h = Harness({tp(): 1, tp(0, "u"): 1}).joined(tp())
    h.handle(SubscriptionChanged(frozenset({"u"})))
    h.start_poll()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 4, 1), (7, 7, 2))))
    assert not h.delivered
    assert said_in(h.acknowledge().request) == {(T, 0): batches((0, 4, [2]), (7, 7, [2]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert not h.outcomes  # the application never saw them


@pytest.mark.behaviour("fetching")
def test_records_of_a_lost_partition_are_delivered_when_its_topic_is_still_subscribed() -> None:
    """Records of a partition that was taken away meanwhile are delivered while its topic is subscribed."""
    h = Harness({tp(): 1, tp(1): 1}).joined()
    h.heartbeat = lambda request: heartbeat_answer(2, [tp(1)])
    h.advance(1_000)
    h.delivering()
    assert h.delivered[0].partitions[0].partition == tp()
    h.start_poll(5_000, h.said((0, 9, 1)))
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(T, 0): batches((0, 9, [1]))}, [(T, 0)])


@pytest.mark.behaviour("share sessions")
def test_a_partition_listed_for_its_acknowledgements_only_is_forgotten_in_the_same_request() -> None:
    """A partition that is named only to acknowledge is forgotten in that request, so that it is not fetched again."""
    h = Harness({tp(): 1, tp(1): 1}).joined()
    h.delivering()
    h.heartbeat = lambda request: heartbeat_answer(2, [tp(1)])
    h.advance(1_000)
    h.start_poll()
    assert forgotten_in(h.fetch().request) == [(T, 0)]
    h.answer(h.fetch(), fetch_answer())
    h.start_poll(5_000, h.said((0, 9, 1)))
    h.answer(h.fetch(), fetch_answer())
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(T, 0): batches((0, 9, [1]))}, [(T, 0)])
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    assert [o.error for o in h.outcomes] == [None]


@pytest.mark.behaviour("share sessions")
def test_the_new_id_is_added_and_the_old_forgotten_when_a_topic_was_made_again() -> None:
    """A topic was deleted and made again under its name: one request forgets the old id and adds the new one."""
    h = Harness().joined(timeout_ms=60_000)
    again = tp()._replace(topic_id=U)
    h.leaders = {again: 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [again])
    h.advance(1_100)
    h.answer(h.fetch(), fetch_answer(error=-1))  # brokers up to 4.3, while the deleted topic is in the session
    h.advance(1_500)
    request = h.fetch().request
    assert (said_in(request), forgotten_in(request)) == ({(U, 0): []}, [(T, 0)])
    assert not h.errors


# ---- leaders


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("code", [6, 74])
def test_the_next_fetch_goes_to_the_new_leader_at_once_when_the_answer_names_it(code: int) -> None:
    """An answer names a new leader, even on an unknown broker: the next fetch goes there without asking."""
    h = Harness().joined()
    before = len(h.sent_of(MetadataRequest))
    new = Node(5, "node5", 9092)
    moved = fetch_data(tp(), error=code, leader=(5, 2))
    h.answer(h.fetch(), fetch_answer(moved, endpoints=[new]))
    send = h.fetch(5)
    assert (send.node, send.request.share_session_epoch) == (new, 0)
    assert len(h.sent_of(MetadataRequest)) == before
    assert not h.errors


@pytest.mark.behaviour("share sessions")
def test_the_old_node_forgets_the_partition_when_its_leader_has_moved() -> None:
    """A partition moves to another leader: the old session forgets it, and the new leader's session adds it."""
    h = Harness({tp(): 1, tp(1): 1, tp(2): 2}).joined()
    moved = fetch_data(tp(), error=6, leader=(2, 9))
    h.answer(h.fetch(2), fetch_answer())
    h.answer(h.fetch(1), fetch_answer(moved))
    h.advance(150)
    assert forgotten_in(h.fetch(1).request) == [(T, 0)]
    h.answer(h.fetch(2), fetch_answer())
    assert said_in(h.fetch(2).request) == {(T, 0): []}
    last = fetch_data(tp(1), error=6, leader=(2, 9))
    h.answer(h.fetch(1), fetch_answer(last))
    h.advance(500)
    request = h.fetch(1).request
    assert (request.max_records, request.max_wait_ms, forgotten_in(request)) == (0, 0, [(T, 1)])
    h.answer(h.fetch(1), fetch_answer())
    h.advance(5_000)
    assert not h.asked(ShareFetchRequest, 1)


@pytest.mark.behaviour("broker failures")
@pytest.mark.parametrize(("leader", "epoch"), [(-1, -1), (9, 5), (1, 0)])
def test_the_metadata_is_asked_when_the_hint_is_of_no_use(leader: int, epoch: int) -> None:
    """An answer that names no usable new leader makes the client ask for metadata, and go where that says."""
    h = Harness({tp(): 1, tp(1): 2}).joined(tp())
    before = len(h.sent_of(MetadataRequest))
    h.leaders[tp()] = 2
    h.leader_epochs[tp()] = 4
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=6, leader=(leader, epoch))))
    h.advance(150)
    assert len(h.sent_of(MetadataRequest)) == before + 1
    assert h.fetch(2).request.share_session_epoch == 0


@pytest.mark.behaviour("fetching")
def test_a_leader_is_not_believed_when_the_partition_has_no_error() -> None:
    """The leader in an answer without an error means nothing: the fetches stay where they are."""
    h = Harness({tp(): 1, tp(1): 2}).joined(tp())
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), leader=(2, 99))))
    assert h.fetch().node.id == 1


@pytest.mark.behaviour("share sessions")
def test_requests_stay_few_when_two_brokers_point_at_each_other() -> None:
    """Two brokers that name each other as the leader make no storm of requests."""
    h = Harness({tp(): 1, tp(1): 2}).joined(tp(), timeout_ms=60_000)
    epoch = 1
    for _ in range(200):
        for send in list(h.data_pending):
            epoch += 1
            h.answer(send, fetch_answer(fetch_data(tp(), error=6, leader=(3 - send.node.id, epoch))))
        h.advance(50)
    assert len(fetches(h)) < 60


@pytest.mark.behaviour("broker failures")
def test_fetching_goes_on_when_a_leader_has_been_found_again() -> None:
    """A partition without a leader is waited for, and fetched when it has one again."""
    h = Harness().joined(timeout_ms=60_000)
    h.leaders[tp()] = -1
    h.leader_epochs[tp()] = 2
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=6, leader=(-1, -1))))
    h.advance(3_000)
    assert not h.data_pending
    h.leaders[tp()] = 1
    h.leader_epochs[tp()] = 3
    h.advance(1_300)
    h.fetch()


# ---- errors


@pytest.mark.behaviour("broker failures")
@pytest.mark.parametrize(
    ("code", "refreshes"),
    [
        (6, True),
        (74, True),
        (9, True),
        (56, True),
        (78, True),
        (3, True),
        (100, True),
        (103, True),
        (75, False),
        (-1, False),
    ],
)
def test_the_error_is_silent_when_one_partition_is_in_passing_trouble(code: int, refreshes: bool) -> None:
    """Errors of a partition that pass are not raised; fetches are paced, metadata is asked where it can help."""
    h = Harness().joined(timeout_ms=60_000)
    before = len(h.sent_of(MetadataRequest))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=code)))
    assert not h.data_pending  # paced
    h.advance(1_500)
    assert h.fetch().request.share_session_epoch == 1
    assert (len(h.sent_of(MetadataRequest)) > before) == refreshes
    assert not h.errors


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("code", [2, 15, 69, 999])
def test_the_error_is_raised_once_until_it_has_passed_when_a_partition_fails(code: int) -> None:
    """The error of a partition is raised by one poll, and again only after it had passed in between."""
    h = Harness().joined(timeout_ms=60_000)
    for _ in range(3):
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=code)))
        h.advance(1_500)
    assert [(type(e.error), e.fatal) for e in h.errors] == [(type(error_for_code(code)), False)]
    assert "t-0" in str(h.errors[0].error)
    h.answer(h.fetch(), fetch_answer())
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=code)))
    assert len(h.errors) == 2
    assert CorruptMessageError.code == 2


@pytest.mark.behaviour("fetching")
def test_one_error_names_the_topics_and_the_others_go_on_when_rights_are_missing() -> None:
    """Without rights on some topics one error names them, and the other topics are delivered."""
    h = Harness({tp(): 1, tp(1): 1, tp(0, "u"): 1}).joined()
    refused = [fetch_data(where, error=29) for where in (tp(), tp(1))]
    h.answer(h.fetch(), fetch_answer(*refused, fetch_data(tp(0, "u"), (0, 0, 1))))
    assert [type(e.error) for e in h.errors] == [TopicAuthorizationFailedError]
    assert str(h.errors[0].error).endswith("from: t")
    assert h.delivered


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("code", [122, 123, 133, -1, 100, 15, 30, 42, 35, 999])
def test_attempts_back_off_when_the_whole_answer_fails_again_and_again(code: int) -> None:
    """Fetches that fail as a whole again and again are repeated with growing pauses, never in a tight loop."""
    h = Harness().joined(timeout_ms=60_000)
    for _ in range(400):
        for send in list(h.data_pending):
            h.answer(send, fetch_answer(error=code))
        h.advance(25)
    times = [at_ms for at_ms, _, _ in fetches(h)]
    gaps = [b - a for a, b in pairwise(times)]
    assert 10 <= len(times) <= 20
    assert min(gaps) >= 80
    expected = [] if code in (122, 123, 133, -1, 100, 15) else [type(error_for_code(code))]
    assert [type(e.error) for e in h.errors] == expected


@pytest.mark.behaviour("share sessions")
def test_other_nodes_go_on_when_one_has_no_session_to_give() -> None:
    """A broker without a free share session is asked again after a pause, while the others go on delivering."""
    h = Harness({tp(): 1, tp(1): 2}).joined(timeout_ms=60_000)
    h.answer(h.fetch(1), fetch_answer(error=133))
    h.answer(h.fetch(2), fetch_answer())
    h.fetch(2)
    h.advance(130)
    assert h.fetch(1).request.share_session_epoch == 0


@pytest.mark.behaviour("share sessions")
def test_the_error_of_the_group_is_raised_when_only_fetching_is_refused() -> None:
    """A fetch refused for missing rights on the group is raised by poll."""
    h = Harness().joined()
    h.answer(h.fetch(), fetch_answer(error=30))
    assert [type(e.error) for e in h.errors] == [GroupAuthorizationFailedError]


@pytest.mark.behaviour("fetching")
def test_reconnecting_backs_off_and_live_brokers_go_on_when_a_broker_is_down() -> None:
    """A broker that is down is tried again with growing pauses, while the others go on delivering."""
    h = Harness({tp(): 1, tp(1): 2}).joined(timeout_ms=60_000)
    for _ in range(200):
        for send in h.asked(ShareFetchRequest, 1):
            h.fail(send)
        h.advance(50)
    attempts = [at_ms for at_ms, node, _ in fetches(h) if node == 1]
    assert 10 <= len(attempts) <= 25
    h.answer(h.fetch(2), fetch_answer())
    h.fetch(2)
    assert not h.errors


@pytest.mark.behaviour("security")
def test_an_authentication_failure_is_raised_once_and_tried_again_with_back_off() -> None:
    """A refused login is raised once, and tried again with growing pauses."""
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    count = 0
    for _ in range(200):
        for send in list(h.pending):
            count += 1
            h.fail(send, AuthenticationError("wrong password"))
        h.advance(50)
    assert [(str(e.error), e.fatal) for e in h.errors] == [("wrong password", False)]
    assert 10 <= count <= 60


# ---- hostile answers


@pytest.mark.behaviour("share sessions")
def test_partitions_nobody_asked_for_are_ignored_when_a_broker_sends_them() -> None:
    """Topics and partitions of an answer that are not in the session are ignored."""
    h = Harness().joined()
    strange = tp()._replace(topic_id=UUID(int=99))
    h.answer(
        h.fetch(),
        fetch_answer(fetch_data(tp(5), (0, 9, 1)), fetch_data(strange, (0, 9, 1)), fetch_data(tp(-1), (0, 9, 1))),
    )
    assert not h.delivered
    assert not h.errors


@pytest.mark.behaviour("fetching")
def test_each_offset_is_delivered_once_when_a_partition_comes_twice_and_ranges_overlap() -> None:
    """A partition that is answered twice, with overlapping ranges, delivers each of its offsets once."""
    h = Harness().joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (5, 9, 2), (0, 5, 1)), fetch_data(tp(), (0, 20, 1))))
    assert h.delivered[0].partitions[0].acquired == (AcquiredRange(0, 4, 1), AcquiredRange(5, 9, 2))
    assert len(h.delivered[0].partitions) == 1


@pytest.mark.behaviour("fetching")
def test_impossible_ranges_are_left_out_with_an_error_when_a_broker_names_them() -> None:
    """Acquired ranges that cannot be are left out with an error; the possible ones are delivered."""
    h = Harness().joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 2**62, 1), (3, 4, 1))))
    assert h.delivered[0].partitions[0].acquired == (AcquiredRange(3, 4, 1),)
    assert [type(e.error) for e in h.errors] == [RemoteProtocolError]


@pytest.mark.behaviour("fetching")
def test_records_may_be_null_when_offsets_were_acquired() -> None:
    """An answer that acquired offsets may have null for its records."""
    h = Harness().joined()
    where, data = fetch_data(tp(), (0, 1, 1))
    data.records = None
    h.answer(h.fetch(), fetch_answer((where, data)))
    assert h.delivered[0].partitions[0].records == b""


# ---- parked batches


def parked(lock_ms: int = 30_000) -> Harness:
    """A batch arrived after its poll had ended."""
    h = Harness().joined()
    h.handle(PollEnded())
    h.delivering(last=4, lock_ms=lock_ms)
    return h


@pytest.mark.better_than_java("no-records-for-idle-applications")
def test_a_batch_is_taken_back_and_released_when_no_poll_came_within_half_the_lock() -> None:
    """Records that arrived after their poll had ended are released when no poll came within half their lock time."""
    h = parked()
    h.advance(14_999)
    assert not h.reclaims
    h.advance(1)
    assert h.reclaims == [h.delivered[0].batch_id]
    h.handle(BatchReclaimed(h.reclaims[0]))
    assert said_in(h.acknowledge().request) == {(T, 0): batches((0, 4, [2]))}
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert not h.outcomes
    h.advance(60_000)
    assert len(h.reclaims) == 1


def test_a_batch_is_not_taken_back_when_a_poll_came_in_time() -> None:
    h = parked()
    h.advance(14_000)
    h.start_poll(0, wants_records=False)
    h.advance(60_000)
    assert not h.reclaims


@pytest.mark.parametrize("lock_ms", [0, -5])
def test_the_usual_lock_time_counts_when_the_broker_names_none(lock_ms: int) -> None:
    h = parked(lock_ms)
    h.advance(14_999)
    assert not h.reclaims
    h.advance(1)
    assert h.reclaims


def test_reclaiming_an_unknown_batch_changes_nothing_when_it_is_reported() -> None:
    h = parked()
    h.handle(BatchReclaimed(999))
    assert not h.data_pending


@pytest.mark.behaviour("membership")
def test_the_sessions_stay_open_when_unsubscribed_and_records_can_still_be_acknowledged() -> None:
    """After unsubscribe the share sessions stay open, so that delivered records can still be acknowledged."""
    h = Harness().joined()
    h.delivering()
    h.handle(Unsubscribed(1, h.now_ms + 5_000))
    assert not h.data_pending
    h.commit(2, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
    assert [(o.runs, o.error) for o in h.outcomes] == [(runs((0, 9, 1)), None)]


@pytest.mark.behaviour("membership")
def test_records_can_still_be_acknowledged_when_the_member_left_for_staleness() -> None:
    """A member that left because no poll came can still acknowledge what it holds: its share session is open."""
    h = Harness(max_poll_interval_ms=2_000).joined()
    h.delivering()
    h.advance(3_000)
    h.start_poll(5_000, h.said((0, 9, 1)))
    assert said_in(h.acknowledge().request) == {(T, 0): batches((0, 9, [1]))}


@pytest.mark.behaviour("fetching")
def test_the_wait_of_a_limited_round_is_shared_by_its_nodes_when_several_are_asked_in_turn() -> None:
    """With record_limit idle brokers cannot hold a poll up: they share one fetch_max_wait_ms between them."""
    h = Harness({tp(): 1, tp(1): 2}, share_acquire_mode="record_limit").joined()
    assert h.fetch(1).request.max_wait_ms == 250
