"""`kafka-share doctor`, `watch` and `export-lag` as they are typed, on the reference broker."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from click.testing import CliRunner, Result
from support.documentation import environment

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.export_lag.exporter import LagCollector
from kafka_share.cli.main import main as cli

GROUP, TOPIC = "workers", "orders"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(nodes=2) as broker:
        broker.create_topic(TOPIC, partitions=1)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        yield broker


def run(broker: ReferenceBroker, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--bootstrap-server", broker.bootstrap_servers])


def doctor(broker: ReferenceBroker, *words: str) -> tuple[int, list[str]]:
    """The exit code and the codes of the findings."""
    result = run(broker, "doctor", GROUP, "--topic", TOPIC, "--observe", "100", "--format", "json", *words)
    return result.exit_code, [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def member(broker: ReferenceBroker, **settings: Any) -> KafkaShareConsumer[bytes, bytes]:
    return KafkaShareConsumer(TOPIC, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP, **settings)


def test_the_doctor_follows_a_group_from_nothing_to_held_locks_to_done(broker: ReferenceBroker) -> None:
    """The reasons change with what happens: an empty topic, no group, locks that are held, nothing new."""
    assert doctor(broker) == (1, ["topic-empty", "no-such-group"])
    for number in range(3):
        broker.produce(TOPIC, b"%d" % number)
    assert doctor(broker) == (1, ["no-such-group"])
    with member(broker, share_acknowledgement_mode="explicit") as consumer:
        records = consumer.poll(timeout_ms=30_000)
        assert records
        assert doctor(broker) == (1, ["locks-held"])
        for record in records:
            consumer.acknowledge(record)
        consumer.commit_sync()
    assert doctor(broker) == (1, ["no-members", "nothing-new"])


def test_the_doctor_says_share_groups_are_off_when_they_are() -> None:
    """A cluster at share.version 0 is named as the reason, with the command that switches share groups on."""
    with ReferenceBroker(share_version=0) as broker:
        result = run(broker, "doctor", GROUP, "--topic", TOPIC)
    assert result.exit_code == 1
    assert "CAUSE  share-groups-off" in result.stdout
    assert "--feature share.version=1" in result.stdout


def test_the_doctor_names_the_type_when_the_group_is_of_another(broker: ReferenceBroker) -> None:
    """An id that an ordinary consumer group has is told apart from a share group."""
    where = kafka.TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=GROUP, enable_auto_commit=False)
    try:
        consumer.assign([where])
        consumer.commit({where: kafka.OffsetAndMetadata(0, "", -1)})
    finally:
        consumer.close()
    assert doctor(broker) == (1, ["other-group-type"])


def test_a_word_is_printed_when_nothing_is_wrong_to_read(broker: ReferenceBroker) -> None:
    """Findings are shown with their remedies; wrong options end with exit code 2 and no stack trace."""
    result = run(broker, "doctor", GROUP, "--topic", "nope")
    assert result.exit_code == 1
    assert result.stdout.startswith("\nCAUSE  no-such-topic\n  There is no topic 'nope'")
    assert run(broker, "doctor", GROUP).exit_code == 2
    assert "Traceback" not in run(broker, "doctor").output


def test_watch_prints_a_line_per_look_when_there_is_no_terminal(broker: ReferenceBroker) -> None:
    """Without a terminal the view is a line: state, members, lag, and from the second look on the rate."""
    broker.produce(TOPIC, b"1")
    broker.produce(TOPIC, b"2")
    with member(broker) as consumer:
        assert consumer.poll(timeout_ms=30_000)
        consumer.commit_sync()
        result = run(broker, "watch", GROUP, "--count", "2", "--interval", "100")
        assert result.exit_code == 0, result.output
        first, second = result.stdout.splitlines()
        assert f"{GROUP} Stable members=1 partitions=1 lag=0 rate=-" in first
        assert second.endswith("lag=0 rate=0.0")
        shown = json.loads(run(broker, "watch", GROUP, "--count", "1", "--format", "json").stdout)
    assert (shown["lag"], shown["members"]) == (0, 1)
    [partition] = shown["partitions"]
    assert (partition["topic"], partition["end_offset"], len(partition["members"])) == (TOPIC, 2, 1)


def test_watch_says_what_is_wrong_when_the_group_does_not_exist(broker: ReferenceBroker) -> None:
    """A look that fails is shown and told by the exit code; the watch itself goes on."""
    result = run(broker, "watch", "nobody", "--count", "2", "--interval", "100")
    assert result.exit_code == 1
    assert result.stderr.count("nobody") >= 2


def test_lag_and_members_are_exported_when_prometheus_asks(broker: ReferenceBroker) -> None:
    """Each scrape shows lag, start offset and members of every share group as they are then."""
    for number in range(3):
        broker.produce(TOPIC, b"%d" % number)
    command = ["export-lag", "--listen", "127.0.0.1", "--port", "0", "--bootstrap-server", broker.bootstrap_servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_share.cli.main", *command], stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with member(broker, share_acknowledgement_mode="explicit", max_poll_records=1) as consumer:
            [record] = consumer.poll(timeout_ms=30_000)
            consumer.acknowledge(record)
            consumer.commit_sync()
            with urllib.request.urlopen(url, timeout=30) as answer:
                lines = answer.read().decode().splitlines()
    finally:
        process.terminate()
        process.communicate()
    assert f'kafka_share_group_lag{{group="{GROUP}",partition="0",topic="{TOPIC}"}} 2.0' in lines
    assert f'kafka_share_group_members{{group="{GROUP}",state="Stable"}} 1.0' in lines
    assert "kafka_share_cluster_up 1.0" in lines


def test_the_cluster_is_shown_as_down_when_it_does_not_answer() -> None:
    """A scrape while no broker answers is no error of the exporter: the cluster counts as down."""
    with ReferenceBroker() as broker:
        admin = KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=200)
    with admin:
        [family] = LagCollector(admin, [GROUP]).collect()
    assert (family.name, [sample.value for sample in family.samples]) == ("kafka_share_cluster_up", [0])
