"""Requests past the authorizer: every API has a rule, what is denied is in the answer, and rights may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from broker.cluster_world import START_MS, World
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.admin_values import AclOperation
from kafka_share.broker import Acl, ReferenceBroker, Security
from kafka_share.broker.handlers.authorization import RULES
from kafka_share.broker.handlers.handler_table import HANDLERS
from kafka_share.broker.security.authorizer import Authorizer
from kafka_share.errors import (
    ConfigurationError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidArgumentError,
    TopicAuthorizationFailedError,
)
from kafka_share.protocol.cluster import DescribeTopicPartitionsRequest, MetadataRequest
from kafka_share.protocol.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kafka_share.protocol.logs import FetchRequest
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest

ALICE = "User:alice"
PASSWORDS = {"alice": "a secret"}
DENIED = TopicAuthorizationFailedError.code


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.authorizer = Authorizer(world.cluster.acls, ["User:admin"])
    for name in ("a", "b", "c"):
        world.cluster.create_topic(name)
    return world


def grant(world: World, operation: str, resource: str, name: str) -> None:
    world.cluster.acls.add(Acl(ALICE, operation, resource, name))


def test_every_api_has_a_rule() -> None:
    assert set(RULES) == set(HANDLERS)


# ---- answers that come later


def fetch(*names: str) -> FetchRequest:
    part = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchRequest.FetchTopic(topic=name, partitions=[part]) for name in names]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)


def test_a_fetch_that_waits_is_answered_with_what_was_denied(world: World) -> None:
    grant(world, "read", "topic", "a")
    assert world.ask(fetch("a", "b"), 12, principal=ALICE) is None
    world.cluster.append(
        world.cluster.topics.by_name("a").partitions[0],  # type: ignore[union-attr]
        encode_batch([(0, START_MS, None, b"x", ())]),
        START_MS,
    )
    world.take_answers()
    answer = world.late[world.last_id]
    assert {topic.topic: topic.partitions[0].error_code for topic in answer.responses} == {"a": 0, "b": DENIED}


def test_a_fetch_of_nothing_but_denied_topics_does_not_wait(world: World) -> None:
    answer = world.ask(fetch("b"), 12, principal=ALICE)
    assert [topic.partitions[0].error_code for topic in answer.responses] == [DENIED]


def test_answers_of_other_connections_are_left_alone_when_a_connection_ends(world: World) -> None:
    grant(world, "read", "topic", "a")
    assert world.ask(fetch("a", "b"), 12, principal=ALICE, connection=1) is None
    assert world.ask(fetch("a", "b"), 12, principal=ALICE, connection=2) is None
    world.disconnect(1)
    world.advance(500)
    answer = world.late[world.last_id]
    assert {topic.topic for topic in answer.responses} == {"a", "b"}


# ---- what exists is not told


def test_a_page_of_topics_has_only_those_that_the_client_may_see(world: World) -> None:
    for name in ("a", "c"):
        grant(world, "describe", "topic", name)
    cursor, seen = None, []
    while True:
        request = DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=cursor)
        answer = world.ask(request, 0, principal=ALICE)
        seen += [topic.name for topic in answer.topics]
        if answer.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )
    assert seen == ["a", "c"]


def test_a_page_begins_behind_a_topic_that_the_client_may_not_see_any_more(world: World) -> None:
    grant(world, "describe", "topic", "c")
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="b", partition_index=0)
    for asked in ([], ["a", "b", "c"]):
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in asked], cursor=cursor
        )
        answer = world.ask(request, 0, principal=ALICE)
        assert {topic.name: topic.error_code for topic in answer.topics} == ({"b": DENIED} if asked else {}) | {"c": 0}


@pytest.mark.parametrize("version", [0, 1])
def test_metadata_of_denied_topics_names_the_nodes_and_no_other_topic(world: World, version: int) -> None:
    world.cluster.set_address(1, "somewhere", 9092)
    topics = [MetadataRequest.MetadataRequestTopic(name="b")]
    answer = world.ask(MetadataRequest(topics=topics), version, principal=ALICE)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("b", DENIED)]
    assert [node.host for node in answer.brokers] == ["somewhere"]


def test_metadata_by_id_is_denied_by_the_name_of_the_topic_not_by_what_is_asked(world: World) -> None:
    grant(world, "describe", "topic", "a")
    secret = world.cluster.topics.by_name("b")
    assert secret is not None
    asked = MetadataRequest.MetadataRequestTopic(name="a", topic_id=secret.id)
    (answer,) = world.ask(MetadataRequest(topics=[asked]), 12, principal=ALICE).topics
    assert answer.error_code != 0
    assert answer.partitions == []


def test_metadata_creates_no_topic_for_a_client_that_may_not(world: World) -> None:
    grant(world, "describe", "topic", "*")
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    assert [topic.error_code for topic in world.ask(asked, 12, principal=ALICE).topics] == [DENIED]
    assert world.cluster.topics.by_name("new") is None
    grant(world, "create", "topic", "new")
    assert [topic.error_code for topic in world.ask(asked, 12, principal=ALICE).topics] == [0]
    assert world.cluster.topics.by_name("new") is not None


def test_a_pattern_stands_for_topics_that_the_member_may_see(world: World) -> None:
    grant(world, "read", "group", "g")
    grant(world, "describe", "topic", "c")

    def beat(epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m" * 22,
            member_epoch=epoch,
            rebalance_timeout_ms=5_000,
            subscribed_topic_regex="[abc]",
            topic_partitions=[],
        )
        return world.ask(request, principal=ALICE)

    answer = beat(beat(0).member_epoch)
    topic = world.cluster.topics.by_name("c")
    assert topic is not None
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [topic.id]


@pytest.mark.parametrize("kind", ["share", "consumer"])
def test_a_group_is_not_shown_to_who_may_not_see_what_it_reads(world: World, kind: str) -> None:
    grant(world, "describe", "group", "g")
    member: dict[str, Any] = {"group_id": "g", "member_id": "m" * 22, "subscribed_topic_names": ["a"]}
    asked = {"group_ids": ["g"], "include_authorized_operations": True}
    beat: Any = ShareGroupHeartbeatRequest(**member)
    describe: Any = ShareGroupDescribeRequest(**asked)  # type: ignore[arg-type]
    if kind == "consumer":
        beat = ConsumerGroupHeartbeatRequest(rebalance_timeout_ms=5_000, topic_partitions=[], **member)
        describe = ConsumerGroupDescribeRequest(**asked)  # type: ignore[arg-type]
    for _ in range(2):  # the first assignment may come with the second heartbeat
        beat.member_epoch = world.ask(beat, principal="User:admin").member_epoch
        world.advance(2_000)
    [hidden] = world.ask(describe, principal=ALICE).groups
    assert (hidden.error_code, hidden.members) == (DENIED, [])
    grant(world, "describe", "topic", "a")
    [shown] = world.ask(describe, principal=ALICE).groups
    assert (shown.error_code, len(shown.members), shown.authorized_operations) == (0, 1, 1 << AclOperation.DESCRIBE)


# ---- while a client is connected


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    security = Security("SASL_PLAINTEXT", PASSWORDS, acls=[Acl(ALICE, "read", "group", "g")])
    with ReferenceBroker(security=security) as broker:
        broker.create_topic("orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        yield broker


def failure(consumer: KafkaShareConsumer[Any, Any]) -> type[Exception] | None:
    try:
        consumer.poll(timeout_ms=100)
    except (TopicAuthorizationFailedError, GroupAuthorizationFailedError) as error:
        return type(error)
    return None


def test_a_consumer_goes_on_when_it_may_read_again(broker: ReferenceBroker) -> None:
    reading = Acl(ALICE, "read", "topic", "orders")
    broker.add_acls(reading, reading)
    assert [acl.name for acl in broker.acls()] == ["g", "orders"]
    broker.produce("orders", b"1")
    settings = broker.client_settings("alice")
    with KafkaShareConsumer("orders", group_id="g", retry_backoff_ms=10, **settings) as consumer:
        assert [record.value for record in poll_until(consumer, 1)] == [b"1"]
        consumer.commit_sync()
        broker.remove_acls(reading)
        broker.produce("orders", b"2")
        wait_until(lambda: failure(consumer) is TopicAuthorizationFailedError, "the poll says what is not allowed")
        broker.add_acls(reading)
        seen: list[bytes] = []

        def reads_again() -> bool:
            try:
                seen.extend(record.value for record in consumer.poll(timeout_ms=100))
            except TopicAuthorizationFailedError:
                pass
            return bool(seen)

        wait_until(reads_again, "the consumer reads again")
        assert seen == [b"2"]


def test_a_consumer_is_told_when_it_may_not_read_its_group(broker: ReferenceBroker) -> None:
    broker.add_acls(Acl(ALICE, "read", "topic", "orders"))
    settings = broker.client_settings("alice")
    with KafkaShareConsumer("orders", group_id="other", **settings) as consumer:
        wait_until(lambda: failure(consumer) is GroupAuthorizationFailedError, "the poll says what is not allowed")


def test_reset_brings_the_first_acls_back(broker: ReferenceBroker) -> None:
    [first] = broker.acls()
    broker.remove_acls(first)
    broker.add_acls(Acl(ALICE, "all", "topic", "*"))
    broker.reset()
    assert broker.acls() == [first]


def test_acls_are_refused_where_nobody_asks_for_them() -> None:
    with ReferenceBroker() as broker:
        assert broker.acls() == []
        with pytest.raises(IllegalStateError, match="no ACLs"):
            broker.add_acls(Acl(ALICE, "all", "topic", "*"))


def test_security_is_refused_when_its_rights_make_no_sense() -> None:
    with pytest.raises(ConfigurationError, match="User:alice"):
        Security("PLAINTEXT", super_users=["alice"])
    with pytest.raises(ConfigurationError, match="list of principals"):
        Security("PLAINTEXT", super_users="User:alice")
    with pytest.raises(ConfigurationError, match="everybody"):
        Security("PLAINTEXT", allow_without_acls=True)
    with pytest.raises(InvalidArgumentError):
        Security("PLAINTEXT", acls=[Acl("alice", "all", "topic")])
