"""`kafka-share-console`, `kafka-share doctor` and `watch` on the reference broker and on real Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin
from support.waiting import poll_until

from kafka_share import AcknowledgeType
from kafka_share.cli.console.command import main as console
from kafka_share.cli.main import main as cli

Names = Callable[[str], str]


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


def read(flow: Flow, *words: str, stdin: str = "") -> Result:
    servers = flow.target.bootstrap_servers
    command = ["--bootstrap-server", servers, "--topic", flow.topic, "--group", flow.group, *words]
    return CliRunner().invoke(console, command, input=stdin)


def causes(flow: Flow) -> list[str]:
    return [finding["code"] for finding in findings(flow) if finding["is_cause"]]


def findings(flow: Flow) -> list[dict[str, Any]]:
    command = ["doctor", "--group", flow.group, "--topic", flow.topic]
    words = ["--bootstrap-server", flow.target.bootstrap_servers, "--observe", "300", "--format", "json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(cli, [*command, *words]).stdout)["findings"]
    return found


@pytest.mark.behaviour("tools")
def test_the_console_writes_lines_and_reads_them_as_a_member(flow: Flow) -> None:
    """Lines that the console wrote are read by it with their keys and delivery counts, and then belong to nobody."""
    assert read(flow, "--produce", "--key-separator", ":", stdin="a:1\nb:2\nc:3\n").exit_code == 0
    columns = ("--formatter-property", "print.key=true", "--formatter-property", "print.delivery=true")
    first = read(flow, "--max-messages", "2", "--timeout-ms", "30000", *columns)
    assert (first.exit_code, first.stdout) == (0, "Delivery:1\ta\t1\nDelivery:1\tb\t2\n")
    rest = read(flow, "--max-messages", "1", "--timeout-ms", "30000", "--reject")
    assert rest.stdout == "3\n"
    assert read(flow, "--timeout-ms", "1500").stdout == ""


def test_the_doctor_names_what_keeps_records_away(flow: Flow) -> None:
    """An empty topic, a group that nobody is in, locks that are held: each is named while it is so."""
    assert [finding["code"] for finding in findings(flow)] == ["no-such-group", "topic-empty"]
    flow.produce(b"1", b"2", b"3")
    assert causes(flow) == ["no-such-group"]
    member = flow.member(share_acknowledgement_mode="explicit")
    records = poll_until(member, 3)
    assert causes(flow) == ["locks-held"]
    for record in records:
        member.acknowledge(record)
    member.commit_sync()
    if flow.target.speaks_v2:  # Kafka 4.1 tells no lag, and stores the start offset late
        assert [(finding["code"], finding["is_cause"]) for finding in findings(flow)] == [("nothing-new", False)]
    shown = CliRunner().invoke(
        cli, ["watch", "--group", flow.group, "--bootstrap-server", flow.target.bootstrap_servers, "--count", "1"]
    )
    assert f"{flow.group} Stable members=1" in shown.stdout


def test_the_doctor_finds_in_kafkas_own_log_what_was_given_up_and_rejected(flow: Flow) -> None:
    """A record that used up its deliveries is a cause, a rejected one a remark; both with their offsets."""
    flow.produce(b"good", b"rejected", b"poison")
    words = {0: AcknowledgeType.ACCEPT, 1: AcknowledgeType.REJECT, 2: AcknowledgeType.RELEASE}
    member = flow.member(share_acknowledgement_mode="explicit")
    deliveries = 0
    while deliveries < 2 + 5:
        for record in member.poll(timeout_ms=30_000):
            deliveries += 1
            member.acknowledge(record, words[record.offset])
    member.commit_sync()
    told = {finding["code"]: finding for finding in findings(flow)}
    assert told["given-up"]["is_cause"]
    assert "(offset 2)" in told["given-up"]["text"]
    assert not told["rejected"]["is_cause"]
    assert "(offset 1)" in told["rejected"]["text"]
