"""Seeded lives of a broker's storage on a disk that loses the power at any operation: what was synced is there."""

from __future__ import annotations

from random import Random
from uuid import UUID

import attrs
import pytest
from broker.cluster_world import START_MS
from broker.durability.tearing_disk import PowerLossError, TearingDisk

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.durability.persistence import Persistence
from kafka_share.broker.inspection import records_in
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import Partition
from kafka_share.protocol.record_batches import encode_batch

_OPERATIONS = 60
_SEEDS = 40
_CONFIG = "max.message.bytes"


def opened(disk: TearingDisk, random: Random) -> tuple[Persistence, Cluster]:
    """A broker's storage, as it starts on this disk."""
    persistence = Persistence(disk, "cluster", 1)
    cluster = Cluster(
        [1],
        config={"log.segment.bytes": "1048576"},
        cluster_id=persistence.cluster_id,
        random=random,
        log_files=persistence.log_files,
    )
    persistence.recover(cluster, START_MS)
    cluster.check()
    return persistence, cluster


@attrs.define
class Known:
    """A partition: what was written, and how far it is promised."""

    values: list[bytes] = attrs.Factory(list)
    start: int = 0
    promised_end: int = 0
    promised_start: int = 0


@attrs.define
class TopicKnown:
    name: str
    partitions: list[Known]
    configs: list[str | None] = attrs.Factory(lambda: [None])
    """The one that is promised, and those since then."""
    is_deleted: bool = False
    is_promised: bool = False


class Life:
    """One broker's storage from crash to crash, with what it has promised."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = TearingDisk(random, crash_at=random.randrange(120))
        self.topics: dict[UUID, TopicKnown] = {}
        self._count = 0

    def run(self) -> None:
        """Live until the power fails, or the operations are over."""
        try:
            self.persistence, self.cluster = opened(self.disk, self.random)
            self.compare()
            self.settle()
            self.disk.full_chance = self.random.choice([0.0, 0.0, 0.1])
            for _ in range(_OPERATIONS):
                self.operate()
        except PowerLossError:
            pass
        self.disk = self.disk.after_crash(crash_at=self.random.randrange(160))

    # ---- what it does

    def operate(self) -> None:
        operation = self.random.choice(
            [self.create, self.produce, self.produce, self.produce, self.delete_records, self.configure, self.delete]
        )
        try:
            operation()
        except Refusal:
            pass  # no room: nothing has happened
        try:
            self.persistence.write(START_MS)
            if self.random.random() < 0.4:
                self.settle()
        except Refusal:
            pass  # not written, or not synced: nobody was told anything

    def settle(self) -> None:
        """Everything so far is synced, and so promised."""
        self.persistence.write(START_MS)
        self.persistence.sync()
        for topic in self.topics.values():
            topic.is_promised = True
            del topic.configs[:-1]
            for known in topic.partitions:
                known.promised_end, known.promised_start = len(known.values), known.start

    def _some(self) -> tuple[TopicKnown, Known, Partition] | None:
        living = [topic_id for topic_id, topic in self.topics.items() if not topic.is_deleted]
        if not living:
            return None
        topic_id = self.random.choice(living)
        topic = self.topics[topic_id]
        index = self.random.randrange(len(topic.partitions))
        partition = self.cluster.partition(topic_id, index)
        assert partition is not None
        return topic, topic.partitions[index], partition

    def create(self) -> None:
        name = self.random.choice("abc")
        if self.cluster.topics.by_name(name) is None:
            count = self.random.randint(1, 2)
            topic = self.cluster.create_topic(name, [[1]] * count)
            self.topics[topic.id] = TopicKnown(name, [Known() for _ in range(count)])

    def delete(self) -> None:
        found = self._some()
        if found is not None and self.random.random() < 0.3:
            topic, _, partition = found
            topic.is_deleted, topic.is_promised = True, False
            self.cluster.delete_topic(partition.owner, START_MS)

    def produce(self) -> None:
        found = self._some()
        if found is None:
            return
        _, known, partition = found
        values = [b"%d" % (self._count + i) + b"." * self.random.choice([0, 50, 300_000]) for i in range(3)]
        self._count += len(values)
        records = [(i, START_MS, None, value, ()) for i, value in enumerate(values)]
        # Written down first: what was appended when the power failed may be there.
        known.values += values
        try:
            self.cluster.append(partition, encode_batch(records), START_MS)
        except Refusal:
            del known.values[-len(values) :]
            raise

    def delete_records(self) -> None:
        found = self._some()
        if found is not None:
            _, known, partition = found
            known.start = self.random.randint(known.start, len(known.values))
            self.cluster.delete_records(partition, known.start, START_MS)

    def configure(self) -> None:
        found = self._some()
        if found is not None:
            topic, _, _ = found
            topic.configs.append(str(self.random.randint(900_000, 999_999)))
            self.cluster.configs.set_values(ResourceType.TOPIC, topic.name, {_CONFIG: topic.configs[-1] or ""})

    # ---- what has to be there after the next start

    def compare(self) -> None:
        there = {topic.id: topic for topic in self.cluster.topics}
        for topic_id, known in list(self.topics.items()):
            if topic_id not in there:
                assert known.is_deleted or not known.is_promised, f"{known.name} is lost"
                del self.topics[topic_id]
                continue
            assert not (known.is_deleted and known.is_promised), f"{known.name} was deleted"
            known.is_deleted = False
            found = self.cluster.configs.own_values(ResourceType.TOPIC, known.name).get(_CONFIG)
            assert found in known.configs
            known.configs = [found]
            for partition, expected in zip(there[topic_id].partitions, known.partitions, strict=True):
                self._compare_log(partition, expected)
        assert there.keys() == self.topics.keys()

    def _compare_log(self, partition: Partition, expected: Known) -> None:
        log = partition.log
        assert expected.promised_start <= log.start_offset <= max(expected.start, expected.promised_start)
        assert expected.promised_end <= log.high_watermark <= len(expected.values)
        found = [record.value for record in records_in(partition, read_committed=False)]
        assert found == expected.values[log.start_offset : log.high_watermark]
        del expected.values[log.high_watermark :]
        expected.start = log.start_offset


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_what_was_synced_is_there_after_the_power_failed_at_any_operation(seed: int) -> None:
    life = Life(Random(seed))
    for _ in range(6):
        life.run()
