"""aiokafka, an asyncio client of its own, against `kafka-share-broker`: producer, consumer groups, seeking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from conformance.confluent_peer import create_topic
from support.waiting import looks

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")

pytestmark = pytest.mark.foreign

Names = Callable[[str], str]
TopicPartition = aiokafka.TopicPartition


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def consumer_of(bootstrap: str, *topics: str, group: str | None = None, **config: Any) -> Any:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **config}
    return aiokafka.AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, **settings)


async def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **config: Any) -> list[int]:
    """Produce; answers the offsets that the broker gave."""
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **config) as producer:
        sent = [
            await producer.send(topic, value, key=b"k", partition=partition, headers=[("h", b"1")]) for value in values
        ]
        return [(await one).offset for one in sent]


async def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` records; fails if they do not come."""
    found: list[Any] = []
    for _ in looks(lambda: f"{len(found)} of {count} records came"):
        for records in (await consumer.getmany(timeout_ms=200, max_records=count - len(found))).values():
            found.extend(records)
        if len(found) == count:
            break
    return found


def values_of(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.parametrize(
    "config", [{}, {"enable_idempotence": True}, {"compression_type": "gzip"}, {"acks": 1, "linger_ms": 20}]
)
def test_what_its_producer_wrote_comes_back_whole(bootstrap: str, unique: Names, config: dict[str, Any]) -> None:
    topic = unique("t")
    create_topic(bootstrap, topic)
    values = [b"value %d " % i * 20 for i in range(50)]

    async def story() -> None:
        assert await produce(bootstrap, topic, values, **config) == list(range(50))
        consumer = consumer_of(bootstrap, topic)
        await consumer.start()
        records = await read(consumer, 50)
        await consumer.stop()
        assert values_of(records) == values
        assert {(r.key, tuple(r.headers)) for r in records} == {(b"k", (("h", b"1"),))}
        assert [r.offset for r in records] == list(range(50))

    run(story())


def test_a_second_consumer_goes_on_where_the_first_has_committed(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    values = [b"%d" % i for i in range(20)]

    async def story() -> None:
        await produce(bootstrap, topic, values)
        first = consumer_of(bootstrap, topic, group=group)
        await first.start()
        assert values_of(await read(first, 12)) == values[:12]
        await first.commit()
        assert await first.committed(TopicPartition(topic, 0)) == 12
        await first.stop()
        second = consumer_of(bootstrap, topic, group=group)
        await second.start()
        assert values_of(await read(second, 8)) == values[12:]
        await second.commit({TopicPartition(topic, 0): aiokafka.structs.OffsetAndMetadata(15, "note")})
        await second.stop()
        third = consumer_of(bootstrap, topic, group=group)
        await third.start()
        assert values_of(await read(third, 5)) == values[15:]
        await third.stop()

    run(story())


def test_two_consumers_share_the_partitions_and_one_takes_all_when_the_other_stops(
    bootstrap: str, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=4)
    timing = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}

    async def held_by(members: list[Any], counts: list[int]) -> list[set[int]]:
        held: list[set[int]] = []
        for _ in looks(f"the members do not hold {counts} partitions"):
            for member in members:
                assert await member.getmany(timeout_ms=50) == {}
            held = [{one.partition for one in member.assignment()} for member in members]
            if [len(one) for one in held] == counts:
                break
        return held

    async def story() -> None:
        members = [consumer_of(bootstrap, topic, group=group, **timing) for _ in range(2)]
        for member in members:
            await member.start()
        first, second = await held_by(members, [2, 2])
        assert first | second == {0, 1, 2, 3}
        await members.pop().stop()
        assert await held_by(members, [4]) == [{0, 1, 2, 3}]
        for index in range(4):
            await produce(bootstrap, topic, [b"%d" % index], index)
        assert sorted(values_of(await read(members[0], 4))) == [b"0", b"1", b"2", b"3"]
        await members[0].stop()

    run(story())


def test_it_reads_what_it_seeks_when_partitions_are_assigned_by_hand(bootstrap: str, unique: Names) -> None:
    topic = unique("t")
    create_topic(bootstrap, topic, partitions=2)
    partition = TopicPartition(topic, 1)

    async def story() -> None:
        await produce(bootstrap, topic, [b"%d" % i for i in range(10)], 1)
        consumer = consumer_of(bootstrap)
        await consumer.start()
        consumer.assign([partition])
        consumer.seek(partition, 7)
        assert values_of(await read(consumer, 3)) == [b"7", b"8", b"9"]
        await consumer.seek_to_beginning(partition)
        assert values_of(await read(consumer, 2)) == [b"0", b"1"]
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 10
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}
        found = (await consumer.offsets_for_times({partition: 0}))[partition]
        assert found.offset == 0
        assert consumer.highwater(partition) == 10
        await consumer.stop()

    run(story())
