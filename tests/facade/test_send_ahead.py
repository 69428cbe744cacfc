"""send_ahead through the consumer's own methods: a batch waits while the application works on the one before."""

from __future__ import annotations

from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, produce_values
from support.consumers import MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.share.record_state import RecordState
from kafka_share.errors import ConfigurationError


def locked(broker: ReferenceBroker, topic: str) -> list[int]:
    """The offsets that are locked for a member."""
    partition = broker.share_partition("g", topic)
    assert partition is not None
    ranges = [one for one in partition.ranges if one.state is RecordState.ACQUIRED]
    return [offset for one in ranges for offset in range(one.first, one.last + 1)]


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_each_record_comes_once_and_is_accepted_when_batches_wait(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    """With `send_ahead` a batch waits for its poll, and each record still comes once and is accepted once."""
    produce_values(broker, topic, 60)
    consumer = make_consumer(topic, send_ahead=True, max_poll_records=5, share_acknowledgement_mode=mode)
    seen: list[tuple[int, int | None]] = []
    while len(seen) < 60:
        records = consumer.poll(timeout_ms=1_000)
        seen += counted(list(records))
        if mode == "explicit":
            for record in records:
                consumer.acknowledge(record)
    assert sorted(seen) == [(offset, 1) for offset in range(60)]
    assert all(error is None for error in consumer.commit_sync().values())
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


def test_the_next_batch_is_there_before_a_poll_asks_for_it(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """One batch waits and no more; the poll that takes it has the one behind it fetched."""
    produce_values(broker, topic, 4)
    consumer = make_consumer(topic, send_ahead=True, max_poll_records=1)
    assert counted(poll_until(consumer, 1)) == [(0, 1)]
    wait_until(lambda: locked(broker, topic) == [0, 1], "no batch was fetched ahead")
    assert counted(list(consumer.poll(timeout_ms=10_000))) == [(1, 1)]
    wait_until(lambda: locked(broker, topic) == [1, 2], "the poll that took it had none fetched")


def test_what_waits_is_released_when_the_consumer_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Others get it at once; it has spent a delivery, though nobody has seen it."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic, send_ahead=True, max_poll_records=1)
    assert counted(poll_until(consumer, 1)) == [(0, 1)]
    wait_until(lambda: locked(broker, topic) == [0, 1], "no batch was fetched ahead")
    consumer.commit_sync()
    consumer.close()
    assert counted(left_for_others(broker, make_consumer, topic)) == [(1, 2), (2, 1)]


def test_what_waits_is_released_when_its_topic_is_left(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, send_ahead=True, max_poll_records=1)
    assert counted(poll_until(consumer, 1)) == [(0, 1)]
    wait_until(lambda: locked(broker, topic) == [0, 1], "no batch was fetched ahead")
    consumer.commit_sync()
    consumer.unsubscribe()
    wait_until(lambda: locked(broker, topic) == [], "what waited was not released")
    assert counted(left_for_others(broker, make_consumer, topic)) == [(1, 2)]


@pytest.mark.parametrize(
    "settings",
    [
        {"share_acquire_mode": "record_limit"},
        {"share_acknowledgement_mode": "explicit", "explicit_window_records": 5},
    ],
)
def test_it_is_refused_with_what_it_cannot_be_combined_with(
    topic: str, make_consumer: MakeConsumer, settings: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match="send_ahead"):
        make_consumer(topic, send_ahead=True, **settings)
