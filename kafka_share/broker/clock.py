"""The broker's clock: real time that tests can push forward, or a clock that stands still until they do.

Used by the server and by `ReferenceBroker`; the machines get its reading as `now_ms`. It never goes back. Safe to
advance from any thread.
"""

from __future__ import annotations

import threading
import time


class BrokerClock:
    """Integer milliseconds since 1970.

    With `manual` the clock stands at `start_ms` (default: the time of its making) until `advance`; otherwise it runs
    with real time plus everything that was advanced.
    """

    def __init__(self, *, manual: bool = False, start_ms: int | None = None) -> None:
        now_ms = time.time_ns() // 1_000_000 if start_ms is None else start_ms
        self._manual = manual
        self._base_ms = now_ms
        self._started_ns = time.monotonic_ns()
        self._advanced_ms = 0
        self._lock = threading.Lock()

    @property
    def manual(self) -> bool:
        """Whether only `advance` moves the clock."""
        return self._manual

    def now_ms(self) -> int:
        """The time now."""
        elapsed_ms = 0 if self._manual else (time.monotonic_ns() - self._started_ns) // 1_000_000
        return self._base_ms + elapsed_ms + self._advanced_ms

    def advance(self, span_ms: int) -> None:
        """Push the clock `span_ms` milliseconds forward. Raises `ValueError` for a negative span."""
        if span_ms < 0:
            raise ValueError(f"the clock cannot go back (advance by {span_ms} ms)")
        with self._lock:
            self._advanced_ms += span_ms
