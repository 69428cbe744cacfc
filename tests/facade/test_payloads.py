"""What a record carries: codecs, headers, empty and missing parts, timestamps, sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from facade.delivery_checks import left_for_others, only_result
from support.consumers import MakeConsumer, Record
from support.waiting import offsets, poll_until

from kafka_share import TimestampType
from kafka_share.broker import ReferenceBroker
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_format import CODEC_NAMES, Codec

Headers = Sequence[tuple[str, bytes | None]]


def roundtrip(broker: ReferenceBroker, make_consumer: MakeConsumer, headers: Headers) -> Record:
    """The one record that was produced with these headers."""
    broker.create_topic("t")
    broker.produce("t", b"v", headers=headers)
    (record,) = poll_until(make_consumer("t"), 1)
    return record


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_come_whole_when_they_are_compressed(
    codec: Codec, broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Records that are compressed with any codec come whole, with key, value and header."""
    sent = [(i, 1_000 + i, b"key %d" % i, b"value %d " % i * 20, (("n", b"%d" % i),)) for i in range(50)]
    broker.append_batches(
        topic, encode_batch(sent[:30], codec=codec) + encode_batch(sent[30:], base_offset=30, codec=codec)
    )
    consumer = make_consumer(topic)
    found = poll_until(consumer, 50)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == sent
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("fetching")
def test_headers_keep_order_repetition_and_missing_values(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """Values, order, repeated names, empty and missing values are kept; a dict of them has the last of each name."""
    headers = [("b", b"1"), ("a", b"2"), ("b", None), ("c", b""), ("b", b"3"), ("", b"4"), ("ü", b"5")]
    record = roundtrip(broker, make_consumer, headers)
    assert record.headers == tuple(headers)
    assert dict(record.headers)["b"] == b"3"


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(
    "headers", [[(f"h{i}", b"%d" % i) for i in range(100)], [("big", bytes(range(256)) * 2_000)]], ids=["100", "large"]
)
def test_headers_come_whole_when_they_are_many_or_large(
    headers: Headers, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A hundred headers of one record come whole, and so does one of half a megabyte."""
    assert roundtrip(broker, make_consumer, headers).headers == tuple(headers)


class Spy:
    """A deserializer that remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[tuple[str, bytes | None]], bytes | None]] = []

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        self.calls.append((topic, list(headers), data))
        return (topic, data)


@pytest.mark.behaviour("fetching")
def test_a_deserializer_gets_topic_and_headers_when_it_wants_them(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """An object with `deserialize` is given topic, headers and bytes, None for a missing key; what it returns comes."""
    broker.produce(topic, b"v", headers=[("h", b"1")])
    keys, values = Spy(), Spy()
    (record,) = poll_until(make_consumer(topic, key_deserializer=keys, value_deserializer=values), 1)
    assert keys.calls == [(topic, [("h", b"1")], None)]
    assert values.calls == [(topic, [("h", b"1")], b"v")]
    assert (record.key, record.value) == ((topic, None), (topic, b"v"))


@pytest.mark.behaviour("fetching")
def test_a_plain_function_deserializes_when_the_bytes_are_enough(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A callable such as json.loads is given the bytes, and is not called for a missing value."""
    for value in (b'{"n": 1}', None):
        broker.produce(topic, value, key=b"k")
    found = poll_until(make_consumer(topic, key_deserializer=bytes.decode, value_deserializer=json.loads), 2)
    assert [(r.key, r.value) for r in found] == [("k", {"n": 1}), ("k", None)]


@pytest.mark.behaviour("fetching")
def test_empty_stays_empty_and_none_stays_none(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Empty keys and values stay empty, and missing ones are None."""
    sent = [(key, value) for key in (b"", None, b"k") for value in (b"", None, b"v")]
    for key, value in sent:
        broker.produce(topic, value, key=key)
    assert [(r.key, r.value) for r in poll_until(make_consumer(topic), len(sent))] == sent


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("timestamp_ms", [0, 1, 1_700_000_000_123, 2**45])
def test_the_producers_timestamp_survives(
    timestamp_ms: int, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A CREATE_TIME timestamp comes as the producer set it, with its type."""
    broker.create_topic("any-time", config={"message.timestamp.after.max.ms": str(2**62)})
    broker.produce("any-time", b"v", timestamp_ms=timestamp_ms)
    (record,) = poll_until(make_consumer("any-time"), 1)
    assert (record.timestamp, record.timestamp_type) == (timestamp_ms, TimestampType.CREATE_TIME)


@pytest.mark.behaviour("fetching")
def test_the_brokers_timestamp_comes_when_the_topic_wants_it(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """message.timestamp.type=LogAppendTime: all records of a batch have the time of the append, and its type."""
    broker.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    before_ms = broker.clock.now_ms()
    broker.produce_batch("t", [b"1", b"2"], timestamp_ms=5)
    after_ms = broker.clock.now_ms()
    found = poll_until(make_consumer("t"), 2)
    assert {r.timestamp_type for r in found} == {TimestampType.LOG_APPEND_TIME}
    (timestamp,) = {r.timestamp for r in found}
    assert before_ms <= timestamp <= after_ms


@pytest.mark.behaviour("fetching")
def test_small_and_large_records_all_arrive_when_the_limit_is_below_all(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """10 KB and 500 KB records mixed, fetch_max_bytes 1500: all arrive, one per poll."""
    sizes = [10_000, 500_000, 10_000, 10_000, 500_000]
    for number, size in enumerate(sizes):
        broker.produce(topic, bytes([number]) * size)
    consumer = make_consumer(topic, fetch_max_bytes=1_500)
    for number, size in enumerate(sizes):
        (record,) = poll_until(consumer, 1)
        assert offsets([record]) == [number]
        assert record.value == bytes([number]) * size


@pytest.mark.behaviour("fetching")
def test_no_payload_is_shown_when_a_record_is_printed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The text of a record names its place, not its key, value or headers: log lines must not spill payloads."""
    broker.produce(topic, b"secret", key=b"secret", headers=[("secret", b"secret")])
    (record,) = poll_until(make_consumer(topic), 1)
    assert "t-0@0" in repr(record)
    assert "secret" not in repr(record)


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(("partitions", "batches"), [(5, 10), (1, 10)])
def test_every_record_comes_once_when_there_are_thousands(
    partitions: int, batches: int, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Ten batches of a thousand records on each partition: each record is delivered once, in order, and accepted."""
    broker.create_topic("t", partitions=partitions)
    for partition in range(partitions):
        for _ in range(batches):
            broker.produce_batch("t", [b"v"] * 1_000, partition=partition)
    consumer = make_consumer("t", max_poll_records=1_000)
    total = partitions * batches * 1_000
    found = poll_until(consumer, total)
    for partition in range(partitions):
        assert [r.offset for r in found if r.partition == partition] == list(range(batches * 1_000))
    assert set(consumer.commit_sync().values()) <= {None}
    consumer.close()
    assert left_for_others(broker, make_consumer, "t", partitions=partitions) == []
