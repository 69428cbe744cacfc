"""Which process the driver is, and that its end is seen."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from support.waiting import wait_until

from kafka_share.spark.driver_process import driver_pid, watch_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no lease agent on Windows")


def test_without_a_jvm_above_it_the_driver_is_the_parent() -> None:
    assert driver_pid() == os.getppid()


def test_the_end_of_a_process_is_seen_though_nobody_has_reaped_it() -> None:
    ended: list[int] = []
    seen = threading.Event()

    def on_end(pid: int) -> None:
        ended.append(pid)
        seen.set()

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        watch_process(process.pid, on_end)
        assert ended == []
        process.kill()
        wait_until(seen.is_set)
    assert ended == [process.pid]


def test_a_process_that_has_ended_before_is_seen_as_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    seen = threading.Event()
    watch_process(process.pid, lambda _: seen.set())
    wait_until(seen.is_set)
