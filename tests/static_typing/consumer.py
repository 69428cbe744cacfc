"""What a strict user's type checker sees of the consumer: checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

from kafka_share import (
    KafkaShareConsumer,
    KafkaShareError,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
    TopicPartition,
)


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
