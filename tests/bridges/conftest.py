"""A reference broker with a topic, and a group that begins at its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import BrokerUnreachableError

TOPIC, GROUP = "tasks", "workers"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        running.create_topic(TOPIC)
        running.set_group_config(GROUP, share_auto_offset_reset="earliest")
        yield running


def failing_twice(monkeypatch: pytest.MonkeyPatch, consumer: type[Any]) -> None:
    """The first two polls of each consumer of this class raise what may pass."""
    poll, failures = consumer.poll, [BrokerUnreachableError("no route to it")] * 2

    def fails_first(self: Any, timeout_ms: int) -> Any:
        if failures:
            raise failures.pop()
        return poll(self, timeout_ms)

    monkeypatch.setattr(consumer, "poll", fails_first)


def left_over(broker: ReferenceBroker) -> list[int]:
    """The offsets that the next member gets before a record that is written now."""
    broker.produce(TOPIC, b"marker")
    found: list[int] = []
    servers = broker.bootstrap_servers
    with KafkaShareConsumer(TOPIC, bootstrap_servers=servers, group_id=GROUP) as consumer:
        for record in consumer:
            if record.value == b"marker":
                return found
            found.append(record.offset)
    raise AssertionError("a loop over a consumer does not end")
