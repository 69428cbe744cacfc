"""Membership as users see it: coordinators that move or refuse, missing rights, stalled applications, many members."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from facade.delivery_checks import only_result, outcomes_of, produce_values
from support.consumers import QUICK, Consumer, MakeConsumer
from support.waiting import offsets, poll_until, poll_until_raises, poll_while, wait_until
from support.wire_connection import WireConnection

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    BrokerError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    IllegalStateError,
    TopicAuthorizationFailedError,
    error_for_code,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.groups import DeleteGroupsRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

HEARTBEAT = ShareGroupHeartbeatRequest.API_KEY
FIND_COORDINATOR = FindCoordinatorRequest.API_KEY
SHARE_FETCH = ShareFetchRequest.API_KEY
SESSION_TIMEOUT_MS = 45_000
LONG_MS = 60_000
ALWAYS = 1_000_000


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(config=QUICK) as running:
        yield running


def members(broker: ReferenceBroker, group: str = "g") -> int:
    found = broker.share_group(group)
    return 0 if found is None else len(found.members)


def heartbeats(broker: ReferenceBroker) -> list[int]:
    """The member epochs of all heartbeats so far."""
    return [request.member_epoch for _, request in broker.requests(HEARTBEAT)]


def assert_delivers(broker: ReferenceBroker, consumer: Consumer, value: bytes = b"more") -> None:
    """A record that is written now arrives."""
    broker.produce("t", value)
    assert value in [record.value for record in poll_until(consumer, 1)]


# ---- the coordinator


@pytest.mark.behaviour("membership")
def test_the_member_goes_on_with_its_epoch_when_its_coordinator_stops(make_consumer: MakeConsumer) -> None:
    """The coordinator's node stops: the member finds the new one, keeps its epoch, and nothing is raised."""
    with ReferenceBroker(nodes=3, config=QUICK) as cluster:
        cluster.set_group_config("g", share_auto_offset_reset="earliest")
        old = cluster.coordinator("g")
        cluster.create_topic("t", partitions=3)
        [kept] = [p for p in range(3) if cluster.leader("t", p) == old % 3 + 1]
        with make_consumer("t", bootstrap_servers=cluster.bootstrap_servers, reset=None) as consumer:
            cluster.produce("t", b"before", partition=kept)
            poll_until(consumer, 1)
            cluster.clear_requests()
            cluster.stop_node(old)
            poll_while(consumer, lambda: not (cluster.requests(FIND_COORDINATOR) and heartbeats(cluster)))
            cluster.produce("t", b"after", partition=kept)
            assert [record.value for record in poll_until(consumer, 1)] == [b"after"]
            assert 0 not in heartbeats(cluster), "it had to join again"
            assert 1 <= len(cluster.requests(FIND_COORDINATOR)) <= 5
            assert members(cluster) == 1


@pytest.mark.behaviour("membership")
def test_the_member_survives_when_its_coordinator_is_loading(broker: ReferenceBroker, consumer: Consumer) -> None:
    """A coordinator that is loading for a while is asked again until it has loaded; records go on meanwhile."""
    assert_delivers(broker, consumer)
    broker.clear_requests()
    broker.faults.fail(HEARTBEAT, 14, times=4)
    assert_delivers(broker, consumer)
    poll_while(consumer, lambda: broker.faults.pending() > 0 or len(heartbeats(broker)) < 6)
    assert 0 not in heartbeats(broker)
    assert not broker.requests(FIND_COORDINATOR)
    assert members(broker) == 1


# ---- refusals


@pytest.mark.behaviour("membership")
def test_the_consumer_recovers_when_rights_on_its_topic_are_given(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Missing rights on a topic are raised until they are given; then records come without a restart."""
    poll_while(consumer, lambda: members(broker) < 1)
    broker.faults.fail(HEARTBEAT, TopicAuthorizationFailedError.code, times=ALWAYS)
    for _ in range(3):
        poll_until_raises(consumer, TopicAuthorizationFailedError)
    assert isinstance(consumer.health().error, TopicAuthorizationFailedError)
    assert not consumer.health().is_fatal
    broker.faults.clear()
    wait_until(lambda: consumer.health().error is None)
    assert_delivers(broker, consumer)


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("code", [30, 81, 42, 35, 69])
@pytest.mark.better_than_java("what-lasts-is-raised-again")
def test_every_poll_raises_when_the_group_refuses_the_member(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, code: int
) -> None:
    """A refusal is raised by every poll, though there are records, and close is clean."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    broker.faults.fail(HEARTBEAT, code)
    expected = error_for_code(code)
    assert expected is not None
    for _ in range(3):
        poll_until_raises(consumer, type(expected))
    for timeout_ms in (0, 100):
        with pytest.raises(type(expected)):
            consumer.poll(timeout_ms=timeout_ms)
    health = consumer.health()
    assert (type(health.error), health.is_fatal, health.is_joined) == (type(expected), True, False)
    consumer.close()
    assert heartbeats(broker) == [0]
    assert not broker.requests(SHARE_FETCH)


@pytest.mark.behaviour("membership")
def test_a_newcomer_is_refused_and_the_members_go_on_when_the_group_is_full(make_consumer: MakeConsumer) -> None:
    """A full group: the newcomer's poll raises, and the member that is there goes on."""
    with ReferenceBroker(config={**QUICK, "group.share.max.size": "1"}) as full:
        full.set_group_config("g", share_auto_offset_reset="earliest")  # its first fetch may come after the record
        full.create_topic("t")
        with (
            make_consumer("t", bootstrap_servers=full.bootstrap_servers, reset=None) as first,
            make_consumer("t", bootstrap_servers=full.bootstrap_servers, reset=None) as late,
        ):
            poll_while(first, lambda: members(full) < 1)
            poll_until_raises(late, GroupMaxSizeReachedError)
            assert_delivers(full, first)


@pytest.mark.behaviour("membership")
def test_poll_says_so_when_the_group_id_belongs_to_a_group_of_another_type(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The id of an ordinary consumer group is no share group: every poll raises it."""
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka makes the ordinary group")
    broker.create_topic("t")
    ordinary = kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "ordinary"})
    ordinary.subscribe(["t"])
    wait_until(lambda: bool(ordinary.poll(0.05) or ordinary.assignment()))
    consumer = make_consumer("t", group_id="ordinary", reset=None)
    error = poll_until_raises(consumer, BrokerError)
    ordinary.close()
    assert isinstance(error, GroupIdNotFoundError)
    with pytest.raises(GroupIdNotFoundError):
        consumer.poll(timeout_ms=100)


@pytest.mark.better_than_java("deleted-group-is-joined-again")
@pytest.mark.behaviour("membership")
def test_the_group_is_made_anew_when_it_was_deleted_while_its_member_was_silent(make_consumer: MakeConsumer) -> None:
    """A member that was silent for its session finds its group deleted: it joins again, and records come."""
    slow = dict.fromkeys(QUICK, 1_000)
    with ReferenceBroker(config=slow) as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        with make_consumer("t", bootstrap_servers=broker.bootstrap_servers, reset=None) as consumer:
            assert_delivers(broker, consumer)
            consumer.commit_sync()
            seen = len(heartbeats(broker))
            poll_while(consumer, lambda: len(heartbeats(broker)) == seen)
            broker.advance(SESSION_TIMEOUT_MS)
            with WireConnection(broker.bootstrap_servers) as admin:
                assert admin.call(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 0
            broker.clear_requests()
            poll_while(consumer, lambda: 0 not in heartbeats(broker))
            poll_while(consumer, lambda: members(broker) < 1)
            assert_delivers(broker, consumer, b"of the new group")


# ---- applications that stall


@pytest.mark.behaviour("membership")
def test_records_can_be_acknowledged_and_the_next_poll_joins_again_when_the_application_stalled(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """No poll for max_poll_interval_ms: the member leaves, what it holds stays valid, and polls go on afterwards."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, max_poll_interval_ms=200, share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    first, second = poll_until(consumer, 2)
    wait_until(lambda: members(broker) == 0)
    assert broker.requests(HEARTBEAT)[-1][1].subscribed_topic_names is None
    consumer.acknowledge(first)
    assert only_result(consumer.commit_sync()) is None
    with pytest.raises(IllegalStateError):
        consumer.poll(timeout_ms=100)
    consumer.acknowledge(second)
    broker.produce(topic, b"later")
    [later] = poll_until(consumer, 1, consumer.acknowledge)
    assert later.value == b"later"
    epochs = heartbeats(broker)
    assert 0 in epochs[epochs.index(-1) :], "it has not joined again"
    assert outcomes.succeeded[:2] == [(topic, 0, 0), (topic, 0, 1)]


@pytest.mark.better_than_java("long-poll")
@pytest.mark.behaviour("membership")
def test_the_member_stays_when_one_poll_waits_for_longer_than_the_interval(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """One poll that waits for longer than max_poll_interval_ms is no stall: the member does not leave."""
    consumer = make_consumer(topic, max_poll_interval_ms=100)
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(consumer.poll, timeout_ms=LONG_MS)
        wait_until(lambda: len(heartbeats(broker)) >= 10)  # one in 100 ms
        assert -1 not in heartbeats(broker)
        assert members(broker) == 1
        broker.produce(topic, b"v")
        assert [record.value for record in polling.result()] == [b"v"]


@pytest.mark.behaviour("membership")
def test_only_the_stalled_member_leaves_when_two_share_a_topic(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """One of two members stalls: it alone leaves, and the other gets everything that is written then."""
    broker.create_topic("t", partitions=2)
    stalled = make_consumer("t", max_poll_interval_ms=300)
    busy = make_consumer("t")
    poll_while(stalled, lambda: members(broker) < 1)
    poll_while(busy, lambda: members(broker) != 1 or len(assigned(broker)) != 1 or len(assigned(broker)[0]) != 2)
    produce_values(broker, "t", 2, partitions=range(2))
    assert sorted((r.partition, r.offset) for r in poll_until(busy, 4)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def assigned(broker: ReferenceBroker) -> list[tuple[int, ...]]:
    """The partitions of each member of the group."""
    found = broker.share_group("g")
    members = [] if found is None else list(found.members.values())
    return [tuple(partition.partition for partition in member.assigned) for member in members]


@pytest.mark.behaviour("membership")
def test_the_member_stays_when_the_application_works_for_many_session_timeouts(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """Heartbeats go on by themselves while records are worked on: the member is never taken for dead."""
    assert_delivers(broker, consumer)
    for _ in range(4):
        broker.clear_requests()
        broker.advance(SESSION_TIMEOUT_MS - 10_000)
        wait_until(lambda: len(heartbeats(broker)) > 1)
        assert min(heartbeats(broker)) > 0, "it left, or joined again"
    assert members(broker) == 1


# ---- subscriptions


@pytest.mark.behaviour("membership")
def test_the_old_batch_is_accepted_when_the_consumer_subscribes_again(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Implicit mode: what was delivered before unsubscribe is accepted by the first poll after subscribing again."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    consumer.unsubscribe()
    assert members(broker) == 0
    consumer.subscribe([topic])
    poll_while(consumer, lambda: not outcomes.calls)
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    assert outcomes.failed == []
    assert [r.share_session_epoch for _, r in broker.requests(SHARE_FETCH)].count(0) == 1, "one session for all"


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize(
    "group",
    ["a:b:c", "team/orders", "two words", "grüße-日本-🎈", "%2F?&=#", "x" * 249, "long" * 500, '{"json": [1]}'],
    ids=lambda group: group[:16],
)
def test_a_group_works_end_to_end_when_its_id_has_odd_characters(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, group: str
) -> None:
    """Any text that is not blank can name a group: records are delivered, accepted, and not delivered again."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, group_id=group)
    poll_until(consumer, 2)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    broker.produce(topic, b"new")
    assert offsets(poll_until(make_consumer(topic, group_id=group), 1)) == [2]


# ---- many members


@pytest.mark.behaviour("membership")
def test_each_member_gets_a_partition_and_each_record_goes_to_one_when_members_are_more_than_partitions(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Three members of two partitions: each has one at least, and no record is delivered to two of them."""
    broker.create_topic("t", partitions=2)
    crowd = [make_consumer("t", max_poll_records=5) for _ in range(3)]

    def all_have_one() -> bool:
        for consumer in crowd:
            assert not consumer.poll(timeout_ms=50)
        return len(assigned(broker)) == 3 and all(assigned(broker)) and broker.share_session_count() == 3

    wait_until(all_have_one)  # and each has asked for records: others may take all of them before a slow one does
    assert {partition for owned in assigned(broker) for partition in owned} == {0, 1}
    produce_values(broker, "t", 30, partitions=range(2))
    seen: list[tuple[int, int]] = []

    def all_came() -> bool:
        for consumer in crowd:
            seen.extend((record.partition, record.offset) for record in consumer.poll(timeout_ms=20))
        return len(seen) >= 60

    wait_until(all_came)
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(30)]


@pytest.mark.behaviour("membership")
def test_no_record_is_lost_and_the_group_epoch_rises_when_a_member_comes_and_goes(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A second member joins and leaves while 150 records flow: the group's epoch rises twice, nothing is lost."""
    broker.create_topic("t", partitions=2)
    first = make_consumer("t", max_poll_records=10)
    seen: list[tuple[int, int]] = []

    def take(consumer: Consumer) -> None:
        seen.extend((record.partition, record.offset) for record in consumer.poll(timeout_ms=50))

    def epoch() -> int:
        group = broker.share_group("g")
        return 0 if group is None else group.epoch

    def write(count: int) -> None:
        produce_values(broker, "t", count, partitions=range(2))

    poll_while(first, lambda: members(broker) < 1)
    write(25)
    alone = epoch()
    second = make_consumer("t", max_poll_records=10)

    def both_are_members() -> bool:
        take(first)
        take(second)
        return members(broker) == 2

    wait_until(both_are_members)
    write(25)
    together = epoch()
    assert together > alone
    take(second)
    second.commit_sync()
    second.close()
    assert epoch() > together
    write(25)
    expected = {(partition, offset) for partition in range(2) for offset in range(75)}

    def all_came() -> bool:
        take(first)
        return set(seen) == expected

    wait_until(all_came)
