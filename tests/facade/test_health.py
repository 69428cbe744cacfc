"""`health`: what a liveness probe is told, from whatever thread it asks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from facade.delivery_checks import produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import patience_s, poll_until, poll_while, wait_until

from kafka_share import AcknowledgeType, Health, TopicPartition
from kafka_share.broker import ReferenceBroker

NOT_JOINED = Health(
    is_joined=False,
    assigned=frozenset(),
    missing_topics=frozenset(),
    error=None,
    error_for_ms=None,
    is_fatal=False,
    oldest_unacknowledged=None,
)


@pytest.fixture(autouse=True)
def topic(broker: ReferenceBroker) -> None:
    broker.create_topic("t", partitions=2)


def oldest(consumer: Consumer) -> tuple[str, int, int] | None:
    found = consumer.health().oldest_unacknowledged
    return None if found is None else (found.topic, found.partition, found.offset)


@pytest.mark.behaviour("metrics")
def test_health_shows_membership_and_assignment_from_the_first_poll_until_close(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """`health` shows whether the consumer has joined and what it may fetch, on any thread, while a poll waits too."""
    consumer = make_consumer("t")
    assert consumer.health() == NOT_JOINED
    poll = threading.Thread(target=lambda: consumer.poll(timeout_ms=int(patience_s() * 1_000)))
    poll.start()
    wait_until(lambda: consumer.health().is_joined and len(consumer.health().assigned) == 2)
    assert consumer.health().assigned == {TopicPartition("t", 0), TopicPartition("t", 1)}
    broker.produce("t", b"v")
    poll.join()
    consumer.close()
    assert consumer.health() == NOT_JOINED


@pytest.mark.parametrize("mode", [{}, {"share_acknowledgement_mode": "explicit"}])
def test_health_names_the_record_that_is_held_longest(
    broker: ReferenceBroker, make_consumer: MakeConsumer, mode: dict[str, Any]
) -> None:
    consumer = make_consumer("t", **mode)
    produce_values(broker, "t", 3)
    records = poll_until(consumer, 3) if not mode else list(consumer.poll(timeout_ms=int(patience_s() * 1_000)))
    first = records[0] if mode else records[-1]
    assert oldest(consumer) is not None
    if mode:
        for record in records:
            assert oldest(consumer) == (record.topic, record.partition, record.offset)
            consumer.acknowledge(record)
    else:
        assert oldest(consumer) == (first.topic, first.partition, oldest(consumer)[2])  # type: ignore[index]
    consumer.commit_sync()
    assert oldest(consumer) is None


def test_health_names_the_record_that_no_thread_has_acknowledged_in_an_open_window(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A renewed one is still held; what was acknowledged for good is not, though a later poll brought it."""
    consumer = make_consumer("t", share_acknowledgement_mode="explicit", explicit_window_records=10)
    produce_values(broker, "t", 3)
    one, two, three = poll_until(consumer, 3)
    consumer.acknowledge(three)
    consumer.acknowledge(one, AcknowledgeType.RENEW)
    assert oldest(consumer) == ("t", 0, one.offset)
    consumer.acknowledge_with_result(one).result(patience_s())
    assert oldest(consumer) == ("t", 0, two.offset)
    held_ms = [found.held_for_ms for found in [consumer.health().oldest_unacknowledged] if found]
    wait_until(
        lambda: (found := consumer.health().oldest_unacknowledged) is not None and found.held_for_ms > held_ms[0]
    )
    consumer.acknowledge(two)
    assert oldest(consumer) is None


@pytest.mark.behaviour("metrics")
def test_health_shows_an_outage_and_how_long_it_lasts_until_a_broker_answers(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """`health` shows an outage as its error, with its age, before any poll raises it, and nothing when it is over."""
    consumer = make_consumer("t")
    poll_while(consumer, lambda: not consumer.health().is_joined)
    broker.stop_node(1)
    poll_while(consumer, lambda: (consumer.health().error_for_ms or 0) < 50)
    assert consumer.health().error is not None
    assert not consumer.health().is_fatal
    broker.start_node(1)
    poll_while(consumer, lambda: consumer.health().error is not None)
    assert consumer.health().error_for_ms is None
