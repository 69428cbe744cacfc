"""The share states that records amount to: one `replay`, for changes as they are made and for a log that is read.

Owned by `ShareCoordinator`, which decides what is written; nothing changes here but by a record, so what is in memory
and what a log brings back cannot differ. It must not refuse anything: a record is a fact.

It also knows how much of a log is redundant: everything before the oldest of the last snapshots. One thing is lost with
what is pruned, as in Kafka: the highest leader epoch, if the state was initialised anew after it was seen (the new
snapshot says 0).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.share.state_batches import StoredBatches
from kafka_share.broker.share.state_records import Snapshot, StateKey, Tombstone, Update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_share.broker.share.state_records import StateRecord


@attrs.define
class ShareState:
    """One state. `fence` is the highest leader epoch seen; `snapshot_at` the offset of the last snapshot."""

    home: int
    """The partition of the internal topic that it is kept in."""
    snapshot_epoch: int
    state_epoch: int
    highest_state_epoch: int
    start_offset: int
    delivery_complete_count: int
    leader_epoch: int
    fence: int
    created_at_ms: int
    written_at_ms: int
    snapshot_at: int
    updates: int = 0
    """Since the last snapshot that was due to their number."""
    batches: StoredBatches = attrs.Factory(StoredBatches)


class ShareStates:
    """All share states, by key."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[StateKey, ShareState] = {}
        self._ended_at: dict[int, int] = {}
        """Partition -> the offset of its last tombstone."""

    def get(self, key: StateKey) -> ShareState | None:
        return self._states.get(key)

    def __iter__(self) -> Iterator[StateKey]:
        return iter(self._states)

    def items(self) -> Iterator[tuple[StateKey, ShareState]]:
        """A copy: states may go while one walks over them."""
        return iter(list(self._states.items()))

    def replay(self, record: StateRecord, home: int, offset: int) -> None:
        """Change the state as the record says, which lies in partition `home` of the internal topic."""
        if isinstance(record, Tombstone):
            self._states.pop(record.key, None)
            self._ended_at[home] = offset
        elif isinstance(record, Snapshot):
            self._snapshot(record, home, offset)
        else:
            self._update(record, home, offset)

    def _snapshot(self, record: Snapshot, home: int, offset: int) -> None:
        before = self._states.get(record.key)
        updates = 0 if before is None or before.updates >= self._updates_per_snapshot else before.updates
        self._states[record.key] = ShareState(
            home=home,
            snapshot_epoch=record.snapshot_epoch,
            state_epoch=record.state_epoch,
            highest_state_epoch=max(
                record.state_epoch, record.state_epoch if before is None else before.highest_state_epoch
            ),
            start_offset=record.start_offset,
            delivery_complete_count=record.delivery_complete_count,
            leader_epoch=record.leader_epoch,
            fence=max(record.leader_epoch, record.leader_epoch if before is None else before.fence),
            created_at_ms=record.created_at_ms,
            written_at_ms=record.written_at_ms,
            snapshot_at=offset,
            updates=updates,
            batches=StoredBatches(record.batches),
        )

    def _update(self, record: Update, home: int, offset: int) -> None:
        state = self._states.get(record.key)
        if state is None:
            # Its snapshot is missing: what is left of the state is what Kafka makes of it.
            state = ShareState(home, record.snapshot_epoch, 0, 0, -1, -1, 0, 0, -1, -1, offset)
            self._states[record.key] = state
        if record.start_offset != -1:
            state.start_offset = record.start_offset
        if record.leader_epoch != -1:
            state.leader_epoch = record.leader_epoch
            state.fence = max(state.fence, record.leader_epoch)
        state.delivery_complete_count = record.delivery_complete_count
        state.batches.merge(record.batches, state.start_offset)
        state.updates += 1

    def redundant_before(self, home: int) -> int:
        """The offset of a partition below which no record is needed any more."""
        last = [state.snapshot_at for state in self._states.values() if state.home == home]
        return min(last, default=self._ended_at.get(home, 0))

    def homes(self) -> list[int]:
        """The partitions that something was written to, ascending."""
        return sorted({*self._ended_at, *(state.home for state in self._states.values())})

    def check(self) -> None:
        """Assert that stored batches do not overlap and that none lies below its start.

        One that ends before it begins, and stands alone, is stored as it came (see `merge_state_batches`).
        """
        for key, state in self._states.items():
            for before, after in pairwise(state.batches):
                assert before.last < after.first, f"{key}: {after} after {before}"
            forward = [batch for batch in state.batches if batch.first <= batch.last]
            assert all(state.start_offset <= batch.last for batch in forward), f"{key}: below the start"
            assert state.leader_epoch <= state.fence
            assert state.state_epoch <= state.highest_state_epoch
