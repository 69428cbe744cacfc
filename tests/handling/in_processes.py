"""Handlers that tests run in processes, which import this module. Each record's value names a folder and what to do.

They leave files in the folder: that is all that a test sees of another process.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from kafka_share.errors import BatchError
from kafka_share.worker import Lease


class OddError(Exception):
    """One that tests map."""


class StrangeError(Exception):
    """One that cannot be made again from what was pickled."""

    def __init__(self, one: str, *, two: str) -> None:
        super().__init__(one)
        self.two = two


def value(folder: Path, **task: Any) -> bytes:
    return json.dumps({"folder": str(folder), **task}).encode()


def note(folder: str, what: str) -> None:
    """A file whose name is found at once or not at all."""
    (Path(folder) / what).touch()


def notes(folder: Path, start: str) -> list[str]:
    return sorted(path.name.removeprefix(start) for path in folder.glob(f"{start}*"))


def handle(record: Any, lease: Lease) -> None:
    task = json.loads(record.value)
    folder = task["folder"]
    note(folder, f"call-{record.offset}-{record.delivery_count}-{lease.tries}")
    note(folder, f"process-{os.getpid()}")
    todo = task.get("todo", "return")
    if todo == "crash" and lease.tries <= task.get("times", 1):
        os.kill(os.getpid(), signal.SIGKILL)
    elif todo == "exit":
        os._exit(7)
    elif todo == "raise":
        raise OddError("odd enough")
    elif todo == "raise strangely":
        raise StrangeError("strange", two="enough")
    elif todo == "compute":
        compute(folder, record.offset, lease if task.get("listens") else None)
    note(folder, f"done-{record.offset}")


def compute(folder: str, offset: int, lease: Lease | None) -> None:
    """Until the test says so, or the lease ends for those who listen."""
    note(folder, f"computes-{offset}")
    while not (Path(folder) / "go-on").exists():
        if lease is not None and lease.ended.is_set():
            note(folder, f"ended-{offset}-{lease.reason}")
            return
        time.sleep(0.001)  # a handler that works


def handle_batch(records: list[Any]) -> None:
    failures: dict[Any, Exception] = {}
    for record in records:
        task = json.loads(record.value)
        note(task["folder"], f"batch-{record.offset}-{len(records)}")
        if task.get("todo") == "raise":
            failures[record] = OddError("odd enough")
        elif task.get("todo") == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
    if failures:
        raise BatchError(failures)


def returns_a_coroutine(record: Any) -> Any:
    async def work() -> None:
        """Never awaited."""

    return work()
