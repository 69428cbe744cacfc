"""`kafka-share doctor` and `watch` as they are typed, on the reference broker."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any, cast

import kafka
import pytest
from click.testing import CliRunner, Result
from support.waiting import poll_until, poll_while

from kafka_share import AcknowledgeType, KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.doctor.facts import gather
from kafka_share.cli.main import main as cli
from kafka_share.errors import OperationTimeoutError

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
    result = run(broker, "doctor", "--group", GROUP, "--topic", TOPIC, "--observe", "100", "--format", "json", *words)
    return result.exit_code, [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def member(broker: ReferenceBroker, **settings: Any) -> KafkaShareConsumer[bytes, bytes]:
    return consumer_of(TOPIC, broker, **settings)


def consumer_of(topic: str, broker: ReferenceBroker, **settings: Any) -> KafkaShareConsumer[bytes, bytes]:
    return KafkaShareConsumer(topic, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP, **settings)


def test_the_doctor_follows_a_group_from_nothing_to_held_locks_to_done(broker: ReferenceBroker) -> None:
    """The reasons change with what happens: an empty topic, no group, locks that are held, nothing new."""
    assert doctor(broker) == (1, ["no-such-group", "topic-empty"])
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
        assert doctor(broker) == (0, ["nothing-new"]), "nothing is wrong with a group that waits for new records"
    assert doctor(broker) == (1, ["no-members", "nothing-new"])
    text = run(broker, "doctor", "--group", GROUP, "--topic", TOPIC, "--observe", "0").stdout
    assert "The brokers' history knows of none since " in text


def test_the_doctor_reads_in_the_brokers_history_what_was_given_up(broker: ReferenceBroker) -> None:
    """From the share coordinator's log, records whose deliveries are used up are named as the cause."""
    broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"})
    for number in range(3):
        broker.produce(TOPIC, b"%d" % number)
    kinds = {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.REJECT, 2: AcknowledgeType.ACCEPT}
    with member(broker, share_acknowledgement_mode="explicit") as consumer:
        deliveries = 0
        while deliveries < 4:
            for record in consumer.poll(timeout_ms=30_000):
                deliveries += 1
                consumer.acknowledge(record, kinds[record.offset])
        consumer.commit_sync()
        assert doctor(broker) == (1, ["given-up", "rejected", "nothing-new"])


def test_the_doctor_sees_an_open_transaction_that_holds_up_a_group(broker: ReferenceBroker) -> None:
    """A group that reads committed records waits behind an open transaction, and nobody is said to hold locks."""
    broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="tx")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"1").get(30)
        with member(broker) as consumer:
            poll_while(consumer, lambda: doctor(broker) != (1, ["open-transaction"]))
            producer.commit_transaction()
            assert consumer.poll(timeout_ms=30_000)
            consumer.commit_sync()
            assert doctor(broker)[0] == 0
    finally:
        producer.close()


def test_the_doctor_looks_at_all_topics_of_the_group_when_none_is_named(broker: ReferenceBroker) -> None:
    """The group is enough: its members and its offsets name the topics, and what is wrong with one is said of it."""
    result = run(broker, "doctor", "--group", GROUP)
    assert (result.exit_code, result.stdout[:23]) == (1, "\nCAUSE  no-such-group\n ")
    broker.create_topic("left", partitions=1)
    broker.produce("left", b"1")
    with consumer_of("left", broker) as consumer:
        poll_until(consumer, 1)
    broker.produce("left", b"2")
    for number in range(3):
        broker.produce(TOPIC, b"%d" % number)
    with member(broker, share_acknowledgement_mode="explicit") as consumer:
        assert consumer.poll(timeout_ms=30_000)
        result = run(broker, "doctor", "--group", GROUP, "--observe", "100", "--format", "json")
        document = json.loads(result.stdout)
        assert (result.exit_code, document["topics"]) == (1, ["left", TOPIC])
        found = [(finding["code"], finding["is_cause"], finding["topics"]) for finding in document["findings"]]
        assert found == [("locks-held", True, [TOPIC]), ("not-subscribed", False, ["left"])]
        text = run(broker, "doctor", "--group", GROUP, "--observe", "100").stdout
        assert f"\nCAUSE  locks-held  ({TOPIC})\n" in text
        assert "--delete-offsets" in text
    result = run(broker, "doctor", "--group", GROUP, "--observe", "100")
    assert result.stdout.count("no-members") == 1, "what is said of the group is said once"
    assert f"CAUSE  no-members  (left, {TOPIC})" in result.stdout


def test_the_doctor_says_at_once_whom_it_asks_and_soon_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead port is named before anything is known of it, and given up long before a call's own time is over."""
    asked: list[str] = []

    def describe(self: KafkaShareAdmin, *, timeout_ms: int | None = None) -> Any:
        sys.stderr.flush()
        said = cast("io.BytesIO", sys.stderr.buffer).getvalue().decode()
        asked.append(f"{timeout_ms} {said}")
        raise OperationTimeoutError(f"not done within {timeout_ms} ms")

    monkeypatch.setattr(KafkaShareAdmin, "describe_cluster", describe)
    for words, timeout_ms in (((), 10_000), (("--timeout", "300"), 300)):
        words = ("doctor", "--group", GROUP, "--bootstrap-server", "127.0.0.1:1", *words)
        result = CliRunner().invoke(cli, words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert asked.pop() == f"{timeout_ms} Asking 127.0.0.1:1 …\n"
        assert f"Error: no broker answers at 127.0.0.1:1: nothing came within {timeout_ms} ms" in result.stderr


def test_the_doctor_stops_watching_when_the_group_has_moved(broker: ReferenceBroker) -> None:
    """A long --observe costs a healthy group nothing: one step forward ends it."""
    for number in range(2):
        broker.produce(TOPIC, b"%d" % number)
    waited: list[int] = []
    with member(broker, share_acknowledgement_mode="explicit") as consumer:
        first, _ = consumer.poll(timeout_ms=30_000)

        def work(ms: int) -> None:
            waited.append(ms)
            consumer.acknowledge(first)
            consumer.commit_sync()

        with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            (facts,) = gather(admin, admin.describe_cluster(), GROUP, TOPIC, 3_600_000, work, lambda *_: {})
    assert waited == [500]
    assert (facts.partitions[0].has_moved, facts.observed_ms) == (True, 500)


def test_the_doctor_says_share_groups_are_off_when_they_are() -> None:
    """A cluster at share.version 0 is named as the reason, with the command that switches share groups on."""
    with ReferenceBroker(share_version=0) as broker:
        results = [run(broker, "doctor", "--group", GROUP, *topic) for topic in ((), ("--topic", TOPIC))]
    for result in results:
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
    assert "CAUSE  other-group-type\n" in run(broker, "doctor", "--group", GROUP).stdout


def test_a_word_is_printed_when_nothing_is_wrong_to_read(broker: ReferenceBroker) -> None:
    """Findings are shown with their remedies; wrong options end with exit code 2 and no stack trace."""
    result = run(broker, "doctor", "--group", GROUP, "--topic", "nope")
    assert result.exit_code == 1
    assert result.stdout.startswith("\nCAUSE  no-such-topic\n  There is no topic 'nope'")
    assert run(broker, "doctor", "--topic", TOPIC).exit_code == 2
    assert "Traceback" not in run(broker, "doctor").output


def test_watch_prints_a_line_per_look_when_there_is_no_terminal(broker: ReferenceBroker) -> None:
    """Without a terminal the view is a line: state, members, lag, and from the second look on the rate."""
    broker.produce(TOPIC, b"1")
    broker.produce(TOPIC, b"2")
    with member(broker) as consumer:
        assert consumer.poll(timeout_ms=30_000)
        consumer.commit_sync()
        result = run(broker, "watch", "--group", GROUP, "--count", "2", "--interval", "100")
        assert result.exit_code == 0, result.output
        first, second = result.stdout.splitlines()
        assert f"{GROUP} Stable members=1 partitions=1 lag=0 rate=-" in first
        assert second.endswith("lag=0 rate=0.0")
        shown = json.loads(run(broker, "watch", "--group", GROUP, "--count", "1", "--format", "json").stdout)
    assert (shown["lag"], shown["members"]) == (0, 1)
    [partition] = shown["partitions"]
    assert (partition["topic"], partition["end_offset"], len(partition["members"])) == (TOPIC, 2, 1)


def test_watch_says_what_is_wrong_when_the_group_does_not_exist(broker: ReferenceBroker) -> None:
    """A look that fails is shown and told by the exit code; the watch itself goes on."""
    result = run(broker, "watch", "--group", "nobody", "--count", "2", "--interval", "100")
    assert result.exit_code == 1
    assert result.stderr.count("nobody") >= 2
