"""The real broker of these tests keeps its promises: nothing is left behind, nodes come back with their data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance import kafka_jars
from conformance.admin_over_wire import Admin
from conformance.kafka_server import KafkaServer, KafkaUnavailableError, Security
from conformance.kafka_targets import controlled
from conformance.share_flow import Keep, Member, values
from support import keeper_process
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.errors import GroupAuthorizationFailedError

KEEPER = Path(keeper_process.__file__)
OWNER = """
import json, subprocess, sys
process = [sys.executable, sys.argv[1], sys.argv[2]]
keeper = subprocess.Popen(process, stdin=-1, stdout=-1, text=True, start_new_session=True)
command = ["sh", "-c", 'sleep 600 & echo $! > "$0"; wait', sys.argv[3]]
keeper.stdin.write(json.dumps({"start": "1", "command": command, "output": sys.argv[2] + "/log"}) + "\\n")
keeper.stdin.flush()
print(keeper.stdout.readline().strip(), keeper.pid, flush=True)
sys.stdin.read()
"""
"""A process that has one node kept, which has a child, and waits."""


def test_no_process_and_no_file_is_left_when_the_owner_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    child_file = tmp_path / "child"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(KEEPER), str(folder), str(child_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        node, keeper = map(int, owner.stdout.readline().split())
        child = wait_until(lambda: int(child_file.read_text() or 0) if child_file.exists() else None)
        assert all(map(_runs, (node, keeper, child)))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_until(lambda: not any(map(_runs, (node, keeper, child))) and not folder.exists())


def _runs(pid: int) -> bool:
    """Whether the process exists and is more than an entry that nobody has read the exit code of."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc").exists()  # no such folder at all: it took the signal, so it is there


@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_the_reason_is_one_line_when_java_or_maven_is_missing(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kafka_jars.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None if name == missing else f"/bin/{name}")
    with pytest.raises(KafkaUnavailableError, match=missing) as caught:
        kafka_jars.class_path("4.3.1")
    assert "\n" not in str(caught.value)


def test_the_reason_is_one_line_when_the_registry_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kafka_jars.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "\x1b[31m[ERROR] no route to the registry\nmore\n", "")

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(KafkaUnavailableError, match=r"^mvn could not fetch Kafka 4\.3\.1: no route to the registry$"):
        kafka_jars.class_path("4.3.1")
    assert not list((tmp_path / "4.3.1").iterdir())


# ---- on real Kafka, with --kafka-versions


@pytest.fixture
def secured(real_version: str) -> Iterator[KafkaServer]:
    with controlled(real_version, security=Security({"worker": "secret"}, acls=True)) as kafka:
        yield kafka


def _ways_in(kafka: KafkaServer) -> dict[str, dict[str, Any]]:
    """Each listener and mechanism -> the settings of a consumer that comes in there."""
    assert kafka.certificates is not None
    tls = {"ssl_cafile": str(kafka.certificates.authority)}
    mutual = {"ssl_certfile": str(kafka.certificates.client), "ssl_keyfile": str(kafka.certificates.client_key)}
    ways: dict[str, dict[str, Any]] = {"SSL": {"security_protocol": "SSL", **tls, **mutual}}
    for listener, transport in (("SASL_PLAINTEXT", {}), ("SASL_SSL", tls)):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            login = {"sasl_mechanism": mechanism, "sasl_plain_username": "worker", "sasl_plain_password": "secret"}
            ways[f"{listener} {mechanism}"] = {"security_protocol": listener, **transport, **login}
    return ways


def test_members_come_in_by_every_listener_and_a_record_survives_when_the_node_is_killed(
    secured: KafkaServer, unique: Callable[[str], str], closing: Keep
) -> None:
    """TLS, SASL and ACLs of a real broker, and its data after kill -9."""
    topic, group = unique("t"), unique("g")
    with Admin(secured.bootstrap_servers) as admin:
        admin.create_topic(topic)
        admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        member = closing(KafkaShareConsumer(topic, **_way_in(secured, "SASL_SSL PLAIN", group)))
        with pytest.raises(GroupAuthorizationFailedError):
            poll_until(member, 1)
        for user in ("worker", "client"):
            admin.allow_consuming(user, topic, group)
        admin.produce(topic, [b"before"])
    secured.kill(1)
    secured.restart(1)
    expected = b"before"
    with Admin(secured.bootstrap_servers) as admin:
        for way in _ways_in(secured):
            consumer: Member
            with KafkaShareConsumer(topic, **_way_in(secured, way, group)) as consumer:
                assert values(poll_until(consumer, 1)) == [expected], way
                assert set(consumer.commit_sync().values()) == {None}
            expected = f"after {way}".encode()
            admin.produce(topic, [expected])


def _way_in(kafka: KafkaServer, way: str, group: str) -> dict[str, Any]:
    listener = way.split(" ", maxsplit=1)[0]
    return {"bootstrap_servers": kafka.bootstrap(listener), "group_id": group, **_ways_in(kafka)[way]}
