"""Transactions of foreign producers on `kafka-share-broker`, and what readers of all kinds see of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conformance.confluent_peer import confluent_kafka, create_topic, produce, read_from_start
from support.waiting import looks, wait_until

from kafka_share import KafkaShareConsumer

pytestmark = pytest.mark.foreign

Names = Callable[[str], str]


def run_confluent(bootstrap: str, transactional_id: str, topic: str) -> None:
    """Two records each, committed, aborted, committed: with the markers the offsets 0 to 8."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(10)
    for committed in (True, False, True):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic, b"committed" if committed else b"aborted")
        producer.flush(10)
        if committed:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)


def run_aiokafka(bootstrap: str, transactional_id: str, topic: str) -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")

    async def story() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        ) as producer:
            for committed in (True, False, True):
                await producer.begin_transaction()
                for _ in range(2):
                    await producer.send_and_wait(topic, b"committed" if committed else b"aborted")
                if committed:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    asyncio.run(story())


def run_kafka_python(bootstrap: str, transactional_id: str, topic: str) -> None:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    for committed in (True, False, True):
        producer.begin_transaction()
        for _ in range(2):
            producer.send(topic, b"committed" if committed else b"aborted")
        producer.flush()
        if committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()


@pytest.fixture(params=[run_confluent, run_aiokafka, run_kafka_python], ids=["confluent", "aiokafka", "kafka-python"])
def topic(request: pytest.FixtureRequest, bootstrap: str, unique: Names) -> str:
    """A topic that one of the producers wrote three transactions into."""
    name = unique("t")
    create_topic(bootstrap, name)
    request.param(bootstrap, unique("tx"), name)
    return name


def offsets_of_all(bootstrap: str, topic: str, group: str, level: str) -> Iterator[int]:
    """The offsets that an ordinary consumer reads up to the end of the partition."""
    settings = {"auto.offset.reset": "earliest", "isolation.level": level, "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, **settings})
    consumer.subscribe([topic])
    for _ in looks("the end of the partition was not reached"):
        message = consumer.poll(0.2)
        if message is not None and message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        if message is not None:
            yield message.offset()
    consumer.close()


def test_an_ordinary_consumer_sees_what_its_isolation_level_shows(bootstrap: str, unique: Names, topic: str) -> None:
    assert list(offsets_of_all(bootstrap, topic, unique("rc"), "read_committed")) == [0, 1, 6, 7]
    assert list(offsets_of_all(bootstrap, topic, unique("ru"), "read_uncommitted")) == [0, 1, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("level", "seen", "settled"),
    [
        ("read_committed", [0, 1, 6, 7], [0, 1, 2, 5, 6, 7, 8]),
        ("read_uncommitted", [0, 1, 3, 4, 6, 7], list(range(9))),
    ],
)
def test_a_share_group_sees_what_its_isolation_level_shows(
    bootstrap: str, unique: Names, topic: str, level: str, seen: list[int], settled: list[int]
) -> None:
    """Markers are acknowledged as gaps; what was aborted is never acquired by a group that reads committed records."""
    group = unique("g")
    read_from_start(bootstrap, group, share_isolation_level=level)
    offsets: list[int] = []
    accepted: list[int] = []

    def outcome(of_partitions: Any, error: Exception | None) -> None:
        assert error is None
        accepted.extend(offset for some in of_partitions.values() for offset in some)

    with KafkaShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.set_acknowledgement_commit_callback(outcome)
        for _ in looks(lambda: f"only these were accepted: {accepted}"):
            offsets += [record.offset for record in consumer.poll(timeout_ms=200)]
            if len(accepted) >= len(settled):
                break
    assert offsets == seen
    assert sorted(accepted) == settled


def test_offsets_are_committed_with_the_transaction_and_its_producer_is_fenced_by_the_next(
    bootstrap: str, unique: Names
) -> None:
    source, group, transactional_id = unique("t"), unique("g"), unique("tx")
    create_topic(bootstrap, source)
    produce(bootstrap, source, [b"1", b"2"])
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([source])
    assert wait_until(lambda: consumer.poll(0.2)).offset() == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(10)
    partition = confluent_kafka.TopicPartition(source, 0)
    for committed, stored in ((False, -1001), (True, 1)):
        producer.begin_transaction()
        read = [confluent_kafka.TopicPartition(source, 0, 1)]
        producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata(), 10)
        if committed:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
        assert [one.offset for one in consumer.committed([partition], 10)] == [stored]
    consumer.close()

    successor = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    successor.init_transactions(10)
    producer.begin_transaction()
    producer.produce(source, b"late")
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.commit_transaction(10)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    producer.purge()
