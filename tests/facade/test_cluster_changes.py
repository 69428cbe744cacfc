"""Topics that end and come back, leaders that move, brokers without a free session: what users see of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from facade.delivery_checks import counted, only_result, outcomes_of, produce_values
from support.consumers import QUICK, Consumer, MakeConsumer
from support.waiting import poll_until, poll_while, wait_until

from kafka_share import TopicPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, UnknownTopicIdError, UnknownTopicOrPartitionError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

SHARE_FETCH = ShareFetchRequest.API_KEY


on_each_version = pytest.mark.parametrize("broker", ["4.1", "4.3", "4.4"], indirect=True)
"""Of those that deal with deleted topics each in its own way."""


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[ReferenceBroker]:
    with ReferenceBroker(config=QUICK, kafka_version=getattr(request, "param", "4.3")) as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(nodes=3, config=QUICK) as running:
        running.set_group_config("g", share_auto_offset_reset="earliest")
        yield running


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers that make no topics by themselves."""
    return partial(make_consumer, fetch_max_wait_ms=50, allow_auto_create_topics=False)


def assigned(broker: ReferenceBroker) -> list[TopicPartition]:
    """What the members of the group have."""
    group = broker.share_group("g")
    return [] if group is None else [p for member in group.members.values() for p in member.assigned]


def heartbeats(broker: ReferenceBroker) -> int:
    return len(broker.requests(ShareGroupHeartbeatRequest.API_KEY))


def polled_values(consumer: Consumer, count: int) -> list[Any]:
    return sorted(record.value for record in poll_until(consumer, count))


# ---- topics


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("held", [False, True], ids=["nothing held", "records held"])
@on_each_version
def test_only_new_records_come_when_a_topic_was_deleted_and_made_again(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, held: bool
) -> None:
    """A topic is deleted and made again: its new records come, from offset 0 and with delivery count 1.

    Acknowledgements of the old topic's records fail, and touch nothing of the new one.
    """
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3)
    if not held:
        consumer.commit_sync()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    seen = heartbeats(broker)
    wait_until(lambda: heartbeats(broker) > seen + 3)  # the member knows its new partition
    for value in (b"new 0", b"new 1"):
        broker.produce(topic, value)
    found = poll_until(consumer, 2)
    assert [(record.value, record.offset, record.delivery_count) for record in found] == [
        (b"new 0", 0, 1),
        (b"new 1", 1, 1),
    ]
    assert only_result(consumer.commit_sync()) is None
    if held:
        assert [kind for _, kind in outcomes.failed] == [UnknownTopicIdError] * 3
        assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    else:
        assert outcomes.failed == []


@pytest.mark.behaviour("share sessions")
@on_each_version
def test_other_topics_keep_their_results_when_one_of_those_acknowledged_was_deleted(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Records of two topics are acknowledged by one poll, and one topic is gone: those of the other are accepted."""
    for topic in ("gone", "kept"):
        broker.create_topic(topic)
        produce_values(broker, topic, 1)
    consumer = make_consumer("gone", "kept")
    poll_until(consumer, 2)
    consumer.commit_sync()
    outcomes = outcomes_of(consumer)
    for topic in ("gone", "kept"):
        produce_values(broker, topic, 1)
    assert {record.topic for record in poll_until(consumer, 1)} == {"gone", "kept"}, "one answer has both"
    broker.delete_topic("gone")
    seen = heartbeats(broker)
    wait_until(lambda: heartbeats(broker) > seen + 3)  # the member knows that the topic is gone
    poll_while(consumer, lambda: len(outcomes.calls) < 2)
    assert [topic for topic, _, _ in outcomes.succeeded] == ["kept"]
    assert [type(error) for error in outcomes.errors] in ([UnknownTopicIdError], [UnknownTopicOrPartitionError])


@pytest.mark.behaviour("topic changes")
@on_each_version
def test_polls_are_empty_and_records_come_again_when_a_deleted_topic_is_made_again_later(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """While the only topic is gone polls are empty and quiet; when it has been made again, its records come."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic, metadata_max_age_ms=200)
    poll_until(consumer, 1)
    consumer.commit_sync()
    broker.delete_topic(topic)
    poll_while(consumer, lambda: bool(assigned(broker)))
    for _ in range(3):
        assert not consumer.poll(timeout_ms=100)
    broker.create_topic(topic)
    produce_values(broker, topic, 2)
    assert counted(poll_until(consumer, 2)) == [(0, 1), (1, 1)]


@pytest.mark.behaviour("topic changes")
@on_each_version
def test_close_ends_when_the_topic_is_made_again_at_that_moment(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The topic of acquired records is deleted and created again before close: close ends and reports their outcome."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.delete_topic(topic)
    broker.create_topic(topic)
    consumer.poll(timeout_ms=0)
    consumer.close()
    assert [offset for offset, _ in outcomes.failed] == [0, 1]
    assert broker.share_session_count() == 0
    group = broker.share_group("g")
    assert group is not None
    assert group.state == "Empty"


# ---- leaders


@pytest.mark.behaviour("broker failures")
def test_each_broker_is_asked_for_its_own_partitions_only_when_each_leads_one(
    cluster: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Three partitions on three brokers: each is asked for the one that it leads, and all records come."""
    cluster.create_topic("t", partitions=3)
    produce_values(cluster, "t", 10, partitions=range(3))
    with make_consumer("t", bootstrap_servers=cluster.bootstrap_servers, reset=None) as consumer:
        found = poll_until(consumer, 30)
    assert sorted((r.partition, r.offset) for r in found) == [(p, o) for p in range(3) for o in range(10)]
    asked = {
        (context.node_id, partition.partition_index)
        for context, request in cluster.requests(SHARE_FETCH)
        for topic in request.topics
        for partition in topic.partitions
    }
    assert asked == {(cluster.leader("t", partition), partition) for partition in range(3)}


@pytest.mark.behaviour("share sessions")
def test_records_come_with_few_requests_and_no_error_when_the_leader_moves_between_polls(
    cluster: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The leader moves several times: nothing is raised, no record is lost, and there is no storm of requests."""
    cluster.create_topic("t")
    with make_consumer("t", bootstrap_servers=cluster.bootstrap_servers, reset=None) as consumer:
        for round_number in range(6):
            value = b"round %d" % round_number
            cluster.produce("t", value)
            assert polled_values(consumer, 1) == [value]
            assert only_result(consumer.commit_sync()) is None
            cluster.clear_requests()
            cluster.move_leader("t", 0, cluster.leader("t") % 3 + 1)
            cluster.produce("t", b"moved")
            assert polled_values(consumer, 1) == [b"moved"]
            assert only_result(consumer.commit_sync()) is None
            assert len(cluster.requests(SHARE_FETCH)) <= 8
            assert len(cluster.requests(MetadataRequest.API_KEY)) <= 4


@pytest.mark.behaviour("broker failures")
def test_every_record_arrives_when_all_leaders_of_several_topics_rotate(
    cluster: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Two topics of seven partitions on three brokers, and every leader moves on: all later records arrive."""
    where = [("a", partition) for partition in range(4)] + [("b", partition) for partition in range(3)]
    cluster.create_topic("a", partitions=4)
    cluster.create_topic("b", partitions=3)
    with make_consumer("a", "b", bootstrap_servers=cluster.bootstrap_servers, reset=None) as consumer:
        for round_number in range(3):
            for topic, partition in where:
                for _ in range(3):
                    cluster.produce(topic, b"%d" % round_number, partition=partition)
            expected = {(topic, partition, round_number * 3 + n) for topic, partition in where for n in range(3)}
            seen: set[tuple[str, int, int]] = set()
            while not seen >= expected:
                seen |= {(r.topic, r.partition, r.offset) for r in poll_until(consumer, 1)}
            consumer.commit_sync()
            for topic, partition in where:
                cluster.move_leader(topic, partition, cluster.leader(topic, partition) % 3 + 1)


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("by_poll", [True, False], ids=["acknowledged by poll", "acknowledged by commit"])
def test_the_callback_is_told_once_and_nothing_hangs_when_the_leader_moves_under_held_records(
    cluster: ReferenceBroker, make_consumer: MakeConsumer, by_poll: bool
) -> None:
    """Records of the old leader are acknowledged after the move: one outcome each, and they come from the new one."""
    cluster.create_topic("t")
    produce_values(cluster, "t", 3)
    with make_consumer("t", bootstrap_servers=cluster.bootstrap_servers, reset=None) as consumer:
        outcomes = outcomes_of(consumer)
        poll_until(consumer, 3)
        cluster.move_leader("t", 0, cluster.leader("t") % 3 + 1)
        again = poll_until(consumer, 3) if by_poll else []
        if not by_poll:
            assert only_result(consumer.commit_sync()) is not None
            again = poll_until(consumer, 3)
        assert [offset for offset, _ in outcomes.failed] == [0, 1, 2]
        assert counted(again) == [(0, 1), (1, 1), (2, 1)], "acquisitions are not stored, so they count anew"
        assert only_result(consumer.commit_sync()) is None
        assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]


# ---- sessions


@pytest.mark.behaviour("share sessions")
def test_other_brokers_deliver_and_the_full_one_later_when_it_has_no_free_session(make_consumer: MakeConsumer) -> None:
    """A broker without a free share session: nothing is raised, others deliver, and it does when a session ends."""
    limited = {**QUICK, "group.share.max.share.sessions": "1"}
    with ReferenceBroker(nodes=2, config=limited) as cluster:
        for group in ("g", "first"):
            cluster.set_group_config(group, share_auto_offset_reset="earliest")
        cluster.create_topic("t", partitions=2)
        cluster.create_topic("only")
        full = cluster.leader("only")
        on = partial(make_consumer, bootstrap_servers=cluster.bootstrap_servers, reset=None)
        with on("t") as second:
            with on("only", group_id="first") as first:
                cluster.produce("only", b"v")
                poll_until(first, 1)
                for partition in range(2):
                    cluster.produce("t", b"%d" % cluster.leader("t", partition), partition=partition)
                assert polled_values(second, 1) == [b"%d" % (3 - full)]
                cluster.clear_requests()
                for _ in range(5):
                    assert not second.poll(timeout_ms=100)
                tried = [context for context, _ in cluster.requests(SHARE_FETCH) if context.node_id == full]
                assert len(tried) <= 8, "asked in a hot loop"
            assert polled_values(second, 1) == [b"%d" % full]


# ---- coordinators


def test_a_member_finds_its_group_when_another_node_coordinates_it(
    cluster: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    cluster.create_topic("t")
    consumer = make_consumer("t", bootstrap_servers=cluster.bootstrap_servers, reset=None)
    cluster.produce("t", b"1")
    assert polled_values(consumer, 1) == [b"1"]
    old = cluster.coordinator("g")
    new = old % 3 + 1
    cluster.move_coordinator("g", new)
    cluster.clear_requests()

    def found() -> bool | None:
        assert not consumer.poll(timeout_ms=50)
        return any(context.node_id == new for context, _ in cluster.requests("ShareGroupHeartbeat")) or None

    wait_until(found)
    group = cluster.share_group("g")
    assert group is not None
    assert len(group.members) == 1
    cluster.produce("t", b"2")
    assert polled_values(consumer, 1) == [b"2"]
    cluster.stop_node(new)
    assert cluster.coordinator("g") != new
    with pytest.raises(IllegalStateError):
        cluster.move_coordinator("g", new)
