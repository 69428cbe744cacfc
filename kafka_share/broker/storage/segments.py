"""The segments of a log: which batches lie together, when a new one is begun, which are old enough to go, and which are
to be compacted.

Owned by `Log`. A segment is named by its base offset; only the last one, the active one, grows. In memory a segment is
no more than these numbers; on disk it is a file (`segment_files`). Source of the rules: Kafka 4.3's `LogSegment`,
`UnifiedLog`, `LogCleanerManager` and `Cleaner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.storage.log_settings import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.storage.log_settings import LogSettings

_MAX_OFFSETS: Final = 2**31 - 1
"""Kafka's index has offsets of four bytes, relative to the segment's."""
_NO_TIMESTAMP: Final = -1


@attrs.define(eq=False)
class Segment:
    """Times are milliseconds since 1970."""

    base_offset: int
    size_bytes: int = 0
    first_timestamp: int = _NO_TIMESTAMP
    """The highest timestamp of the first batch."""
    max_timestamp: int = _NO_TIMESTAMP
    written_at_ms: int = 0
    """When the last batch was written; it counts where no record has a timestamp."""

    def wrote(self, size: int, max_timestamp: int, now_ms: int) -> None:
        """A batch was added."""
        if self.size_bytes == 0:
            self.first_timestamp = max_timestamp
        self.size_bytes += size
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.written_at_ms = now_ms

    def is_full(self, size: int, max_timestamp: int, last_offset: int, settings: LogSettings, now_ms: int) -> bool:
        """Whether batches of this size with this highest timestamp and last offset have to go into a new segment."""
        if self.size_bytes == 0:
            return False
        if self.size_bytes + size > settings.segment_bytes or last_offset - self.base_offset > _MAX_OFFSETS:
            return True
        if self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp > settings.segment_ms
        return now_ms - self.written_at_ms > settings.segment_ms

    @property
    def newest_ms(self) -> int:
        """The highest timestamp of its records, or when it was written if they have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.written_at_ms


def old_segments(segments: Sequence[Segment], settings: LogSettings, now_ms: int) -> int:
    """How many segments from the first one on have to go by retention.ms and retention.bytes.

    The active one goes too when it is old, unless it is empty.
    """
    surplus = sum(segment.size_bytes for segment in segments) - settings.retention_bytes
    for count, segment in enumerate(segments):
        too_old = settings.retention_ms != FOREVER and now_ms - segment.newest_ms > settings.retention_ms
        surplus -= segment.size_bytes
        too_much = settings.retention_bytes != FOREVER and surplus >= 0
        if segment.size_bytes == 0 or not (too_old or too_much):
            return count
    return len(segments)


def dirty_segments(
    segments: Sequence[Segment], dirty_from: int, stable_offset: int, settings: LogSettings, now_ms: int
) -> int:
    """How many segments from the first one on have to be compacted now; 0 if that can wait.

    `dirty_from` is where the records begin that were never compacted. The active segment is not compacted, nor what is
    behind the last stable offset or younger than min.compaction.lag.ms. The rest waits until it is enough by
    min.cleanable.dirty.ratio, or too old by max.compaction.lag.ms.
    """
    first = max(0, sum(segment.base_offset <= dirty_from for segment in segments) - 1)
    stop, lag_ms = len(segments) - 1, settings.min_compaction_lag_ms
    for index in range(first, stop):
        is_young = lag_ms > 0 and now_ms - segments[index].newest_ms < lag_ms
        if segments[index + 1].base_offset > stable_offset or is_young:
            stop = index
            break
    dirty_bytes = sum(segment.size_bytes for segment in segments[first:stop])
    clean_bytes = sum(segment.size_bytes for segment in segments[:first])
    is_overdue = any(
        0 < segment.first_timestamp < now_ms - settings.max_compaction_lag_ms for segment in segments[first:-1]
    )
    is_enough = dirty_bytes > settings.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes)
    return stop if dirty_bytes and (is_overdue or is_enough) else 0


def joined(segments: Sequence[Segment], settings: LogSettings) -> list[list[Segment]]:
    """Neighbours that become one segment when they are compacted, because they are small enough."""
    groups: list[list[Segment]] = []
    for segment, behind in zip(segments, [*segments[1:], None], strict=True):
        last = segment.base_offset if behind is None else behind.base_offset - 1
        size = segment.size_bytes + (sum(one.size_bytes for one in groups[-1]) if groups else 0)
        if groups and size <= settings.segment_bytes and last - groups[-1][0].base_offset <= _MAX_OFFSETS:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
