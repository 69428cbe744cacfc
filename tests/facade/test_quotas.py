"""Quotas as clients see them: throttle times, and a connection that the broker does not read from meanwhile."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareConsumer
from kafka_share.broker import BrokerClock, ReferenceBroker, Security
from kafka_share.protocol.cluster import MetadataRequest

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


def test_an_admin_client_that_makes_too_many_partitions_is_left_unread(broker: ReferenceBroker) -> None:
    """librdkafka sends versions of CreateTopics that do not know the error."""
    broker.set_quota({"client-id": "maker"}, controller_mutation_rate=1)
    confluent: Any = importlib.import_module("confluent_kafka.admin")
    admin = confluent.AdminClient(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "al",
            "sasl.password": "pw",
            "client.id": "maker",
        }
    )
    admin.create_topics([confluent.NewTopic("many", 12, 1)])["many"].result(20)
    future = admin.create_topics([confluent.NewTopic("more", 1, 1)])["more"]
    broker.advance(999)
    assert "more" not in broker.topics()
    broker.advance(1)
    future.result(20)
    assert "more" in broker.topics()


METADATA = MetadataRequest(topics=[])


def served(client: WireConnection, times: int = 1) -> bool:
    """Each time the broker accepts one more client of those that have connected before."""
    return all(client.call(METADATA, 12).brokers for _ in range(times))


def test_clients_of_an_address_wait_to_be_turned_away_while_others_are_served() -> None:
    with ReferenceBroker(clock=BrokerClock(manual=True)) as broker:
        first = WireConnection(broker.bootstrap_servers)
        assert served(first)
        broker.set_quota({"ip": "localhost"}, connection_creation_rate=1)
        let_in = [WireConnection(broker.bootstrap_servers) for _ in range(10)]
        assert all(served(one) for one in let_in)
        with WireConnection(broker.bootstrap_servers) as turned_away:
            assert served(first, 2)
            broker.advance(999)
            assert not turned_away.is_answered()
            broker.advance(1)
            assert turned_away.is_closed_by_broker()
        with WireConnection(broker.bootstrap_servers) as again:
            assert served(first, 2)
            broker.stop_node(1)
            assert again.is_closed_by_broker()
            broker.start_node(1)
        broker.set_quota({"ip": "localhost"}, connection_creation_rate=None)
        with WireConnection(broker.bootstrap_servers) as last:
            assert served(last)
        for one in (first, *let_in):
            one.close()


def test_clients_that_are_turned_away_take_places_until_they_are_closed() -> None:
    with ReferenceBroker(clock=BrokerClock(manual=True), config={"max.connections": 12}) as broker:
        broker.set_quota({"ip": None}, connection_creation_rate=1)
        let_in = [WireConnection(broker.bootstrap_servers) for _ in range(10)]
        waiting = [WireConnection(broker.bootstrap_servers) for _ in range(2)]
        assert served(let_in[0], 13)
        with WireConnection(broker.bootstrap_servers) as late:
            broker.set_quota({"ip": None}, connection_creation_rate=None)
            late.send(METADATA, 12)
            assert served(let_in[0], 3)
            assert not late.is_answered()
            broker.advance(1_000)
            assert late.receive().brokers
        for one in (*let_in, *waiting):
            one.close()


def test_a_client_whose_requests_take_too_much_time_is_throttled() -> None:
    with ReferenceBroker() as broker:
        broker.set_quota({"client-id": "wire"}, request_percentage=0.000_01)
        with WireConnection(broker.bootstrap_servers) as client:
            assert client.call(METADATA, 12).throttle_time_ms == 1_000
        with WireConnection(broker.bootstrap_servers, client_id="other") as other:
            assert other.call(METADATA, 12).throttle_time_ms == 0
