"""confluent-kafka's ordinary consumer in classic groups of the reference broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conformance.confluent_peer import (
    admin_client,
    confluent_kafka,
    consumer_of,
    create_topic,
    held,
    poll_until,
    produce,
    read,
    read_from_start,
    share_consumer,
)
from support.waiting import looks, wait_until

pytestmark = pytest.mark.foreign

Names = Callable[[str], str]


def partition(topic: str, index: int = 0, offset: int = -1001) -> Any:
    return confluent_kafka.TopicPartition(topic, index, offset)


def offsets(positions: list[Any]) -> list[int]:
    assert [one.error for one in positions] == [None] * len(positions)
    return [one.offset for one in positions]


def test_a_second_consumer_goes_on_where_the_first_has_committed(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    values = [b"%d" % i for i in range(20)]
    produce(bootstrap, topic, values)
    first = consumer_of(bootstrap, group)
    first.subscribe([topic])
    assert read(first, 12) == values[:12]
    assert offsets(first.commit(asynchronous=False)) == [12]
    assert offsets(first.committed([partition(topic)], 10)) == [12]
    first.close()
    second = consumer_of(bootstrap, group)
    second.subscribe([topic])
    assert read(second, 8) == values[12:]
    assert offsets(second.position([partition(topic)])) == [20]
    second.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_consumers_share_the_partitions_and_one_takes_all_when_the_other_closes(
    bootstrap: str, unique: Names, strategy: str
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=4)
    config: dict[str, Any] = {
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6_000,
    }
    members = [consumer_of(bootstrap, group, **config) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    first, second = held(*members, counts=[2, 2])
    assert first | second == {0, 1, 2, 3}
    members.pop().close()
    assert held(*members, counts=[4]) == [{0, 1, 2, 3}]
    for index in range(4):
        produce(bootstrap, topic, [b"%d" % index], index)
    assert sorted(read(members[0], 4)) == [b"0", b"1", b"2", b"3"]
    members[0].close()


def test_a_static_member_keeps_its_partitions_when_it_restarts(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"1", b"2"])
    first = consumer_of(bootstrap, group, **{"group.instance.id": "i"})
    first.subscribe([topic])
    assert read(first, 1) == [b"1"]
    first.commit(asynchronous=False)
    first.close()
    second = consumer_of(bootstrap, group, **{"group.instance.id": "i"})
    second.subscribe([topic])
    assert read(second, 1) == [b"2"]
    client = admin_client(bootstrap)
    described = client.describe_consumer_groups([group])[group].result(10)
    assert [member.group_instance_id for member in described.members] == ["i"]
    second.close()


def test_it_reads_what_it_seeks_when_partitions_are_assigned_by_hand(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=2)
    produce(bootstrap, topic, [b"%d" % i for i in range(10)], 1)
    consumer = consumer_of(bootstrap, group)
    consumer.assign([partition(topic, 1, 4)])
    assert read(consumer, 2) == [b"4", b"5"]
    consumer.seek(partition(topic, 1, 8))
    assert read(consumer, 2) == [b"8", b"9"]
    assert consumer.get_watermark_offsets(partition(topic, 1), timeout=10) == (0, 10)
    assert offsets(consumer.offsets_for_times([partition(topic, 1, 0)], 10)) == [0]
    assert offsets(consumer.commit(offsets=[partition(topic, 1, 3)], asynchronous=False)) == [3]
    consumer.close()
    again = consumer_of(bootstrap, group)
    again.assign([partition(topic, 1)])
    assert read(again, 1) == [b"3"], "without an offset it starts at the committed one"
    again.close()


def test_it_starts_at_the_end_when_nothing_is_committed_and_it_asks_for_that(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"old"])
    consumer = consumer_of(bootstrap, group, **{"auto.offset.reset": "latest"})
    consumer.subscribe([topic])
    for _ in looks("it was assigned nothing"):
        assert consumer.poll(0.1) is None
        if offsets(consumer.position([partition(topic)])) == [1] or consumer.assignment():
            break
    consumer.poll(0.5)
    produce(bootstrap, topic, [b"new"])
    assert read(consumer, 1) == [b"new"]
    consumer.close()


def test_its_admin_sees_and_changes_groups_and_offsets(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=2)
    produce(bootstrap, topic, [b"1", b"2"])
    consumer = consumer_of(bootstrap, group, **{"client.id": "reader"})
    consumer.subscribe([topic])
    read(consumer, 2)
    consumer.commit(asynchronous=False)
    client = admin_client(bootstrap)
    described = client.describe_consumer_groups([group])[group].result(10)
    (member,) = described.members
    assert (described.state.name, described.partition_assignor, member.client_id) == ("STABLE", "range", "reader")
    assert {one.partition for one in member.assignment.topic_partitions} == {0, 1}
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.delete_consumer_groups([group])[group].result(10)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    consumer.close()

    (listed,) = [one for one in client.list_consumer_groups().result(10).valid if one.group_id == group]
    assert (listed.state.name, listed.is_simple_consumer_group) == ("EMPTY", False)
    of_group = confluent_kafka.ConsumerGroupTopicPartitions
    client.alter_consumer_group_offsets([of_group(group, [partition(topic, 0, 1)])])[group].result(10)
    stored = client.list_consumer_group_offsets([of_group(group)])[group].result(10)
    assert [(one.partition, one.offset) for one in stored.topic_partitions if one.offset >= 0] == [(0, 1)]
    client.delete_consumer_groups([group])[group].result(10)
    assert group not in [one.group_id for one in client.list_consumer_groups().result(10).valid]


def test_it_is_told_that_the_group_is_of_another_kind_when_it_joins_a_share_group(
    bootstrap: str, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"1"])
    share = share_consumer(bootstrap, group, topic)
    poll_until(share, 1)
    consumer = consumer_of(bootstrap, group)
    consumer.subscribe([topic])
    refused = wait_until(lambda: consumer.poll(0.2))
    assert refused.error().code() == confluent_kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL
    consumer.close()
    share.close()
