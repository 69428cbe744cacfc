"""The settings of a topic that its logs heed: how long records stay, how a log is cut into segments, what is compacted.

Made by `Configs` from the keys of the topic and of the broker; logs, retention and the log cleaner read it.
"""

from __future__ import annotations

from typing import Final

import attrs

FOREVER: Final = -1
"""Of retention.ms and retention.bytes: no limit."""


@attrs.frozen
class LogSettings:
    """The defaults are Kafka's."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    retention_ms: int = 604_800_000
    retention_bytes: int = FOREVER
    is_compacted: bool = False
    """Whether `cleanup.policy` has compact."""
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5


@attrs.frozen
class AppendSettings:
    """What producers have to heed."""

    max_bytes: int
    """Of one record batch."""
    needs_keys: bool
    has_append_times: bool
    """The broker gives records their timestamps."""
    before_max_ms: int
    """How far the timestamps of producers may be from now."""
    after_max_ms: int


DEFAULTS: Final = LogSettings()
