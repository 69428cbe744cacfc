"""Exponential back-off with jitter: how long to wait after the n-th failure in a row.

Used by every machine of the core that repeats a request. Knows no clock: the caller says what time it is.
"""

from __future__ import annotations

import random

_JITTER = 0.2
_MAX_DOUBLINGS = 30


class Backoff:
    """Counts failures in a row; after the n-th, `ready_at_ms` lies initial_ms * 2^(n-1) ahead, at most maximum_ms.

    The jitter of ±20 % keeps clients that lost the same broker from coming back in step (KIP-580). The first
    `free_failures` in a row cost no wait.
    """

    def __init__(self, initial_ms: int, maximum_ms: int, source: random.Random, *, free_failures: int = 0) -> None:
        self.attempts: int = 0
        self.ready_at_ms: int = 0
        self._initial_ms = initial_ms
        self._maximum_ms = max(initial_ms, maximum_ms)
        self._source = source
        self._free_failures = free_failures

    def failed(self, now_ms: int) -> None:
        doublings = self.attempts - self._free_failures
        self.attempts += 1
        if doublings < 0:
            return
        span_ms = min(self._initial_ms << min(doublings, _MAX_DOUBLINGS), self._maximum_ms)
        self.ready_at_ms = now_ms + round(span_ms * self._source.uniform(1 - _JITTER, 1 + _JITTER))

    def succeeded(self) -> None:
        self.attempts = 0
        self.ready_at_ms = 0
