"""Topics and partitions of the cluster, and which node leads each partition.

Called by the cluster and its handlers. A partition has one log that all its replicas share, so a new leader has lost
nothing; what a change of leader does cost is the leader epoch and everything that the share machines keep in memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kafka_share.broker.changes import nobody
from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.producers import ProducerStates
from kafka_share.protocol.uuids import same_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from kafka_share.broker.changes import OnChange

NO_LEADER: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)
"""The id that no topic has."""
MAX_PARTITIONS: Final = 10_000
"""Of one topic."""

CONSUMER_OFFSETS: Final = "__consumer_offsets"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, SHARE_GROUP_STATE, "__transaction_state"})
"""Kafka knows them by their names, whoever made them."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot be a topic's name, None if it can (Kafka's rule for topic names)."""
    if name in (".", ".."):
        return f"a topic cannot be called {name!r}"
    if not _NAME.fullmatch(name):
        return "a topic name has 1 to 249 characters out of letters, digits, '.', '_' and '-'"
    return None


@attrs.define(eq=False)
class Partition:
    """One partition: its log, its replicas and its leader."""

    owner: Topic
    partition: int
    """The index of the partition."""
    replicas: tuple[int, ...]
    leader_id: int
    """Node id, or -1 while no replica is alive."""
    log: Log
    leader_epoch: int = 0
    producers: ProducerStates = attrs.Factory(ProducerStates)

    @property
    def topic_id(self) -> UUID:
        return self.owner.id

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.owner.name


@attrs.define(eq=False)
class Topic:
    """A topic; one that is deleted and made again is another object with another id."""

    name: str
    id: UUID
    replication_factor: int
    partitions: list[Partition] = attrs.Factory(list)

    @property
    def is_internal(self) -> bool:
        """Whether only a coordinator writes to it, and deletes its records."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition of this index, None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Topics:
    """All topics of the cluster, by name and by id. `version` grows with every change of topics or partitions."""

    def __init__(self, node_ids: Sequence[int], random: Random, new_log: Callable[[Topic, int], Log]) -> None:
        """`new_log` makes the log of a topic's partition."""
        self._new_log = new_log
        self._nodes = tuple(node_ids)
        self._alive = list(node_ids)
        self._random = random
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._next_first_node = 0
        self.version: int = 0
        self.on_change: OnChange = nobody
        """Called with the id of a topic that was made or deleted, or of which a partition is not what it was."""

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def public(self) -> list[Topic]:
        """Those that clients may write to."""
        return [topic for topic in self if not topic.is_internal]

    def by_name(self, name: str | None) -> Topic | None:
        return None if name is None else self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def create(self, name: str, replicas: Sequence[Sequence[int]]) -> Topic:
        """Make a topic with one partition per entry of `replicas`; the names and node ids have been validated."""
        assert name not in self._by_name, f"topic {name} exists"
        topic_id = UUID(int=self._random.getrandbits(128), version=4)
        topic = Topic(name, same_uuid(topic_id), len(replicas[0]))
        self._add(topic)
        self._append_partitions(topic, replicas)
        return topic

    def restore(self, topic: Topic, replicas: Sequence[Sequence[int]], leaders: Sequence[tuple[int, int]]) -> None:
        """Add a topic that was there before the broker started, with the (leader, leader epoch) of each partition.

        A leader that is alive stays; the epoch is a new one, since its leader has started anew.
        """
        self._add(topic)
        self._append_partitions(topic, replicas)
        for partition, (leader_id, epoch) in zip(topic.partitions, leaders, strict=True):
            partition.leader_epoch = epoch
            self._set_leader(partition, leader_id if leader_id in self._alive else self._choose_leader(partition))

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.id] = topic

    def grow(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        """Add one partition per entry of `replicas`."""
        self._append_partitions(topic, replicas)

    def delete(self, topic: Topic) -> None:
        del self._by_name[topic.name], self._by_id[topic.id]
        for partition in topic.partitions:
            partition.log.delete()
        self.version += 1
        self.on_change(str(topic.id))

    def place(self, partitions: int, replication_factor: int, *, start: int | None = None) -> list[tuple[int, ...]]:
        """Replica lists for new partitions, the leaders spread over the nodes in turns."""
        first = self._next_first_node if start is None else start
        if start is None:
            self._next_first_node += partitions
        count = len(self._nodes)
        return [
            tuple(self._nodes[(first + index + k) % count] for k in range(replication_factor))
            for index in range(partitions)
        ]

    def _append_partitions(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        for nodes in replicas:
            index = len(topic.partitions)
            partition = Partition(topic, index, tuple(nodes), NO_LEADER, self._new_log(topic, index))
            partition.leader_id = self._choose_leader(partition)
            topic.partitions.append(partition)
        self.version += 1
        self.on_change(str(topic.id))

    def _choose_leader(self, partition: Partition) -> int:
        return next((node for node in partition.replicas if node in self._alive), NO_LEADER)

    # ---- leaders

    def in_sync(self, partition: Partition) -> list[int]:
        """The replicas that are alive; the log is shared, so all of them are in sync."""
        return [node for node in partition.replicas if node in self._alive]

    def node_stopped(self, node_id: int) -> list[Partition]:
        """Give the node's partitions to other replicas; returns the partitions that it led."""
        self._alive.remove(node_id)
        moved = [partition for partition in self._partitions() if partition.leader_id == node_id]
        for partition in moved:
            self._set_leader(partition, self._choose_leader(partition))
        return moved

    def node_started(self, node_id: int) -> None:
        """The node takes the partitions that have no leader and a replica on it."""
        self._alive.append(node_id)
        for partition in self._partitions():
            if partition.leader_id == NO_LEADER and node_id in partition.replicas:
                self._set_leader(partition, node_id)

    def move_leader(self, partition: Partition, node_id: int) -> None:
        """Make `node_id` the leader, and a replica if it is none yet."""
        if node_id not in partition.replicas:
            others = [node for node in partition.replicas if node != partition.leader_id]
            partition.replicas = (node_id, *others)
        self._set_leader(partition, node_id)

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Put the replicas on other nodes, at once: they share one log. Its leader moves if it is none of them."""
        partition.replicas = tuple(replicas)
        self.on_change(str(partition.topic_id))
        if partition.leader_id not in self.in_sync(partition):
            self._set_leader(partition, self._choose_leader(partition))

    def _set_leader(self, partition: Partition, node_id: int) -> None:
        partition.leader_id = node_id
        partition.leader_epoch += 1
        self.on_change(str(partition.topic_id))

    def _partitions(self) -> Iterator[Partition]:
        for topic in self:
            yield from topic.partitions

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._by_name) == len(self._by_id)
        for topic in self:
            assert self._by_id[topic.id] is topic
            for index, partition in enumerate(topic.partitions):
                assert partition.partition == index
                assert partition.leader_id == NO_LEADER or partition.leader_id in partition.replicas
                assert partition.leader_id in (NO_LEADER, *self._alive)
                partition.log.check()
