"""kafka-python's own clients against `kafka-share-broker`: producer, consumer, groups, admin client."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.waiting import looks
from support.wire_connection import WireConnection

from kafka_share.protocol.quotas import AlterClientQuotasRequest

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
admin = pytest.importorskip("kafka.admin")
errors = pytest.importorskip("kafka.errors")
structs = pytest.importorskip("kafka.structs")

# Its clients leave sockets to the garbage collector; see `collect_its_sockets`.
pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

Names = Callable[[str], str]
TopicPartition = kafka.TopicPartition


@pytest.fixture(autouse=True)
def collect_its_sockets() -> Iterator[None]:
    """Forgotten sockets are collected in the test that made them: in another one their warning would be an error."""
    yield
    gc.collect()


@pytest.fixture
def client(bootstrap: str) -> Iterator[Any]:
    with_admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield with_admin
    with_admin.close()


def make_topic(client: Any, topic: str, partitions: int = 1) -> None:
    client.create_topics([admin.NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    client.wait_for_topics([topic])


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **config: Any) -> list[int]:
    """Produce; answers the offsets that the broker gave."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **config)
    sent = [
        producer.send(topic, value, key=b"k", partition=partition, headers=[("h", b"1")], timestamp_ms=1_000 + i)
        for i, value in enumerate(values)
    ]
    offsets = [one.get(timeout=30).offset for one in sent]
    producer.close()
    return offsets


def consumer_of(bootstrap: str, *topics: str, group: str | None = None, **config: Any) -> Any:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **config}
    consumer = kafka.KafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, **settings)
    for topic in topics:
        # Its group leader assigns nothing, and never again, if it joins before it has heard of the topic.
        assert consumer.partitions_for_topic(topic)
    return consumer


def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` records; fails if they do not come."""
    found: list[Any] = []
    for _ in looks(lambda: f"{len(found)} of {count} records came"):
        for records in consumer.poll(timeout_ms=200, max_records=count - len(found)).values():
            found.extend(records)
        if len(found) == count:
            break
    return found


def values_of(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_what_its_producer_wrote_comes_back_whole_when_compressed(
    bootstrap: str, client: Any, unique: Names, codec: str | None
) -> None:
    topic = unique("t")
    make_topic(client, topic)
    values = [b"value %d " % i * 20 for i in range(50)]
    produced = produce(bootstrap, topic, values, compression_type=codec, linger_ms=20)
    assert produced == list(range(50))
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    records = read(consumer, 50)
    consumer.close()
    assert values_of(records) == values
    assert {(r.key, tuple(r.headers)) for r in records} == {(b"k", (("h", b"1"),))}
    assert [(r.offset, r.timestamp) for r in records] == [(i, 1_000 + i) for i in range(50)]


def test_nothing_is_written_twice_when_its_producer_is_idempotent(bootstrap: str, client: Any, unique: Names) -> None:
    topic = unique("t")
    make_topic(client, topic)
    assert produce(bootstrap, topic, [b"1", b"2"], enable_idempotence=True, acks="all") == [0, 1]
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks=0)
    producer.send(topic, b"3").get(timeout=30)
    producer.flush()
    producer.close()
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert values_of(read(consumer, 3)) == [b"1", b"2", b"3"]
    consumer.close()


def test_a_second_consumer_goes_on_where_the_first_has_committed(bootstrap: str, client: Any, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    make_topic(client, topic)
    values = [b"%d" % i for i in range(20)]
    produce(bootstrap, topic, values)
    first = consumer_of(bootstrap, topic, group=group)
    assert values_of(read(first, 12)) == values[:12]
    first.commit()
    assert first.committed(TopicPartition(topic, 0)) == 12
    first.close()
    second = consumer_of(bootstrap, topic, group=group, enable_auto_commit=True)
    assert values_of(read(second, 8)) == values[12:]
    second.close()
    (offset,) = client.list_group_offsets(group)[group].values()
    assert offset.offset == 20, "closing commits what was read"


def test_two_consumers_share_the_partitions_and_one_takes_all_when_the_other_closes(
    bootstrap: str, client: Any, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    make_topic(client, topic, 4)
    timing = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}
    members = [consumer_of(bootstrap, topic, group=group, **timing) for _ in range(2)]

    def poll_until_assigned(counts: list[int]) -> list[set[int]]:
        held: list[set[int]] = []
        for _ in looks(f"the members do not hold {counts} partitions"):
            for member in members:
                assert member.poll(timeout_ms=50) == {}
            held = [{one.partition for one in member.assignment()} for member in members]
            if [len(one) for one in held] == counts:
                break
        return held

    first, second = poll_until_assigned([2, 2])
    assert first | second == {0, 1, 2, 3}
    members.pop().close()
    assert poll_until_assigned([4]) == [{0, 1, 2, 3}]
    for index in range(4):
        produce(bootstrap, topic, [b"%d" % index], index)
    assert sorted(values_of(read(members[0], 4))) == [b"0", b"1", b"2", b"3"]
    members[0].close()


def test_it_reads_what_it_seeks_when_partitions_are_assigned_by_hand(
    bootstrap: str, client: Any, unique: Names
) -> None:
    topic = unique("t")
    make_topic(client, topic, 2)
    produce(bootstrap, topic, [b"%d" % i for i in range(10)], 1)
    partition = TopicPartition(topic, 1)
    consumer = consumer_of(bootstrap)
    consumer.assign([partition])
    consumer.seek(partition, 7)
    assert values_of(read(consumer, 3)) == [b"7", b"8", b"9"]
    consumer.seek_to_beginning(partition)
    assert values_of(read(consumer, 2)) == [b"0", b"1"]
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 10
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    found = consumer.offsets_for_times({partition: 1_004})[partition]
    assert (found.offset, found.timestamp) == (4, 1_004)
    assert consumer.partitions_for_topic(topic) == {0, 1}
    consumer.close()


# ---- the admin client


def test_topics_are_made_grown_listed_and_deleted_when_its_admin_asks(client: Any, unique: Names) -> None:
    topic = unique("t")
    make_topic(client, topic, 2)
    with pytest.raises(errors.TopicAlreadyExistsError):
        client.create_topics([admin.NewTopic(topic, num_partitions=2, replication_factor=1)])
    (described,) = client.describe_topics([topic])
    assert len(described["partitions"]) == 2
    client.create_partitions({topic: admin.NewPartitions(total_count=3)})
    (described,) = client.describe_topics([topic])
    assert sorted(one["partition_index"] for one in described["partitions"]) == [0, 1, 2]
    client.delete_topics([topic])
    assert topic not in client.list_topics()


def test_configs_are_altered_and_described_when_its_admin_asks(client: Any, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    make_topic(client, topic)
    for kind, name, key, value in [
        ("topic", topic, "max.message.bytes", "1000"),
        ("group", group, "share.auto.offset.reset", "earliest"),
    ]:
        client.alter_configs([admin.ConfigResource(kind, name, {key: value})])
        described = client.describe_configs([admin.ConfigResource(kind, name)], config_filter="all")
        assert find_config(described, key)["value"] == value
    assert group in str(client.list_config_resources(["group"]))


def find_config(described: Any, key: str) -> Any:
    """The entry of a key, wherever the answer's layers have it."""
    if isinstance(described, dict):
        if key in described:
            return described[key]
        described = list(described.values())
    found = (find_config(one, key) for one in described if isinstance(one, (dict, list)))
    return next((one for one in found if one is not None), None)


def test_records_are_deleted_when_its_admin_asks(bootstrap: str, client: Any, unique: Names) -> None:
    topic = unique("t")
    make_topic(client, topic)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    client.delete_records({TopicPartition(topic, 0): 2})
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert values_of(read(consumer, 1)) == [b"3"]
    consumer.close()


def test_groups_and_their_offsets_are_seen_and_changed_when_its_admin_asks(
    bootstrap: str, client: Any, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    make_topic(client, topic)
    produce(bootstrap, topic, [b"%d" % i for i in range(5)])
    partition = TopicPartition(topic, 0)
    consumer = consumer_of(bootstrap, topic, group=group, client_id="reader")
    read(consumer, 5)
    consumer.commit()
    described = client.describe_groups([group])[group]
    (member,) = described["members"]
    assert (described["group_state"], described["protocol_type"], member["client_id"]) == (
        "Stable",
        "consumer",
        "reader",
    )
    assert client.delete_group_offsets(group, [partition]) == {partition: errors.GroupSubscribedToTopicError}
    assert client.delete_groups([group]) == {group: "NonEmptyGroupError"}
    consumer.close()

    assert [g["group_state"] for g in client.list_groups() if g["group_id"] == group] == ["Empty"]
    assert group in [g["group_id"] for g in client.list_groups(types_filter=["classic"])]
    assert group not in [g["group_id"] for g in client.list_groups(types_filter=["share"])]
    moved = {partition: structs.OffsetAndMetadata(3, "note", -1)}
    assert client.alter_group_offsets(group, moved) == {partition: errors.NoError}
    assert client.list_group_offsets(group)[group][partition].offset == 3
    assert client.list_group_offsets(group)[group][partition].metadata == "note"
    assert client.reset_group_offsets(group, {partition: admin.OffsetSpec.EARLIEST})[partition]["offset"] == 0
    again = consumer_of(bootstrap, topic, group=group)
    assert values_of(read(again, 1)) == [b"0"]
    again.close()
    assert client.delete_group_offsets(group, [partition]) == {partition: errors.NoError}
    assert client.list_group_offsets(group)[group] == {}
    assert client.delete_groups([group]) == {group: "OK"}
    assert group not in [g["group_id"] for g in client.list_groups()]


def throttled_ms(client: Any) -> float:
    """The longest time that a broker has told it to wait."""
    longest: float = max(values.get("throttle-time-max", 0.0) for values in client.metrics().values())
    return longest


def test_its_producer_and_consumer_are_throttled_by_a_quota_and_nothing_is_lost(
    bootstrap: str, client: Any, unique: Names
) -> None:
    topic, name = unique("t"), unique("c")
    make_topic(client, topic)
    set_quota(bootstrap, name, producer_byte_rate=5_000.0, consumer_byte_rate=20_000.0)
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, client_id=name, linger_ms=0)
    for value in (b"a" * 30_000, b"b" * 25_000, b"c"):
        producer.send(topic, value).get(timeout=30)
    assert throttled_ms(producer) > 0
    producer.close()
    consumer = consumer_of(bootstrap, topic, client_id=name)
    assert [value[:1] for value in values_of(read(consumer, 3))] == [b"a", b"b", b"c"]
    for _ in looks("it was never throttled"):
        consumer.seek_to_beginning()
        consumer.poll(timeout_ms=200)
        if throttled_ms(consumer) > 0:
            break
    consumer.close()


def set_quota(bootstrap: str, client_id: str, **values: float) -> None:
    entry = AlterClientQuotasRequest.EntryData
    asked = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[entry.OpData(key=key, value=value) for key, value in values.items()],
    )
    with WireConnection(bootstrap) as connection:
        (done,) = connection.call(AlterClientQuotasRequest(entries=[asked]), 1).entries
    assert done.error_code == 0


def test_features_and_the_quorum_are_described_when_its_admin_asks(client: Any) -> None:
    assert "share.version" in str(client.describe_features())
    assert "leader_id" in str(client.describe_metadata_quorum())
