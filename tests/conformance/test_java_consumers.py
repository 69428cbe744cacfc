"""Apache's ordinary consumer with group.protocol=consumer, and its tool for groups: our broker serves them as Kafka."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.confluent_peer import confluent_kafka, create_topic, produce
from conformance.java_tools import ALL_GROUPS, CONSUMER_GROUPS, JavaTools, chosen_version
from conformance.kafka_jars import class_path
from conformance.kafka_targets import Target
from conformance.probe_runs import JAVA_OPTIONS, PROBES, compiled
from support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Names = Callable[[str], str]

RUN_TIMEOUT_S = 240


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    chosen = chosen_version(request.config)
    if chosen is None:
        pytest.skip("Apache's consumer and its tools need Java: choose their version, as in --kafka-versions 4.3.1")
    return chosen


@pytest.fixture
def tools(version: str, kafka: Target, tmp_path: Path) -> JavaTools:
    return JavaTools(version, kafka.bootstrap_servers, tmp_path)


def test_apaches_consumer_is_served_as_by_kafka(version: str, kafka: Target, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("the probe needs a JDK (javac), which is not installed")
    jars = class_path(version)
    classes = compiled("GroupProbe", jars, tmp_path)
    command = ["java", *JAVA_OPTIONS, "-cp", f"{classes}{os.pathsep}{jars}", "GroupProbe", kafka.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    expected = (PROBES / "group-4.3.txt").read_text(encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.fixture
def member(kafka: Target, unique: Names) -> Iterator[tuple[Any, str, str]]:
    """A consumer that holds both partitions of a topic and has committed, its topic and its group."""
    bootstrap, topic, group = kafka.bootstrap_servers, unique("t"), unique("g")
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "client.id": "worker"}
    reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**settings, **reading})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(1))
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
    yield consumer, topic, group
    consumer.close()


def test_the_tool_for_groups_shows_a_group_that_is_consumed_and_leaves_it_alone(
    tools: JavaTools, member: tuple[Any, str, str]
) -> None:
    _, topic, group = member
    one = ("--group", group)
    assert [group, "Consumer", "consumer"] in tools.run(ALL_GROUPS, "--list").rows
    assert [group, "Consumer", "Stable"] in tools.run(CONSUMER_GROUPS, "--list", "--state", "--type").rows
    assert [group, "Consumer"] in tools.run(CONSUMER_GROUPS, "--list", "--type", "consumer").rows
    assert [group, "Consumer"] not in tools.run(CONSUMER_GROUPS, "--list", "--type", "classic").rows
    header, *rows = tools.run(CONSUMER_GROUPS, "--describe", *one).rows
    offsets = ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert header == ["GROUP", "TOPIC", "PARTITION", *offsets, "CONSUMER-ID", "HOST", "CLIENT-ID"]
    shown = [[*row[:6], *row[7:]] for row in rows]
    assert sorted(shown) == [
        [group, topic, "0", "2", "3", "1", "/127.0.0.1", "worker"],
        [group, topic, "1", "-", "0", "-", "/127.0.0.1", "worker"],
    ]
    header, row = tools.run(CONSUMER_GROUPS, "--describe", *one, "--members", "--verbose").rows
    epochs = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert header == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *epochs]
    both = f"{topic}:0,1"
    assert [row[0], *row[2:5], row[6], row[8]] == [group, "/127.0.0.1", "worker", "2", both, both]
    assert row[5] == row[7], "the member has come to its target"
    header, row = tools.run(CONSUMER_GROUPS, "--describe", *one, "--state", "--verbose").rows
    assert header == [
        *("GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE"),
        *("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"),
    ]
    assert [row[0], row[1], *row[3:5], row[7]] == [group, tools.bootstrap, "uniform", "Stable", "1"]
    assert row[5] == row[6]
    refused = tools.run(CONSUMER_GROUPS, "--delete", *one, expected_code=None)
    assert "GroupNotEmptyException" in refused.stdout + refused.stderr
    refused = tools.run(CONSUMER_GROUPS, "--delete-offsets", *one, "--topic", topic, expected_code=None)
    assert "GroupSubscribedToTopicException" in refused.stdout + refused.stderr
    refused = tools.run(
        CONSUMER_GROUPS, "--reset-offsets", *one, "--topic", topic, "--to-earliest", "--execute", expected_code=None
    )
    assert "inactive" in refused.stdout + refused.stderr


def test_the_tool_for_groups_resets_and_deletes_offsets_and_the_group_when_nobody_consumes(
    tools: JavaTools, member: tuple[Any, str, str]
) -> None:
    consumer, topic, group = member
    consumer.close()
    one = ("--group", group)

    def offsets() -> list[list[str]]:
        return sorted(row[2:6] for row in tools.run(CONSUMER_GROUPS, "--describe", *one).rows if row[:1] == [group])

    assert offsets() == [["0", "2", "3", "1"]]
    reset = ("--reset-offsets", *one, "--topic", topic)
    assert [group, topic, "0", "0"] in tools.run(CONSUMER_GROUPS, *reset, "--to-earliest", "--dry-run").rows
    assert offsets() == [["0", "2", "3", "1"]], "a dry run changes nothing"
    tools.run(CONSUMER_GROUPS, *reset, "--to-latest", "--execute")
    assert offsets() == [["0", "3", "3", "0"], ["1", "0", "0", "0"]]
    tools.run(CONSUMER_GROUPS, *reset, "--shift-by", "-2", "--execute")
    assert offsets() == [["0", "1", "3", "2"], ["1", "0", "0", "0"]]
    deleted = tools.run(CONSUMER_GROUPS, "--delete-offsets", *one, "--topic", f"{topic}:0").rows
    assert [topic, "0", "Successful"] in deleted
    assert offsets() == [["1", "0", "0", "0"]]
    done = tools.run(CONSUMER_GROUPS, "--delete", *one).stdout
    assert done.strip() == f"Deletion of requested consumer groups ('{group}') was successful."
    assert [group] not in tools.run(CONSUMER_GROUPS, "--list").rows
