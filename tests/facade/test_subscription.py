"""Subscribing: which topics a consumer reads from, and what it does with names that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from facade.delivery_checks import left_for_others, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import looks, offsets, poll_once_more, poll_until, poll_until_raises, poll_while

from kafka_share import KafkaShareConsumer, TopicPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidArgumentError,
    InvalidGroupIdError,
    InvalidTopicError,
)
from kafka_share.foreign_settings import REFUSED_BY_CONSUMERS
from kafka_share.protocol.cluster import MetadataRequest


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    """Heartbeats come fast, so that a changed subscription is noticed at once."""
    fast = {"group.share.heartbeat.interval.ms": 50, "group.share.min.heartbeat.interval.ms": 50}
    with ReferenceBroker(config=fast) as running:
        yield running


@pytest.mark.behaviour("polling")
def test_poll_is_refused_when_nothing_has_been_subscribed(make_consumer: MakeConsumer) -> None:
    """A poll before any subscribe raises an illegal-state error, and the subscription is empty."""
    consumer = make_consumer()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(timeout_ms=100)
    assert consumer.subscription() == frozenset()


@pytest.mark.behaviour("polling")
def test_polls_are_empty_and_later_records_come_when_the_topic_is_empty(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Polls of an empty topic are empty sequences, the broker prepares the share state, and new records arrive."""
    consumer = make_consumer()
    consumer.subscribe([topic])
    assert consumer.subscription() == {topic}

    def is_prepared() -> bool:
        group = broker.share_group("g")
        return group is not None and TopicPartition(topic, 0) in group.initialised

    poll_while(consumer, lambda: not is_prepared())
    empty = consumer.poll(timeout_ms=0)
    assert len(empty) == 0
    assert list(empty) == []
    broker.produce(topic, b"v")
    assert [r.value for r in poll_until(consumer, 1)] == [b"v"]


@pytest.mark.behaviour("polling")
def test_poll_is_refused_when_the_consumer_has_unsubscribed(topic: str, make_consumer: MakeConsumer) -> None:
    """After unsubscribe poll is refused; to unsubscribe again does nothing."""
    consumer = make_consumer()
    consumer.unsubscribe()
    consumer.subscribe([topic])
    consumer.poll(timeout_ms=100)
    for _ in range(2):
        consumer.unsubscribe()
        assert consumer.subscription() == frozenset()
        with pytest.raises(IllegalStateError, match="not subscribed"):
            consumer.poll(timeout_ms=100)


@pytest.mark.behaviour("polling")
def test_the_consumer_unsubscribes_when_it_subscribes_to_no_topics(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Subscribing to no topics is unsubscribing: the member leaves, and the next poll is refused."""
    poll_while(consumer, lambda: broker.share_group("g") is None)
    consumer.subscribe([])
    assert consumer.subscription() == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(timeout_ms=100)
    group = broker.share_group("g")
    assert group is not None
    assert not group.members


@pytest.mark.behaviour("polling")
def test_delivery_goes_on_when_the_same_topic_is_subscribed_again(
    broker: ReferenceBroker, topic: str, consumer: Consumer
) -> None:
    """Subscribing to the same topic between polls changes nothing."""
    for number in range(3):
        broker.produce(topic, b"v")
        assert offsets(poll_until(consumer, 1)) == [number]
        consumer.subscribe([topic])


@pytest.mark.behaviour("polling")
def test_a_subscription_replaces_the_one_before_when_the_topics_differ(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """After subscribing to b, records of a are not delivered any more (Java 4.4.0: until its next heartbeat)."""
    for topic in ("a", "b"):
        broker.create_topic(topic)
    broker.produce("a", b"before")
    consumer = make_consumer("a")
    poll_until(consumer, 1)
    consumer.subscribe(["b"])
    assert consumer.subscription() == {"b"}
    broker.produce("a", b"after")
    broker.produce("b", b"1")
    found = poll_until(consumer, 1)
    broker.produce("b", b"2")
    found += poll_until(consumer, 1)
    assert [r.topic for r in found] == ["b", "b"]
    consumer.close()
    assert [r.value for r in left_for_others(broker, make_consumer, "a")] == [b"after"]


@pytest.mark.better_than_java("unseen-records-given-back")
@pytest.mark.behaviour("polling")
def test_nothing_of_the_old_topic_is_delivered_when_its_fetch_was_under_way(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Records of a fetch that was waiting when the subscription changed are released, not delivered."""
    for topic in ("a", "b"):
        broker.create_topic(topic)
    consumer = make_consumer("a", fetch_max_wait_ms=20_000)
    poll_while(consumer, lambda: not broker.requests(78))  # this fetch waits at the broker now
    consumer.subscribe(["b"])
    broker.produce("a", b"late")
    broker.produce("b", b"v")
    assert [r.topic for r in poll_until(consumer, 1)] == ["b"]
    consumer.close()
    assert [r.value for r in left_for_others(broker, make_consumer, "a")] == [b"late"]


@pytest.mark.behaviour("polling")
@pytest.mark.parametrize(
    "topics",
    [None, [None], [""], ["  "], ["a", ""], "t", [7]],
    ids=["None", "no name", "empty", "blank", "mixed", "text", "number"],
)
def test_subscribe_is_refused_and_the_old_subscription_stays_when_a_name_cannot_be(
    topics: Any, make_consumer: MakeConsumer
) -> None:
    """Subscribing to None, a blank name or a bare string is an argument error, and the old subscription stays."""
    consumer = make_consumer("old")
    with pytest.raises(InvalidArgumentError):
        consumer.subscribe(topics)
    assert consumer.subscription() == {"old"}


@pytest.mark.behaviour("polling")
def test_duplicates_collapse_when_a_name_is_subscribed_twice(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """As in Java, a name given twice counts once (librdkafka refuses it): the record comes once."""
    broker.produce(topic, b"v")
    consumer = make_consumer(topic, topic)
    assert consumer.subscription() == {topic}
    assert offsets(poll_until(consumer, 1)) == [0]
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("polling")
def test_a_caret_is_no_pattern_when_it_stands_before_a_name(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A topic name that begins with a caret is no pattern: poll raises once that it is illegal."""
    produce_values(broker, topic, 3)
    consumer = make_consumer("^t$")
    assert "^t$" in str(poll_until_raises(consumer, InvalidTopicError))
    for _ in range(3):
        assert poll_once_more(consumer) == []
    consumer.unsubscribe()
    consumer.subscribe([topic])
    assert offsets(poll_until(consumer, 3)) == [0, 1, 2]


@pytest.mark.behaviour("polling")
def test_the_legal_topics_are_delivered_when_another_name_of_the_list_is_illegal(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A name with a space raises invalid-topic from poll, once; later polls deliver the other topic."""
    broker.produce(topic, b"v")
    consumer = make_consumer("topic abc", topic)
    assert "topic abc" in str(poll_until_raises(consumer, InvalidTopicError))
    assert offsets(poll_until(consumer, 1)) == [0]


@pytest.mark.behaviour("polling")
def test_polls_are_empty_until_the_topic_is_created_when_it_does_not_exist(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """An unknown topic raises nothing and is not created by default; `health` names it; once it exists, records come.

    No second subscribe is needed, and each later record comes with the next poll.
    """
    consumer = make_consumer("t", metadata_max_age_ms=100)
    poll_while(consumer, lambda: len(broker.requests(76)) < 3)
    assert consumer.health().missing_topics == {"t"}
    assert not any(request.allow_auto_topic_creation for _, request in broker.requests(MetadataRequest.API_KEY))
    broker.create_topic("t")
    for offset in range(3):
        broker.produce("t", b"v")
        assert offsets(poll_until(consumer, 1)) == [offset]
    assert not consumer.health().missing_topics


@pytest.mark.behaviour("polling")
def test_a_missing_topic_is_created_when_broker_and_consumer_allow_it(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """With allow_auto_create_topics the consumer's Metadata request lets the broker create a subscribed topic."""
    consumer = make_consumer("t", metadata_max_age_ms=100, allow_auto_create_topics=True)

    def exists() -> bool:
        try:
            return broker.end_offset("t") == 0
        except InvalidArgumentError:
            return False

    poll_while(consumer, lambda: not exists())
    broker.produce("t", b"v")
    assert offsets(poll_until(consumer, 1)) == [0]


@pytest.mark.behaviour("polling")
def test_every_record_arrives_when_fifteen_topics_are_subscribed(make_consumer: MakeConsumer) -> None:
    """One consumer, 15 topics led by three brokers: every record of every topic arrives once."""
    topics = [f"t{number}" for number in range(15)]
    with ReferenceBroker(nodes=3) as cluster:
        for topic in topics:
            cluster.create_topic(topic)
            produce_values(cluster, topic, 4)
        assert {cluster.leader(topic) for topic in topics} == {1, 2, 3}
        cluster.set_group_config("g", share_auto_offset_reset="earliest")
        with make_consumer(*topics, bootstrap_servers=cluster.bootstrap_servers) as consumer:
            found = poll_until(consumer, 60)
    assert sorted((r.topic, r.offset) for r in found) == sorted((topic, n) for topic in topics for n in range(4))


@pytest.mark.behaviour("polling")
def test_members_get_their_own_topics_when_their_subscriptions_overlap(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Members whose subscriptions overlap see only their own topics, and lose nothing of the shared one."""
    broker.create_topic("shared", partitions=4)
    broker.create_topic("a")
    broker.create_topic("b")
    produce_values(broker, "shared", 5, partitions=range(4))
    for topic in ("a", "b"):
        produce_values(broker, topic, 5)
    members = {own: make_consumer("shared", own) for own in ("a", "b")}
    seen: dict[str, list[tuple[str, int, int]]] = {"a": [], "b": []}
    for _ in looks(lambda: f"too few records came: {seen}"):
        for own, consumer in members.items():
            seen[own] += [(r.topic, r.partition, r.offset) for r in consumer.poll(timeout_ms=50)]
        if len(seen["a"]) + len(seen["b"]) >= 30:
            break
    assert {topic for topic, _, _ in seen["a"]} <= {"shared", "a"}
    assert {topic for topic, _, _ in seen["b"]} <= {"shared", "b"}
    everything = [("shared", p, o) for p in range(4) for o in range(5)]
    everything += [(topic, 0, o) for topic in ("a", "b") for o in range(5)]
    assert sorted(seen["a"] + seen["b"]) == sorted(everything)


@pytest.mark.behaviour("polling")
@pytest.mark.parametrize("group", [{}, {"group_id": None}, {"group_id": ""}, {"group_id": " \t"}])
def test_construction_fails_when_there_is_no_group_id(group: dict[str, Any]) -> None:
    """A missing or blank group id fails at construction, with an invalid-group-id error as the cause."""
    with pytest.raises(ConfigurationError, match="group_id") as caught:
        KafkaShareConsumer("t", bootstrap_servers="localhost:1", **group)
    assert isinstance(caught.value.__cause__, InvalidGroupIdError)


@pytest.mark.behaviour("polling")
@pytest.mark.parametrize("name", [*REFUSED_BY_CONSUMERS, *(key.replace("_", ".") for key in REFUSED_BY_CONSUMERS)])
def test_construction_fails_when_a_setting_means_nothing_to_a_share_consumer(name: str) -> None:
    """Settings of ordinary consumers, in both spellings, and rebalance or commit callbacks are refused by name."""
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.")):
        KafkaShareConsumer("t", **{"bootstrap_servers": "localhost:1", "group_id": "g", name: "earliest"})  # type: ignore[arg-type]
