"""The share partitions that a node has in memory: made when a fetch needs them first, loaded, and dropped.

Owned by `ShareNode`. A share partition is dropped when another node leads the partition, when its topic is deleted,
when its group has no session left here, and when a write shows that it is out of date; the next fetch loads it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.partition import SharePartition
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import OffsetNotAvailableError
from kafka_share.protocol.durations import parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.cluster_view import ClusterView, PartitionView
    from kafka_share.broker.share.dead_letter import DeadLetter
    from kafka_share.broker.share.persister import Persister
    from kafka_share.broker.share.sessions import PartitionKey
    from kafka_share.broker.storage.log import PartitionLog

_BY_DURATION: Final = "by_duration:"


class LoadedPartitions:
    """By group and partition."""

    def __init__(self, view: ClusterView, persister: Persister, behaviour: Behaviour) -> None:
        self._view = view
        self._persister = persister
        self._behaviour = behaviour
        self._partitions: dict[StateKey, SharePartition] = {}
        self._lock_ends: Deadlines[StateKey] = Deadlines()
        """For each share partition a time that is not later than the end of its first lock."""
        self.dead_letters: list[tuple[SharePartition, DeadLetter]] = []
        """Those that wait to be written."""

    def __iter__(self) -> Iterator[SharePartition]:
        """A copy: partitions may go while one walks over them."""
        return iter(list(self._partitions.values()))

    def find(self, group_id: str, partition: PartitionKey) -> SharePartition | None:
        return self._partitions.get(StateKey(group_id, *partition))

    def make(self, group_id: str, partition: PartitionKey, found: PartitionView) -> SharePartition:
        """A share partition that is not loaded yet."""
        key, view = StateKey(group_id, *partition), self._view
        made = self._partitions[key] = SharePartition(
            key,
            found.leader_epoch,
            self._persister,
            lambda: view.group_settings(group_id),
            self._behaviour,
            first_lock_starts=lambda at_ms: self._first_lock_starts(made, at_ms),
            bury=lambda letter: self.dead_letters.append((made, letter)),
        )
        return made

    def load(self, partition: SharePartition, now_ms: int, then: Callable[[Refusal | None, int], None]) -> None:
        """Read what is stored; a group without a stored start begins where its reset policy says.

        `then` is told why that failed, and the share partition has been dropped. It is told nothing if the share
        partition is dropped before that.
        """
        key = partition.key
        found = self._view.partition(key.topic_id, key.partition)
        assert found is not None
        log, policy = found.log, partition.settings().auto_offset_reset

        def loaded(refusal: Refusal | None, at_ms: int) -> None:
            if refusal is not None:
                self.drop(partition)
            then(refusal, at_ms)

        partition.load(lambda at_ms: start_offset_by_policy(policy, log, at_ms), now_ms, loaded)

    def drop(self, partition: SharePartition) -> None:
        """Nothing can be acquired from it any more. It may have been dropped before, even replaced."""
        if self._partitions.get(partition.key) is partition:
            del self._partitions[partition.key]
            partition.fence()
            self._lock_ends.discard(partition.key)

    def of(self, topic_id: UUID, partition: int) -> list[SharePartition]:
        """Those that share this partition: one for each group."""
        return [one for one in self if one.key[1:] == (topic_id, partition)]

    def drop_all(self, meant: Callable[[StateKey], bool]) -> None:
        """Drop those with such a key."""
        for partition in self:
            if meant(partition.key):
                self.drop(partition)

    # ---- locks

    def _first_lock_starts(self, partition: SharePartition, ends_at_ms: int) -> None:
        if self._partitions.get(partition.key) is not partition:
            return  # dropped while a write was under way that has failed since
        known_ms = self._lock_ends.at_ms(partition.key)
        if known_ms is None or ends_at_ms < known_ms:
            self._lock_ends.set(partition.key, ends_at_ms)

    def next_lock_end_at_ms(self) -> int | None:
        """When the first acquisition lock ends."""
        while (first := self._lock_ends.first()) is not None:
            noted_ms, key = first
            at_ms = self._partitions[key].next_lock_end_at_ms()
            if at_ms == noted_ms:
                return at_ms
            if at_ms is None:
                self._lock_ends.discard(key)
            else:
                self._lock_ends.set(key, at_ms)
        return None

    def take_locks_ended(self, now_ms: int) -> Iterator[SharePartition]:
        """The share partitions with locks that have ended by now, each as soon as the one before it is done with.

        The caller ends those locks.
        """
        while not self._lock_ends.nothing_due(now_ms):
            at_ms = self.next_lock_end_at_ms()
            if at_ms is None or at_ms > now_ms:
                return
            first = self._lock_ends.first()
            assert first is not None
            yield self._partitions[first[1]]

    def check(self) -> None:
        """Assert the invariants."""
        for key, partition in self._partitions.items():
            assert partition.key == key
            partition.check()
            at_ms, noted_ms = partition.next_lock_end_at_ms(), self._lock_ends.at_ms(key)
            assert at_ms is None or (noted_ms is not None and noted_ms <= at_ms), "a lock would end too late"


def start_offset_by_policy(policy: str, log: PartitionLog, now_ms: int) -> int:
    """The start offset by `share.auto.offset.reset`: "latest", "earliest" or "by_duration:" and a duration.

    "latest" is the high watermark, whatever the isolation level. Raises `Refusal` (OFFSET_NOT_AVAILABLE) if no record
    is as young as the duration asks for: unlike an ordinary consumer's, the policy does not fall back to the end.
    """
    if policy == "earliest":
        return log.start_offset
    if policy == "latest":
        return log.high_watermark
    assert policy.startswith(_BY_DURATION), f"the group's settings have been validated, but hold {policy!r}"
    found = log.offset_for_timestamp(now_ms - parse_duration_ms(policy.removeprefix(_BY_DURATION)))
    if found is None:
        raise Refusal(OffsetNotAvailableError, "no record is young enough to start at")
    return found[0]
