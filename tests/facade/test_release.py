"""Releases with a delay, and what is known of the last delivery, through the consumer's own methods."""

from __future__ import annotations

from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidArgumentError


def held(consumer: Consumer) -> float:
    return consumer.metrics()["consumer-share-metrics"]["held-records"]


def test_a_record_comes_again_when_its_delay_is_over(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """It stays with its consumer, which may poll on, and its next delivery is the second one."""
    produce_values(broker, topic, 2)
    first, second = poll_until(explicit_consumer, 2)
    explicit_consumer.release(first, delay_ms=2_000)  # not over before the next lines, on a busy machine
    explicit_consumer.release(second, delay_ms=900_000)
    assert held(explicit_consumer) == 2
    (again,) = poll_until(explicit_consumer, 1)
    assert counted([again]) == [(0, 2)]
    assert held(explicit_consumer) == 1
    explicit_consumer.acknowledge(again)
    explicit_consumer.acknowledge(second)  # it need not wait after all
    assert held(explicit_consumer) == 0
    assert only_result(explicit_consumer.commit_sync()) is None
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


def test_close_gives_back_what_waits_for_its_release(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Others get it at once."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.release(record, delay_ms=900_000)
    explicit_consumer.close()
    assert counted(left_for_others(broker, make_consumer, topic)) == [(0, 2)]


def test_release_without_a_delay_is_an_acknowledgement(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """The same as acknowledge with RELEASE: it can be changed until it is sent."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.release(record)
    assert held(explicit_consumer) == 0
    explicit_consumer.acknowledge(record, AcknowledgeType.RELEASE)
    (again,) = poll_until(explicit_consumer, 1)
    assert counted([again]) == [(0, 2)]
    explicit_consumer.acknowledge(again)


def test_a_delay_is_final_in_an_open_window(broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer) -> None:
    """The record occupies its place in the window until it is released."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(
        topic, share_acknowledgement_mode="explicit", explicit_window_records=5, release_backoff_ms=0
    )
    (record,) = poll_until(consumer, 1)
    consumer.release(record, delay_ms=2_000)
    assert consumer.metrics()["consumer-share-metrics"]["window-records"] == 1
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(record)
    (again,) = poll_until(consumer, 1)
    assert counted([again]) == [(0, 2)]
    assert consumer.acknowledge_with_result(again).result() is None
    assert consumer.metrics()["consumer-share-metrics"]["window-records"] == 0


@pytest.mark.parametrize(
    ("delay_ms", "error"),
    [
        (-1, InvalidArgumentError),
        (900_001, InvalidArgumentError),
        ("5", TypeError),
        (True, TypeError),
        (0.5, TypeError),
    ],
)
def test_a_delay_that_cannot_be_is_refused(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer, delay_ms: Any, error: type[Exception]
) -> None:
    """A whole number of milliseconds, up to 15 minutes; the record stays as it was."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    with pytest.raises(error, match="delay_ms"):
        explicit_consumer.release(record, delay_ms)
    explicit_consumer.acknowledge(record)


def test_release_is_for_the_explicit_mode(broker: ReferenceBroker, topic: str, consumer: Consumer) -> None:
    """In implicit mode it raises, as acknowledge does."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(consumer, 1)
    for delay_ms in (0, 1_000):
        with pytest.raises(IllegalStateError, match="explicit"):
            consumer.release(record, delay_ms)


def test_a_record_knows_whether_it_is_on_its_last_delivery(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """The group's limit is looked up once; a record that came before the answer knows it, too."""
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    wait_until(lambda: record.is_last_delivery is not None, "the limit was never known")
    assert record.is_last_delivery is False
    explicit_consumer.release(record)
    (again,) = poll_until(explicit_consumer, 1)
    assert again.is_last_delivery is True
    explicit_consumer.acknowledge(again)
