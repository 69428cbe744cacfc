"""Reads the end of the share coordinator's log about one topic of one group. `facts` asks; `history` understands it.

kafka-python's consumer reads: the log is an ordinary topic. No group is joined and nothing is committed. It asks for
rights that operators have and applications have not (READ on `__share_group_state`).
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import kafka
from kafka.errors import KafkaError

from kafka_share.cli.doctor.facts import STATE_TOPIC
from kafka_share.cli.doctor.history import PartitionHistory, StateChange, StateKey, parse_key, parse_value, replay
from kafka_share.cli.foreign import client_settings

MAX_RECORDS: Final = 20_000
"""How many of the newest records of each partition of the log are read at most."""
_MAX_READING_S: Final = 10
_POLL_MS: Final = 500


def read_histories(
    settings: Mapping[str, Any], group_id: str, topic_id: UUID, partitions: Iterable[int], log_partitions: int
) -> dict[int, PartitionHistory] | str:
    """Partition -> its history, without those that have none; or why the log could not be read."""
    keys = [StateKey(group_id, topic_id, partition) for partition in partitions]
    places = {kafka.TopicPartition(STATE_TOPIC, log_partition(key, log_partitions)) for key in keys}
    changes: dict[StateKey, list[StateChange]] = {key: [] for key in keys}
    try:
        consumer = kafka.KafkaConsumer(**client_settings(settings, _MAX_READING_S * 1_000), enable_auto_commit=False)
        try:
            _read(consumer, sorted(places), changes)
        finally:
            consumer.close()
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    found = {key.partition: replay(of_partition) for key, of_partition in changes.items()}
    return {partition: history for partition, history in found.items() if history is not None}


def log_partition(key: StateKey, count: int) -> int:
    """Where the share coordinator keeps this key: Java's hash of its text (Kafka's `SharePartitionKey`)."""
    topic_id = base64.urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    text = f"{key.group_id}:{topic_id}:{key.partition}".encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(text[::2], text[1::2], strict=True):
        value = (31 * value + 256 * high + low) & 0xFFFF_FFFF
    value = value - 2**32 if value >= 2**31 else value
    return 0 if value == -(2**31) else abs(value) % count


def _read(consumer: Any, places: list[Any], changes: Mapping[StateKey, list[StateChange]]) -> None:
    consumer.assign(places)
    firsts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    for place in places:
        consumer.seek(place, max(firsts[place], ends[place] - MAX_RECORDS))
    until = time.monotonic() + _MAX_READING_S
    while time.monotonic() < until and any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=_POLL_MS).values():
            for record in records:
                _take(record, changes)


def _take(record: Any, changes: Mapping[StateKey, list[StateChange]]) -> None:
    parsed = None if record.key is None else parse_key(record.key)
    if parsed is None or parsed[0] not in changes:
        return
    key, is_snapshot = parsed
    if record.value is None:
        changes[key].clear()  # the group, its offsets or the topic were deleted
        return
    change = parse_value(record.value, record.timestamp, is_snapshot=is_snapshot)
    if change is not None:
        changes[key].append(change)
