"""The settings of the admin core: what of the admin client's configuration its protocol logic needs.

Made by `kafka_share.network.admin_calls` from `kafka_share.config`, which has checked the ranges.
"""

from __future__ import annotations

import attrs

from kafka_share.records import Node


@attrs.frozen(kw_only=True)
class AdminSettings:
    """Spans are milliseconds; the defaults are Apache Kafka's."""

    bootstrap: tuple[Node, ...]
    """The addresses to begin with; their ids are -1, -2, …"""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
