"""Whole conversations, as brokers see them from Java's client, where ours is to be the same."""

from __future__ import annotations

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

from kafka_share.core.events import (
    BatchReclaimed,
    Channel,
    CloseRequested,
    PollEnded,
    PollStarted,
    Send,
    SubscriptionChanged,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest


def line(send: Send) -> tuple[object, ...]:
    request = send.request
    if isinstance(request, MetadataRequest):
        return "Metadata", [topic.name for topic in request.topics or []], request.allow_auto_topic_creation
    if isinstance(request, FindCoordinatorRequest):
        return "FindCoordinator", request.key_type, request.coordinator_keys
    if isinstance(request, ShareGroupHeartbeatRequest):
        return "Heartbeat", request.member_epoch, request.subscribed_topic_names
    name = "Fetch" if isinstance(request, ShareFetchRequest) else "Acknowledge"
    return name, request.share_session_epoch, said_in(request)


def conversation(h: Harness) -> list[tuple[object, ...]]:
    return [line(send) for _, send in h.sent]


def test_the_reference_sequence_is_followed_when_one_topic_is_consumed() -> None:
    h = Harness()
    h.subscribe()
    h.start_poll(3_000)
    assert sorted(conversation(h)[:2], key=str) == [("FindCoordinator", 0, ["g"]), ("Metadata", ["t"], False)]
    h.answer(h.beat(), heartbeat_answer(2, []))
    h.advance(50)
    h.answer(h.beat(), heartbeat_answer(3, [tp()]))
    h.answer(h.beat(), heartbeat_answer(3))
    h.heartbeat = lambda request: heartbeat_answer(max(0, request.member_epoch))
    h.delivering()
    h.start_poll(500, h.said((0, 9, 1)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp())))
    h.advance(500)
    h.answer(h.fetch(), fetch_answer())
    h.handle(CloseRequested((), h.now_ms + 30_000))
    h.answer(h.acknowledge(), acknowledge_answer())
    assert h.is_finished
    assert conversation(h)[2:] == [
        ("Heartbeat", 0, ["t"]),
        ("Heartbeat", 2, None),
        ("Heartbeat", 3, None),
        ("Fetch", 0, {(T, 0): []}),
        ("Fetch", 1, {(T, 0): batches((0, 9, [1]))}),
        ("Fetch", 2, {}),
        ("Acknowledge", -1, {}),
        ("Heartbeat", -1, []),
    ]


def test_heartbeats_and_records_travel_on_two_connections_when_one_broker_has_both() -> None:
    h = Harness().joined()
    channels = {type(s.request).__name__: s.channel for _, s in h.sent}
    assert channels.pop("ShareFetchRequest") is Channel.DATA
    assert set(channels.values()) == {Channel.CONTROL}


def test_the_connection_to_the_bootstrap_address_is_closed_when_the_brokers_are_known() -> None:
    h = Harness().joined()
    assert {s.node.id for _, s in h.sent[:2]} == {-1}
    assert h.disconnects == [-1]
    assert all(s.node.id == 1 for _, s in h.sent[2:])


@pytest.mark.behaviour("polling")
def test_each_poll_sends_one_fetch_with_the_acknowledgements_of_the_one_before_when_records_are_few() -> None:
    """Each poll sends one fetch, which carries the acknowledgements of the poll before."""
    h = Harness(max_poll_records=5).joined()
    for n in range(4):
        first = n * 5
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (first, first + 4, 1))))
        h.start_poll(5_000, h.said((first, first + 4, 1)))
        expected = {(T, 0): batches((first, first + 4, [1]))}
        assert conversation(h)[-1] == ("Fetch", n + 1, expected)
        assert (h.fetch().request.max_records, h.fetch().request.batch_size) == (5, 5)


@pytest.mark.behaviour("share sessions")
def test_epoch_one_follows_the_largest_when_a_session_lives_long() -> None:
    """The epoch of a share session counts up with each request, and after 2147483647 comes 1."""
    h = Harness().joined(timeout_ms=60_000)
    h.answer(h.fetch(), fetch_answer())
    session = h.core._fetching._exchanges[1].session
    session.epoch = 2**31 - 2
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.share_session_epoch == 2**31 - 1
    h.answer(h.fetch(), fetch_answer())
    assert h.fetch().request.share_session_epoch == 1


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("code", [122, 123])
def test_a_new_session_begins_with_all_partitions_and_nothing_said_when_the_broker_lost_the_old(code: int) -> None:
    """The broker lost the session: acknowledgements end with its error, and a new one names all partitions."""
    h = Harness({tp(): 1, tp(1): 1}).joined(timeout_ms=60_000)
    h.delivering()
    h.start_poll(60_000, h.said((0, 4, 1)))
    h.answer(h.fetch(), fetch_answer(error=code))
    assert [o.error.code for o in h.outcomes] == [code]  # type: ignore[union-attr]
    h.commit(9, h.said((5, 9, 1)))
    assert h.outcomes[1].error is not None
    h.advance(130)
    assert conversation(h)[-1] == ("Fetch", 0, {(T, 0): [], (T, 1): []})
    assert forgotten_in(h.fetch().request) == []
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 2))))
    h.start_poll(5_000, h.said((0, 9, 1)))
    assert conversation(h)[-1] == ("Fetch", 1, {(T, 0): batches((0, 9, [1]))})


@pytest.mark.behaviour("share sessions")
def test_a_new_session_begins_when_an_acknowledge_finds_none() -> None:
    """An acknowledgement that finds no session makes the next fetch begin a new one."""
    h = Harness().joined()
    h.delivering()
    h.commit(1, h.said((0, 9, 1)))
    h.answer(h.acknowledge(), acknowledge_answer(error=122))
    h.advance(130)
    h.start_poll()
    assert conversation(h)[-1] == ("Fetch", 0, {(T, 0): []})


@pytest.mark.behaviour("share sessions")
def test_the_epoch_advances_when_the_answer_has_another_error() -> None:
    """After any other error of a whole answer the epoch goes on; a broker that had not advanced begins anew."""
    h = Harness().joined(timeout_ms=60_000)
    h.answer(h.fetch(), fetch_answer())
    h.answer(h.fetch(), fetch_answer(error=-1))
    h.advance(130)
    assert conversation(h)[-1] == ("Fetch", 2, {})
    h.answer(h.fetch(), fetch_answer(error=123))  # the broker had not advanced
    h.advance(300)
    assert conversation(h)[-1] == ("Fetch", 0, {(T, 0): []})


@pytest.mark.behaviour("topic changes")
def test_a_new_partition_is_added_as_a_difference_when_the_assignment_grows() -> None:
    """A partition that is newly assigned is named once, in the next fetch of the session."""
    h = Harness({tp(): 1, tp(1): 1}).joined(tp(), timeout_ms=60_000)
    h.answer(h.fetch(), fetch_answer())
    h.heartbeat = lambda request: heartbeat_answer(2, [tp(), tp(1)])
    h.advance(1_000)
    h.answer(h.fetch(), fetch_answer())
    assert conversation(h)[-1] == ("Fetch", 2, {(T, 1): []})


@pytest.mark.behaviour("polling")
def test_an_illegal_name_is_raised_once_and_the_other_topics_are_consumed() -> None:
    """An illegal topic name is raised once, and the other topics are consumed."""
    h = Harness({tp(): 1})
    h.topic_errors["topic abc"] = 17
    h.heartbeat = lambda request: heartbeat_answer(1, [tp()])
    h.subscribe("t", "topic abc")
    h.start_poll(60_000)
    assert [str(e.error) for e in h.errors] == ["INVALID_TOPIC_EXCEPTION: Invalid topics: [topic abc]"]
    h.fetch()
    h.leaders[tp()] = -1
    h.leader_epochs[tp()] = 5
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=3)))
    h.advance(10_000)
    assert len(h.errors) == 1
    assert not h.errors[0].fatal


@pytest.mark.behaviour("polling")
def test_nothing_is_raised_when_a_topic_does_not_exist_and_it_is_consumed_once_created() -> None:
    """A subscribed topic that does not exist raises nothing, and is fetched when it has been created."""
    h = Harness({}, allow_auto_create_topics=False)
    h.heartbeat = lambda request: heartbeat_answer(1, [])
    h.subscribe()
    h.start_poll(60_000)
    h.advance(20_000)
    assert not h.errors
    assert conversation(h)[1] == ("Metadata", ["t"], False)
    assert len(h.sent_of(MetadataRequest)) < 5
    h.leaders = {tp(): 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [tp()])
    h.advance(1_100)
    h.fetch()


def test_the_metadata_is_asked_again_when_it_has_grown_old() -> None:
    h = Harness(metadata_max_age_ms=60_000).joined(timeout_ms=500_000)
    h.advance(59_999)
    assert len(h.sent_of(MetadataRequest)) == 1
    h.advance(1)
    assert len(h.sent_of(MetadataRequest)) == 2
    h.advance(60_000)
    assert len(h.sent_of(MetadataRequest)) == 3


def test_metadata_requests_back_off_when_no_bootstrap_server_answers() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    count = 0
    for _ in range(200):
        for send in list(h.pending):
            count += 1
            h.fail(send)
        h.advance(50)
    assert 10 <= count <= 60
    assert not h.errors


def test_the_bootstrap_servers_are_asked_again_when_the_brokers_say_so() -> None:
    h = Harness(metadata_max_age_ms=10_000).joined()
    h.serves_metadata = False
    h.advance(10_000)
    asked = h.only(MetadataRequest)
    assert asked.node.id == 1
    answer = h.metadata_answer(asked.request)
    answer.error_code = 129
    answer.brokers = []
    h.answer(asked, answer)
    h.advance(150)
    assert h.only(MetadataRequest).node.id == -1


@pytest.mark.behaviour("share sessions")
def test_a_lagging_broker_does_not_move_a_leader_back_when_it_answers() -> None:
    """Metadata that is older than what a broker named as the new leader does not move the fetches back."""
    h = Harness({tp(): 1, tp(1): 2}, metadata_max_age_ms=5_000).joined(tp(), timeout_ms=60_000)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), error=6, leader=(2, 7))))
    assert h.fetch().node.id == 2
    h.advance(5_200)  # the metadata still says node 1, epoch 1
    h.answer(h.fetch(2), fetch_answer())
    assert h.fetch(2).request.max_records == 500
    assert h.fetch(1).request.max_records == 0  # only to forget


def test_unusable_addresses_are_ignored_when_a_broker_names_them() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    asked = h.only(MetadataRequest)
    answer = h.metadata_answer(asked.request)
    for broker, (node_id, host, port) in zip(answer.brokers, [(-4, "x", 1)], strict=True):
        broker.node_id, broker.host, broker.port = node_id, host, port
    h.answer(asked, answer)
    found = h.only(FindCoordinatorRequest)
    wrong = h.coordinator_answer()
    wrong.coordinators[0].port = 99_999
    h.answer(found, wrong)
    h.advance(300)
    assert h.only(FindCoordinatorRequest).node.id == -1


def test_the_connection_is_closed_when_a_broker_has_another_address() -> None:
    h = Harness({tp(): 1, tp(1): 2}, metadata_max_age_ms=1_000).joined(timeout_ms=60_000)
    h.disconnects.clear()
    h.nodes[2] = h.nodes[2]._replace(host="elsewhere")
    h.advance(1_000)
    assert h.disconnects == [2]
    h.fail(h.fetch(2))
    h.advance(100)
    assert h.fetch(2).node.host == "elsewhere"


@pytest.mark.behaviour("broker failures")
def test_acknowledgements_end_and_nothing_hangs_when_their_broker_leaves_the_cluster() -> None:
    """A broker leaves the cluster: acknowledgements meant for it end with an error, and close does not wait for it."""
    h = Harness({tp(): 1, tp(1): 2}, metadata_max_age_ms=1_000).joined()
    h.answer(h.fetch(2), fetch_answer(fetch_data(tp(1), (0, 9, 1))))
    del h.nodes[2]
    del h.leaders[tp(1)]
    h.advance(1_100)
    h.commit(1, h.said((0, 9, 1), where=tp(1)))
    assert len(h.commits) == 1
    assert h.outcomes[0].error is not None
    h.answer(h.fetch(1), fetch_answer())
    h.handle(CloseRequested((), h.now_ms + 30_000))
    assert [s.node.id for s in h.data_pending] == [1]


def test_the_names_are_resolved_again_when_the_subscription_changes_under_way() -> None:
    h = Harness({tp(): 1, tp(0, "u"): 1})
    h.serves_metadata = False
    h.subscribe("t")
    h.start_poll(60_000)
    asked = h.only(MetadataRequest)
    h.subscribe("u")
    h.start_poll(60_000)
    h.answer(asked, h.metadata_answer(asked.request))
    assert [topic.name for topic in h.only(MetadataRequest).request.topics or []] == ["u"]
    h.serves_metadata = True
    h.handle()
    h.answer(h.beat(), heartbeat_answer(1, [tp(0, "u")]))
    assert [topic.topic_id for topic in h.fetch().request.topics] == [U]


def test_a_reclaimed_batch_is_left_to_the_end_of_the_session_when_closing() -> None:
    h = Harness().joined()
    h.handle(PollEnded())
    h.delivering(lock_ms=1_000)
    h.advance(500)
    h.handle(CloseRequested((), h.now_ms + 30_000))
    h.handle(BatchReclaimed(h.reclaims[0]))
    h.answer(h.acknowledge(), acknowledge_answer())
    assert h.is_finished
    assert not h.outcomes


def test_a_command_after_close_is_the_drivers_mistake() -> None:
    h = Harness().joined()
    h.handle(CloseRequested((), h.now_ms + 30_000))
    with pytest.raises(AssertionError):
        h.start_poll()


def test_nobody_is_told_of_an_invalid_topic_when_it_has_been_left_meanwhile() -> None:
    h = Harness()
    h.topic_errors["topic abc"] = 17
    h.serves_metadata = False
    h.handle(SubscriptionChanged(frozenset({"topic abc"})), PollStarted(h.now_ms + 1_000))
    late = h.only(MetadataRequest)
    h.handle(SubscriptionChanged(frozenset({"t"})), PollStarted(h.now_ms + 1_000))
    h.answer(late, h.metadata_answer(late.request))
    assert h.errors == []
