"""Quotas as clients see them: throttle times, and a connection that the broker does not read from meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from support.waiting import wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import BrokerClock, ReferenceBroker, Security

FETCH = "consumer-share-fetch-manager-metrics"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(clock=BrokerClock(manual=True), security=Security("SASL_PLAINTEXT", users={"al": "pw"})) as it:
        it.create_topic("t")
        it.set_group_config("g", share_auto_offset_reset="earliest")
        yield it


def test_a_producer_of_a_user_is_throttled_and_its_connection_left_unread(broker: ReferenceBroker) -> None:
    broker.set_quota({"user": "al"}, producer_byte_rate=1_000)
    waits: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "al",
            "sasl.password": "pw",
            "throttle_cb": lambda event: waits.append(event.throttle_time),
            "max.in.flight": 1,
            "linger.ms": 0,
        }
    )

    def written(count: int) -> bool | None:
        producer.poll(0.05)
        return broker.end_offset("t") == count or None

    producer.produce("t", b"x" * 12_000)
    wait_until(lambda: written(1))
    wait_until(lambda: (producer.poll(0.05) is not None and waits) or None)
    assert 2 < waits[0] < 3
    producer.produce("t", b"next")
    producer.poll(0.5)
    assert not written(2)
    broker.advance(3_000)
    wait_until(lambda: written(2))
    broker.set_quota({"user": "al"}, producer_byte_rate=None)
    broker.advance(60_000)
    assert producer.flush(10) == 0


def test_a_share_consumer_is_throttled_and_gets_the_record_when_its_lock_has_ended(broker: ReferenceBroker) -> None:
    settings: dict[str, Any] = broker.client_settings("al")
    broker.set_quota({"user": "al"}, consumer_byte_rate=500)
    broker.produce("t", bytes(5_000))
    with KafkaShareConsumer("t", group_id="g", **settings) as consumer:

        def throttled() -> bool | None:
            assert not consumer.poll(timeout_ms=100)
            return consumer.metrics()[FETCH]["fetch-throttle-time-max"] > 0 or None

        wait_until(throttled)
        broker.set_quota({"user": "al"}, consumer_byte_rate=None)
        broker.advance(30_000)
        (record,) = consumer.poll(timeout_ms=20_000)
        assert (record.value, record.delivery_count) == (bytes(5_000), 2)
