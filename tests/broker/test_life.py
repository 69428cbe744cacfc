"""Starting, stopping and resetting a `ReferenceBroker`, with what clients and tests see of it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.waiting import poll_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidArgumentError
from kafka_share.protocol.cluster import MetadataRequest


def test_it_starts_and_stops_without_a_with_statement() -> None:
    before = set(threading.enumerate())
    broker = ReferenceBroker()
    assert not broker.is_running
    broker.start()
    assert broker.is_running
    with pytest.raises(IllegalStateError, match="running already"):
        broker.start()
    broker.stop()
    broker.stop()
    assert not broker.is_running
    assert set(threading.enumerate()) <= before


def test_it_says_that_it_has_no_address_before_it_has_started() -> None:
    with pytest.raises(IllegalStateError, match=r"no address before it runs.*start\(\)"):
        _ = ReferenceBroker().bootstrap_servers


def test_topics_and_addresses_are_the_same_when_it_starts_again() -> None:
    broker = ReferenceBroker(nodes=2)
    with broker:
        servers = broker.bootstrap_servers
        broker.create_topic("t", partitions=2)
        broker.produce("t", "kept", partition=1)
        broker.stop_node(2)
    assert broker.bootstrap_servers == servers
    with pytest.raises(IllegalStateError, match="not running"):
        broker.topics()
    with broker:
        assert broker.bootstrap_servers == servers
        assert [record.value for record in broker.records("t")] == [b"kept"]
        assert {broker.leader("t", 0), broker.leader("t", 1)} <= {1, 2}
        broker.stop_node(2)  # so it runs again
        broker.check()


def test_a_consumer_goes_on_when_the_broker_is_down_for_a_while() -> None:
    broker = ReferenceBroker()
    broker.start()
    broker.create_topic("t")
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    with KafkaShareConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
        broker.produce("t", b"before")
        assert [record.value for record in poll_until(consumer, 1)] == [b"before"]
        consumer.commit_sync()
        broker.stop()
        broker.start()
        broker.produce("t", b"after")
        assert [record.value for record in poll_until(consumer, 1)] == [b"after"]
    broker.stop()


def test_a_blocking_consumer_works_in_the_coroutine_that_entered_the_broker() -> None:
    async def use() -> list[bytes | None]:
        async with ReferenceBroker() as broker:
            broker.create_topic("t")
            broker.set_group_config("g", share_auto_offset_reset="earliest")
            broker.produce("t", b"work")
            with KafkaShareConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
                return [record.value for record in poll_until(consumer, 1)]

    before = set(threading.enumerate())
    assert asyncio.run(use()) == [b"work"]
    assert set(threading.enumerate()) <= before


def test_nodes_are_stopped_and_started_from_a_coroutine() -> None:
    async def use() -> None:
        async with ReferenceBroker(nodes=2) as broker:
            broker.create_topic("t", replication_factor=2)
            first = broker.leader("t")
            broker.stop_node(first)
            assert broker.leader("t") == 3 - first
            broker.start_node(first)

    asyncio.run(use())


# ---- reset


def test_nothing_is_left_when_it_was_reset() -> None:
    with ReferenceBroker(nodes=2, config={"num.partitions": 3}) as broker:
        servers = broker.bootstrap_servers
        old_id = broker.create_topic("t", config={"max.message.bytes": "100"})
        broker.set_broker_config({"num.partitions": 5})
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce("t", b"x")
        broker.stop_node(2)
        broker.faults.drop("Metadata")
        advanced_ms = broker.clock.now_ms() + 3_600_000
        broker.advance(3_600_000)
        with KafkaShareConsumer("t", bootstrap_servers=servers, group_id="g") as consumer:
            poll_until(consumer, 1)
        broker.reset()
        assert broker.bootstrap_servers == servers
        assert (broker.topics(), broker.groups(), broker.requests()) == ({}, {}, [])
        assert broker.faults.pending() == 0
        assert broker.clock.now_ms() < advanced_ms
        broker.stop_node(2)
        with KafkaShareAdmin(bootstrap_servers=servers) as admin:
            (config,) = admin.describe_group_configs(["g"]).values()
            assert isinstance(config, dict)
            assert config["share.auto.offset.reset"].value == "latest"
        broker.start_node(2)
        assert broker.create_topic("t") != old_id
        broker.produce("t", bytes(1_000))
        assert broker.end_offset("t") == 1
        broker.check()


def test_connections_break_when_it_is_reset() -> None:
    with ReferenceBroker() as broker, WireConnection(broker.bootstrap_servers) as client:
        client.call(MetadataRequest(topics=None), 12)
        broker.reset()
        assert client.is_closed_by_broker()


def test_the_settings_given_at_the_start_hold_when_it_was_reset() -> None:
    with ReferenceBroker(kafka_version="4.1", config={"group.share.record.lock.duration.ms": 20_000}) as broker:
        broker.reset()
        assert "4.1" in repr(broker)
        with pytest.raises(InvalidArgumentError, match="no topic 'gone'"):
            broker.records("gone")
        with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            (config,) = admin.describe_group_configs(["g"]).values()
            assert isinstance(config, dict)
            assert config["share.record.lock.duration.ms"].value == "20000"


def test_the_repr_says_where_it_is_and_whether_it_runs() -> None:
    broker = ReferenceBroker()
    assert repr(broker) == "<ReferenceBroker not started, Kafka 4.3>"
    with broker:
        assert repr(broker) == f"<ReferenceBroker {broker.bootstrap_servers} running, Kafka 4.3>"
    assert repr(broker) == f"<ReferenceBroker {broker.bootstrap_servers} stopped, Kafka 4.3>"
