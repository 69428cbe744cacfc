"""Handlers in processes, on a reference broker: what crosses, what dies, and who ends whom."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handling import in_processes
from handling.conftest import GROUP, WorkerOnThread
from handling.in_processes import OddError, notes, value
from support.documentation import environment
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError, HandlerProcessError
from kafka_share.worker import Reject, Release, Retry, ShareWorker

pytestmark = [
    pytest.mark.timeout(120),  # each process is a Python that starts: on a busy machine that alone may take 20 s
    pytest.mark.skipif(sys.platform == "win32", reason="handlers here kill their processes with signals"),
]


class Worker(WorkerOnThread):
    """One with handlers in processes."""

    def __init__(self, broker: ReferenceBroker, handler: Callable[..., Any] = in_processes.handle, **settings: Any):
        known: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": GROUP, "processes": 2}
        super().__init__(ShareWorker("t", handler, **{**known, **settings}))


def is_running(process_id: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_in(folder: Path) -> list[int]:
    return [int(name) for name in notes(folder, "process-")]


def test_records_are_handled_in_processes_and_accepted(broker: ReferenceBroker, tmp_path: Path) -> None:
    broker.produce_batch("t", [value(tmp_path)] * 50)
    with Worker(broker) as running:
        running.wait_for(lambda: running.counts.accepted == 50)
    assert notes(tmp_path, "call-") == sorted(f"{offset}-1-1" for offset in range(50))
    used = processes_in(tmp_path)
    assert 1 <= len(used) <= 2
    assert os.getpid() not in used
    assert not any(map(is_running, used))


def test_the_records_of_a_process_that_died_come_back_and_no_others(
    broker: ReferenceBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The death is a failure of that record: it is tried again under the same lock, in a new process."""
    caplog.set_level(logging.INFO, "kafka_share.worker")
    broker.produce_batch("t", [value(tmp_path, todo="crash" if n == 3 else "return") for n in range(10)])
    with Worker(broker, on_error={HandlerProcessError: Retry(backoff_ms=1)}) as running:
        running.wait_for(lambda: running.counts.accepted == 10)
    assert notes(tmp_path, "call-") == sorted([f"{offset}-1-1" for offset in range(10)] + ["3-1-2"])
    assert (running.counts.failed, running.counts.retried, running.counts.redelivered) == (1, 1, 0)
    assert any("was killed by SIGKILL" in one.getMessage() for one in caplog.records)


def test_a_record_that_kills_every_process_ends_as_the_policy_says(broker: ReferenceBroker, tmp_path: Path) -> None:
    """So crashes have an end: here after two deliveries."""
    broker.set_group_config(GROUP, {"share.delivery.count.limit": 2})
    broker.produce_batch("t", [value(tmp_path, todo="exit"), value(tmp_path)])
    policy = {HandlerProcessError: Retry(attempts=1, backoff_ms=1, backoff_max_ms=1, then=Release())}
    with Worker(broker, on_error=policy, release_backoff_ms=0) as running:
        running.wait_for(lambda: running.counts.rejected == 1 and running.counts.accepted == 1)
    assert {"0-1-1", "0-2-1"} <= set(notes(tmp_path, "call-"))
    assert not any(call.startswith("0-3") for call in notes(tmp_path, "call-"))


def test_what_a_handler_raises_comes_with_its_class_and_where_it_was_raised(
    broker: ReferenceBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also a class that pickle cannot make again, which the policy sees as a RuntimeError."""
    broker.produce_batch("t", [value(tmp_path, todo="raise"), value(tmp_path, todo="raise strangely")])
    chosen: dict[str, Exception] = {}

    def choose(error: Exception) -> Reject:
        chosen[type(error).__name__] = error
        return Reject()

    with Worker(broker, on_error={OddError: choose, RuntimeError: choose}) as running:
        running.wait_for(lambda: running.counts.rejected == 2)
    assert str(chosen["OddError"]) == "odd enough"
    assert "StrangeError" in str(chosen["RuntimeError"])
    assert all("in_processes.py" in error.__notes__[0] for error in chosen.values())
    assert any("in_processes.py" in (one.exc_text or "") for one in caplog.records)


def test_batches_go_to_processes_and_one_that_kills_them_spoils_no_other(
    broker: ReferenceBroker, tmp_path: Path
) -> None:
    """The records of a batch whose process died are tried again one by one."""
    todo = {2: "raise", 5: "crash"}
    broker.produce_batch("t", [value(tmp_path, todo=todo.get(n)) for n in range(6)])
    crashes = Retry(attempts=2, backoff_ms=1, backoff_max_ms=1, then=Reject())
    settings: dict[str, Any] = {"batch_records": 6, "batch_wait_ms": 1_000, "processes": 1}
    settings["on_error"] = {HandlerProcessError: crashes, OddError: Reject()}
    with Worker(broker, in_processes.handle_batch, **settings) as running:
        running.wait_for(lambda: running.counts.accepted == 4 and running.counts.rejected == 2)
    calls = notes(tmp_path, "batch-")
    assert {f"{offset}-6" for offset in range(6)} <= set(calls)
    assert {f"{offset}-1" for offset in range(6)} <= set(calls)


@pytest.mark.usefixtures("short_locks")
def test_a_handler_whose_lock_was_lost_is_told_and_then_its_process_is_ended(
    broker: ReferenceBroker, tmp_path: Path
) -> None:
    broker.produce("t", value(tmp_path, todo="compute", listens=True))
    broker.produce("t", value(tmp_path, todo="compute"))
    with Worker(broker) as running:
        running.wait_for(lambda: len(notes(tmp_path, "computes-")) == 2)
        first = processes_in(tmp_path)
        broker.drop_connections()
        running.wait_for(lambda: notes(tmp_path, "ended-") == ["0-its lock was lost"])
        running.wait_for(lambda: sum(map(is_running, first)) <= 1)
        (tmp_path / "go-on").touch()
        running.wait_for(lambda: running.counts.accepted == 2)
    assert running.counts.lost >= 2


def test_a_handler_that_is_too_slow_is_ended_when_the_drain_is_over(broker: ReferenceBroker, tmp_path: Path) -> None:
    """Its record is released before the worker leaves, and nothing is left behind."""
    broker.produce("t", value(tmp_path, todo="compute"))
    with Worker(broker, drain_timeout_ms=1) as running:
        running.wait_for(lambda: notes(tmp_path, "computes-"))
    assert (running.counts.released, running.counts.unknown, running.counts.failed) == (1, 0, 0)
    assert not any(map(is_running, processes_in(tmp_path)))
    assert running.worker.inspect().running == ()


def test_a_second_stop_ends_processes_at_once(broker: ReferenceBroker, tmp_path: Path) -> None:
    broker.produce("t", value(tmp_path, todo="compute"))
    with Worker(broker) as running:
        running.wait_for(lambda: notes(tmp_path, "computes-"))
        running.worker.stop()
        running.worker.stop()
        running.join()
    assert not any(map(is_running, processes_in(tmp_path)))
    assert running.counts.released == 1


# ---- signals, and the end of the worker's process

_PROGRAM = """
import logging, sys
from handling.in_processes import handle
from kafka_share.worker import ShareWorker

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = ShareWorker("t", handle, bootstrap_servers=sys.argv[1], group_id=sys.argv[2], processes=2)
    worker.run()
    print("accepted", worker.inspect().counts.accepted)
"""
_WITHOUT_GUARD = _PROGRAM.replace('if __name__ == "__main__":', "if True:")


def program(text: str, broker: ReferenceBroker, tmp_path: Path) -> subprocess.Popen[str]:
    """In a group of processes, to which signals go as from a terminal."""
    file = tmp_path / "program.py"
    file.write_text(text)
    tests = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, str(file), broker.bootstrap_servers, GROUP],
        env={**environment(), "PYTHONPATH": os.pathsep.join((tests, str(Path(tests).parent)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_lets_handlers_end(
    number: signal.Signals, broker: ReferenceBroker, tmp_path: Path
) -> None:
    """Ctrl-C in a terminal, and what some process managers send at the end: the handlers are not disturbed."""
    broker.produce("t", value(tmp_path, todo="compute"))
    with program(_PROGRAM, broker, tmp_path) as process:
        wait_until(lambda: notes(tmp_path, "computes-"))
        os.killpg(process.pid, number)
        (tmp_path / "go-on").touch()
        output, errors = process.communicate(timeout=patience_s())
    assert process.returncode == 0, errors
    assert "accepted 1" in output
    assert errors == ""
    assert notes(tmp_path, "done-") == ["0"]


def test_no_process_outlives_a_worker_that_is_killed(broker: ReferenceBroker, tmp_path: Path) -> None:
    """Neither one that computes nor one that waits for work."""
    broker.produce("t", value(tmp_path, todo="compute"))
    with program(_PROGRAM, broker, tmp_path) as process:
        wait_until(lambda: notes(tmp_path, "computes-"))
        process.kill()
        process.wait(patience_s())
        wait_until(lambda: not any(map(is_running, processes_in(tmp_path))))
        process.communicate()  # ends when all that had its standard output have ended
    assert processes_in(tmp_path)


def test_a_program_without_a_guard_ends_with_what_to_write(broker: ReferenceBroker, tmp_path: Path) -> None:
    """Each process imports the program: it must not become a worker that starts processes."""
    with program(_WITHOUT_GUARD, broker, tmp_path) as process:
        _, errors = process.communicate(timeout=patience_s())
    assert process.returncode == 1
    assert "if __name__ == '__main__':" in errors
    assert "HandlerProcessError" in errors


# ---- mistakes


def test_a_handler_that_cannot_be_imported_is_refused(broker: ReferenceBroker) -> None:
    with pytest.raises(ConfigurationError, match="top level of a module"):
        Worker(broker, lambda record: None)


async def coroutine_handler(record: Any) -> None:
    """Runs as a task."""


def test_a_coroutine_function_is_refused(broker: ReferenceBroker) -> None:
    with pytest.raises(ConfigurationError, match="async def"):
        Worker(broker, coroutine_handler)


def test_a_handler_that_returns_a_coroutine_ends_the_worker(broker: ReferenceBroker, tmp_path: Path) -> None:
    broker.produce("t", value(tmp_path))
    with Worker(broker, in_processes.returns_a_coroutine) as running:
        wait_until(lambda: running.error)
    assert isinstance(running.error, TypeError)
    assert running.counts.accepted == 0
