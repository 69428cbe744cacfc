"""Snapshots of what the broker knows, for tests: values that do not change any more.

Made on the broker's loop by `ReferenceBroker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs

from kafka_share.protocol.record_batches import RecordBatch
from kafka_share.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.share.record_state import RecordState
    from kafka_share.broker.share.share_group import Member
    from kafka_share.broker.storage.stored_batch import StoredBatch
    from kafka_share.broker.storage.topics import Partition


@attrs.frozen
class StoredRecord:
    """One record as it lies in a topic. Its repr shows everything, for the messages of failed assertions.

    `timestamp` is in milliseconds since 1970, `headers` are pairs of name and value in the producer's order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@attrs.frozen
class MemberSnapshot:
    """One member of a share group."""

    member_id: str
    client_id: str
    rack_id: str | None
    epoch: int
    subscribed: tuple[str, ...]
    assigned: tuple[TopicPartition, ...]


@attrs.frozen
class ShareGroupSnapshot:
    """A share group: `state` is "Empty" or "Stable"; `members` by member id."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    members: dict[str, MemberSnapshot]
    initialised: tuple[TopicPartition, ...]
    """The partitions whose share state exists."""


class SnapshotRange(NamedTuple):
    """One piece of the window for a test to look at; neighbouring offsets that agree are joined."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member: str
    lock_expires_at_ms: int | None
    is_pending: bool = False
    """Whether the state is being stored. Until that has ended nobody can acquire or acknowledge these records."""


@attrs.frozen
class SharePartitionSnapshot:
    """A share partition as it is now; a copy that later changes do not touch."""

    start_offset: int
    end_offset: int
    ranges: tuple[SnapshotRange, ...]


def records_in(partition: Partition, *, read_committed: bool) -> Iterator[StoredRecord]:
    """The records of a partition by offset, without control records.

    With `read_committed` without those of transactions that are open or were aborted.
    """
    log = partition.log
    end = log.last_stable_offset if read_committed else log.high_watermark
    start = log.start_offset
    aborted = log.aborted_ranges(start, end) if read_committed else ()
    for stored in log.read(start, log.bytes_between(start, end), end):
        if stored.is_control or (stored.is_transactional and _is_aborted(stored, aborted)):
            continue
        for offset, timestamp, key, value, headers in RecordBatch(stored.data).records():
            if offset >= start:
                yield StoredRecord(partition.topic, partition.partition, offset, timestamp, key, value, tuple(headers))


def _is_aborted(stored: StoredBatch, aborted: Sequence[tuple[int, int, int]]) -> bool:
    return any(
        producer_id == stored.producer_id and first <= stored.base_offset <= last
        for producer_id, first, last in aborted
    )


def group_types(cluster: Cluster) -> dict[str, str]:
    """The type of every group by id: "share", "classic" or "consumer"."""
    types = ((group_id, cluster.group_ids.type_of(group_id)) for group_id in cluster.group_ids)
    return {group_id: kind.value for group_id, kind in types if kind is not None}


def snapshot_of_group(cluster: Cluster, group_id: str) -> ShareGroupSnapshot | None:
    """The group as it is now, None if there is none."""
    group = cluster.share_groups.group(group_id)
    if group is None:
        return None
    initialised = [(cluster.topic_name(tid) or "", sorted(indexes)) for tid, indexes in group.initialised.items()]
    return ShareGroupSnapshot(
        group_id=group.id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members={member_id: _member(cluster, member) for member_id, member in sorted(group.members.items())},
        initialised=tuple(sorted(TopicPartition(name, index) for name, indexes in initialised for index in indexes)),
    )


def _member(cluster: Cluster, member: Member) -> MemberSnapshot:
    return MemberSnapshot(
        member_id=member.id,
        client_id=member.client_id,
        rack_id=member.rack_id,
        epoch=member.epoch,
        subscribed=member.subscribed,
        assigned=tuple(sorted(TopicPartition(cluster.topic_name(tid) or "", i) for tid, i in member.assigned)),
    )


def snapshot_of_share_partition(cluster: Cluster, group_id: str, partition: Partition) -> SharePartitionSnapshot | None:
    """The share partition as its leader has it in memory now, None if it is not loaded."""
    node = cluster.share_nodes.get(partition.leader_id)
    loaded = None if node is None else node.share_partition(group_id, partition.topic_id, partition.partition)
    return None if loaded is None else snapshot_of_window(loaded)


def snapshot_of_window(partition: SharePartition) -> SharePartitionSnapshot:
    """The window of a share partition as values."""
    ranges: list[SnapshotRange] = []
    for batch in partition.window.batches:
        for first, last, state in batch.pieces():
            pending, lock_end_ms = state.pending_from is not None, state.lock_expires_at_ms
            found = SnapshotRange(first, last, state.state, state.count, state.member, lock_end_ms, pending)
            before = ranges[-1] if ranges else None
            if before is not None and before[1] + 1 == first and before[2:] == found[2:]:
                ranges[-1] = before._replace(last=last)
            else:
                ranges.append(found)
    return SharePartitionSnapshot(partition.window.start_offset, partition.window.end_offset, tuple(ranges))
