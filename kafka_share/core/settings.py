"""The settings of the client core: what of the consumer's configuration the protocol logic needs.

Made by the façades from `kafka_share.config`, which has checked the ranges; read by the machines of the core.
"""

from __future__ import annotations

import attrs

from kafka_share.config import ShareConsumerConfig
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
    renewed_records_stay: bool = False
    """With an open window the application keeps a record while it is renewed: no poll ends to return it."""
    metrics_num_samples: int = 2
    metrics_sample_window_ms: int = 30_000
    enable_metrics_push: bool = False
    """Push metrics to brokers that subscribe to them (KIP-714)."""


def core_settings(config: ShareConsumerConfig, member_id: str) -> CoreSettings:
    """The part of a consumer's configuration that its protocol logic needs."""
    return CoreSettings(
        group_id=config.group_id,
        member_id=member_id,
        client_rack=config.client_rack or None,
        bootstrap=config.bootstrap_servers,
        fetch_min_bytes=config.fetch_min_bytes,
        fetch_max_bytes=config.fetch_max_bytes,
        fetch_max_wait_ms=config.fetch_max_wait_ms,
        max_poll_records=config.max_poll_records,
        record_limit=config.share_acquire_mode == "record_limit",
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        default_api_timeout_ms=config.default_api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        allow_auto_create_topics=config.allow_auto_create_topics,
        metrics_num_samples=config.metrics_num_samples,
        metrics_sample_window_ms=config.metrics_sample_window_ms,
        enable_metrics_push=config.enable_metrics_push,
        renewed_records_stay=config.explicit_window_records > 0,
    )
