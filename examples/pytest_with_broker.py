"""Tests of an application against the reference broker, for copying into a project of yours.

    python -m pytest examples/pytest_with_broker.py

`handle_orders` stands for the application. Name your own file test_….py, so that pytest finds it by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

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
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        running.create_topic("orders")
        running.set_group_config(GROUP, share_auto_offset_reset="earliest")
        yield running


def left_over(broker: ReferenceBroker) -> list[bytes]:
    """What the next worker would get: everything that comes before a marker."""
    broker.produce("orders", b"marker")
    found: list[bytes] = []
    with KafkaShareConsumer[bytes, bytes](
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id=GROUP
    ) as consumer:
        while b"marker" not in found:
            found += [record.value for record in consumer.poll(timeout_ms=1_000)]
    return found[:-1]


def test_orders_are_handled_when_they_are_good(broker: ReferenceBroker) -> None:
    broker.produce("orders", b'{"id": 7}')
    broker.produce("orders", b'{"id": 8}')
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=2)
    assert handled == [7, 8]
    assert left_over(broker) == []


def test_a_bad_order_is_set_aside_when_it_cannot_be_read(broker: ReferenceBroker) -> None:
    broker.produce("orders", b"not JSON")
    broker.produce("orders", b'{"id": 9}')
    handled: list[int] = []
    handle_orders(broker.bootstrap_servers, handled, max_records=2)
    assert handled == [9]
    assert left_over(broker) == []


def test_an_order_comes_again_when_a_worker_forgets_it(broker: ReferenceBroker) -> None:
    """No waiting for the lock of 30 s: the broker's clock is pushed forward."""
    broker.produce("orders", b'{"id": 10}')
    with KafkaShareConsumer[bytes, bytes](
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id=GROUP
    ) as forgetful:
        assert len(forgetful.poll(timeout_ms=10_000)) == 1
        loaded = broker.share_partition(GROUP, "orders")
        assert loaded is not None
        assert loaded.ranges[0].state.name == "ACQUIRED"
        broker.advance(30_000)
        handled: list[int] = []
        handle_orders(broker.bootstrap_servers, handled, max_records=1)
    assert handled == [10]
