"""The log of one partition: the interface that a durable log will fit too, and the log in memory.

Called by the cluster (produce, fetch, list offsets, delete records) and by share partitions (read). Knows nothing of
groups or connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class StoredBatch:
    """One record batch as it lies in the log: `data` has the final offsets, leader epoch and CRC in it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes
    is_control: bool
    is_transactional: bool
    producer_id: int
    appended_at_ms: int


class PartitionLog(Protocol):
    """What every log offers. Offsets are integers; the end offset is the offset that the next record will get."""

    @property
    def start_offset(self) -> int:
        """The first offset that still exists (Kafka's log start offset)."""

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may read."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed consumers may read: before the first open transaction."""

    def append(self, records: bytes, leader_epoch: int, now_ms: int) -> tuple[int, int]:
        """Append validated record batches; answers the base offset and the last offset they got."""

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Sequence[StoredBatch]:
        """Whole batches from the one that holds `offset` (or the next later one) on, none starting at or after
        `end_offset`, together at most `max_bytes` but at least one. Raises `OffsetOutOfRangeError` below the start
        offset or above the end."""

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes `read` could return from `offset` up to `end_offset`; 0 if there is nothing."""

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record not older than `timestamp`, None if there is none."""

    def aborted_ranges(self, first: int, last: int) -> Sequence[tuple[int, int, int]]:
        """Aborted transactions that overlap the range, as (producer_id, first_offset, last_offset)."""

    def delete_records(self, before_offset: int) -> int:
        """Raise the start offset; answers the new one."""
