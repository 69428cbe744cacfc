"""One reference broker for each test, consumers that are closed at its end, and waits on conditions, not on time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.consumers import Consumer, MakeConsumer

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        yield running


@pytest.fixture
def topic(broker: ReferenceBroker) -> str:
    """A topic with one partition."""
    broker.create_topic("t")
    return "t"


@pytest.fixture
def make_consumer(broker: ReferenceBroker) -> Iterator[MakeConsumer]:
    """Makes consumers of one group, which reads from the start unless the test says otherwise."""
    made: list[Consumer] = []
    configured: set[str] = set()

    def make(*topics: str, group_id: str = "g", reset: str | None = "earliest", **config: Any) -> Any:
        if reset is not None and group_id not in configured:
            broker.set_group_config(group_id, {"share.auto.offset.reset": reset})
            configured.add(group_id)
        servers = config.pop("bootstrap_servers", broker.bootstrap_servers)
        consumer: Consumer = KafkaShareConsumer(*topics, bootstrap_servers=servers, group_id=group_id, **config)
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=5_000)


@pytest.fixture
def consumer(topic: str, make_consumer: MakeConsumer) -> Consumer:
    """One consumer of the topic, with the default settings."""
    return make_consumer(topic)


@pytest.fixture
def explicit_consumer(topic: str, make_consumer: MakeConsumer) -> Consumer:
    """One consumer of the topic that acknowledges each record itself, and gets what it releases again at once."""
    return make_consumer(topic, share_acknowledgement_mode="explicit", release_backoff_ms=0)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.is_alive()]
    assert not left, f"threads left behind: {left}"
