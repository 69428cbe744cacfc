"""franz-go, a Go client of its own, against the reference broker: groups of all types, transactions, security."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from conformance.confluent_peer import create_topic, produce, read_from_start
from conformance.kafka_targets import REFERENCE, running

from kafka_share.broker import Acl, ReferenceBroker, Security

pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]

Names = Callable[[str], str]
SOURCE: Final = Path(__file__).with_name("franz_go")
BUILD_TIMEOUT_S: Final = 240
RUN_TIMEOUT_S: Final = 60
LOCK_MS: Final = 1_000
QUICK: Final = {"group.share.min.heartbeat.interval.ms": "100", "group.share.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The built program; building fetches its modules once, from the module proxy that Go is configured for."""
    if shutil.which("go") is None:
        pytest.skip("the franz-go client needs go, which is not installed")
    target = tmp_path_factory.mktemp("franz_go") / "franz_go"
    command = ["go", "build", "-buildvcs=false", "-mod=readonly", "-o", str(target), "."]
    try:
        built = subprocess.run(
            command, cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"go did not build the franz-go client within {BUILD_TIMEOUT_S} s")
    if built.returncode != 0:
        lines = built.stderr.strip().splitlines() or [f"exit code {built.returncode}"]
        if any("main.go" in line for line in lines):
            pytest.fail(built.stderr)
        pytest.skip(f"go could not fetch the modules of the franz-go client: {lines[-1][:200]}")
    return str(target)


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[str]:
    """A broker on which a group may have short locks."""
    settings = {**QUICK, "group.share.min.record.lock.duration.ms": str(LOCK_MS)}
    with running(REFERENCE, settings=settings) as target:
        yield target.bootstrap_servers


def run(
    program: str, command: str, bootstrap: str, topic: str, group: str, count: int, **access: str
) -> list[dict[str, Any]]:
    """What the program printed, one object a line. `access` is what a secured broker asks for."""
    done = subprocess.run(
        [program, command, bootstrap, topic, group, str(count)],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        env={**os.environ, "FRANZ_GO_ACCESS": json.dumps(access)},
        check=False,
    )
    assert done.returncode == 0, f"franz-go's client failed: {done.stderr}{done.stdout}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcomes(printed: list[dict[str, Any]]) -> set[str]:
    return {one["error"] for one in printed if "acknowledged" in one}


def test_records_come_back_or_not_as_they_were_acknowledged(program: str, quick_broker: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    read_from_start(quick_broker, group)
    produce(quick_broker, topic, [b"accept", b"release", b"reject"])
    printed = run(program, "consume", quick_broker, topic, group, 4)
    assert [(one["value"], one["offset"], one["count"]) for one in printed if "value" in one] == [
        ("accept", 0, 1),
        ("release", 1, 1),
        ("reject", 2, 1),
        ("release", 1, 2),
    ]
    assert outcomes(printed) == {""}


def test_a_record_stays_locked_while_it_is_renewed(program: str, quick_broker: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    read_from_start(quick_broker, group, share_record_lock_duration_ms=str(LOCK_MS))
    produce(quick_broker, topic, [b"slow"])
    printed = run(program, "renew", quick_broker, topic, group, 1)
    assert [(one["value"], one["count"]) for one in printed if "value" in one] == [("slow", 1)]
    assert outcomes(printed) == {""}
    assert len([one for one in printed if "acknowledged" in one]) >= 4, "three renewals and the acceptance"
    after = run(program, "offsets", quick_broker, topic, group, 0)
    assert {"found": True, "start": 0, "lag": 0} in after, "it was accepted"


def test_no_poll_gives_more_than_the_strict_limit(program: str, quick_broker: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    read_from_start(quick_broker, group)
    produce(quick_broker, topic, [b"%d" % i for i in range(20)], **{"linger.ms": 100})
    printed = run(program, "strict", quick_broker, topic, group, 20)
    assert [(one["first"], one["polled"]) for one in printed if "polled" in one] == [(0, 7), (7, 7), (14, 6)]
    assert outcomes(printed) == {""}


def test_offsets_of_a_share_group_are_described_altered_and_deleted(
    program: str, quick_broker: str, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    read_from_start(quick_broker, group)
    produce(quick_broker, topic, [b"1", b"2", b"3"])
    run(program, "consume", quick_broker, topic, group, 3)
    assert run(program, "offsets", quick_broker, topic, group, 2) == [
        {"state": "Empty", "assignor": "simple", "members": 0},
        {"found": True, "start": 0, "lag": 0},
        {"altered": ""},
        {"found": True, "start": 2, "lag": 1},
        {"deleted": ""},
        {"group deleted": ""},
        {"listed": False},
    ]


def test_an_ordinary_group_reads_commits_and_shows_its_lag(program: str, quick_broker: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    produce(quick_broker, topic, [b"1", b"2", b"3"])
    printed = run(program, "classic", quick_broker, topic, group, 3)
    assert printed == [
        {"value": "1", "offset": 0},
        {"value": "2", "offset": 1},
        {"value": "3", "offset": 2},
        {"state": "Stable", "protocol": "cooperative-sticky", "members": 1, "lag": 0},
    ]


def test_a_group_of_the_new_protocol_reads_and_commits(program: str, quick_broker: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    produce(quick_broker, topic, [b"1", b"2", b"3"])
    assert run(program, "next", quick_broker, topic, group, 3) == [
        {"value": "1", "offset": 0},
        {"value": "2", "offset": 1},
        {"value": "3", "offset": 2},
        {"state": "Stable", "assignor": "range", "members": 1, "committed": 3},
    ]


def test_only_what_was_committed_is_read_and_a_producer_is_fenced_by_the_next(
    program: str, quick_broker: str, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(quick_broker, topic)
    printed = run(program, "transact", quick_broker, topic, group, 2)
    assert printed[0] == {"fenced": True}
    assert [one["value"] for one in printed[1:]] == ["committed", "of the second"]


# ---- with security


def shared(program: str, broker: ReferenceBroker, **access: str) -> list[str]:
    printed = run(program, "consume", broker.bootstrap_servers, "orders", "g", 1, **access)
    assert outcomes(printed) == {""}
    return [one["value"] for one in printed if "value" in one]


def filled(broker: ReferenceBroker) -> ReferenceBroker:
    broker.create_topic("orders")
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    broker.produce("orders", b"work")
    return broker


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_it_gets_in_with_its_password(program: str, protocol: str, mechanism: str) -> None:
    with ReferenceBroker(security=Security(protocol, {"alice": "alice's secret"}), config=QUICK) as broker:
        settings = filled(broker).client_settings("alice", mechanism)
        access = {"user": "alice", "password": "alice's secret", "mechanism": mechanism}
        assert shared(program, broker, ca=settings.get("ssl_cafile", ""), **access) == ["work"]
        assert {context.principal for context, _ in broker.requests("ShareFetch")} == {"User:alice"}


def test_it_is_told_what_it_may_not_do(program: str) -> None:
    security = Security("SASL_PLAINTEXT", {"alice": "a", "admin": "b"}, super_users=["User:admin"])
    access = {"user": "alice", "password": "a", "mechanism": "PLAIN"}
    with ReferenceBroker(security=security, config=QUICK) as broker:
        servers = filled(broker).bootstrap_servers
        (refused,) = run(program, "produce", servers, "orders", "g", 1, **access)
        assert "TOPIC_AUTHORIZATION_FAILED" in refused["produced"]
        broker.add_acls(Acl("User:alice", "write", "topic", "orders"))
        assert run(program, "produce", servers, "orders", "g", 1, **access) == [{"produced": ""}]
        broker.add_acls(Acl("User:alice", "read", "topic", "orders"), Acl("User:alice", "read", "group", "g"))
        printed = run(program, "consume", servers, "orders", "g", 2, **access)
        assert [one["value"] for one in printed if "value" in one] == ["work", "new"]


@pytest.mark.parametrize(("rate", "throttled"), [(1_000.0, True), (10_000_000.0, False)])
def test_it_is_throttled_by_a_quota(program: str, rate: float, throttled: bool) -> None:
    with ReferenceBroker() as broker:
        broker.create_topic("orders")
        broker.set_quota({"client-id": "go"}, producer_byte_rate=rate)
        assert run(program, "throttle", broker.bootstrap_servers, "orders", "go", 12_000) == [{"throttled": throttled}]
