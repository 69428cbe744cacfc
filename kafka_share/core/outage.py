"""Notices that no broker answers any more, so that an application learns of it that only polls.

Owned by `core.requests`, which tells it of every answer and every failure. Single brokers may be down for as long as
they like; only when nothing at all answers is there something to raise. It stops nothing: trying goes on.
"""

from __future__ import annotations

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import BrokerUnreachableError, KafkaShareError


class Outage:
    """From the first failure after an answer until the next answer; raised once, after `default_api_timeout_ms`."""

    def __init__(self, config: ShareConsumerConfig) -> None:
        self._limit_ms = config.default_api_timeout_ms
        # While the core wants something, failures follow each other faster than this. A longer pause means that
        # nothing was asked for in between, and says nothing about the brokers.
        self._longest_pause_ms = (
            config.request_timeout_ms + config.fetch_max_wait_ms + 2 * config.reconnect_backoff_max_ms
        )
        self._began_at_ms: int | None = None
        self._last_at_ms = 0
        self._is_known = False

    def answered(self) -> None:
        """A broker answered: whatever there was, it is over."""
        self._began_at_ms = None
        self._is_known = False

    def failed(self, error: KafkaShareError, now_ms: int) -> BrokerUnreachableError | None:
        """A request got no answer; the error to raise, once per outage, when that has been so for long enough."""
        if self._began_at_ms is None or now_ms - self._last_at_ms > self._longest_pause_ms:
            self._began_at_ms = now_ms
        self._last_at_ms = now_ms
        silent_ms = now_ms - self._began_at_ms
        if self._is_known or silent_ms < self._limit_ms:
            return None
        self._is_known = True
        return BrokerUnreachableError(f"No broker has answered for {silent_ms} ms, and trying goes on; last: {error}")
