"""`kafka-share worker`: a handler from a module of the user's, its end by a signal, and what it says of mistakes."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.documentation import environment
from support.waiting import wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.main import main
from kafka_share.cli.worker.probe import probed
from kafka_share.worker import ShareWorker

pytestmark = pytest.mark.timeout(120)  # some start a Python: on a busy machine that alone may take 20 s

_JOBS = """
import sys
import time

def handle(record):
    print("order", record.value["id"], flush=True)

async def handle_async(record):
    handle(record)

def handle_batch(records):
    for record in records:
        handle(record)

def hang(record):
    print("hangs", flush=True)
    time.sleep(1_000)

number = 5
"""


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        running.create_topic("orders")
        running.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        running.produce("orders", b'{"id": 1}')
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "their_jobs.py").write_text(_JOBS, "utf-8")
    (tmp_path / "broken_jobs.py").write_text("1 / 0", "utf-8")
    return tmp_path


def start(folder: Path, broker: ReferenceBroker, handler: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kafka_share", "worker", f"their_jobs:{handler}", "--topic", "orders"]
    command += ["--group", "g", "--bootstrap-server", broker.bootstrap_servers, "--value", "json", *more]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def accepted(broker: ReferenceBroker) -> bool:
    partition = broker.share_partition("g", "orders")
    return partition is not None and partition.start_offset == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
@pytest.mark.parametrize(
    ("handler", "options"),
    [
        ("handle", []),
        ("handle_async", []),
        ("handle", ["--processes", "2"]),
        ("handle_batch", ["--batch", "5", "--batch-wait", "1"]),
        ("handle", ["--ordered-by-key", "--expected", "60000"]),
    ],
)
def test_a_handler_runs_until_sigterm_and_the_exit_code_is_healthy(
    handler: str, options: list[str], folder: Path, broker: ReferenceBroker
) -> None:
    with start(folder, broker, handler, *options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "order 1\n"
        wait_until(lambda: accepted(broker))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert process.returncode == 0, log
    assert "INFO kafka_share.worker: the worker has ended: 1 received (0 of them again), 1 accepted" in log


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
def test_a_probe_is_answered_while_a_handler_hangs(folder: Path, broker: ReferenceBroker) -> None:
    with start(folder, broker, "hang", "--probe-port", "0", "--drain-timeout", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "hangs\n"
        lines = iter(process.stderr.readline, "")
        probe = next(line for line in lines if "the probe is " in line).partition("the probe is ")[2].strip()
        with urllib.request.urlopen(probe) as answer:
            found = json.load(answer)
        assert (answer.status, found) == (200, {"phase": "running", "ready": 0, "running": 1, "waiting": 0})
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 1


def test_a_probe_says_when_a_worker_is_not_healthy(broker: ReferenceBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Before its start, for example."""
    worker: ShareWorker[Any, Any] = ShareWorker(
        "orders", print, bootstrap_servers=broker.bootstrap_servers, group_id="g"
    )
    caplog.set_level(logging.INFO, "kafka_share.cli")
    with probed(worker, "127.0.0.1", 0):
        probe = caplog.messages[-1].partition("the probe is ")[2]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(probe)
    with caught.value:
        assert caught.value.code == 503
        assert json.load(caught.value)["phase"] == "new"


def test_a_probe_that_cannot_listen_ends_the_command(broker: ReferenceBroker) -> None:
    worker: ShareWorker[Any, Any] = ShareWorker(
        "orders", print, bootstrap_servers=broker.bootstrap_servers, group_id="g"
    )
    taken = int(broker.bootstrap_servers.rpartition(":")[2])
    with (
        pytest.raises(ToolFailedError, match=f"cannot listen on 127.0.0.1:{taken}"),
        probed(worker, "127.0.0.1", taken),
    ):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
def test_a_second_signal_ends_it_and_the_exit_code_says_that_a_handler_was_left(
    folder: Path, broker: ReferenceBroker
) -> None:
    with start(folder, broker, "hang") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert process.returncode == 1, log
    assert "1 handlers still running" in log


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    more = ("--topic", "orders", "--group", "g", "--bootstrap-server", "127.0.0.1:1")
    return CliRunner().invoke(main, ["worker", *words, *more])


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("their_jobs", "MODULE:HANDLER"),
        ("their_jobs:", "MODULE:HANDLER"),
        ("no_jobs:handle", "ModuleNotFoundError"),
        ("broken_jobs:handle", "ZeroDivisionError"),
        ("their_jobs:absent", "no function absent"),
        ("their_jobs:number", "no function number"),
    ],
)
def test_a_handler_that_is_none_is_a_wrong_argument(
    handler: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(folder, monkeypatch, handler)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_settings_that_do_not_fit_are_a_usage_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(folder, monkeypatch, "their_jobs:handle", "--concurrency", "5", "--window", "4")
    assert result.exit_code == 2
    assert "at least concurrency, 5" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
def test_records_that_cannot_be_handled_are_kept_as_dead_letters(folder: Path, broker: ReferenceBroker) -> None:
    """On their last delivery: a value that is no JSON is released once, in the hope of a newer member."""
    broker.create_topic("dlq.orders")
    broker.set_group_config("g", {"share.delivery.count.limit": 2})
    broker.produce("orders", b"no JSON")
    with start(folder, broker, "handle", "--dead-letters") as process:
        wait_until(lambda: broker.records("dlq.orders"))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert process.returncode == 0, log
    [letter] = broker.records("dlq.orders")
    assert (letter.value, dict(letter.headers)["__dlq.errors.delivery.count"]) == (b"no JSON", b"2")
