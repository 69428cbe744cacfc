"""The settings of the client core: what of the consumer's configuration the protocol logic needs.

Made by the façades from `kafka_share.config`, which has checked the ranges; read by the machines of the core.
"""

from __future__ import annotations

import attrs

from kafka_share.records import Node


@attrs.frozen(kw_only=True)
class CoreSettings:
    """Spans are milliseconds, sizes bytes; the defaults are Apache Kafka's."""

    group_id: str
    member_id: str
    """Kept for the consumer's life, across fencing, leaving and joining again (KIP-1082)."""
    client_rack: str | None = None
    bootstrap: tuple[Node, ...]
    """The addresses to begin with; their ids are -1, -2, …"""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_poll_records: int = 500
    record_limit: bool = False
    """Acquire never more than `max_poll_records` (ShareFetch version 2), instead of whole record batches."""
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    allow_auto_create_topics: bool = True
    metrics_num_samples: int = 2
    metrics_sample_window_ms: int = 30_000
    enable_metrics_push: bool = False
    """Push metrics to brokers that subscribe to them (KIP-714)."""
