"""Tests of an application that uses share groups, for copying into a project of yours.

    python -m pytest examples/pytest_with_broker.py

The fixtures `share_broker`, `share_topic` and `share_consumer` come with kafka_share: pytest finds them by itself.
`handle_orders` stands for the application. Name your own file test_….py, so that pytest finds it by itself, too.
"""

from __future__ import annotations

import json

import pytest

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import NotLeaderOrFollowerError
from kafka_share.pytest_plugin import ShareConsumerFactory, ShareTopicFactory

GROUP = "order-workers"


def handle_orders(servers: str, handled: list[int], max_records: int) -> None:
    """The application under test: processes orders until it has seen this many records."""
    seen = 0
    with KafkaShareConsumer[bytes, bytes](
        "orders", bootstrap_servers=servers, group_id=GROUP, share_acknowledgement_mode="explicit"
    ) as consumer:
        while seen < max_records:
            for record in consumer.poll(timeout_ms=1_000):
                seen += 1
                try:
                    handled.append(json.loads(record.value)["id"])
                except ValueError:
                    consumer.acknowledge(record, AcknowledgeType.REJECT)
                else:
                    consumer.acknowledge(record)


@pytest.fixture
def broker(share_broker: ReferenceBroker) -> ReferenceBroker:
    """The broker, with the group of the application reading from the start: a new share group starts at the end."""
    share_broker.set_group_config(GROUP, share_auto_offset_reset="earliest")
    return share_broker


def left_over(broker: ReferenceBroker, share_consumer: ShareConsumerFactory) -> list[bytes]:
    """What the next worker would get: everything that comes before a marker."""
    broker.produce("orders", "marker")
    found: list[bytes] = []
    consumer = share_consumer("orders", group_id=GROUP)
    while b"marker" not in found:
        found += [record.value for record in consumer.poll(timeout_ms=1_000)]
    return found[:-1]


def test_orders_are_handled_when_they_are_good(
    broker: ReferenceBroker, share_topic: ShareTopicFactory, share_consumer: ShareConsumerFactory
) -> None:
    share_topic("orders", ['{"id": 7}', '{"id": 8}'])
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=2)
    assert handled == [7, 8]
    assert left_over(broker, share_consumer) == []


def test_a_bad_order_is_set_aside_when_it_cannot_be_read(
    broker: ReferenceBroker, share_topic: ShareTopicFactory, share_consumer: ShareConsumerFactory
) -> None:
    share_topic("orders", ["not JSON", '{"id": 9}'])
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=2)
    assert handled == [9]
    assert left_over(broker, share_consumer) == []


def test_an_order_comes_again_when_a_worker_forgets_it(
    broker: ReferenceBroker, share_topic: ShareTopicFactory, share_consumer: ShareConsumerFactory
) -> None:
    """No waiting for the lock of 30 s: the broker's clock is pushed forward."""
    share_topic("orders", ['{"id": 10}'])
    forgetful = share_consumer("orders", group_id=GROUP)
    assert len(forgetful.poll(timeout_ms=10_000)) == 1
    loaded = broker.share_partition(GROUP, "orders")
    assert loaded is not None
    assert loaded.ranges[0].state.name == "ACQUIRED"
    broker.advance(30_000)
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=1)
    assert handled == [10]


def test_orders_are_handled_when_a_fetch_fails(broker: ReferenceBroker, share_topic: ShareTopicFactory) -> None:
    share_topic("orders", ['{"id": 11}'])
    broker.faults.fail("ShareFetch", NotLeaderOrFollowerError)
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=1)
    assert handled == [11]
    assert broker.faults.pending() == 0


@pytest.mark.share_broker(nodes=3, kafka_version="4.1")
def test_orders_are_handled_when_their_broker_goes_down(
    broker: ReferenceBroker, share_topic: ShareTopicFactory
) -> None:
    """The marker makes a broker for this test: three nodes that behave as Kafka 4.1."""
    share_topic("orders", ['{"id": 12}'])
    broker.stop_node(broker.leader("orders"))
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=1)
    assert handled == [12]
