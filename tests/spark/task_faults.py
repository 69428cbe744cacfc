"""AtFirstRow: what happens to a task when it has its first row; and a file in which each attempt leaves a line.

Used by `spark_program`; Spark carries the code itself into the Python workers of every executor. All of them are on one
machine.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ATTEMPTS: Final = "attempts"
"""The name of that file, beside the sink."""
_PAUSE_S: Final = 0.02

TaskFault = Callable[[Any, Path], None]


class AtFirstRow:
    """A function of an offset, which it returns: for a UDF."""

    def __init__(self, fault: TaskFault, attempts: Path) -> None:
        self._fault = fault
        self._attempts = attempts
        self._seen: set[int] = set()

    def __call__(self, offset: int) -> int:
        from pyspark import TaskContext  # tests that need no Spark import this module, too

        context = TaskContext.get()
        assert context is not None
        if context.taskAttemptId() not in self._seen:
            self._seen.add(context.taskAttemptId())
            _note(context, self._attempts, offset)
            self._fault(context, self._attempts)
        return offset


def _note(context: Any, attempts: Path, offset: int) -> None:
    line = {
        "task": context.partitionId(),
        "attempt": context.attemptNumber(),
        "executor": java_ancestors()[0],
        "first": offset,
    }
    with attempts.open("a") as file:
        file.write(json.dumps(line) + "\n")


def noted(attempts: Path) -> list[dict[str, int]]:
    """What the attempts have left so far."""
    return [json.loads(line) for line in attempts.read_text().splitlines()] if attempts.exists() else []


def java_ancestors() -> list[int]:
    """The JVMs that this process comes from: the executor first, then Spark's worker, if it has started that."""
    found, pid = [], os.getpid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            found.append(pid)
        status = Path(f"/proc/{pid}/status").read_text()
        pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return found


def _fail(context: Any, _: Path) -> None:
    if context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails")


def _kill_worker(context: Any, _: Path) -> None:
    if context.attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def _is_first_of_all(context: Any, attempts: Path) -> bool:
    """Whether this is the first attempt of the first task that has come to its rows."""
    return bool(context.partitionId() == 0 and sum(one["task"] == 0 for one in noted(attempts)) == 1)


def _kill_executor(context: Any, attempts: Path) -> None:
    if _is_first_of_all(context, attempts):
        os.kill(java_ancestors()[0], signal.SIGKILL)
        threading.Event().wait()  # for the end of this process, which follows


def _kill_host(context: Any, attempts: Path) -> None:
    """Spark's worker and the executor that it has started."""
    if _is_first_of_all(context, attempts):
        executor, worker = java_ancestors()[:2]
        os.kill(worker, signal.SIGKILL)
        os.kill(executor, signal.SIGKILL)
        threading.Event().wait()


def _fail_at_one_host(context: Any, attempts: Path) -> None:
    if _is_first_of_all(context, attempts):
        raise RuntimeError("the first attempt of the first task fails")


def _outlive(context: Any, attempts: Path) -> None:
    """Wait until Spark has started the same task once more."""
    while _is_first_of_all(context, attempts):
        threading.Event().wait(_PAUSE_S)


def _meet(_: Any, attempts: Path) -> None:
    """No fault, but wait until a task is at work on another executor: short tasks may all run on one."""
    while len({one["executor"] for one in noted(attempts)}) < 2:
        threading.Event().wait(_PAUSE_S)


TASK_FAULTS: Final[dict[str, TaskFault]] = {
    "fail_tasks": _fail,
    "kill_workers": _kill_worker,
    "kill_executor": _kill_executor,
    "kill_host": _kill_host,
    "fail_at_one_host": _fail_at_one_host,
    "outlive": _outlive,
    "meet": _meet,
}
