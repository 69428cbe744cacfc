"""The clock of every client: it never goes back, and runs while the machine sleeps, where the system has such a clock.

A broker's lock of a record runs on while a laptop sleeps, and so do sessions and time limits. Linux has CLOCK_BOOTTIME
for that; `time.monotonic` stands still there. The event loop of the driver uses the same clock, so that one number
means one moment in timers, locks and deadlines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial


def _clock_of(boottime: int | None) -> Callable[[], int]:
    """Nanoseconds by that clock, or by the monotonic one where there is none. No frame in Python: it is read often."""
    return time.monotonic_ns if boottime is None else partial(time.clock_gettime_ns, boottime)


clock_ns: Callable[[], int] = _clock_of(getattr(time, "CLOCK_BOOTTIME", None))


def clock_ms() -> int:
    """Milliseconds since some moment before the process began."""
    return clock_ns() // 1_000_000


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop by this clock."""

    def time(self) -> float:
        return clock_ns() / 1_000_000_000
