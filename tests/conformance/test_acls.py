"""ACLs on both brokers: real Kafka's answers are those that were recorded, and Kafka's own tool works on ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.java_tools import ACLS, CONSOLE_SHARE, JavaTools, chosen_version
from conformance.kafka_server import Security as RealSecurity
from conformance.kafka_targets import controlled
from support.denials import ANSWERS_OF_KAFKA, Denials

from kafka_share.broker import Acl, ReferenceBroker, Security

PASSWORDS = {"alice": "alice-secret", "admin": "admin-secret"}
SUPER_USERS = {"super.users": "User:ANONYMOUS;User:admin"}


def answers_of(address: str) -> list[str]:
    denials = Denials(address, PASSWORDS)
    try:
        return list(denials.lines())
    finally:
        denials.close()


@pytest.mark.timeout(300)
def test_kafka_still_answers_as_recorded(real_version: str) -> None:
    if not real_version.startswith("4.3"):
        pytest.skip("the answers of Kafka 4.3 are recorded")
    security = RealSecurity(PASSWORDS, acls=True)
    with controlled(real_version, security=security, settings=SUPER_USERS) as kafka:
        answers = answers_of(kafka.bootstrap("SASL_PLAINTEXT"))
    assert answers == ANSWERS_OF_KAFKA.read_text(encoding="utf-8").splitlines()


@pytest.mark.timeout(300)
def test_the_reference_broker_answers_as_kafka_of_the_same_version(real_version: str) -> None:
    """Requests that this Kafka offers, under eleven sets of ACLs."""
    with controlled(real_version, security=RealSecurity(PASSWORDS, acls=True), settings=SUPER_USERS) as kafka:
        expected = answers_of(kafka.bootstrap("SASL_PLAINTEXT"))
    security = Security("SASL_PLAINTEXT", PASSWORDS, super_users=["User:admin"])
    with ReferenceBroker(security=security, kafka_version=real_version.rpartition(".")[0]) as broker:
        assert answers_of(broker.bootstrap_servers) == expected


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(security=Security("SASL_PLAINTEXT", PASSWORDS, super_users=["User:admin"])) as broker:
        broker.create_topic("orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce("orders", b"work")
        yield broker


@pytest.fixture
def tools(request: pytest.FixtureRequest, broker: ReferenceBroker, tmp_path: Path) -> JavaTools:
    version = chosen_version(request.config)
    if version is None:
        pytest.skip("Kafka's own tools need Java: choose their version, as in --kafka-versions 4.3.1")
    return JavaTools(version, broker.bootstrap_servers, tmp_path)


def login(folder: Path, user: str) -> str:
    """A properties file by which a tool comes in."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    file = folder / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} required username="{user}" password="{PASSWORDS[user]}";\n',
        encoding="utf-8",
    )
    return str(file)


@pytest.mark.java
@pytest.mark.timeout(300)
def test_kafka_acls_changes_and_shows_what_a_console_share_consumer_may_do(
    broker: ReferenceBroker, tools: JavaTools, tmp_path: Path
) -> None:
    admin, alice = login(tmp_path, "admin"), login(tmp_path, "alice")

    def acls(*arguments: str, **rest: Any) -> str:
        return tools.run(ACLS, "--command-config", admin, *arguments, **rest).stdout

    def consume(timeout_ms: int) -> str:
        options = ("--topic", "orders", "--group", "g", "--max-messages", "1", "--timeout-ms", str(timeout_ms))
        output = tools.run(CONSOLE_SHARE, *options, "--consumer-config", alice)
        return output.stdout + output.stderr

    assert "GroupAuthorizationException" in consume(10_000)
    acls("--add", "--allow-principal", "User:alice", "--operation", "Read", "--group", "g")
    acls("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "ord", "--resource-pattern-type",
         "prefixed")  # fmt: skip
    assert broker.acls() == [
        Acl("User:alice", "read", "group", "g"),
        Acl("User:alice", "read", "topic", "ord", pattern="prefixed"),
    ]
    assert "work" in consume(60_000)
    listed = acls("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "name=ord, patternType=PREFIXED" in listed
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    acls("--remove", "--force", "--allow-principal", "User:alice", "--operation", "Read", "--group", "g")
    assert [acl.name for acl in broker.acls()] == ["ord"]
