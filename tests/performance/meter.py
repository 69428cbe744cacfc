"""What a contestant is told to do, and the clock that it starts and stops.

The clock begins when the first records have been handled, and stops when the last ones have: joining the group is not
measured.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

_STAMP: Final = struct.Struct(">q")
_GIVE_UP_S: Final = 60
"""Without any record."""

BEGUN: Final = "begun"
"""A line that each contestant prints when it has its first records. The last line is its result, as JSON."""

IMPLICIT: Final = ("implicit", "columns")
COLUMNS: Final = ("columns", "rows")
HANDLERS_MODE: Final = "handlers"


@attrs.frozen
class Task:
    """What to do. `mode`: implicit, explicit (a call per record), commit (explicit, and commit_sync after each poll),
    window (the oldest are acknowledged while more than `window` are in flight; another poll fits), columns and rows
    (implicit and explicit, polled as columns of Arrow and acknowledged as a whole; the peers work as in those),
    handlers (a function for each record, as in `handlers`), or one of `raw_client`. `work`: turns of an empty loop per
    record. `wait_us`: how long a handler waits. `send_ahead`: the setting of our clients. `stamped`: values begin with
    the time they were made at. `idle_s`: end when nothing has come for so long, as one of several consumers does that
    cannot know its share; 0: at `records`."""

    client: str
    bootstrap: str
    topic: str
    group: str
    records: int
    mode: str = "implicit"
    max_poll_records: int = 500
    work: int = 0
    wait_us: int = 0
    window: int = 0
    send_ahead: bool = False
    stamped: bool = False
    idle_s: float = 0


class Meter:
    """Time and CPU between the first records and the last. `has_one_thread`: whether one thread counts them all."""

    def __init__(self, task: Task, *, has_one_thread: bool = True) -> None:
        self._task = task
        self._has_one_thread = has_one_thread
        self._count = 0
        self._begun: tuple[int, float, float, float] | None = None
        self._ended = (0, 0.0, 0.0, 0.0)
        self._last_at_s = time.monotonic()
        self.latencies_us: list[float] = []

    def wants_more(self) -> bool:
        silent_s = time.monotonic() - self._last_at_s
        if self._task.idle_s:
            return silent_s < (self._task.idle_s if self._begun else _GIVE_UP_S)
        if silent_s > _GIVE_UP_S:
            raise TimeoutError(f"{self._count} records of {self._task.records} came")
        return self._count < self._task.records

    def arrived(self, values: Sequence[bytes]) -> None:
        """Stamped records are in the application's hands."""
        now = time.time_ns()
        if self._begun is None:
            return  # it waited for this consumer to join
        self.latencies_us += [(now - _STAMP.unpack_from(value)[0]) / 1_000 for value in values]

    def handled(self, count: int) -> None:
        if not count:
            return
        self._count += count
        self._last_at_s = time.monotonic()
        self._ended = (self._count, self._last_at_s, time.process_time(), time.thread_time())
        if self._begun is None:
            self._begun = self._ended
            sys.stdout.write(f"{BEGUN}\n")
            sys.stdout.flush()

    def result(self) -> dict[str, Any]:
        if self._begun is None:
            return {"records": 0}
        before, began_at_s, cpu_before_s, own_before_s = self._begun
        count, ended_at_s, cpu_s, own_s = self._ended
        return {
            "records": count - before,
            "began_at_s": began_at_s,
            "ended_at_s": ended_at_s,
            "cpu_s": cpu_s - cpu_before_s,
            "application_cpu_s": own_s - own_before_s if self._has_one_thread else 0,
            "rss_mb": _most_memory_mb(),
            "latencies_us": self.latencies_us,
        }


def _most_memory_mb() -> float:
    """0 where it cannot be known. `getrusage` knows the most of the process that started this one, too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024
