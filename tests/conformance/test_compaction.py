"""What the log cleaner leaves of a topic, batch by batch: the same on the reference broker and on real Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from conformance.confluent_peer import admin, admin_client, confluent_kafka
from conformance.kafka_targets import Target
from support.waiting import rest, wait_until
from support.wire_connection import WireConnection

from kafka_share.protocol.logs import FetchRequest
from kafka_share.protocol.record_batches import RecordBatch, iter_batches

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(180)]  # it waits for several rounds of the log cleaner

Names = Callable[[str], str]
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "10000",  # the first state has to be seen before tombstones go, on a busy machine too
}


class CompactedTopic:
    """A topic of one partition. What is put is a second younger than what was put before, so it begins a segment."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._timestamp = int(time.time() * 1000)
        client = admin_client(bootstrap)
        assert client.create_topics([admin.NewTopic(topic, 1, config=SETTINGS)])[topic].result(10) is None
        self._plain = self.producer()

    def producer(self, **config: Any) -> Any:
        return confluent_kafka.Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 100, **config})

    def put(self, text: str, producer: Any = None) -> None:
        """One batch of records such as "a1 b-": a key and a value of one letter, "-" for a tombstone."""
        producer = self._plain if producer is None else producer
        self._timestamp += 1_000
        failures: list[Any] = []
        for word in text.split():
            value = None if word[1] == "-" else word[1].encode()
            producer.produce(
                self._topic,
                value,
                word[0].encode(),
                timestamp=self._timestamp,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(30) == 0
        assert not failures

    def put_in_transaction(self, transactional_id: str, text: str, *, committed: bool) -> None:
        producer = self.producer(**{"transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        self.put(text, producer)
        if committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    def left(self) -> list[str]:
        """Each batch that a fetch from offset 0 brings, as its offsets and records."""
        found: list[str] = []
        offset = 0
        with WireConnection(self._bootstrap) as connection:
            while True:
                data = _fetch(connection, self._topic, offset)
                batches = [batch for batch in iter_batches(data) if batch.last_offset >= offset]
                if not batches:
                    return found
                found += [_shown(batch) for batch in batches]
                offset = batches[-1].last_offset + 1

    def wait_for(self, *expected: str) -> None:
        wait_until(
            lambda: self.left() == list(expected) or None,
            lambda: f"the log cleaner left {self.left()}, and not {list(expected)}",
        )


def _fetch(connection: WireConnection, topic: str, offset: int) -> bytes:
    kind = FetchRequest.FetchTopic
    asked = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[kind(topic=topic, partitions=[asked])]
    )
    (answered,) = connection.call(request, 12).responses[0].partitions
    assert answered.error_code == 0
    return bytes(answered.records or b"")


def _shown(batch: RecordBatch) -> str:
    batch.verify_crc()
    records = [
        ("commit" if (key or b"")[3] else "abort") if batch.is_control else _word(key, value)
        for _, _, key, value, _ in batch.records()
    ]
    return f"{batch.base_offset}-{batch.last_offset}:{' '.join(records)}"


def _word(key: bytes | None, value: bytes | None) -> str:
    return f"{(key or b'').decode()}{'-' if value is None else value.decode()}"


def test_the_same_is_left_of_keys_tombstones_and_transactions(kafka: Target, unique: Names) -> None:
    topic = CompactedTopic(kafka.bootstrap_servers, unique("compacted"))
    topic.put("a1 b1 c1 a2")
    topic.put("d1 b- e1")
    topic.put_in_transaction(unique("first"), "f1 g1", committed=True)
    topic.put_in_transaction(unique("second"), "ax hx", committed=False)
    topic.put_in_transaction(unique("third"), "f2 g-", committed=True)
    topic.put("i1 i2 a3", topic.producer(**{"enable.idempotence": True}))
    topic.put("z0")
    transactions = ("7-8:", "9-9:commit", "10-11:", "12-12:abort")
    topic.wait_for("0-3:c1", "4-6:d1 b- e1", *transactions, "13-14:f2 g-", "15-15:commit", "16-18:i2 a3", "19-19:z0")
    rest(float(SETTINGS["delete.retention.ms"]) / 1000)
    topic.put("z1")
    topic.put("z2")
    later = ("13-14:f2", "15-15:commit", "16-18:i2 a3", "20-20:z1", "21-21:z2")
    topic.wait_for("0-3:c1", "4-6:d1 e1", *transactions, *later)
