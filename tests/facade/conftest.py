"""One reference broker for each test, consumers that are closed at its end, and waits on conditions, not on time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from facade.consumer_callers import CALLERS, AsyncCaller
from facade.fetch_tampering import FetchTampering
from support.consumers import Consumer, MakeConsumer

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


@pytest.fixture(params=CALLERS)
def facade(request: pytest.FixtureRequest) -> str:
    """Which façade a test's consumers are: every test runs on both, but for those that the marker keeps to one."""
    name: str = request.param
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`blocking` keeps a test to the blocking façade."""
    items[:] = [
        item for item in items if item.get_closest_marker("blocking") is None or "asyncio" not in _facade_of(item)
    ]


def _facade_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.params.get("facade", ""))


@pytest.fixture
def make_consumer(broker: ReferenceBroker, facade: str) -> Iterator[MakeConsumer]:
    """Makes consumers of one group, which reads from the start unless the test says otherwise."""
    made: list[Any] = []
    configured: set[str] = set()

    def make(*topics: str, group_id: str = "g", reset: str | None = "earliest", **config: Any) -> Any:
        if reset is not None and group_id not in configured:
            broker.set_group_config(group_id, {"share.auto.offset.reset": reset})
            configured.add(group_id)
        servers = config.pop("bootstrap_servers", broker.bootstrap_servers)
        consumer = CALLERS[facade](*topics, bootstrap_servers=servers, group_id=group_id, **config)
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=5_000)
        if isinstance(consumer, AsyncCaller):
            consumer.end()


@pytest.fixture
def tampering(monkeypatch: pytest.MonkeyPatch) -> FetchTampering:
    return FetchTampering(monkeypatch)


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
