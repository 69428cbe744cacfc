"""Apache Kafka's own command-line tools against `kafka-share-broker`: what they print is what they print on a Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from conformance.confluent_peer import create_topic, produce, read_from_start
from conformance.java_tools import (
    ALL_GROUPS,
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_SHARE,
    CONSUMER_GROUPS,
    GROUPS,
    PRODUCER_PERFORMANCE,
    SHARE_PERFORMANCE,
    TOPICS,
    VERIFIABLE_PRODUCER,
    VERIFIABLE_SHARE,
    JavaTools,
    chosen_version,
)
from support.waiting import poll_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareConsumer
from kafka_share.protocol.producers import DescribeTransactionsRequest

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Names = Callable[[str], str]


@pytest.fixture(scope="session")
def tools(request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    version = chosen_version(request.config)
    if version is None:
        pytest.skip("Kafka's own tools need Java: choose their version, as in --kafka-versions 4.3.1")
    return JavaTools(version, bootstrap, tmp_path_factory.mktemp("java"))


def group_with_records(bootstrap: str, topic: str, group: str, count: int, partitions: int = 1) -> None:
    """A topic with records in its first partition, and a group that will read them from the start."""
    create_topic(bootstrap, topic, partitions)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"value %d" % i for i in range(count)])


def member_of(bootstrap: str, group: str, topic: str) -> KafkaShareConsumer[Any, Any]:
    """A member that has its assignment, holds all records and has accepted none."""
    member = KafkaShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group, client_id="worker")
    poll_until(member, 1)
    return member


def events(printed: str, name: str) -> list[dict[str, Any]]:
    """The events of this name that a verifiable client printed, one JSON object a line."""
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [event for event in found if event["name"] == name]


# ---- topics and configuration


def test_topics_are_made_described_and_deleted(tools: JavaTools, unique: Names) -> None:
    topic = unique("t")
    made = tools.run(TOPICS, "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    assert made.stdout == f"Created topic {topic}.\n"
    described = tools.run(TOPICS, "--describe", "--topic", topic).rows
    assert described[0][:2] == ["Topic:", topic]
    assert described[0][4:8] == ["PartitionCount:", "2", "ReplicationFactor:", "1"]
    assert [(row[3], row[5], row[7], row[9]) for row in described[1:]] == [("0", "1", "1", "1"), ("1", "1", "1", "1")]
    tools.run(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    assert len(tools.run(TOPICS, "--describe", "--topic", topic).rows) == 1 + 3
    tools.run(TOPICS, "--delete", "--topic", topic)
    assert topic not in tools.run(TOPICS, "--list").stdout.splitlines()


def test_configs_of_groups_and_topics_are_set_and_shown_with_their_layers(tools: JavaTools, unique: Names) -> None:
    group, topic = unique("g"), unique("t")
    key = "share.auto.offset.reset"
    done = tools.run(CONFIGS, "--alter", "--group", group, "--add-config", f"{key}=earliest")
    assert done.stdout == f"Completed updating config for group {group}.\n"
    assert tools.run(CONFIGS, "--describe", "--group", group).stdout.splitlines() == [
        f"Dynamic configs for group {group} are:",
        f"  {key}=earliest sensitive=false "
        f"synonyms={{DYNAMIC_GROUP_CONFIG:{key}=earliest, DEFAULT_CONFIG:{key}=latest}}",
    ]
    refused = tools.run(CONFIGS, "--alter", "--group", group, "--add-config", f"{key}=never", expected_code=1)
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr
    tools.run(CONFIGS, "--alter", "--group", group, "--delete-config", key)
    assert len(tools.run(CONFIGS, "--describe", "--group", group).rows) == 1

    create_topic(tools.bootstrap, topic)
    tools.run(CONFIGS, "--alter", "--topic", topic, "--add-config", "max.message.bytes=2000000")
    shown = tools.run(CONFIGS, "--describe", "--topic", topic).stdout
    assert "max.message.bytes=2000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000" in shown


# ---- producing and consuming


def test_every_record_is_consumed_and_acknowledged_when_the_verifiable_clients_run(
    tools: JavaTools, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(tools.bootstrap, topic)
    sent = tools.run(VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", "40").stdout
    assert len(events(sent, "producer_send_success")) == 40
    assert [(e["sent"], e["acked"]) for e in events(sent, "tool_data")] == [(40, 40)]
    options = ("--max-messages", "40", "--offset-reset-strategy", "earliest")
    read = tools.run(VERIFIABLE_SHARE, "--topic", topic, "--group-id", group, *options).stdout
    consumed = [o for e in events(read, "records_consumed") for p in e["partitions"] for o in p["offsets"]]
    assert consumed == list(range(40))
    settled = events(read, "offsets_acknowledged")
    assert all(event["success"] for event in settled)
    assert sorted(o for e in settled for p in e["partitions"] for o in p["offsets"]) == list(range(40))


def test_all_records_are_counted_when_the_performance_tools_run(tools: JavaTools, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(tools.bootstrap, topic)
    read_from_start(tools.bootstrap, group)
    sizes = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    where = ("--producer-props", f"bootstrap.servers={tools.bootstrap}")
    sent = tools.run_plain(PRODUCER_PERFORMANCE, "--topic", topic, *sizes, *where).stdout
    assert "2000 records sent" in sent
    read = tools.run(SHARE_PERFORMANCE, "--topic", topic, "--group", group, "--num-records", "2000").stdout
    columns, values = (re.split(r", ", line) for line in read.splitlines()[-2:])
    row = dict(zip(columns, values, strict=True))
    assert row["data.consumed.in.nMsg"] == "2000"
    assert float(row["data.consumed.in.MB"]) == pytest.approx(2_000 * 100 / 2**20, rel=0.01)


def test_the_transactions_of_a_producer_raise_its_epoch_each(tools: JavaTools, unique: Names) -> None:
    """transaction.version is 2: Java's producer uses the second protocol of transactions (KIP-890)."""
    topic, transactional_id = unique("topic"), unique("transactions")
    create_topic(tools.bootstrap, topic)
    sent = ["--topic", topic, "--num-records", "60", "--record-size", "10", "--throughput", "100"]
    transactions = ["--transactional-id", transactional_id, "--transaction-duration-ms", "100"]
    tools.run_plain(PRODUCER_PERFORMANCE, *sent, *transactions, "--bootstrap-server", tools.bootstrap)
    with WireConnection(tools.bootstrap) as connection:
        connection.send(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        (found,) = connection.receive().transaction_states
    assert found.transaction_state == "CompleteCommit"
    assert found.producer_epoch > 0
    group = unique("group")
    read_from_start(tools.bootstrap, group)
    consumer = KafkaShareConsumer(topic, bootstrap_servers=tools.bootstrap, group_id=group)
    with consumer:
        assert len(poll_until(consumer, 60)) == 60


def test_records_are_printed_and_only_those_accepted_when_the_console_consumer_stops(
    tools: JavaTools, unique: Names
) -> None:
    topic, group = unique("t"), unique("g")
    group_with_records(tools.bootstrap, topic, group, 5)
    printed = [
        text
        for name in ("partition", "offset", "delivery", "key", "headers")
        for text in ("--formatter-property", f"print.{name}=true")
    ]
    first = tools.run(CONSOLE_SHARE, "--topic", topic, "--group", group, "--max-messages", "3", *printed)
    assert first.stdout.splitlines() == [f"Partition:0\tOffset:{i}\tDelivery:1\th:1\tk\tvalue {i}" for i in range(3)]
    assert "Processed a total of 3 messages" in first.stderr
    rest = tools.run(CONSOLE_SHARE, "--topic", topic, "--group", group, "--max-messages", "2", *printed)
    assert [line.split("\t")[1] for line in rest.stdout.splitlines()] == ["Offset:3", "Offset:4"]
    rejecting = unique("r")
    read_from_start(tools.bootstrap, rejecting)
    tools.run(CONSOLE_SHARE, "--topic", topic, "--group", rejecting, "--max-messages", "5", "--reject")
    assert tools.run(GROUPS, "--describe", "--group", rejecting).rows[1][-1] == "0", "what is rejected is done with"


# ---- groups


def test_an_active_group_is_described_in_all_views(tools: JavaTools, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    group_with_records(tools.bootstrap, topic, group, 5, partitions=2)
    member = member_of(tools.bootstrap, group, topic)
    try:
        header, row = tools.run(GROUPS, "--describe", "--group", group, "--members", "--verbose").rows
        assert header == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT"]
        assert [row[0], *row[2:5], row[6]] == [group, "/127.0.0.1", "worker", "2", f"{topic}:0,1"]
        header, row = tools.run(GROUPS, "--describe", "--group", group, "--members").rows
        assert (len(header), row[-1]) == (6, f"{topic}:0,1")
        header, row = tools.run(GROUPS, "--describe", "--group", group, "--state", "--verbose").rows
        assert header == ["GROUP", "COORDINATOR", "(ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
        assert [row[0], row[1], row[2], row[3], row[6]] == [group, tools.bootstrap, "(1)", "Stable", "1"]
        assert row[4] == row[5]
        refused = tools.run(GROUPS, "--delete", "--group", group).stdout
        assert "Error: Deletion of some share groups failed:" in refused
        assert "GroupNotEmptyException" in refused
    finally:
        member.commit_sync()
        member.close()
    assert tools.run(GROUPS, "--list", "--state", "empty").rows[0] == ["GROUP", "STATE"]
    assert [group, "Empty"] in tools.run(GROUPS, "--list", "--state").rows
    # All were accepted at once: what is stored is one write behind, the lag is not.
    assert tools.run(GROUPS, "--describe", "--group", group).rows == [
        ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"],
        [group, topic, "0", "0", "0"],
        [group, topic, "1", "-", "-"],
    ]
    assert tools.run(GROUPS, "--describe", "--group", group, "--offsets", "--verbose").rows[1] == [
        *(group, topic, "0", "0", "0", "0"),
    ]
    missing = tools.run(GROUPS, "--describe", "--group", unique("none")).stdout
    assert "GroupIdNotFoundException" in missing


def test_offsets_are_reset_and_deleted_and_the_group_with_them(tools: JavaTools, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    group_with_records(tools.bootstrap, topic, group, 5)
    tools.run(CONSOLE_SHARE, "--topic", topic, "--group", group, "--max-messages", "5")

    def stored() -> list[list[str]]:
        return [row[2:] for row in tools.run(GROUPS, "--describe", "--group", group).rows[1:]]

    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    header, row = tools.run(GROUPS, *reset, "--to-earliest", "--dry-run").rows
    assert header == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert row == [group, topic, "0", "0"]
    assert stored()[0][2] == "0", "a dry run changes nothing"
    tools.run(GROUPS, *reset, "--to-earliest", "--execute")
    assert stored() == [["0", "0", "5"]]
    again = tools.run(CONSOLE_SHARE, "--topic", topic, "--group", group, "--max-messages", "5")
    assert again.stdout.splitlines() == [f"value {i}" for i in range(5)]
    tools.run(GROUPS, *reset, "--to-latest", "--execute")
    assert stored() == [["0", "5", "0"]]

    deleted = tools.run(GROUPS, "--delete-offsets", "--group", group, "--topic", topic, "--topic", "nope").rows
    assert deleted[0] == ["TOPIC", "STATUS"]
    assert [topic, "Successful"] in deleted
    assert any(row[:2] == ["nope", "Error:"] for row in deleted)
    nothing = tools.run(GROUPS, "--describe", "--group", group).stdout
    assert nothing.strip() == f"Share group '{group}' has no offset information."
    done = tools.run(GROUPS, "--delete", "--group", group).stdout
    assert done.strip() == f"Deletion of requested share groups ('{group}') was successful."
    assert group not in tools.run(GROUPS, "--list").stdout.splitlines()


def test_groups_of_both_types_are_listed_when_a_classic_consumer_has_run(tools: JavaTools, unique: Names) -> None:
    topic, share, classic = unique("t"), unique("share"), unique("classic")
    group_with_records(tools.bootstrap, topic, share, 5)
    tools.run(CONSOLE_SHARE, "--topic", topic, "--group", share, "--max-messages", "1")
    options = ("--from-beginning", "--max-messages", "5")
    read = tools.run(CONSOLE_CONSUMER, "--topic", topic, "--group", classic, *options)
    assert read.stdout.splitlines() == [f"value {i}" for i in range(5)]
    listed = tools.run(ALL_GROUPS, "--list").rows
    assert listed[0] == ["GROUP", "TYPE", "PROTOCOL"]
    assert [share, "Share", "share"] in listed
    assert [classic, "Classic", "consumer"] in listed
    assert [classic, "Classic", "consumer"] not in tools.run(ALL_GROUPS, "--list", "--share").rows
    described = tools.run(CONSUMER_GROUPS, "--describe", "--group", classic).rows
    assert [classic, topic, "0", "5", "5", "0", "-", "-", "-"] in described
    clash = tools.run(GROUPS, "--describe", "--group", classic).stdout
    assert "GroupIdNotFoundException" in clash
    assert "not a share group" in clash
