"""A share group on a topic that is compacted under it: what is gone is skipped, and nothing gets stuck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.wire_connection import WireConnection

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.broker import BrokerClock, ReferenceBroker
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import encode_batch

SETTINGS = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}


def _put(broker: ReferenceBroker, text: str) -> None:
    """Records of a segment of their own: "a1 b-" is a key and a value of one letter, "-" for a tombstone."""
    broker.advance(2_000)
    values: Sequence[Any] = [(word[0], None if word[1] == "-" else word[1]) for word in text.split()]
    broker.produce_batch("prices", values)


def _seen(records: Sequence[ShareRecord[Any, Any]]) -> list[tuple[int, bytes | None, int]]:
    return [(record.offset, record.value, record.delivery_count) for record in records]


def test_released_records_that_are_compacted_are_skipped_and_the_start_offset_moves_on() -> None:
    with ReferenceBroker(clock=BrokerClock(manual=True)) as broker:
        broker.create_topic("prices", config=SETTINGS)
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        _put(broker, "a1 b1 c1")
        _put(broker, "a2 d1 e1")
        _put(broker, "c2 f1 g1")
        with KafkaShareConsumer(
            "prices",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            share_acknowledgement_mode="explicit",
        ) as consumer:
            first = consumer.poll(timeout_ms=10_000)
            assert [record.offset for record in first] == list(range(9))
            for record in first:
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
            consumer.commit_sync()
            _put(broker, "a3 d2 b2 h1")
            _put(broker, "z0")
            broker.advance(15_000)
            assert [record.offset for record in broker.records("prices")] == [5, 6, 7, 8, 9, 10, 11, 12, 13]
            again = consumer.poll(timeout_ms=10_000)
            released = [(5, b"1", 2), (6, b"2", 2), (7, b"1", 2), (8, b"1", 2)]
            assert _seen(again) == [*released, (9, b"3", 1), (10, b"2", 1), (11, b"2", 1), (12, b"1", 1), (13, b"0", 1)]
            for record in again:
                consumer.acknowledge(record)
            consumer.commit_sync()
            _put(broker, "y1")
            (last,) = consumer.poll(timeout_ms=10_000)
            assert (last.offset, last.delivery_count) == (14, 1)
            window = broker.share_partition("g", "prices")
            assert window is not None
            assert window.start_offset == 14
        broker.check()


def test_a_group_that_begins_on_a_compacted_topic_gets_what_is_left_and_acknowledges_the_gaps() -> None:
    with ReferenceBroker(clock=BrokerClock(manual=True)) as broker:
        broker.create_topic("prices", config=SETTINGS)
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        for text in ("a1 b1 c1", "a2 b-", "a3 d1", "z0"):
            _put(broker, text)
        broker.advance(15_000)
        with KafkaShareConsumer("prices", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            records = consumer.poll(timeout_ms=10_000)
            assert _seen(records) == [(2, b"1", 1), (4, None, 1), (5, b"3", 1), (6, b"1", 1), (7, b"0", 1)]
            consumer.commit_sync()
        assert broker.stored_offset("g", "prices") is not None
        with KafkaShareConsumer("prices", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            _put(broker, "y1")
            assert _seen(consumer.poll(timeout_ms=10_000)) == [(8, b"1", 1)]
        broker.check()


def test_batches_that_have_lost_all_records_are_passed_over() -> None:
    """They stay because they say how far a producer's sequence numbers have come."""
    clock = BrokerClock(manual=True)
    with ReferenceBroker(clock=clock) as broker, WireConnection(broker.bootstrap_servers) as connection:
        broker.create_topic("prices", config=SETTINGS)
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        asked = ProduceRequest.TopicProduceData
        for producer_id in (5, 6):
            broker.advance(2_000)
            records = encode_batch(
                [(0, clock.now_ms(), b"a", b"1", ()), (1, clock.now_ms(), b"a", b"2", ())],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
            )
            data = asked(name="prices", partition_data=[asked.PartitionProduceData(index=0, records=records)])
            connection.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 12)
        _put(broker, "a3")
        _put(broker, "z0")
        broker.advance(15_000)
        assert [record.offset for record in broker.records("prices")] == [4, 5]
        with KafkaShareConsumer("prices", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            assert _seen(consumer.poll(timeout_ms=10_000)) == [(4, b"3", 1), (5, b"0", 1)]
            assert set(consumer.commit_sync().values()) == {None}
            window = broker.share_partition("g", "prices")
            assert window is not None
            assert window.start_offset == 6, "the offsets of the empty batches were acknowledged as gaps"
