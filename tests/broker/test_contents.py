"""What a test sees of a `ReferenceBroker`'s topics and groups, and what it may write as a record."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from support.waiting import patience_s, poll_until

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import InvalidArgumentError


@pytest.fixture
def broker(share_broker: ReferenceBroker) -> ReferenceBroker:
    return share_broker


def contents(broker: ReferenceBroker, topic: str = "t") -> list[tuple[Any, ...]]:
    return [(record.key, record.value, record.headers) for record in broker.records(topic)]


# ---- records, topics, groups


@pytest.mark.foreign
def test_records_show_what_a_producer_has_written(broker: ReferenceBroker) -> None:
    broker.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
    producer.produce("orders", b"1", key=b"k", headers=[("h", b"x"), ("h", None)], partition=1, timestamp=1_000)
    producer.produce("orders", b"2", partition=0, timestamp=2_000)
    assert producer.flush(patience_s()) == 0
    second, first = broker.records("orders")
    assert (first.partition, first.offset, first.timestamp, first.key, first.value) == (1, 0, 1_000, b"k", b"1")
    assert first.headers == (("h", b"x"), ("h", None))
    assert (second.topic, second.partition, second.value) == ("orders", 0, b"2")
    assert broker.records("orders", 1) == [first]
    assert "value=b'1'" in repr(first)


def test_records_are_those_that_still_exist(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    broker.produce_batch("t", [b"0", b"1", b"2"])
    broker.delete_records("t", 0, 2)
    assert [(record.offset, record.value) for record in broker.records("t")] == [(2, b"2")]
    broker.delete_records("t", 0, 3)
    assert broker.records("t") == []


@pytest.mark.foreign
def test_records_of_transactions_that_were_not_committed_are_left_out_on_demand(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    for value, ending in (("good", "commit"), ("bad", "abort"), ("open", None)):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": value})
        producer.init_transactions(patience_s())
        producer.begin_transaction()
        producer.produce("t", value)
        assert producer.flush(patience_s()) == 0
        if ending is not None:
            getattr(producer, f"{ending}_transaction")(patience_s())
    assert [record.value for record in broker.records("t")] == [b"good", b"bad", b"open"]
    assert [record.value for record in broker.records("t", read_committed=True)] == [b"good"]


def test_a_topic_or_partition_that_does_not_exist_is_named(broker: ReferenceBroker) -> None:
    broker.create_topic("t", partitions=2)
    with pytest.raises(InvalidArgumentError, match="there is no topic 'nosuch'"):
        broker.records("nosuch")
    with pytest.raises(InvalidArgumentError, match="topic 't' has partitions 0 to 1, no 2"):
        broker.records("t", 2)


def test_topics_and_groups_are_listed(broker: ReferenceBroker) -> None:
    assert (broker.topics(), broker.groups()) == ({}, {})
    broker.create_topic("b", partitions=3)
    broker.create_topic("a")
    assert broker.topics() == {"a": 1, "b": 3}
    broker.set_group_config("workers", share_auto_offset_reset="earliest")
    broker.produce("a", b"1")
    with KafkaShareConsumer("a", bootstrap_servers=broker.bootstrap_servers, group_id="workers") as consumer:
        poll_until(consumer, 1)
        assert broker.groups() == {"workers": "share"}


# ---- what may be written


def test_text_is_written_as_utf_8(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", "wért", "schlüssel", headers={"h": "köpf", "n": None})
    broker.produce("t", bytearray(b"v"), memoryview(b"k"), headers=[("h", b"1"), ("h", "2")])
    assert contents(broker) == [
        ("schlüssel".encode(), "wért".encode(), (("h", "köpf".encode()), ("n", None))),
        (b"k", b"v", (("h", b"1"), ("h", b"2"))),
    ]


def test_a_batch_has_values_and_pairs_and_records_with_headers(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    assert broker.produce_batch("t", [b"v", None, ("k", "v"), (None, b"v", {"h": b"1"})], timestamp_ms=7) == 0
    assert contents(broker) == [
        (None, b"v", ()),
        (None, None, ()),
        (b"k", b"v", ()),
        (None, b"v", (("h", b"1"),)),
    ]
    assert {record.timestamp for record in broker.records("t")} == {7}


@pytest.mark.parametrize(
    ("value", "key", "headers", "advice"),
    [
        ({"id": 1}, None, (), r"the value of a record is bytes, text or None, not a dict: write json.dumps\(value\)"),
        (b"v", ["k"], (), r"the key of a record .* not a list: write json.dumps\(key\)"),
        (("k", b"v"), None, (), r"not a tuple: write key=… .* produce_batch"),
        (7, None, (), r"not an int: write str\(value\).encode\(\)"),
        (b"v", None, ["h"], r"'h' is none: write \{\"name\": b\"value\"\}"),
        (b"v", None, {"h": 1}, r"the header 'h' of a record .* not an int"),
        (b"v", None, [(b"h", b"v")], r"pairs of name \(text\) and value"),
    ],
)
def test_the_error_says_what_to_write_when_something_is_no_record(
    broker: ReferenceBroker, value: Any, key: Any, headers: Any, advice: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=advice):
        broker.produce("t", value, key, headers=headers)


@pytest.mark.parametrize(
    ("records", "advice"),
    [
        ([], "at least one record"),
        (b"abc", r"a list of records, not a bytes: write \[value, …\]"),
        ("abc", "not a str"),
        ({"k": "v"}, "not a dict"),
        ([(b"k", b"v", (), 1)], r"a tuple of 4 is no record: write a value, \(key, value\)"),
        ([{"id": 1}], r"json.dumps\(value\)"),
    ],
)
def test_the_error_says_what_to_write_when_something_is_no_batch(
    broker: ReferenceBroker, records: Any, advice: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=advice):
        broker.produce_batch("t", records)


# ---- group configs


def test_group_configs_have_the_same_names_for_the_broker_and_the_admin_client(broker: ReferenceBroker) -> None:
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for name in ("share_delivery_count_limit", "share.delivery.count.limit"):
            broker.set_group_config("by-broker", {name: 3})
            admin.ensure_group_config("by-admin", {name: 3})
            admin.alter_group_configs("by-admin-too", {name: 3})
        broker.set_group_config("by-keyword", share_delivery_count_limit=3)
        groups = ["by-broker", "by-admin", "by-admin-too", "by-keyword"]
        described = admin.describe_group_configs(groups)
    for group in groups:
        configs = described[group]
        assert isinstance(configs, dict)
        assert configs["share.delivery.count.limit"].value == "3"
