"""A worker that gets SIGTERM in the midst of its work, in each of its forms, on the reference broker and real Kafka."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin
from support.documentation import environment
from support.waiting import wait_until

RECORDS = 600
WINDOW = 40

_ENDED = re.compile(r"the worker has ended: (\d+) received \((\d+) of them again\), (\d+) accepted, (\d+) released")


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Callable[[str], str], closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


@contextmanager
def worker(flow: Flow, handled: Path, handler: str, options: list[str]) -> Generator[list[int]]:
    """A worker that gets SIGTERM when the block ends. Its counts are in the list then, as `_ENDED` finds them."""
    client = handled.with_suffix(".properties")  # 4.1 has no strict record limit
    client.write_text("" if flow.target.speaks_v2 else "share.acquire.mode=batch_optimized\n", "utf-8")
    command = [sys.executable, "-m", "kafka_share", "worker", f"conformance.worker_handlers:{handler}"]
    command += ["--topic", flow.topic, "--group", flow.group, "--bootstrap-server", flow.target.bootstrap_servers]
    command += ["--concurrency", "4", "--window", str(WINDOW), "--command-config", str(client), *options]
    counts: list[int] = []
    with subprocess.Popen(
        command, env=environment() | {"HANDLED": str(handled)}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield counts
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 0, log
    ended = _ENDED.search(log)
    assert ended is not None, log
    counts += map(int, ended.groups())


def offsets_in(handled: Path) -> list[int]:
    return [int(line) for line in handled.read_text().split()] if handled.exists() else []


@pytest.mark.timeout(90)  # two workers, each with its interpreters
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
@pytest.mark.parametrize(
    ("handler", "options"),
    [
        pytest.param("one", [], id="threads"),
        pytest.param("as_task", [], id="tasks"),
        pytest.param("several", ["--batch", "7"], id="batches"),
        pytest.param("one", ["--ordered-by-key"], id="ordered by key"),
        pytest.param("one", ["--processes", "2"], id="processes"),
    ],
)
def test_sigterm_under_load_loses_nothing_and_handles_nothing_twice(
    handler: str, options: list[str], flow: Flow, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What had not begun is released, and handled by the next worker on its second delivery."""
    flow.produce(*(b"%d" % number for number in range(RECORDS)))
    handled = tmp_path / "handled"
    with worker(flow, handled, handler, options) as first:
        wait_until(lambda: len(offsets_in(handled)) >= RECORDS // 4)
    begun = len(offsets_in(handled))
    received, _, accepted, released = first
    assert accepted == begun < RECORDS
    assert received == accepted + released
    with worker(flow, handled, handler, options) as second:
        wait_until(lambda: len(offsets_in(handled)) >= RECORDS)
    offsets = offsets_in(handled)
    assert sorted(offsets) == list(range(RECORDS))
    if options == ["--ordered-by-key"]:
        assert offsets == sorted(offsets)  # they all have the same key
    received, again, accepted, _ = second
    assert accepted == RECORDS - begun
    record_property("handled by the first worker", begun)
    record_property("delivered again, unhandled", again)
    if flow.target.speaks_v2:
        assert released <= again <= WINDOW, "beside those, what was fetched and not yet taken from the consumer"
