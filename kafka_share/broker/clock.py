"""The broker's clock: real time that tests can push forward, or a clock that stands still until they do.

Used by the server and by `ReferenceBroker`; the machines get its reading as `now_ms`. It never goes back, unless the
broker is reset. Safe to advance from any thread.
"""

from __future__ import annotations

import threading
import time
from typing import Final

_NS_PER_MS: Final = 1_000_000


class BrokerClock:
    """Integer milliseconds since 1970.

    With `manual` the clock stands at `start_ms` (default: the time of its making) until `advance`; otherwise it runs
    with real time plus everything that was advanced.
    """

    def __init__(self, *, manual: bool = False, start_ms: int | None = None) -> None:
        self._manual = manual
        self._base_ns = time.time_ns() if start_ms is None else start_ms * _NS_PER_MS
        self._started_ns = time.monotonic_ns()
        self._advanced_ms = 0
        self._lock = threading.Lock()

    @property
    def manual(self) -> bool:
        """Whether only `advance` moves the clock."""
        return self._manual

    def now_ms(self) -> int:
        """The time now."""
        elapsed_ns = 0 if self._manual else time.monotonic_ns() - self._started_ns
        return (self._base_ns + elapsed_ns) // _NS_PER_MS + self._advanced_ms

    def start_again(self) -> None:
        """Forget what was advanced. The driver calls it only when no machine has seen the time."""
        with self._lock:
            self._advanced_ms = 0

    def advance(self, span_ms: int) -> None:
        """Push the clock `span_ms` milliseconds forward. Raises `ValueError` for a negative span."""
        if span_ms < 0:
            raise ValueError(f"the clock cannot go back (advance by {span_ms} ms)")
        with self._lock:
            self._advanced_ms += span_ms
