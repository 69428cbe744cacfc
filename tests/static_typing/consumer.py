"""What a strict user's type checker sees of the consumer: checked by mypy and pyright, never run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, assert_type

from kafka_share import (
    AcknowledgeType,
    ArrowRecords,
    AsyncShareAdmin,
    AsyncShareConsumer,
    KafkaShareAdmin,
    KafkaShareConsumer,
    KafkaShareError,
    ShareAdminSettings,
    ShareConsumerSettings,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
    TopicPartition,
)
from kafka_share.deserializers import Headers


def without_parameters_key_and_value_are_bytes(record: ShareRecord, records: ShareRecords) -> None:
    assert_type(record.key, bytes | None)
    assert_type(record.value, bytes | None)
    assert_type(records[0], ShareRecord[bytes | None, bytes | None])


def a_consumer_without_parameters_polls_bytes(consumer: KafkaShareConsumer) -> None:
    assert_type(consumer.poll(timeout_ms=100), ShareRecords[bytes | None, bytes | None])
    for record in consumer:
        assert_type(record, ShareRecord[bytes | None, bytes | None])


def a_consumer_is_made_without_an_annotation() -> None:
    consumer = KafkaShareConsumer("topic", bootstrap_servers="localhost:9092", group_id="g")
    assert_type(consumer, KafkaShareConsumer[bytes | None, bytes | None])
    with KafkaShareConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as entered:
        assert_type(entered, KafkaShareConsumer[bytes | None, bytes | None])


class Order:
    pass


def order_of(data: bytes) -> Order:
    return Order()


class Priorities:
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> int:
        return 0 if data is None else data[0]


def types_are_those_of_the_deserializers() -> None:
    consumer = KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", value_deserializer=order_of)
    assert_type(consumer, KafkaShareConsumer[bytes | None, Order])
    assert_type(consumer.poll(timeout_ms=0)[0].value, Order)
    keys = KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", key_deserializer=bytes.decode)
    assert_type(keys, KafkaShareConsumer[str, bytes | None])
    both = KafkaShareConsumer(
        "t", bootstrap_servers="b:1", group_id="g", key_deserializer=Priorities(), value_deserializer=order_of
    )
    assert_type(both, KafkaShareConsumer[int, Order])
    anything = KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", value_deserializer=json.loads)
    assert_type(anything, KafkaShareConsumer[bytes | None, Any])
    with KafkaShareConsumer[str | None, Order | None](
        "t", bootstrap_servers="b:1", group_id="g", key_deserializer=bytes.decode, value_deserializer=order_of
    ) as with_nulls:
        assert_type(with_nulls, KafkaShareConsumer[str | None, Order | None])


def mistakes_in_settings_are_found() -> None:
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", max_pol_records=5)  # type: ignore[call-arg]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", max_poll_records="5")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", check_crcs="yes")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", deserialization_errors="marc")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", share_acknowledgement_mode="explcit")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1")  # type: ignore[call-arg]
    KafkaShareConsumer(["t"], bootstrap_servers="b:1", group_id="g")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", sasl_password="p")  # type: ignore[call-arg]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", sasl_plain_password=b"p")  # type: ignore[arg-type]
    KafkaShareConsumer("t", bootstrap_servers="b:1", group_id="g", value_deserializer="json")  # type: ignore[arg-type]
    KafkaShareAdmin(bootstrap_servers="b:1", group_id="g")  # type: ignore[call-arg]
    KafkaShareAdmin(bootstrap_servers="b:1", request_timeout_ms=1.5)  # type: ignore[arg-type]
    KafkaShareAdmin({"bootstrap.servers": "b:1"})  # type: ignore[call-arg, arg-type]
    AsyncShareAdmin(bootstrap_server="b:1")  # type: ignore[call-arg]


def settings_come_from_dicts_too() -> None:
    settings: ShareConsumerSettings = {"bootstrap_servers": ["b:1"], "group_id": "g", "ssl_cafile": Path("ca.pem")}
    assert_type(KafkaShareConsumer("t", **settings), KafkaShareConsumer[bytes | None, bytes | None])
    for_admin: ShareAdminSettings = {"bootstrap_servers": "b:1", "security_protocol": "SSL"}
    KafkaShareAdmin(**for_admin)
    mistaken: ShareConsumerSettings = {"bootstrap_servers": "b:1", "group_id": "g", "max_poll_record": 5}  # type: ignore[typeddict-unknown-key]
    dotted: dict[str, Any] = {"bootstrap.servers": "b:1", "group.id": "g", "max.poll.records": 5}
    KafkaShareConsumer("t", **dotted)
    KafkaShareConsumer("t", **mistaken)


def a_type_is_given_by_name_too(consumer: KafkaShareConsumer, record: ShareRecord) -> None:
    consumer.acknowledge(record, "release")
    consumer.acknowledge(record, AcknowledgeType.RELEASE)
    consumer.acknowledge_offset("t", 0, 1, "REJECT")
    assert_type(consumer.acknowledge_with_result(record, "renew"), Future[None])
    consumer.acknowledge(record, "later")  # type: ignore[arg-type]


def columns_are_polled_and_acknowledged_by_rows(consumer: KafkaShareConsumer) -> None:
    polled = consumer.poll_arrow(timeout_ms=100, copy=False)
    assert_type(polled, ArrowRecords)
    assert_type(polled.records, ShareRecords[bytes | None, bytes | None])
    assert_type(polled.lock_remaining_ms(), int)
    consumer.acknowledge_all(polled)
    consumer.acknowledge_all(polled, "release", rows=[True, False])
    consumer.acknowledge_all(polled.records, "reject", rows=slice(0, 5))
    consumer.acknowledge_all(iter(polled.records), AcknowledgeType.ACCEPT)
    consumer.acknowledge_all(polled, rows=3)  # type: ignore[arg-type]
    consumer.acknowledge_all(polled, "later")  # type: ignore[arg-type]


async def columns_are_awaited(consumer: AsyncShareConsumer) -> None:
    assert_type(await consumer.poll_arrow(timeout_ms=100), ArrowRecords)


def parameters_reach_the_record(consumer: KafkaShareConsumer[str, dict[str, Any]]) -> None:
    records = consumer.poll(timeout_ms=100)
    assert_type(records, ShareRecords[str, dict[str, Any]])
    assert_type(records[0].key, str)
    assert_type(records[0].value, dict[str, Any])
    assert_type(records[:2], list[ShareRecord[str, dict[str, Any]]])
    assert_type(records.records(TopicPartition("topic", 0)), list[ShareRecord[str, dict[str, Any]]])
    consumer.acknowledge(records[0])


def the_second_parameter_may_be_left_out(record: ShareRecord[str]) -> None:
    assert_type(record.value, bytes | None)


def a_callback_takes_offsets_by_partition_and_an_error(consumer: KafkaShareConsumer) -> None:
    def ended(offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        assert_type(error, KafkaShareError | None)

    def with_too_few_arguments(offsets: Mapping[TopicIdPartition, frozenset[int]]) -> None: ...

    consumer.set_acknowledgement_commit_callback(ended)
    consumer.set_acknowledgement_commit_callback(None)
    consumer.set_acknowledgement_commit_callback(with_too_few_arguments)  # type: ignore[arg-type]


def results_of_commits_are_by_partition(consumer: KafkaShareConsumer) -> None:
    assert_type(consumer.commit_sync(), dict[TopicIdPartition, KafkaShareError | None])
