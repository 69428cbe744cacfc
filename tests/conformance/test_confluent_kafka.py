"""confluent-kafka (librdkafka), a client that shares nothing with us, against `kafka-share-broker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conformance.confluent_peer import (
    admin,
    admin_client,
    confluent_kafka,
    create_topic,
    poll_until,
    produce,
    read_from_start,
    share_consumer,
)
from support.waiting import looks

pytestmark = pytest.mark.foreign

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Names = Callable[[str], str]


def test_topics_are_created_listed_grown_and_deleted_when_its_admin_asks(bootstrap: str, unique: Names) -> None:
    topic = unique("t")
    client = admin_client(bootstrap)
    create_topic(bootstrap, topic, partitions=2)
    assert len(client.list_topics(topic, timeout=10).topics[topic].partitions) == 2
    client.create_partitions([admin.NewPartitions(topic, 3)])[topic].result(10)
    assert len(client.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    client.delete_topics([topic])[topic].result(10)
    assert topic not in client.list_topics(timeout=10).topics


def test_a_topic_is_refused_when_it_exists_already(bootstrap: str, unique: Names) -> None:
    topic = unique("t")
    create_topic(bootstrap, topic)
    client = admin_client(bootstrap)
    future = client.create_topics([admin.NewTopic(topic, num_partitions=1)])[topic]
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        future.result(10)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.behaviour("fetching")
def test_what_its_producer_writes_arrives_whole_when_compressed(bootstrap: str, unique: Names, codec: str) -> None:
    """What the producer of confluent-kafka compressed comes whole to its share consumer, with any codec."""
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    values = [f"value {i} ".encode() * 20 for i in range(50)]
    settings: dict[str, Any] = {"compression.type": codec, "enable.idempotence": True}
    produce(bootstrap, topic, values, **settings)
    consumer = share_consumer(bootstrap, group, topic)
    messages = poll_until(consumer, 50)
    consumer.close()
    assert [m.value() for m in messages] == values
    assert {(m.key(), tuple(m.headers())) for m in messages} == {(b"k", (("h", b"1"),))}
    assert [m.offset() for m in messages] == list(range(50))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_stored_when_produced_with_any_acks(bootstrap: str, unique: Names, acks: str) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"a", b"b"], acks=acks)
    consumer = share_consumer(bootstrap, group, topic)
    assert [m.value() for m in poll_until(consumer, 2)] == [b"a", b"b"]
    consumer.close()


def test_records_are_accepted_when_its_implicit_consumer_polls_again(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    first = share_consumer(bootstrap, group, topic)
    poll_until(first, 3)
    assert set(first.commit_sync().values()) == {None}
    first.close()
    produce(bootstrap, topic, [b"4"])
    second = share_consumer(bootstrap, group, topic)
    assert [m.value() for m in poll_until(second, 1)] == [b"4"]
    second.close()


def test_release_comes_back_and_reject_does_not_when_it_acknowledges_explicitly(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"accept", b"release", b"reject"])
    consumer = share_consumer(bootstrap, group, topic, **{"share.acknowledgement.mode": "explicit"})
    kinds = confluent_kafka.AcknowledgeType
    seen: list[tuple[bytes, int]] = []

    def answer(message: object) -> None:
        value, count = message.value(), message.delivery_count()  # type: ignore[attr-defined]
        seen.append((value, count))
        first_release = value == b"release" and count == 1
        consumer.acknowledge(
            message, kinds.RELEASE if first_release else kinds.REJECT if value == b"reject" else kinds.ACCEPT
        )

    poll_until(consumer, 4, answer)
    assert set(consumer.commit_sync().values()) == {None}
    consumer.close()
    assert seen == [(b"accept", 1), (b"release", 1), (b"reject", 1), (b"release", 2)]


def test_records_are_shared_without_loss_when_two_of_it_read_one_partition(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    members = [share_consumer(bootstrap, group, topic, **{"max.poll.records": 10}) for _ in range(2)]
    for member in members:
        member.poll(0.5)
    values = [str(i).encode() for i in range(400)]
    for start in range(0, 400, 10):
        produce(bootstrap, topic, values[start : start + 10])
    got: list[list[bytes]] = [[], []]
    for _ in looks(lambda: f"{len(got[0])} and {len(got[1])} of 400 records came"):
        for mine, member in zip(got, members, strict=True):
            mine += [m.value() for m in member.poll(0.1)]
        if len(got[0]) + len(got[1]) >= 400:
            break
    for member in members:
        member.commit_sync()
        member.close()
    assert sorted(got[0] + got[1]) == sorted(values)
    assert got[0], "the first member got nothing"
    assert got[1], "the second member got nothing"


@pytest.mark.behaviour("misuse and close")
def test_held_records_go_to_another_member_when_it_closes(bootstrap: str, unique: Names) -> None:
    """Unacknowledged records of a closing confluent-kafka member go to another member, with delivery count 2."""
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"1", b"2"])
    first = share_consumer(bootstrap, group, topic)
    poll_until(first, 2)
    first.close()
    second = share_consumer(bootstrap, group, topic)
    again = poll_until(second, 2)
    second.close()
    assert [(m.value(), m.delivery_count()) for m in again] == [(b"1", 2), (b"2", 2)]
