"""Each example runs as a user would run it, and says what it should."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from support.documentation import ROOT, environment
from support.waiting import wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.timeout(180)  # each test starts programs, one of them a pytest with all its plugins

PROGRAMS = (
    "commit_callback.py",
    "lag_alert.py",
    "lock_renewal.py",
    "order_worker.py",
    "reset_offsets.py",
    "worker.py",
    "worker_pool.py",
)


def run(*arguments: str) -> list[str]:
    """The lines that a Python program printed; fails if it did not end well or warned."""
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def example(name: str, *options: str) -> list[str]:
    return run(str(EXAMPLES / name), *options)


def started(name: str, broker: ReferenceBroker) -> subprocess.Popen[str]:
    """An example that goes on and on, with this broker."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), "--bootstrap-server", broker.bootstrap_servers]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_no_example_is_without_a_test() -> None:
    assert sorted(p.name for p in EXAMPLES.glob("*.py")) == sorted([*PROGRAMS, "pytest_with_broker.py"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_says_how_to_run_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: the tests below run each as a program."""
    monkeypatch.setattr("sys.argv", [str(EXAMPLES / name), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert not ended.value.code
    assert f"python examples/{name} --bootstrap-server" in capsys.readouterr().out


def test_order_worker_packs_what_can_be_packed() -> None:
    """What failed once is called again under its first delivery; two records are rejected, and the log names them."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / "order_worker.py")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    probe, *packed, counts = done.stdout.splitlines()
    assert probe.startswith("probe: http://127.0.0.1:")
    expected = [f"order {number}: packed with call 1" for number in range(1, 10) if number not in (3, 5)]
    assert sorted(packed) == sorted([*expected, "order 3: packed with call 2"])
    assert counts == "8 packed, 2 rejected, 0 released, 1 retried"
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    rejected = [line for line in warnings if "it is rejected" in line]
    assert sorted("orders-0@4" in line for line in rejected) == [False, True]
    [first_failure] = [line for line in warnings if line not in rejected]
    assert "orders-0@2 (delivery 1): its handler failed and is called again" in first_failure


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
def test_order_worker_answers_probes_and_ends_on_a_signal() -> None:
    with ReferenceBroker() as broker:
        broker.create_topic("orders")
        broker.set_group_config("order-workers", share_auto_offset_reset="earliest")
        broker.produce("orders", b'{"order": 1}')
        with started("order_worker.py", broker) as process:
            assert process.stdout is not None
            probe = process.stdout.readline().removeprefix("probe: ").strip()
            assert process.stdout.readline() == "order 1: packed with call 1\n"
            assert answer(probe) == "running\n"
            wait_until(lambda: "kafka_share_worker_accepted_total 1\n" in answer(probe.replace("healthz", "metrics")))
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        assert rest == "1 packed, 0 rejected, 0 released, 0 retried\n"


def answer(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
        return text


def test_worker_settles_every_job_when_some_fail() -> None:
    lines = example("worker.py")
    assert lines[-1] == "8 ACCEPT, 1 RELEASE, 2 REJECT"
    assert "job 3, delivery 1: RELEASE (the database is away)" in lines
    assert "job 3, delivery 2: ACCEPT" in lines
    assert "job 5, delivery 1: REJECT (there is no such customer)" in lines
    assert sum(line.startswith("offset 9: REJECT") for line in lines) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_stops_cleanly_when_it_gets_a_signal(number: signal.Signals) -> None:
    """It ends without an error while its poll waits, and what it had done is not delivered again."""
    with ReferenceBroker() as broker:
        broker.create_topic("jobs")
        broker.set_group_config("workers", share_auto_offset_reset="earliest")
        broker.produce_batch("jobs", [b'{"job": 1}', b'{"job": 2}'])
        with started("worker.py", broker) as process:
            assert process.stdout is not None
            done = [process.stdout.readline(), process.stdout.readline()]
            process.send_signal(number)
            rest, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        assert done == ["job 1, delivery 1: ACCEPT\n", "job 2, delivery 1: ACCEPT\n"]
        assert rest == "2 ACCEPT\n"
        broker.produce("jobs", b"marker")
        with KafkaShareConsumer[bytes, bytes](
            "jobs", bootstrap_servers=broker.bootstrap_servers, group_id="workers"
        ) as next_worker:
            first = next(iter(next_worker))
        assert first.value == b"marker"


def test_a_pool_of_threads_settles_every_job_through_one_consumer() -> None:
    """Sixty jobs, four threads, twenty records in work at a time: each acknowledgement is confirmed by the broker."""
    assert example("worker_pool.py") == ["60 done"]


def test_renewals_keep_the_record_when_the_work_outlasts_its_lock() -> None:
    """Work of 4 s under a lock of 3 s: one delivery, and three renewals."""
    assert example("lock_renewal.py", "--max-records", "1") == [
        "film 1, delivery 1: 3000 ms of work left, renewed",
        "film 1, delivery 1: 2000 ms of work left, renewed",
        "film 1, delivery 1: 1000 ms of work left, renewed",
        "film 1, delivery 1: done",
    ]


def test_callback_hears_of_every_record_once() -> None:
    lines = example("commit_callback.py")
    assert lines[-1] == "100 records: 100 accepted"
    told = [re.fullmatch(r"clicks-(\d) (\d+)-(\d+): accepted", line) for line in lines[:-1]]
    assert all(told), lines
    offsets = [(m[1], offset) for m in told if m is not None for offset in range(int(m[2]), int(m[3]) + 1)]
    assert sorted(offsets) == sorted((str(partition), offset) for partition in (0, 1) for offset in range(50))


def test_offsets_are_reset_only_when_asked_to() -> None:
    """The script shows the change; with --execute it makes it, and a second run has nothing to move."""
    with ReferenceBroker() as broker:
        broker.create_topic("orders", partitions=2)
        for number in range(4):
            broker.produce("orders", b"order %d" % number, timestamp_ms=number * 1_000)
        where = ("--bootstrap-server", broker.bootstrap_servers)
        assert example("reset_offsets.py", *where, "--to", "latest") == [
            "orders-0: - -> 4",
            "orders-1: - -> 0",
            "nothing was changed; add --execute to do it",
        ]
        assert broker.share_group("reports") is None
        lines = example("reset_offsets.py", *where, "--to", "1970-01-01T00:00:02+00:00", "--execute")
        assert lines == ["orders-0: - -> 2", "orders-1: - -> 0"]
        assert broker.stored_offset("reports", "orders", 0) == 2
        assert example("reset_offsets.py", *where, "--execute") == ["orders-0: 2 -> 0", "orders-1: 0 -> 0"]


def test_offsets_are_not_reset_while_the_group_has_members() -> None:
    with ReferenceBroker() as broker:
        broker.create_topic("orders")
        servers = broker.bootstrap_servers
        with KafkaShareConsumer[bytes, bytes]("orders", bootstrap_servers=servers, group_id="reports") as consumer:
            consumer.poll(timeout_ms=100)
            command = [sys.executable, "-W", "error", str(EXAMPLES / "reset_offsets.py"), "--execute"]
            done = subprocess.run(
                [*command, "--bootstrap-server", servers],
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (1, "group reports has 1 members; stop them first\n")


def test_a_group_that_falls_behind_is_told_once() -> None:
    """Three looks at a group that is behind: one alert."""
    assert example("lag_alert.py", "--rounds", "3", "--every", "0.01") == ["ALERT reports is 20 records behind"]
    assert example("lag_alert.py", "--limit", "20") == []


def test_the_tests_to_copy_pass(tmp_path: Path) -> None:
    file = EXAMPLES / "pytest_with_broker.py"
    plain = ("-q", "-p", "no:cacheprovider", "-p", "kafka_share.pytest_plugin", "--rootdir", str(tmp_path))
    lines = run("-m", "pytest", *plain, "-c", "/dev/null", str(file))
    assert re.match(r"5 passed", lines[-1])
