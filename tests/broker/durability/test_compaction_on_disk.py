"""Compaction with files: the power may fail at any of its operations, the broker is killed, the disk is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from broker.cluster_world import START_MS
from broker.durability.tearing_disk import PowerLossError, TearingDisk

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.durability.persistence import Persistence
from kafka_share.broker.durability.real_disk import RealDisk
from kafka_share.broker.inspection import records_in
from kafka_share.broker.storage.producers import SequenceVerdict
from kafka_share.broker.storage.topics import Partition
from kafka_share.protocol.record_batches import RecordBatch, encode_batch
from kafka_share.protocol.record_encoder import RecordToWrite

BACKOFF_MS = 15_000
DELETE_RETENTION_MS = 60_000
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


class Disked:
    """A compacted topic on a disk."""

    def __init__(self, disk: TearingDisk) -> None:
        self.persistence = Persistence(disk, "cluster", 1)
        self.cluster = Cluster([1], config={}, cluster_id="c", random=Random(1), log_files=self.persistence.log_files)
        self.now_ms = START_MS
        self.persistence.recover(self.cluster, self.now_ms)
        self.cluster.check()

    @property
    def partition(self) -> Partition:
        topic = self.cluster.topics.by_name("jobs")
        assert topic is not None
        return topic.partitions[0]

    def fill(self) -> None:
        self.cluster.create_topic("jobs", [[1]])
        self.cluster.configs.set_values(ResourceType.TOPIC, "jobs", SETTINGS)
        self.put("a1 b1 c1")
        self.put("a2 d1", producer_id=7, producer_epoch=0, base_sequence=0)
        self.put("x1 y1", producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
        self.cluster.write_marker(self.partition, (8, 0), committed=False, now_ms=self.now_ms)
        self.put("b- e1 d2")
        self.put("z0")

    def put(self, text: str, **fields: object) -> None:
        self.now_ms += 1_000
        records: list[RecordToWrite] = [
            (index, self.now_ms, word[0].encode(), None if word[1] == "-" else word[1].encode(), [])
            for index, word in enumerate(text.split())
        ]
        self.cluster.append(self.partition, encode_batch(records, **fields), self.now_ms)  # type: ignore[arg-type]

    def settle(self) -> None:
        self.persistence.write(self.now_ms)
        self.persistence.sync()

    def clean(self) -> None:
        """Have the log cleaner do all that is due."""
        cleaner = self.cluster.log_cleaner
        while (at_ms := cleaner.wake_at_ms()) is not None and at_ms <= self.now_ms + BACKOFF_MS:
            self.now_ms = max(self.now_ms, at_ms)
            cleaner.poll(self.now_ms)
            if self.partition.log.clean_to == self.partition.log.segments[-1].base_offset:
                break

    def clean_twice(self) -> None:
        """The second time the tombstone goes, and the marker."""
        self.clean()
        self.settle()
        self.now_ms += DELETE_RETENTION_MS
        self.put("z1")
        self.put("z2")
        self.clean()
        self.settle()

    def table(self) -> dict[bytes, bytes]:
        """The last value of each key: what everybody relies on who reads a compacted topic."""
        found: dict[bytes, bytes] = {}
        for record in records_in(self.partition, read_committed=True):
            assert record.key is not None
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.value
        return found

    def shape(self) -> list[tuple[int, int, int]]:
        log = self.partition.log
        batches = [RecordBatch(one.data) for one in log.read(log.start_offset, 1_000_000, log.high_watermark)]
        return [(batch.base_offset, batch.last_offset, batch.record_count) for batch in batches]


TABLE = {b"a": b"2", b"c": b"1", b"d": b"2", b"e": b"1"}


def test_a_compacted_log_is_the_same_after_a_restart_which_knows_how_much_of_it_is_clean() -> None:
    disk = TearingDisk(Random(1))
    topic = Disked(disk)
    topic.fill()
    topic.clean()
    topic.settle()
    shape, clean_to = topic.shape(), topic.partition.log.clean_to
    assert shape == [(0, 2, 1), (3, 4, 1), (5, 6, 0), (7, 7, 1), (8, 10, 3), (11, 11, 1)]
    again = Disked(disk.after_crash())
    assert (again.shape(), again.partition.log.clean_to) == (shape, clean_to)
    assert again.table() == {**TABLE, b"z": b"0"}
    assert again.partition.log.last_stable_offset == 12


def test_a_producer_goes_on_after_a_restart_though_its_records_are_gone() -> None:
    disk = TearingDisk(Random(1))
    topic = Disked(disk)
    topic.fill()
    topic.clean()
    topic.settle()
    producers = Disked(disk.after_crash()).partition.producers
    assert producers.judge(7, 0, 0, 1)[0] is SequenceVerdict.DUPLICATE
    assert producers.judge(7, 0, 1, 1)[0] is SequenceVerdict.OUT_OF_ORDER
    assert producers.judge(7, 0, 2, 2)[0] is SequenceVerdict.APPEND


@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_fail_at_any_operation_of_the_log_cleaner(seed: int) -> None:
    crashes = 0
    for crash_at in range(1, 200):
        disk = TearingDisk(Random(seed * 1_000 + crash_at))
        topic = Disked(disk)
        topic.fill()
        topic.settle()
        disk.crash_in(crash_at)
        try:
            topic.clean_twice()
        except PowerLossError:
            crashes += 1
        disk = disk.after_crash()
        again = Disked(disk)
        assert {key: value for key, value in again.table().items() if key != b"z"} == TABLE, f"crash at {crash_at}"
        again.now_ms += 2 * DELETE_RETENTION_MS
        again.put("z1")
        again.put("z2")
        again.clean_twice()
        assert {key: value for key, value in again.table().items() if key != b"z"} == TABLE
        assert len(again.partition.log.segments) == 2
        assert Disked(disk.after_crash()).shape() == again.shape()
        if crashes != crash_at:
            break
    assert 10 < crashes < 190, "each operation once, until there is none left"


def test_a_full_disk_leaves_the_log_as_it_is_until_there_is_room() -> None:
    disk = TearingDisk(Random(1))
    topic = Disked(disk)
    topic.fill()
    topic.settle()
    before = topic.shape()
    disk.full_chance = 1.0
    topic.now_ms += BACKOFF_MS
    cleaner = topic.cluster.log_cleaner
    cleaner.poll(topic.now_ms)
    assert (topic.shape(), topic.partition.log.clean_to) == (before, 0)
    disk.full_chance = 0.0
    topic.clean()
    assert topic.shape() != before
    assert topic.table() == {**TABLE, b"z": b"0"}


def test_a_file_that_was_about_to_take_the_place_of_another_one_goes_at_the_start(tmp_path: Path) -> None:
    with ReferenceBroker(data_dir=tmp_path) as broker:
        broker.create_topic("jobs")
        broker.produce("jobs", "v", key="k")
    left = tmp_path / "jobs-0" / "00000000000000000000.log.tmp"
    left.write_bytes(b"half of a segm")
    with ReferenceBroker(data_dir=tmp_path) as broker:
        assert [record.value for record in broker.records("jobs")] == [b"v"]
    assert not left.exists()


def test_a_replaced_file_is_there_at_once_and_nothing_is_left_to_sync(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data")
    disk.append("t-0/a", b"old")
    disk.replace("t-0/a", b"new")
    assert (disk.read("t-0/a"), disk.names("t-0")) == (b"new", ["a"])
    disk.append("t-0/a", b"er")
    assert disk.read("t-0/a") == b"newer"
    disk.close()


KILLED = """
import os, signal, sys
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.clock import BrokerClock
from kafka_share.broker.durability import real_disk

left = int(sys.argv[2])
def dying(name):
    real = getattr(os, name)
    def call(*args, **kwargs):
        global left
        left -= 1
        if armed and left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call

class Os:
    def __getattr__(self, name):
        return dying(name) if name in ("write", "fsync", "replace", "remove") else getattr(os, name)

armed = False
broker = ReferenceBroker(data_dir=sys.argv[1], clock=BrokerClock(manual=True))
broker.start()
broker.create_topic("jobs", config={"cleanup.policy": "compact", "segment.ms": "100",
                                    "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"})
for round in range(3):
    for key in "abcab":
        broker.advance(1_000)
        broker.produce("jobs", f"{key}{round}", key=key)
    broker.produce("jobs", None, key="c")
broker.advance(1_000)
broker.produce("jobs", "end", key="z")
real_disk.os = Os()
left, armed = int(sys.argv[2]), True
for _ in range(3):
    broker.advance(15_000)
    broker.produce("jobs", "end", key="z")
    broker.advance(1_000)
    broker.produce("jobs", "end", key="z")
os._exit(0)
"""


@pytest.mark.timeout(120)  # a process for each step, with an interpreter of its own
@pytest.mark.parametrize("step", [0, 4, 8, 13, 20, 32])
def test_a_broker_that_is_killed_while_it_compacts_has_the_last_value_of_each_key(tmp_path: Path, step: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, str(step)], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    with ReferenceBroker(data_dir=tmp_path) as broker:
        found = {record.key: record.value for record in broker.records("jobs")}
        broker.check()
    assert {key: value for key, value in found.items() if value is not None} == {b"a": b"a2", b"b": b"b2", b"z": b"end"}
