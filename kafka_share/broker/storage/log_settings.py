"""The settings of a topic that its logs heed: how long records stay, and how a log is cut into segments.

Made by `Configs` from the keys of the topic and of the broker; logs and retention read it.
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


DEFAULTS: Final = LogSettings()
