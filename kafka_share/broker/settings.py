"""What the share machines need to know of a group's effective configuration: one value, made anew when it changes."""

from __future__ import annotations

import attrs


@attrs.frozen
class GroupSettings:
    """Effective settings of one share group: the group's own value, else the broker's (spec of Kafka 4.3, KIP-1240)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renew_enabled: bool = True
    assignment_interval_ms: int = 1_000
    auto_offset_reset: str = "latest"
    """"latest", "earliest", or "by_duration:" and an ISO-8601 duration."""
    read_committed: bool = False
