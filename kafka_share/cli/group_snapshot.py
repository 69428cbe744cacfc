"""How share groups stand at one moment: members, partitions, start offset, lag. For `watch` and `export-lag`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import (
    GroupState,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    ShareGroupOffsets,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafka_share.errors import KafkaShareError
from kafka_share.records import TopicPartition


@attrs.frozen
class PartitionSnapshot:
    """One partition of a group; None is what is not known."""

    where: TopicPartition
    start_offset: int | None
    lag: int | None
    end_offset: int | None
    member_ids: tuple[str, ...]
    """Of the members that fetch from it now."""

    @property
    def finished(self) -> int | None:
        """How many records of the log the group has finished, counted from offset 0; its growth is the work done."""
        return None if self.end_offset is None or self.lag is None else self.end_offset - self.lag


@attrs.frozen
class GroupSnapshot:
    """One group."""

    group_id: str
    state: GroupState
    members: tuple[ShareMemberDescription, ...]
    partitions: tuple[PartitionSnapshot, ...]
    """Ordered; those that have share state and those that a member has been assigned."""

    @property
    def lag(self) -> int | None:
        """Of all partitions where it is known; None if there is none."""
        lags = [p.lag for p in self.partitions if p.lag is not None]
        return sum(lags) if lags else None

    @property
    def finished(self) -> int | None:
        """See `PartitionSnapshot.finished`."""
        counts = [p.finished for p in self.partitions if p.finished is not None]
        return sum(counts) if counts else None


def take_snapshots(admin: KafkaShareAdmin, group_ids: Iterable[str]) -> dict[str, GroupSnapshot | KafkaShareError]:
    """Ask for everything at about the same time; an error instead of a group that could not be described.

    Raises `KafkaShareError` if the cluster itself cannot be asked.
    """
    results: dict[str, GroupSnapshot | KafkaShareError] = {}
    described: dict[str, ShareGroupDescription] = {}
    for group_id, group in admin.describe_share_groups(group_ids).items():
        if isinstance(group, KafkaShareError):
            results[group_id] = group
        else:
            described[group_id] = group
    if not described:
        return results
    offsets = admin.list_share_group_offsets(dict.fromkeys(described))
    partitions = {where for found in offsets.values() if not isinstance(found, KafkaShareError) for where in found}
    partitions |= {where for group in described.values() for member in group.members for where in member.assignment}
    ends = admin.list_offsets(dict.fromkeys(sorted(partitions), OffsetSpec.LATEST)) if partitions else {}
    for group_id, group in described.items():
        found = offsets[group_id]
        results[group_id] = found if isinstance(found, KafkaShareError) else _snapshot(group, found, ends)
    return results


def _snapshot(
    group: ShareGroupDescription,
    offsets: ShareGroupOffsets,
    ends: Mapping[TopicPartition, ListedOffset | KafkaShareError | None],
) -> GroupSnapshot:
    holders: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for where in member.assignment:
            holders.setdefault(where, []).append(member.member_id)
    partitions = []
    for where in sorted({*offsets, *holders}):
        offset, end = offsets.get(where), ends.get(where)
        known = offset if isinstance(offset, SharePartitionOffset) else None
        partitions.append(
            PartitionSnapshot(
                where,
                known.start_offset if known else None,
                known.lag if known else None,
                end.offset if isinstance(end, ListedOffset) else None,
                tuple(holders.get(where, ())),
            )
        )
    return GroupSnapshot(group.group_id, group.state, group.members, tuple(partitions))
