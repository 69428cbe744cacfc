"""A pytest plugin: a Kafka with share groups for the tests of your programs, without Docker and without waiting.

pytest loads it through the entry point `pytest11` in every environment where this package is installed, so it imports
nothing of the package until a test asks for a fixture. It must not change anything for tests that do not.

- `share_broker`: a running `ReferenceBroker`, one for the whole session and empty at the beginning of each test
- `share_topic`: makes topics, with records in them
- `share_consumer`: makes consumers that read from the start, and closes them at the end of the test
- `share_broker_session`: the broker of the session for fixtures of wider scope, which need its address only

PYTEST_DONT_REWRITE: nothing is asserted here, and of an editable installation pytest would warn that it came too late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_share.broker import ReferenceBroker
    from kafka_share.broker.record_input import RecordInput
    from kafka_share.consumer import KafkaShareConsumer

DEFAULT_GROUP: Final = "test-group"
_CLOSE_TIMEOUT_MS: Final = 5_000
_MARKER: Final = "share_broker(**settings): the fixture share_broker is a ReferenceBroker for this test alone, made so"


class ShareTopicFactory(Protocol):
    """What the fixture `share_topic` is, for annotations."""

    def __call__(
        self,
        name: str | None = None,
        records: Iterable[RecordInput] = (),
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic with these records in partition 0, and return its name ("topic-1" and so on by default).

        Records are values, (key, value) or (key, value, headers). Raises `InvalidArgumentError`.
        """


class ShareConsumerFactory(Protocol):
    """What the fixture `share_consumer` is, for annotations."""

    def __call__(self, *topics: str, group_id: str = DEFAULT_GROUP, **config: Any) -> KafkaShareConsumer[Any, Any]:
        """Make a consumer on the broker of the test; `config` has its other settings.

        Its group reads from the start, unless the test has set the group's share.auto.offset.reset before. Raises what
        `KafkaShareConsumer` raises.
        """


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def share_broker_session() -> Iterator[ReferenceBroker]:
    """The broker of the session. Its address stays the same; what is in it is gone at the next test's beginning."""
    from kafka_share.broker import ReferenceBroker

    with ReferenceBroker() as broker:
        yield broker


@pytest.fixture
def share_broker(request: pytest.FixtureRequest) -> Iterator[ReferenceBroker]:
    """A Kafka broker without topics and groups. The marker of this name makes one with other settings for a test."""
    marker = request.node.get_closest_marker("share_broker")
    if marker is None:
        broker: ReferenceBroker = request.getfixturevalue("share_broker_session")
        if not broker.is_running:  # an earlier test has stopped it
            broker.start()
        broker.reset()
        yield broker
        return
    from kafka_share.broker import ReferenceBroker

    with ReferenceBroker(*marker.args, **marker.kwargs) as own:
        yield own


@pytest.fixture
def share_topic(share_broker: ReferenceBroker) -> ShareTopicFactory:
    """Makes topics: `share_topic("orders", [b"1", ("key", b"2")], partitions=2)` returns "orders"."""

    def make(
        name: str | None = None,
        records: Iterable[RecordInput] = (),
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        chosen = f"topic-{len(share_broker.topics()) + 1}" if name is None else name
        share_broker.create_topic(chosen, partitions, config=config)
        written = list(records)
        if written:
            share_broker.produce_batch(chosen, written)
        return chosen

    return make


@pytest.fixture
def share_consumer(share_broker: ReferenceBroker) -> Iterator[ShareConsumerFactory]:
    """Makes consumers that read from the start, and closes them: `share_consumer("orders", max_poll_records=1)`.

    On a broker with users say who it is: `share_consumer("orders", **share_broker.client_settings("alice"))`.
    """
    from kafka_share.consumer import KafkaShareConsumer

    made: list[KafkaShareConsumer[Any, Any]] = []

    def make(*topics: str, group_id: str = DEFAULT_GROUP, **config: Any) -> KafkaShareConsumer[Any, Any]:
        if "share.auto.offset.reset" not in share_broker.group_config(group_id):
            share_broker.set_group_config(group_id, share_auto_offset_reset="earliest")
        settings = {**share_broker.client_settings(), **config}
        made.append(KafkaShareConsumer[Any, Any](*topics, group_id=group_id, **settings))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(timeout_ms=_CLOSE_TIMEOUT_MS)
