"""`kafka-share-perf` as it is typed, on the reference broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.documentation import environment

from kafka_share import KafkaShareAdmin
from kafka_share.admin_values import SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.perf.command import main
from kafka_share.records import TopicPartition

TOPIC, GROUP = "cli1", "perf"
HEADER = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    """A topic of ten records in one batch, as Kafka's own tool had it."""
    with ReferenceBroker() as broker:
        broker.create_topic(TOPIC)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        broker.produce_batch(TOPIC, [b"v%d" % number for number in range(10)])
        yield broker


def run(broker: ReferenceBroker, *words: str) -> Result:
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, "--group", GROUP, *words]
    return CliRunner().invoke(main, command)


def masked(text: str) -> str:
    """Times, and what hangs on how quick this machine is."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", "TIME", text)
    return re.sub(r"(TIME, TIME, [\d.]+), [\d.]+, [\d.]+, (\d+), \d+", r"\1, RATE, RATE, \2, MS", text)


def lag(broker: ReferenceBroker) -> int | None:
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_share_group_offsets({GROUP: None})[GROUP]
    assert isinstance(found, dict)
    stored = found[TopicPartition(TOPIC, 0)]
    assert isinstance(stored, SharePartitionOffset)
    return stored.lag


def documents(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_it_prints_what_kafkas_own_tool_prints(broker: ReferenceBroker, mode: str) -> None:
    """Whole batches count: 10 records where 5 were asked for; all of them are accepted in the end."""
    result = run(broker, "--num-records", "5", "--timeout", "30000", "--apache-columns", "--acknowledge", mode)
    assert masked(result.stdout) == f"{HEADER}\nTIME, TIME, 0.0000, RATE, RATE, 10, MS\n"
    assert (result.exit_code, result.stderr) == (0, "")
    assert lag(broker) == 0


def test_latency_and_cpu_are_measured(broker: ReferenceBroker) -> None:
    """Our columns have the age of the records at their delivery, and the seconds of CPU."""
    with ReferenceBroker() as other:
        other.create_topic(TOPIC)
        other.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        other.produce(TOPIC, b"old", timestamp_ms=1_000)
        result = run(other, "--num-records", "1", "--timeout", "30000", "--hide-header", "--format", "json")
        [row] = documents(result)
    assert (row["row"], row["complete"], row["consumed_records"]) == ("total", True, 1)
    assert row["latency_ms"]["max"] == pytest.approx(row["end_ms"] - 1_000, abs=60_000)
    assert row["cpu_seconds"] > 0
    cells = run(broker, "--num-records", "1", "--timeout", "30000", "--hide-header").stdout.split(", ")
    assert len(cells) == 14
    assert all(float(cell) >= 0 for cell in cells[2:])


@pytest.mark.parametrize(("habit", "code"), [([], 1), (["--apache-exit-codes"], 0)])
def test_it_says_so_when_too_few_records_come_in_time(broker: ReferenceBroker, habit: list[str], code: int) -> None:
    """The remarks stand where Kafka's own tool has them; the exit code is 1, with Kafka's habit 0."""
    words = ["--messages", "50", "--timeout", "3000", "--show-detailed-stats", "--apache-columns", *habit]
    result = run(broker, *words)
    old, header, warning, row = masked(result.stdout).splitlines()
    assert old == "Warning: --messages is an old name; use --num-records."
    assert header == HEADER
    assert warning.startswith(
        "Warning: fewer records came than the 50 that were asked for: there was none for 3000 ms."
    )
    assert row == "TIME, TIME, 0.0000, RATE, RATE, 10, MS"
    assert (result.exit_code, result.stderr) == (code, "")


def test_rows_of_intervals_consumers_and_metrics_are_printed_when_asked_for(broker: ReferenceBroker) -> None:
    """With two consumers each has its rows and its metrics; the sum of both is the last row."""
    words = ["--num-records", "50", "--timeout", "3000", "--threads", "2", "--show-consumer-stats", "--print-metrics"]
    words += ["--show-detailed-stats", "--reporting-interval", "10"]
    found = documents(run(broker, *words, "--format", "json"))
    assert [one["row"] for one in found] == ["interval", "consumer", "consumer", "total", "metrics", "metrics"]
    assert [one["client_id"] for one in found[1:3]] == [f"perf-share-consumer-client-{number}" for number in (1, 2)]
    assert found[1]["consumed_records"] + found[2]["consumed_records"] == 10 == found[3]["consumed_records"]
    assert found[1]["cpu_seconds"] is None
    fetched = [one["metrics"]["consumer-share-fetch-manager-metrics"]["records-consumed-total"] for one in found[4:]]
    assert sum(fetched) == 10
    for _ in range(10):
        broker.produce(TOPIC, b"x")
    out = masked(run(broker, *words, "--apache-columns", "--hide-header").stdout).splitlines()
    first = next(line for line in out if "consumption" in line)
    assert first.startswith("Share consumer 1 having client id perf-share-consumer-client-1 consumption metrics- TIME")
    assert re.fullmatch(r"TIME, .* for share consumer [12]", out[0])
    assert sum(line.startswith("Metric Name ") for line in out) == 2


def test_an_option_wins_over_a_property_and_a_property_over_a_default(broker: ReferenceBroker, tmp_path: Path) -> None:
    """A command-config file names the client; what it says of an option's setting holds unless the option is given."""
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\nmax.poll.records=1\nshare.acquire.mode=record_limit\n")
    words = ["--num-records", "1", "--command-config", str(file), "--show-consumer-stats", "--format", "json"]
    each, total = documents(run(broker, *words))
    assert (each["client_id"], total["consumed_records"]) == ("mine", 1)
    more = ["--max-poll-records", "3", "--command-property", "client.id=yours"]
    each, total = documents(run(broker, *words, *more))
    assert (each["client_id"], total["consumed_records"]) == ("yours", 3)


def test_it_warns_when_records_come_from_the_future(broker: ReferenceBroker) -> None:
    """Latencies below zero are counted as 0, and that is said on standard error."""
    in_half_an_hour_ms = (int(time.time()) + 1_800) * 1_000
    broker.produce(TOPIC, b"v", timestamp_ms=in_half_an_hour_ms)
    result = run(broker, "--num-records", "11", "--timeout", "30000")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: 1 of the records' timestamps are later than their delivery")


def test_it_says_so_when_no_broker_answers() -> None:
    """A wrong address is told apart from a topic without records, and measures nothing."""
    words = ["--bootstrap-server", "127.0.0.1:1", "--topic", TOPIC, "--num-records", "1", "--timeout", "500"]
    result = CliRunner().invoke(main, [*words, "--format", "json"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "no broker answers at 127.0.0.1:1: nothing came within 500 ms" in json.loads(result.stderr)["error"]["message"]
    )


def test_an_error_of_the_broker_ends_it_with_one_line(broker: ReferenceBroker) -> None:
    """What a consumer raises is shown without a stack trace, and the exit code is 1."""
    broker.faults.fail(76, 30)  # ShareGroupHeartbeat, GROUP_AUTHORIZATION_FAILED
    result = run(broker, "--num-records", "1", "--timeout", "30000")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: GROUP_AUTHORIZATION_FAILED")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--num-records"),
        (["--num-records", "1", "--messages", "1"], "--num-records"),
        (["--num-records", "0"], "0 is not in the range"),
        (["--num-records", "1", "--date-format", "qq"], "'qq' in 'qq' is not known"),
        (["--num-records", "1", "--threads", "0"], "0 is not in the range"),
        (["--num-records", "1", "--command-property", "x"], "number 1 of 1 is not NAME=VALUE"),
        (["--num-records", "1", "--group", ""], "group_id"),
    ],
)
def test_a_wrong_option_is_a_usage_error(broker: ReferenceBroker, words: list[str], reason: str) -> None:
    """Exit code 2, with Kafka's habit 1; the message names the option; nothing is printed on standard output."""
    for habit, code in ([], 2), (["--apache-exit-codes"], 1):
        result = run(broker, *words, *habit)
        assert result.exit_code == code
        assert reason in result.stderr
        assert result.stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_the_row_so_far_is_printed_when_it_is_interrupted(broker: ReferenceBroker) -> None:
    """Ctrl-C ends the run: the row of what came until then, exit code 130, and what was counted is accepted."""
    words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, "--group", GROUP, "--num-records", "50"]
    words += ["--timeout", "60000", "--show-detailed-stats", "--reporting-interval", "10", "--apache-columns"]
    with subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-m", "kafka_share.cli.perf.command", *words],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == f"{HEADER}\n"
        assert "for share consumer 1" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert masked(out) == "TIME, TIME, 0.0000, RATE, RATE, 10, MS\n"
    asking = f"Asking {broker.bootstrap_servers} …\n"  # on a busy machine
    assert (process.returncode, err.removeprefix(asking)) == (130, "Interrupted.\n")
    assert lag(broker) == 0


def test_a_topic_that_is_not_there_is_named_and_not_created(broker: ReferenceBroker) -> None:
    """A misspelt topic is the reason why nothing came, and it is not on the cluster afterwards."""
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "missing", "--num-records", "1"]
    result = CliRunner().invoke(main, [*command, "--timeout", "300", "--format", "json"])
    assert result.exit_code == 1
    assert "Warning: there is no topic 'missing' in this cluster" in result.stderr
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert [name for name in admin.describe_topics() if not name.startswith("__")] == [TOPIC]
