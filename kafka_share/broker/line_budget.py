"""Lines of the log about what clients do wrong: so many a minute, and then how many were left out. No I/O.

`BrokerServer` keeps one: who connects and sends nonsense, again and again, must not fill a disk.
"""

from __future__ import annotations

from typing import Final

PERIOD_S: Final = 60.0


class LineBudget:
    """`limit` lines in each period, which begins with its first one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._began_s = float("-inf")
        self._lines = 0

    def take(self, now_s: float) -> tuple[bool, int]:
        """Whether there is a line left, and how many were left out in the period that has just ended."""
        left_out = 0
        if now_s - self._began_s >= PERIOD_S:
            left_out = max(0, self._lines - self._limit)
            self._began_s, self._lines = now_s, 0
        self._lines += 1
        return self._lines <= self._limit, left_out
