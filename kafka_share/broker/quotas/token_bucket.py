"""How much somebody may do at once, and how long they wait then: a bucket of tokens that fills with time.

Used by `ClientQuotas`. Knows no clock. The bucket holds what a quota allows in eleven seconds, and is full at first. It
may be overdrawn, once: nothing more is given out until the debt is paid. Source: KIP-599 and Kafka's `TokenBucket`."""

from __future__ import annotations

from typing import Final

from kafka_share.broker.quotas.rate import LONGEST_MS

FULL_AFTER_MS: Final = 11_000


class TokenBucket:
    """The tokens of one user or client, or of all that share a quota."""

    def __init__(self, per_second: float, now_ms: int) -> None:
        self._tokens = per_second * FULL_AFTER_MS / 1_000
        self._filled_at_ms = now_ms

    def take(self, count: int, per_second: float, now_ms: int) -> None:
        """Take so many tokens, even if there are not as many."""
        self._fill(per_second, now_ms)
        self._tokens -= count

    def wait_ms(self, per_second: float, now_ms: int) -> int:
        """How long it is overdrawn; 0 if it is not."""
        self._fill(per_second, now_ms)
        return round(max(0, min(-self._tokens / per_second * 1_000, LONGEST_MS)))

    def _fill(self, per_second: float, now_ms: int) -> None:
        earned = per_second * (now_ms - self._filled_at_ms) / 1_000
        self._tokens = min(self._tokens + earned, per_second * FULL_AFTER_MS / 1_000)
        self._filled_at_ms = now_ms
