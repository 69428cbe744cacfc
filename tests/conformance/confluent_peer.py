"""confluent-kafka's clients as the tests of this folder use them: unchanged, with waits on conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.waiting import gather, looks

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka, the foreign client, is not installed")
admin = pytest.importorskip("confluent_kafka.admin")


def admin_client(bootstrap: str) -> Any:
    """Keep it in a variable: it cancels its futures when it is collected."""
    return admin.AdminClient({"bootstrap.servers": bootstrap})


def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    client = admin_client(bootstrap)
    assert client.create_topics([admin.NewTopic(topic, num_partitions=partitions)])[topic].result(10) is None


def read_from_start(bootstrap: str, group: str, **more: str) -> None:
    """Set configs of a share group through confluent's own admin client."""
    settings = {"share.auto.offset.reset": "earliest", **{k.replace("_", "."): v for k, v in more.items()}}
    resource = admin.ConfigResource(
        admin.ResourceType.GROUP,
        group,
        incremental_configs=[
            admin.ConfigEntry(k, v, incremental_operation=admin.AlterConfigOpType.SET) for k, v in settings.items()
        ],
    )
    client = admin_client(bootstrap)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(10)


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **config: Any) -> None:
    """Produce and wait until every record has been acknowledged."""
    failures: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **config})
    for value in values:
        producer.produce(
            topic,
            value=value,
            key=b"k",
            partition=partition,
            headers=[("h", b"1")],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0, "records were left in the producer"
    assert not failures


def consumer_of(bootstrap: str, group: str, protocol: str = "classic", **config: Any) -> Any:
    """An ordinary consumer, which reads from the start and commits when it is told to."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **config}
    return confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.protocol": protocol, **settings})


def read(consumer: Any, count: int) -> list[bytes]:
    """The values of the next `count` records; fails if they do not come, or more than that."""
    values: list[bytes] = []
    for _ in looks(lambda: f"{len(values)} of {count} records came"):
        for message in consumer.consume(count - len(values), 0.2):
            assert message.error() is None, message.error()
            values.append(message.value())
        if len(values) == count:
            break
    return values


def held(*members: Any, counts: list[int]) -> list[set[int]]:
    """Poll until the members hold so many partitions; which ones."""
    found: list[set[int]] = []
    for _ in looks(f"the members do not hold {counts} partitions"):
        for member in members:
            assert member.poll(0.1) is None
        found = [{one.partition for one in member.assignment()} for member in members]
        if [len(one) for one in found] == counts:
            break
    return found


def share_consumer(bootstrap: str, group: str, topic: str, **config: Any) -> Any:
    consumer = confluent_kafka.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **config})
    consumer.subscribe([topic])
    return consumer


def poll_until(consumer: Any, count: int, on_message: Callable[[Any], None] | None = None) -> list[Any]:
    """Poll until `count` messages have come; fails if they do not."""

    def take(message: Any) -> None:
        assert message.error() is None, message.error()
        if on_message is not None:
            on_message(message)

    return gather(lambda: consumer.poll(0.2), count, take)
