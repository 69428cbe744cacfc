"""One reference broker for each test, consumers that are closed at its end, and waits on conditions, not on time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        yield running


@pytest.fixture
def make_consumer(broker: ReferenceBroker) -> Iterator[Callable[..., KafkaShareConsumer[Any, Any]]]:
    """Makes consumers of one group, which reads from the start unless the test says otherwise."""
    made: list[KafkaShareConsumer[Any, Any]] = []
    configured: set[str] = set()

    def make(*topics: str, group_id: str = "g", reset: str | None = "earliest", **config: Any) -> Any:
        if reset is not None and group_id not in configured:
            broker.set_group_config(group_id, {"share.auto.offset.reset": reset})
            configured.add(group_id)
        servers = config.pop("bootstrap_servers", broker.bootstrap_servers)
        consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer(
            *topics, bootstrap_servers=servers, group_id=group_id, **config
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=5_000)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.is_alive()]
    assert not left, f"threads left behind: {left}"
