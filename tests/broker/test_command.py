"""`kafka-share-broker`: arguments in a runner, life and death as a process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.wire_connection import WireConnection

from kafka_share import KafkaShareAdmin
from kafka_share.cli.broker import main
from kafka_share.errors import GroupAuthorizationFailedError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.topics import CreateTopicsRequest

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s


def start(tmp_path: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A running broker and its bootstrap line."""
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from kafka_share.cli.broker import main; main()",
            "--ready-file",
            str(ready),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == ready.read_text()
    return process, line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_cleanly_when_a_signal_comes(tmp_path: Path, number: int) -> None:
    process, line = start(tmp_path, "--nodes", "2")
    addresses = line.removeprefix("bootstrap: ").strip().split(",")
    assert len(addresses) == 2
    for address in addresses:
        WireConnection(address).close()
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")


def test_it_asks_who_its_clients_are_and_prints_how_to_verify_it(tmp_path: Path) -> None:
    users, acls = tmp_path / "users", tmp_path / "acls"
    users.write_text("alice=a secret\n")
    acls.write_text("allow User:alice describe topic *\nallow User:alice create topic a prefixed\n")
    process, line = start(tmp_path, "--security-protocol", "SASL_SSL", "--users", str(users), "--acls", str(acls))
    try:
        assert process.stdout is not None
        with KafkaShareAdmin(
            bootstrap_servers=line.removeprefix("bootstrap: ").strip(),
            security_protocol="SASL_SSL",
            ssl_cafile=process.stdout.readline().removeprefix("authority: ").strip(),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="alice",
            sasl_plain_password="a secret",
        ) as admin:
            assert admin.describe_topics() == {}
            with pytest.raises(GroupAuthorizationFailedError):
                admin.delete_share_group_offsets("g", ["b"])
    finally:
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")


def test_it_warns_when_everybody_may_reach_it(tmp_path: Path) -> None:
    process, _ = start(tmp_path, "--host", "0.0.0.0", "--advertised-host", "127.0.0.1")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "listening on 0.0.0.0 without security: everybody who reaches it may do everything" in errors


def test_it_serves_its_metrics_when_it_has_a_port_for_them(tmp_path: Path) -> None:
    process, line = start(tmp_path, "--metrics-port", "0")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("metrics: ").strip()
        assert address.startswith("http://127.0.0.1:")
        with WireConnection(line.removeprefix("bootstrap: ").strip()) as client:
            client.call(MetadataRequest(topics=[]), 12)
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
        assert 'kafka_network_requestmetrics_requests_total{node="1",request="Metadata",version="12"} 1.0' in text
    finally:
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")


def test_it_says_so_and_ends_when_the_port_of_the_metrics_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = CliRunner().invoke(main, ["--metrics-port", str(taken.getsockname()[1])])
    assert result.exit_code == 1
    assert "cannot listen on 127.0.0.1:" in result.output
    assert "bootstrap:" not in result.output


@pytest.mark.parametrize(("arguments", "lines"), [([], 0), (["--log-requests"], 1)])
def test_it_logs_requests_when_it_is_asked_to(tmp_path: Path, arguments: list[str], lines: int) -> None:
    process, line = start(tmp_path, *arguments)
    with WireConnection(line.removeprefix("bootstrap: ").strip()) as client:
        client.call(MetadataRequest(topics=[]), 12)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert errors.count("METADATA v12 MetadataRequest(") == lines == len(errors.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "nosuch=1"], "'nosuch' is not a setting of this broker"),
        (["--config", "num.partitions=x"], "num.partitions must be a whole number"),
        (["--config", "num.partitions"], "NAME=VALUE"),
        (["--nodes", "0"], "--nodes"),
        (["--port", "70000"], "--port"),
        (["--log-level", "LOUD"], "--log-level"),
    ],
)
def test_it_says_what_is_wrong_and_exits_with_2_when_an_argument_is(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_it_exits_with_1_when_it_cannot_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = subprocess.run(
            [
                sys.executable,
                "-c",
                "from kafka_share.cli.broker import main; main()",
                "--port",
                str(taken.getsockname()[1]),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 1
    assert "address already in use" in result.stderr.lower()
    assert "Traceback" not in result.stderr


def test_the_help_has_examples_and_the_settings_can_be_listed() -> None:
    assert "Examples:" in CliRunner().invoke(main, ["--help"]).output
    listed = CliRunner().invoke(main, ["--list-config"]).output
    assert "group.share.record.lock.duration.ms (default 30000)" in listed
    assert "group.share.assignment.interval.ms (default 0)" in listed, "our own default, not Kafka's"


def test_it_has_what_it_had_when_it_was_killed_and_has_a_data_directory(tmp_path: Path) -> None:
    request = CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name="kept", num_partitions=2, replication_factor=1)],
        timeout_ms=1_000,
        validate_only=False,
    )
    process, line = start(tmp_path, "--data-dir", str(tmp_path / "data"), "--fsync", "all=interval")
    with WireConnection(line.removeprefix("bootstrap: ").strip()) as connection:
        assert connection.call(request, 7).topics[0].error_code == 0
    process.kill()
    process.communicate()
    process, line = start(tmp_path, "--data-dir", str(tmp_path / "data"))
    try:
        with WireConnection(line.removeprefix("bootstrap: ").strip()) as connection:
            (topic,) = connection.call(MetadataRequest(topics=None), 9).topics
        assert (topic.name, len(topic.partitions)) == ("kept", 2)
    finally:
        process.terminate()
        process.communicate()


def test_an_fsync_policy_that_makes_no_sense_is_a_wrong_argument() -> None:
    done = CliRunner().invoke(main, ["--fsync", "shares=always"])
    assert done.exit_code == 2
    assert "fsync has no class 'shares'" in done.output
