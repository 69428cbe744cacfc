"""Dead-letter queues of the broker (KIP-1191, Kafka 4.4), seen by a consumer of the group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import BrokerClock, ReferenceBroker
from kafka_share.broker.inspection import StoredRecord
from kafka_share.errors import ConfigurationError

REJECTED = b"Offset rejected by client."
SPENT = b"Offset delivery count exceeded the threshold."


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(kafka_version="4.4", share_version=2, clock=BrokerClock(manual=True)) as running:
        running.create_topic("orders", partitions=4)
        running.create_topic("dlq.orders", partitions=2, config={"errors.deadletterqueue.group.enable": "true"})
        running.set_group_config(
            "g",
            share_auto_offset_reset="earliest",
            share_delivery_count_limit=2,
            errors_deadletterqueue_topic_name="dlq.orders",
        )
        yield running


def member(broker: ReferenceBroker, group: str = "g") -> Any:
    return KafkaShareConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id=group, share_acknowledgement_mode="explicit"
    )


def said(letter: StoredRecord) -> dict[str, bytes | None]:
    return {name.removeprefix("__dlq.errors."): value for name, value in letter.headers}


def test_a_rejected_record_becomes_a_dead_letter_and_an_accepted_one_does_not(broker: ReferenceBroker) -> None:
    for value in (b"good", b"bad"):
        broker.produce("orders", value, key="k", partition=3, headers={"h": "x"}, timestamp_ms=1)
    with member(broker) as consumer:
        for record in consumer.poll(timeout_ms=10_000):
            consumer.acknowledge(record, AcknowledgeType.REJECT if record.value == b"bad" else AcknowledgeType.ACCEPT)
        assert list(consumer.commit_sync().values()) == [None]
    (letter,) = broker.records("dlq.orders")
    assert (letter.partition, letter.key, letter.value) == (3 % 2, None, None)
    assert letter.timestamp == broker.clock.now_ms()
    assert said(letter) == {
        "topic": b"orders",
        "partition": b"3",
        "offset": b"1",
        "group": b"g",
        "delivery.count": b"1",
        "message": REJECTED,
    }
    window = broker.share_partition("g", "orders", 3)
    assert window is None or window.start_offset == 2


def test_a_record_that_is_released_after_its_last_delivery_becomes_a_dead_letter_with_its_content(
    broker: ReferenceBroker,
) -> None:
    broker.set_group_config("g", errors_deadletterqueue_copy_record_enable=True)
    broker.produce("orders", b"v", key="k", headers={"h": "x"})
    with member(broker) as consumer:
        for expected in (1, 2):
            (record,) = consumer.poll(timeout_ms=10_000)
            assert record.delivery_count == expected
            assert broker.records("dlq.orders") == []
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
            consumer.commit_sync()
    (letter,) = broker.records("dlq.orders")
    assert (letter.key, letter.value) == (b"k", b"v")
    assert (said(letter)["delivery.count"], said(letter)["message"]) == (b"2", SPENT)
    assert "h" not in said(letter)


@pytest.mark.parametrize("ending", ["lock", "session"])
def test_the_end_of_a_lock_or_a_session_makes_dead_letters_of_what_had_its_last_delivery(
    broker: ReferenceBroker, ending: str
) -> None:
    broker.produce_batch("orders", [b"1", b"2"])
    with member(broker) as consumer:
        for record in consumer.poll(timeout_ms=10_000):
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        consumer.commit_sync()
        assert [record.delivery_count for record in consumer.poll(timeout_ms=10_000)] == [2, 2]
        if ending == "lock":
            broker.advance(30_000)
            assert len(broker.records("dlq.orders")) == 2
    assert [said(letter)["message"] for letter in broker.records("dlq.orders")] == [SPENT, SPENT]


@pytest.mark.parametrize(
    ("name", "flag", "auto_create", "letters"),
    [
        ("dlq.there", "true", False, 1),
        ("dlq.there", "false", False, 0),
        ("other.there", "true", False, 0),
        ("dlq.missing", None, False, None),
        ("dlq.missing", None, True, 1),
        ("other.missing", None, True, None),
        ("dlq.b:ad", None, True, None),
    ],
)
def test_a_dead_letter_needs_a_topic_that_allows_it_and_has_the_prefix(
    broker: ReferenceBroker, name: str, flag: str | None, auto_create: bool, letters: int | None
) -> None:
    broker.set_broker_config({"errors.deadletterqueue.auto.create.topics.enable": auto_create})
    if flag is not None:
        broker.create_topic(name, config={"errors.deadletterqueue.group.enable": flag})
    broker.set_group_config("g", errors_deadletterqueue_topic_name=name)
    broker.produce("orders", b"bad")
    with member(broker) as consumer:
        (record,) = consumer.poll(timeout_ms=10_000)
        consumer.acknowledge(record, AcknowledgeType.REJECT)
        assert list(consumer.commit_sync().values()) == [None]
        broker.produce("orders", b"next")
        assert [record.value for record in consumer.poll(timeout_ms=10_000)] == [b"next"]
    assert (len(broker.records(name)) if name in broker.topics() else None) == letters


def test_letters_are_split_when_they_are_too_large_for_one_batch(broker: ReferenceBroker) -> None:
    broker.create_topic("dlq.small", config={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "600"})
    broker.set_group_config("g", errors_deadletterqueue_topic_name="dlq.small")
    broker.produce_batch("orders", [b"bad"] * 7)
    with member(broker) as consumer:
        for record in consumer.poll(timeout_ms=10_000):
            consumer.acknowledge(record, AcknowledgeType.REJECT)
        consumer.commit_sync()
    assert [said(letter)["offset"] for letter in broker.records("dlq.small")] == [b"%d" % i for i in range(7)]


@pytest.mark.parametrize("settings", [{"kafka_version": "4.4", "share_version": 1}, {"kafka_version": "4.3"}])
def test_there_are_no_dead_letters_below_share_version_2(settings: dict[str, Any]) -> None:
    with ReferenceBroker(**settings) as broker:
        broker.create_topic("orders")
        broker.create_topic("dlq.orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        if settings["kafka_version"] == "4.4":
            broker.set_group_config("g", errors_deadletterqueue_topic_name="dlq.orders")
        else:
            with pytest.raises(ConfigurationError):
                broker.set_group_config("g", errors_deadletterqueue_topic_name="dlq.orders")
        broker.produce("orders", b"bad")
        with member(broker) as consumer:
            (record,) = consumer.poll(timeout_ms=10_000)
            consumer.acknowledge(record, AcknowledgeType.REJECT)
            consumer.commit_sync()
        assert broker.records("dlq.orders") == []


@pytest.mark.parametrize(("version", "level"), [("4.3", 2), ("4.4", 3), ("4.4", -1)])
def test_a_share_version_that_the_kafka_version_does_not_have_is_refused(version: str, level: int) -> None:
    with pytest.raises(ConfigurationError, match=r"share\.version"):
        ReferenceBroker(kafka_version=version, share_version=level)
