"""The process of a driver: which one it is, and a watch that sees its end, however it ends.

For the lease agent and for those who start it. Nothing here knows leases.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LOOK_EVERY_S: Final = 0.5
ELSEWHERE: Final = 0
"""Instead of the number of a process that runs on another host."""


def driver_pid() -> int:
    """The driver's JVM, an ancestor of every Python process that Spark starts on the driver; else our parent."""
    pid = os.getpid()
    while pid > 1:
        parent = _parent_of(pid)
        if parent is None:
            break
        if parent > 1 and _name_of(parent) == "java":
            return parent
        pid = parent
    return os.getppid()


def _parent_of(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")), None)


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    return ""


def watch_process(pid: int, on_end: Callable[[int], None]) -> None:
    """Call `on_end` with the pid, once, on a thread of its own, when that process has ended.

    By a pidfd where there are such (Linux): it sees a zombie as ended, and never takes a later process of the same
    number for this one.
    """
    threading.Thread(target=_watch, args=(pid, on_end), name=f"watch-{pid}", daemon=True).start()


def _watch(pid: int, on_end: Callable[[int], None]) -> None:
    try:
        _wait_for_end(pid)
    except ProcessLookupError:
        pass  # it has ended already
    on_end(pid)


def _wait_for_end(pid: int) -> None:
    if hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(pid)
        try:
            poller = select.poll()
            poller.register(handle, select.POLLIN)
            poller.poll()
        finally:
            os.close(handle)
    else:
        while True:
            os.kill(pid, 0)
            time.sleep(_LOOK_EVERY_S)
