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
from broker.compacted import BACKOFF_MS, DELETE_RETENTION_MS, SETTINGS, records_of
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
        records = encode_batch(records_of(text, self.now_ms), **fields)  # type: ignore[arg-type]
        self.cluster.append(self.partition, records, self.now_ms)

    def settle(self) -> None:
        self.persistence.write(self.now_ms)
        self.persistence.sync()

    def clean(self) -> None:
        """Have the log cleaner look once, if it wants to."""
        cleaner = self.cluster.log_cleaner
        at_ms = cleaner.wake_at_ms()
        if at_ms is not None:
            self.now_ms = max(self.now_ms, at_ms)
            cleaner.poll(self.now_ms)
            assert cleaner.wake_at_ms() != 0, "so little is done in one turn"

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


class History:
    """A random life of a compacted topic: whatever is cleaned, deleted or restarted, the table stays what it was."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = TearingDisk(self.random)
        self.topic = Disked(self.disk)
        self.topic.cluster.create_topic("jobs", [[1]])
        self.topic.cluster.configs.set_values(ResourceType.TOPIC, "jobs", SETTINGS)
        self.sequences: dict[int, int] = {}
        self.open: list[int] = []
        self.compacted = 0

    def step(self) -> None:
        before = self.topic.table()
        kind = self.random.choice(
            ["put", "put", "put", "idempotent", "transaction", "end", "clean", "clean", "restart"]
        )
        getattr(self, kind)()
        self.topic.partition.log.check()
        if kind in ("clean", "restart"):
            assert self.topic.table() == before, kind

    def _text(self) -> str:
        return " ".join(
            self.random.choice("abcdef") + self.random.choice("123456-") for _ in range(self.random.randint(1, 4))
        )

    def put(self) -> None:
        self.topic.put(self._text())

    def idempotent(self, producer_id: int = 1, *, is_transactional: bool = False) -> None:
        text = self._text()
        first = self.sequences.get(producer_id, 0)
        producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": first}
        self.topic.put(text, **producer, is_transactional=is_transactional)
        self.sequences[producer_id] = first + len(text.split())

    def transaction(self) -> None:
        producer_id = self.random.choice([2, 3])
        self.idempotent(producer_id, is_transactional=True)
        if producer_id not in self.open:
            self.open.append(producer_id)

    def end(self) -> None:
        if self.open:
            producer = (self.open.pop(0), 0)
            committed = self.random.random() < 0.5
            self.topic.cluster.write_marker(
                self.topic.partition, producer, committed=committed, now_ms=self.topic.now_ms
            )

    def clean(self) -> None:
        if self.random.random() < 0.5:
            self.topic.now_ms += DELETE_RETENTION_MS
        before, latest = self.topic.shape(), self._latest()
        self.topic.clean()
        self.compacted += self.topic.shape() != before
        assert self._latest() == latest, "the last record of each key is where it was"

    def _latest(self) -> dict[bytes | None, int]:
        found = {one.key: one for one in records_in(self.topic.partition, read_committed=True)}
        return {key: one.offset for key, one in found.items() if one.value is not None}

    def restart(self) -> None:
        self.topic.settle()
        before, now_ms = self.topic.shape(), self.topic.now_ms
        self.topic = Disked(self.disk)
        self.topic.now_ms = now_ms
        assert self.topic.shape() == before
        for producer_id, sequence in self.sequences.items():
            verdict, _ = self.topic.partition.producers.judge(producer_id, 0, sequence, sequence)
            assert verdict is SequenceVerdict.APPEND, "the producer goes on where it was"


@pytest.mark.parametrize("seed", range(25))
def test_a_compacted_topic_says_the_same_whatever_happens_to_it(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        history.step()
    assert history.compacted, "no round has changed anything"
