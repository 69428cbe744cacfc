"""The log cleaner on logs in memory. What is left, and when, was seen on Kafka 4.3.1 with the same records."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from broker.cluster_world import START_MS, World
from broker.compacted import BACKOFF_MS, DELETE_RETENTION_MS, SETTINGS, records_of

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.inspection import records_in
from kafka_share.broker.storage.topics import Partition
from kafka_share.protocol.record_batches import RecordBatch, encode_batch, iter_batches


class Compacted:
    """A compacted topic with one partition; what is written begins a new segment each time, unless told not to."""

    def __init__(self, **settings: str) -> None:
        self.world = World()
        topic = self.world.topic("jobs")
        self.set({**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}})
        self.partition: Partition = topic.partitions[0]
        self.log = self.partition.log

    def set(self, settings: dict[str, str]) -> None:
        self.world.cluster.configs.set_values(ResourceType.TOPIC, "jobs", settings)

    def put(self, text: str, *, same_segment: bool = False, **fields: Any) -> None:
        """A batch of the records in a text."""
        if not same_segment:
            self.world.now_ms += 1_000
        records = encode_batch(records_of(text, self.world.now_ms), **fields)
        self.world.cluster.append(self.partition, records, self.world.now_ms)

    def transaction(self, producer_id: int, text: str, *, committed: bool) -> None:
        """A whole transaction of its own segment."""
        fields: dict[str, Any] = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        self.put(text, **fields)
        self.end(producer_id, committed=committed)

    def end(self, producer_id: int, *, committed: bool) -> None:
        cluster, now_ms = self.world.cluster, self.world.now_ms
        cluster.write_marker(self.partition, (producer_id, 0), committed=committed, now_ms=now_ms)

    def clean(self) -> None:
        """Let the log cleaner look at everything but the last batch."""
        self.world.advance(BACKOFF_MS)

    def batches(self) -> list[RecordBatch]:
        found = self.log.read(self.log.start_offset, 10_000_000, self.log.high_watermark)
        return [batch for stored in found for batch in iter_batches(stored.data)]

    def left(self) -> list[str]:
        """Each batch as its offsets and records, "commit" and "abort" for markers."""
        return [f"{batch.base_offset}-{batch.last_offset}:{_records(batch)}" for batch in self.batches()]

    def values(self) -> dict[int, str]:
        """What a consumer gets from offset 0 on, by offset."""
        return {
            one.offset: (one.key or b"").decode() + (one.value or b"-").decode()
            for one in records_in(self.partition, read_committed=True)
        }

    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]


def _records(batch: RecordBatch) -> str:
    batch.verify_crc()
    if batch.is_control:
        return " ".join("commit" if key and key[3] else "abort" for _, _, key, _, _ in batch.records())
    return " ".join(
        f"{(key or b'').decode()}{'-' if value is None else value.decode()}@{offset}"
        for offset, _, key, value, _ in batch.records()
    )


def test_the_last_record_of_each_key_stays_and_keeps_its_offset() -> None:
    topic = Compacted()
    topic.put("a1 b1 c1 a2")
    topic.put("d1 b2 e1")
    topic.put("a3")
    topic.put("z0")
    assert topic.bases() == [0, 4, 7, 8]
    topic.clean()
    assert topic.left() == ["0-3:c1@2", "4-6:d1@4 b2@5 e1@6", "7-7:a3@7", "8-8:z0@8"]
    assert topic.bases() == [0, 8], "small segments have become one"
    assert (topic.log.start_offset, topic.log.high_watermark, topic.log.clean_to) == (0, 9, 8)


def test_what_kafka_leaves_of_keys_tombstones_and_transactions() -> None:
    """The records, and what is left of them at each step, are those of a running Kafka 4.3.1."""
    topic = Compacted()
    topic.put("a1 b1 c1 a2")
    topic.put("d1 b- e1")
    topic.transaction(1, "f1 g1", committed=True)
    topic.transaction(2, "ax hx", committed=False)
    topic.transaction(3, "f2 g-", committed=True)
    topic.put("i1 i2 a3", producer_id=9, producer_epoch=0, base_sequence=0)
    topic.put("z0")
    topic.clean()
    before = ["0-3:c1@2", "4-6:d1@4 b-@5 e1@6", "7-8:", "9-9:commit", "10-11:", "12-12:abort"]
    idempotent = ["16-18:i2@17 a3@18"]
    assert topic.left() == [*before, "13-14:f2@13 g-@14", "15-15:commit", *idempotent, "19-19:z0@19"]
    horizons = [batch.delete_horizon_ms for batch in topic.batches()]
    assert [horizon is not None for horizon in horizons] == [False, True, *[False] * 4, True, *[False] * 3]
    assert horizons[1] == START_MS + 2_000 + BACKOFF_MS + DELETE_RETENTION_MS, "the first look was due then"
    topic.world.advance(DELETE_RETENTION_MS)
    topic.put("z1")
    topic.put("z2")
    topic.clean()
    after = ["0-3:c1@2", "4-6:d1@4 e1@6", *before[2:]]
    assert topic.left() == [*after, "13-14:f2@13", "15-15:commit", *idempotent, "20-20:z1@20", "21-21:z2@21"]
    (kept,) = [batch for batch in topic.batches() if batch.base_offset == 4]
    assert [timestamp for _, timestamp, *_ in kept.records()] == [START_MS + 2_000] * 2, "the records keep their times"


def test_aborted_transactions_go_with_their_markers_and_later_ones_of_the_producer_are_read() -> None:
    """The entry of the transaction index goes too: a consumer would take what comes next for aborted."""
    topic = Compacted()
    topic.transaction(2, "a1", committed=False)
    topic.put("b1", producer_id=2, producer_epoch=0, base_sequence=1, is_transactional=True)
    topic.end(2, committed=True)
    topic.put("z0")
    assert list(topic.log.aborted_ranges(0, 9)) == [(2, 0, 1)]
    topic.clean()
    assert topic.left() == ["1-1:abort", "2-2:b1@2", "3-3:commit", "4-4:z0@4"]
    assert list(topic.log.aborted_ranges(0, 9)) == [(2, 0, 1)], "this round has seen its records"
    for _ in range(2):
        topic.put("z1")
        topic.put("z2")
        topic.clean()
        assert not topic.log.aborted_ranges(0, 9)
        topic.world.advance(DELETE_RETENTION_MS)
    topic.put("z3")
    topic.put("z4")
    topic.clean()
    assert topic.left()[0] == "2-2:b1@2"
    assert topic.values()[2] == "b1"


def test_a_marker_stays_while_anything_of_its_transaction_is_there() -> None:
    topic = Compacted()
    topic.transaction(1, "a1 b1", committed=True)
    for number in range(1, 5):
        topic.put(f"z{number}")
        topic.put(f"y{number}")
        topic.clean()
        topic.world.advance(DELETE_RETENTION_MS)
        assert topic.left()[:2] == ["0-1:a1@0 b1@1", "2-2:commit"]


def test_open_transactions_are_left_alone_and_so_is_what_follows_them() -> None:
    topic = Compacted()
    topic.put("a1")
    topic.put("b1", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    topic.put("b2")
    topic.put("a2")
    topic.put("z0")
    topic.clean()
    assert len(topic.left()) == 5
    topic.end(1, committed=True)
    topic.clean()
    assert topic.left() == ["1-1:", "2-2:b2@2", "3-3:a2@3", "4-4:z0@4", "5-5:commit"]


def test_the_active_segment_is_left_alone() -> None:
    topic = Compacted()
    topic.put("a1")
    topic.put("a2", same_segment=True)
    topic.clean()
    assert topic.left() == ["0-0:a1@0", "1-1:a2@1"]


def test_segments_that_are_young_wait_for_min_compaction_lag() -> None:
    topic = Compacted(min_compaction_lag_ms="60000")
    topic.put("a1")
    topic.put("a2")
    topic.put("z0")
    topic.clean()
    assert len(topic.left()) == 3
    topic.world.advance(60_000)
    assert topic.left() == ["1-1:a2@1", "2-2:z0@2"]


def test_too_little_that_is_dirty_waits_until_it_is_too_old() -> None:
    topic = Compacted(min_cleanable_dirty_ratio="0.9", max_compaction_lag_ms="100000")
    topic.put("a1 b1 c1 d1 e1 f1")
    topic.put("z0")
    topic.clean()
    assert topic.log.clean_to == 6
    topic.put("a2")
    topic.clean()
    assert topic.left()[0] == "0-5:a1@0 b1@1 c1@2 d1@3 e1@4 f1@5"
    topic.world.advance(100_000)
    assert topic.left()[0] == "0-5:a1@0 b1@1 c1@2 d1@3 e1@4 f1@5", "nothing has closed the segment of the new a"
    topic.put("z1")
    topic.clean()
    assert topic.left()[0] == "0-5:b1@1 c1@2 d1@3 e1@4 f1@5"


def test_a_segment_is_closed_when_it_is_as_old_as_max_compaction_lag() -> None:
    topic = Compacted(segment_ms="10000000", max_compaction_lag_ms="1500")
    topic.put("a1")
    topic.put("a2")
    topic.put("z0")
    assert topic.bases() == [0, 2]


def test_records_without_keys_go_when_a_topic_becomes_compacted() -> None:
    topic = Compacted(cleanup_policy="delete")
    for _ in range(2):
        topic.world.now_ms += 1_000
        unkeyed = encode_batch([(0, topic.world.now_ms, None, b"v", []), (1, topic.world.now_ms, b"k", b"v", [])])
        topic.world.cluster.append(topic.partition, unkeyed, topic.world.now_ms)
    topic.put("z0")
    topic.clean()
    assert topic.bases() == [0, 2, 4]
    topic.set({"cleanup.policy": "compact,delete"})
    topic.clean()
    assert topic.left() == ["2-3:kv@3", "4-4:z0@4"]


def test_old_segments_go_when_the_topic_is_compacted_and_deleted() -> None:
    topic = Compacted(cleanup_policy="compact,delete", retention_ms="100000")
    topic.put("a1")
    topic.put("b1")
    topic.put("z0")
    topic.clean()
    assert topic.values() == {0: "a1", 1: "b1", 2: "z0"}
    topic.world.advance(300_000)
    assert (topic.values(), topic.log.start_offset) == ({}, 3)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_batch_that_loses_records_is_compressed_again(codec: Any) -> None:
    topic = Compacted()
    topic.put("a1 b1", codec=codec)
    topic.put("a2")
    topic.put("z0")
    topic.clean()
    assert topic.left()[0] == "0-1:b1@1"
    assert topic.batches()[0].codec == codec


def test_append_times_stay_as_they_are() -> None:
    topic = Compacted(message_timestamp_type="LogAppendTime")
    topic.put("a1 b1 c-")
    topic.put("a2")
    appended_at_ms = topic.batches()[0].max_timestamp
    topic.put("z0")
    topic.clean()
    assert topic.left()[0] == "0-2:b1@1 c-@2"
    assert [timestamp for _, timestamp, *_ in topic.batches()[0].records()] == [appended_at_ms] * 2


def test_the_sequence_numbers_of_a_producer_are_still_known_when_its_records_are_gone() -> None:
    topic = Compacted()
    topic.put("a1 b1", producer_id=7, producer_epoch=0, base_sequence=0)
    topic.put("a2 b2")
    topic.put("z0")
    topic.clean()
    assert topic.left()[0] == "0-1:"
    (batch,) = topic.batches()[:1]
    assert (batch.producer_id, batch.base_sequence, batch.last_offset) == (7, 0, 1)


def test_headers_and_null_keys_of_control_records_survive() -> None:
    topic = Compacted()
    headers = [("source", b"shop"), ("none", None)]
    records = [(0, START_MS, b"a", b"1", headers), (1, START_MS, b"b", b"1", [])]
    topic.world.cluster.append(topic.partition, encode_batch(records), topic.world.now_ms)
    topic.put("b2")
    topic.put("z0")
    topic.clean()
    (record,) = topic.batches()[0].records()
    assert (record[0], record[2], list(record[4])) == (0, b"a", headers)


def test_a_damaged_batch_stops_the_compaction_of_its_log_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    topic = Compacted()
    topic.put("a1")
    sound = encode_batch([(0, START_MS, b"a", b"2", [])])
    topic.world.now_ms += 1_000
    topic.world.cluster.append_unchecked(topic.partition, sound[:-3] + b"\xff\xff\xff", topic.world.now_ms)
    topic.put("a3")
    topic.put("z0")
    with caplog.at_level(logging.WARNING):
        topic.clean()
    assert len(topic.batches()) == 4
    assert "jobs-0 is not compacted" in caplog.text


def _many(topic: Compacted, count: int) -> None:
    topic.world.now_ms += 1_000
    records = [(index, topic.world.now_ms, b"%d" % (index % 10), b"v", ()) for index in range(count)]
    topic.world.cluster.append_unchecked(topic.partition, encode_batch(records), topic.world.now_ms)


def _turns(topic: Compacted) -> int:
    """Let the cleaner do its work; returns how many turns it took."""
    topic.world.now_ms += BACKOFF_MS
    cleaner = topic.world.cluster.log_cleaner
    turns = 1
    cleaner.poll(topic.world.now_ms)
    while cleaner.wake_at_ms() == 0:
        cleaner.poll(topic.world.now_ms)
        turns += 1
    return turns


def test_a_large_log_is_cleaned_in_turns() -> None:
    topic = Compacted()
    for _ in range(3):
        _many(topic, 15_000)
    topic.put("z0")
    assert _turns(topic) == 6
    assert sum(batch.record_count for batch in topic.batches()) == 11


@pytest.mark.parametrize("what", ["delete records", "delete topic", "append"])
def test_a_log_that_changes_during_a_round_loses_nothing_else(what: str) -> None:
    topic = Compacted()
    for _ in range(3):
        _many(topic, 15_000)
    topic.put("z0")
    topic.world.now_ms += BACKOFF_MS
    cluster, now_ms = topic.world.cluster, topic.world.now_ms
    cluster.log_cleaner.poll(now_ms)
    assert cluster.log_cleaner.wake_at_ms() == 0, "the round has begun"
    if what == "delete records":
        cluster.delete_records(topic.partition, 20_000, now_ms)
    elif what == "delete topic":
        cluster.delete_topic(topic.partition.owner, now_ms)
    else:
        topic.put("z1")
    while cluster.log_cleaner.wake_at_ms() == 0:
        cluster.log_cleaner.poll(now_ms)
    if what == "delete topic":
        return
    topic.log.check()
    _turns(topic)
    expected = {"append": 12, "delete records": 11}[what]
    assert sum(batch.record_count for batch in topic.batches()) == expected
    topic.log.check()


def test_an_idle_broker_with_small_logs_is_not_woken() -> None:
    topic = Compacted()
    topic.put("a1")
    assert topic.world.cluster.log_cleaner.wake_at_ms() is None
    topic.put("a2")
    assert topic.world.cluster.log_cleaner.wake_at_ms() == topic.world.now_ms + BACKOFF_MS


def _fetchable(topic: Compacted, offsets: Sequence[int]) -> list[int]:
    """The first batch that a fetch from each offset on begins with."""
    end = topic.log.high_watermark
    return [topic.log.read(offset, 1, end)[0].base_offset for offset in offsets]


def test_a_fetch_from_an_offset_that_is_gone_begins_with_the_next_one() -> None:
    topic = Compacted()
    for text in ("a1", "b1", "a2", "b2", "z0"):
        topic.put(text)
    topic.clean()
    assert topic.left() == ["2-2:a2@2", "3-3:b2@3", "4-4:z0@4"]
    assert _fetchable(topic, range(5)) == [2, 2, 2, 3, 4]
    assert topic.log.bytes_between(0, 3) == len(topic.batches()[0].data)
