"""What coordinators write, read by Apache Kafka's own formatters: the same kinds on our broker and on Kafka."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.confluent_peer import confluent_kafka, create_topic, produce, read_from_start
from conformance.java_tools import CONSOLE_CONSUMER, JavaTools, chosen_version
from conformance.kafka_jars import class_path
from conformance.kafka_targets import Target
from conformance.probe_runs import compiled
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareAdmin, KafkaShareConsumer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Records = list[tuple[dict[str, Any], dict[str, Any] | None]]

_FORMATTERS = "org.apache.kafka.tools.consumer"
SHARE_STATE = f"{_FORMATTERS}.group.share.ShareGroupStateMessageFormatter"
SHARE_GROUPS = f"{_FORMATTERS}.ShareGroupMessageFormatter"
OFFSETS = f"{_FORMATTERS}.OffsetsMessageFormatter"
CLASSIC_GROUPS = f"{_FORMATTERS}.GroupMetadataMessageFormatter"


@pytest.fixture
def tools(request: pytest.FixtureRequest, kafka: Target, tmp_path: Path) -> JavaTools:
    version = chosen_version(request.config)
    if version is None:
        pytest.skip("Kafka's own formatters need Java: choose their version, as in --kafka-versions 4.3.1")
    return JavaTools(version, kafka.bootstrap_servers, tmp_path)


def read(
    tools: JavaTools, topic: str, formatter: str, group: str
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Keys and values of what the formatter makes of a group's records, in order."""
    options = ("--from-beginning", "--timeout-ms", "8000", "--formatter", formatter)
    found = list(objects(tools.run(CONSOLE_CONSUMER, "--topic", topic, *options).stdout))
    mine = [one for one in found if group in (one["key"]["data"].get("groupId"), one["key"]["data"].get("group"))]
    return [(one["key"], one["value"]) for one in mine]


def objects(printed: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that a formatter printed, one after the other, on any number of lines."""
    decoder, at = json.JSONDecoder(), printed.find("{")
    while at >= 0:
        found, end = decoder.raw_decode(printed, at)
        yield found
        at = printed.find("{", end)


def kinds(records: Records) -> set[tuple[int, bool]]:
    """The types of the records, and whether there was one with a value or one without."""
    return {(key["type"], value is not None) for key, value in records}


def test_share_state_and_share_groups_are_what_kafkas_formatters_read(kafka: Target, tools: JavaTools) -> None:
    topic, group, bootstrap = "records-share", "records-share-group", kafka.bootstrap_servers
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"a", b"b", b"c"])
    settings = {"bootstrap_servers": bootstrap, "group_id": group, "share_acknowledgement_mode": "explicit"}
    with KafkaShareConsumer(topic, **settings) as consumer:  # type: ignore[arg-type]
        records = poll_until(consumer, 3)
        for record in records:
            consumer.acknowledge(record, "release" if record.value == b"b" else "accept")
        consumer.commit_sync()
    with KafkaShareAdmin(bootstrap_servers=bootstrap) as admin:
        wait_until(lambda: [one for one in admin.list_share_groups(["Empty"]).groups if one.group_id == group])
        states = read(tools, "__share_group_state", SHARE_STATE, group)
        assert [key["type"] for key, _ in states][:1] == [0]
        assert {key["type"] for key, _ in states} == {0, 1}
        batches = [batch for _, value in states for batch in (value or {})["data"]["stateBatches"]]
        names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
        assert {tuple(batch[name] for name in names) for batch in batches} >= {(0, 0, 2, 1), (1, 1, 0, 1), (2, 2, 2, 1)}
        admin.delete_share_groups([group])
    group_records = read(tools, "__consumer_offsets", SHARE_GROUPS, group)
    members = {(10, True), (13, True), (14, True), (10, False), (13, False), (14, False)}
    assert kinds(group_records) == members | {(11, True), (12, True), (15, True), (11, False), (12, False), (15, False)}
    (initialised, *_) = [
        value["data"]["initializedTopics"]
        for key, value in group_records
        if key["type"] == 15 and value and value["data"]["initializedTopics"]
    ]
    assert [(one["topicName"], one["partitions"]) for one in initialised] == [(topic, [0])]


def test_offsets_and_classic_groups_are_what_kafkas_formatters_read(kafka: Target, tools: JavaTools) -> None:
    topic, group, bootstrap = "records-classic", "records-classic-group", kafka.bootstrap_servers
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"a", b"b"])
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(1))
    consumer.commit(asynchronous=False)
    consumer.close()
    ((key, value), *_) = read(tools, "__consumer_offsets", OFFSETS, group)
    assert key == {"type": 1, "data": {"group": group, "topic": topic, "partition": 0}}
    assert value is not None
    assert (value["version"], value["data"]["offset"], value["data"]["metadata"]) == (4, 1, "")
    generations = read(tools, "__consumer_offsets", CLASSIC_GROUPS, group)
    assert kinds(generations) == {(2, True)}
    found = [value["data"] for _, value in generations if value is not None]
    assert [(one["generation"], one["protocol"], len(one["members"])) for one in found] == [
        (0, None, 0), (1, "range", 1), (2, None, 0),
    ]  # fmt: skip


def test_consumer_groups_are_what_kafkas_serde_reads(
    request: pytest.FixtureRequest, kafka: Target, tmp_path: Path
) -> None:
    """Kafka has no formatter for these records: `GroupRecordsFormatter` lets all of them through."""
    version = chosen_version(request.config)
    if version is None:
        pytest.skip("Kafka's own serde needs Java: choose its version, as in --kafka-versions 4.3.1")
    if shutil.which("javac") is None:
        pytest.skip("the formatter needs a JDK (javac), which is not installed")
    tools = JavaTools(
        version, kafka.bootstrap_servers, compiled("GroupRecordsFormatter", class_path(version), tmp_path)
    )
    topic, group, bootstrap = "records-848", "records-848-group", kafka.bootstrap_servers
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"a", b"b"])
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "reader"}
    consumer = confluent_kafka.Consumer({**settings, **reading})
    consumer.subscribe([f"^{topic}$"])
    wait_until(lambda: consumer.poll(1))
    consumer.commit(asynchronous=False)
    consumer.close()
    records = read(tools, "__consumer_offsets", "GroupRecordsFormatter", group)
    group_kinds = {(3, True), (6, True), (16, True), (16, False)}
    offset = {(1, True)}
    assert kinds(records) == offset | group_kinds | {
        (5, True),
        (7, True),
        (8, True),
        (5, False),
        (7, False),
        (8, False),
    }
    said = [value["data"] for key, value in records if key["type"] == 5 and value is not None]
    assert {(one["clientId"], one["subscribedTopicRegex"]) for one in said} == {("reader", f"(^{topic}$)")}
    resolved = [value["data"]["topics"] for key, value in records if key["type"] == 16 and value is not None]
    assert resolved == [[topic]]
    told = [value["data"] for key, value in records if key["type"] == 8 and value is not None]
    assert [len(one["assignedPartitions"]) for one in told] == [0, 1]
    (committed,) = [value["data"] for key, value in records if key["type"] == 1 and value is not None]
    assert committed["offset"] == 1
