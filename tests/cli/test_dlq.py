"""`kafka-share dlq`: letters of workers and of brokers are counted, shown, and written back once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_share.broker import ReferenceBroker
from kafka_share.cli.dlq import actions, replaying
from kafka_share.cli.dlq.letters import Offsets, note, ranges_of_note
from kafka_share.cli.main import main
from kafka_share.errors import ProduceError
from kafka_share.producing.kafka_python import OwnKafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord, Told
from kafka_share.records import TopicPartition

pytestmark = pytest.mark.timeout(60)  # each command makes consumers of kafka-python
DLQ = "dlq.orders"
NOW_MS = 1_790_000_000_000


def headers(offset: int, group: str, error: str = "", topic: str = "orders", **more: str) -> list[tuple[str, bytes]]:
    """What a worker writes; without an error, what a broker of Kafka 4.4 writes."""
    said = {"topic": topic, "partition": "0", "offset": str(offset), "group": group, "delivery.count": "1"}
    said["message"] = "Set aside by a worker of kafka_share." if error else "Offset rejected by client."
    if error:
        said |= {"exception.class.name": error, "exception.message": "never \x1b[31m", "timestamp": "5"}
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in (said | more).items()]


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    """Of six records of `orders`, 0 and 1 were set aside by a worker, 2 and 3 by the broker, 3 without a copy."""
    with ReferenceBroker(config={"auto.create.topics.enable": False}) as running:
        for topic in ("orders", DLQ, "again"):
            running.create_topic(topic, partitions=2 if topic == DLQ else 1)
        for n in range(6):
            running.produce("orders", b'{"id": %d}' % n, key=b"k%d" % n, headers=[("h", b"\xff")])
        first = [("h", b"\xff"), *headers(0, "g", "shop.errors.CardError")]
        running.produce(DLQ, b'{"id": 0}', key=b"k0", headers=first, timestamp_ms=NOW_MS)
        running.produce(DLQ, b"\xfe", headers=headers(1, "g", "ValueError"), partition=1, timestamp_ms=NOW_MS)
        running.produce(DLQ, b'{"id": 2}', key=b"k2", headers=headers(2, "other"), timestamp_ms=NOW_MS)
        running.produce(DLQ, None, headers=headers(3, "other"), timestamp_ms=NOW_MS)
        running.produce(DLQ, b"no letter", timestamp_ms=NOW_MS)
        yield running


def run(broker: ReferenceBroker, *words: str, answer: str | None = None) -> Result:
    command = ["dlq", *words, "--bootstrap-server", broker.bootstrap_servers]
    return CliRunner().invoke(main, command, input=answer)


def written(broker: ReferenceBroker, topic: str) -> list[tuple[Any, ...]]:
    """What was written to a topic after what was there."""
    return [(one.key, one.value, one.headers) for one in broker.records(topic) if topic != "orders" or one.offset >= 6]


# ---- list


def test_letters_are_counted_by_origin_group_and_error(broker: ReferenceBroker) -> None:
    result = run(broker, "list")
    assert result.exit_code == 0, result.stderr
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == ["TOPIC     ".strip(), DLQ, DLQ, DLQ]
    document = json.loads(run(broker, "list", "--format", "json").stdout)
    counted = [(one["origin"], one["group"], one["error"], one["letters"]) for one in document["dead_letters"]]
    assert document["topics"] == [DLQ]
    assert counted == [
        ("orders", "g", "ValueError", 1),
        ("orders", "g", "shop.errors.CardError", 1),
        ("orders", "other", "Offset rejected by client.", 2),
    ]
    assert {one["oldest_ms"] for one in document["dead_letters"]} == {NOW_MS}


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--group", "other"), 2),
        (("--error", "CardError"), 1),
        (("--error", "shop.errors.CardError"), 1),
        (("--error", "Offset rejected by client."), 2),
        (("--origin", "orders"), 4),
        (("--origin", "refunds"), 0),
        (("--partition", "1"), 1),
        (("--partition", "0", "--offsets", "1-2"), 2),
        (("--offsets", "0", "--partition", "0"), 1),
        (("--topic", DLQ, "--group", "g"), 2),
        (("--topic", "orders"), 0),
    ],
)
def test_filters_choose_letters(words: tuple[str, ...], count: int, broker: ReferenceBroker) -> None:
    document = json.loads(run(broker, "list", "--format", "json", *words).stdout)
    assert sum(one["letters"] for one in document["dead_letters"]) == count


def test_no_letters_are_no_error(broker: ReferenceBroker) -> None:
    result = run(broker, "list", "--group", "nobody")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"No dead letters in {DLQ}\n")


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_a_topic_that_is_not_there_is_named(command: str, broker: ReferenceBroker) -> None:
    result = run(broker, command, "--topic", "nope", *(["--yes"] if command == "replay" else []))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no topic 'nope'" in result.stderr


# ---- show


def test_a_letter_is_shown_with_its_record_its_error_and_its_value(broker: ReferenceBroker) -> None:
    """Nothing in it reaches the terminal as a control."""
    result = run(broker, "show", "--error", "CardError")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{DLQ}-0@0  2026-09-21T14:13:20Z",
        "  record   orders-0@0, delivery 1, group g",
        r"  error    shop.errors.CardError: never \x1b[31m",
        r"  header   h: \xff",
        "  key      k0",
        '  value    {"id": 0}',
    ]


def test_letters_as_json_lose_nothing(broker: ReferenceBroker) -> None:
    lines = run(broker, "show", "--format", "json").stdout.splitlines()
    found = {(one["partition"], one["offset"]): one for one in map(json.loads, lines)}
    assert set(found) == {(0, 0), (1, 0), (0, 1), (0, 2)}
    assert found[0, 0]["headers"] == [["h", {"base64": "/w=="}]]
    assert found[1, 0]["value"] == {"base64": "/g=="}
    assert found[0, 0]["origin"]["exception_message"] == "never \x1b[31m"
    assert [found[place]["has_copy"] for place in ((0, 0), (0, 1), (0, 2))] == [True, True, False]


def test_no_more_are_shown_than_the_limit(broker: ReferenceBroker) -> None:
    result = run(broker, "show", "--limit", "1", "--partition", "0")
    assert result.stdout.count("record ") == 1
    assert "more than 1" in result.stderr
    assert run(broker, "show", "--limit", "1", "--partition", "1").stderr == ""
    assert run(broker, "show", "--group", "nobody").exit_code == 1


# ---- replay


def test_records_are_written_back_once_and_without_the_headers_of_letters(broker: ReferenceBroker) -> None:
    """What a broker has not copied, its headers and perhaps all, is taken from the record itself."""
    result = run(broker, "replay", "--yes")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "4 records to write to orders\n4 records written\n"
    h = (("h", b"\xff"),)
    assert sorted(written(broker, "orders"), key=str) == [
        (None, b"\xfe", ()),
        (b"k0", b'{"id": 0}', h),
        (b"k2", b'{"id": 2}', h),
        (b"k3", b'{"id": 3}', h),
    ]
    again = run(broker, "replay", "--yes")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "Nothing to write")
    assert "4 left out: written back before" in again.stdout
    assert len(written(broker, "orders")) == 4
    document = json.loads(run(broker, "list", "--format", "json").stdout)
    assert [(one["letters"], one["replayed"]) for one in document["dead_letters"]] == [(1, 1), (1, 1), (2, 2)]
    assert "replayed" in run(broker, "show", "--error", "CardError").stdout
    third = json.loads(run(broker, "replay", "--yes", "--with-replayed", "--format", "json").stdout)
    assert (third["written"], third["left_out_replayed"]) == (4, 0)


def test_a_part_is_written_back_to_another_topic_and_the_rest_later(broker: ReferenceBroker) -> None:
    result = run(broker, "replay", "--yes", "--to-topic", "again", "--group", "g", "--format", "json")
    assert json.loads(result.stdout) == {
        "dry_run": False,
        "records": {"again": 2},
        "written": 2,
        "left_out_duplicates": 0,
        "left_out_replayed": 0,
        "left_out_without_copy": [],
    }
    assert len(written(broker, "again")) == 2
    rest = json.loads(run(broker, "replay", "--yes", "--format", "json").stdout)
    assert (rest["records"], rest["left_out_replayed"]) == ({"orders": 2}, 2)


def test_a_dry_run_writes_nothing(broker: ReferenceBroker) -> None:
    before = broker.end_offset(DLQ)
    result = run(broker, "replay", "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "4 records would be written to orders\n")
    assert (written(broker, "orders"), broker.end_offset(DLQ)) == ([], before)


@pytest.mark.parametrize(("answer", "exit_code", "count"), [("y\n", 0, 4), ("n\n", 1, 0), ("\n", 1, 0), ("", 130, 0)])
def test_it_asks_before_it_writes(
    answer: str, exit_code: int, count: int, broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "_is_someone_there", lambda: True)
    result = run(broker, "replay", answer=answer)
    assert (result.exit_code, len(written(broker, "orders"))) == (exit_code, count)
    assert "Write them?" in result.stderr


@pytest.mark.parametrize("more", [(), ("--format", "json")])
def test_where_nobody_can_be_asked_it_does_nothing(more: tuple[str, ...], broker: ReferenceBroker) -> None:
    result = run(broker, "replay", *more)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert written(broker, "orders") == []


def test_letters_of_one_record_are_written_once_and_all_noted(broker: ReferenceBroker) -> None:
    """A worker may write a letter twice, and two groups may give up one record."""
    broker.produce(DLQ, b'{"id": 0}', key=b"k0", headers=headers(0, "g", "ValueError"))
    result = run(broker, "replay", "--yes", "--group", "g")
    assert "2 records to write to orders\n1 left out: letters of the same records\n2 records written" in result.stdout
    assert run(broker, "replay", "--yes", "--group", "g").stdout.startswith("Nothing to write\n3 left out")


def test_a_letter_of_a_worker_without_a_copy_takes_the_record_from_its_place(broker: ReferenceBroker) -> None:
    """With its headers."""
    mark = [("__dlq.errors.copy", b"none: it is larger than the worker's max_bytes")]
    broker.produce(DLQ, b"", headers=[*headers(4, "large", "ValueError"), *mark])
    assert "the letter has no copy of the record" in run(broker, "show", "--group", "large").stdout
    assert run(broker, "replay", "--yes", "--group", "large").exit_code == 0
    assert written(broker, "orders") == [(b"k4", b'{"id": 4}', (("h", b"\xff"),))]


def test_a_letter_without_a_copy_whose_record_is_gone_is_named(broker: ReferenceBroker) -> None:
    """So is one of a topic that is not there any more. Where a broker has copied, its copy is written."""
    broker.set_broker_config({"auto.create.topics.enable": True})
    broker.delete_records("orders", 0, 4)
    result = run(broker, "replay", "--yes", "--group", "other")
    assert result.exit_code == 1
    assert f"{DLQ}-0@2 left out: it has no copy, and orders-0@3 is not there any more" in result.stderr
    assert written(broker, "orders") == [(b"k2", b'{"id": 2}', ())]
    broker.produce(DLQ, None, headers=headers(3, "third", topic="gone"))
    result = run(broker, "replay", "--yes", "--group", "third")
    assert (result.exit_code, result.stdout) == (1, "Nothing to write\n")
    assert "gone" not in broker.topics(), "nothing is created by asking for it"


def test_a_topic_that_does_not_exist_is_refused_before_anything_is_written(broker: ReferenceBroker) -> None:
    broker.produce(DLQ, b"v", headers=headers(9, "g", "ValueError", topic="deleted"))
    for words in ((), ("--to-topic", "deleted")):
        result = run(broker, "replay", "--yes", *words)
        assert result.exit_code == 1
        assert "there is no topic 'deleted'" in result.stderr
    assert written(broker, "orders") == []


def test_what_was_written_is_noted_when_the_rest_is_refused(
    broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run writes what is left."""
    monkeypatch.setattr(replaying, "_PORTION", 1)
    produce = OwnKafkaPythonProducer.produce

    def refuse(self: OwnKafkaPythonProducer, record: OutgoingRecord, told: Told) -> None:
        if record.key == b"k2":
            told(ProduceError("topic 'orders' has not taken the record"))
        else:
            produce(self, record, told)

    with monkeypatch.context() as patch:
        patch.setattr(OwnKafkaPythonProducer, "produce", refuse)
        result = run(broker, "replay", "--yes", "--partition", "0")
    assert result.exit_code == 1
    assert "topic 'orders' has not taken the record. 1 records were written before" in result.stderr
    assert run(broker, "replay", "--yes", "--partition", "0").stdout.endswith("\n2 records written\n")
    assert len(written(broker, "orders")) == 3


def test_what_could_not_be_noted_is_said(broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    produce = OwnKafkaPythonProducer.produce

    def refuse(self: OwnKafkaPythonProducer, record: OutgoingRecord, told: Told) -> None:
        told(ProduceError("not authorized")) if record.topic == DLQ else produce(self, record, told)

    monkeypatch.setattr(OwnKafkaPythonProducer, "produce", refuse)
    result = run(broker, "replay", "--yes")
    assert result.exit_code == 1
    assert "4 records were written, but of some of them that could not be noted" in result.stderr


# ---- notes


def test_a_note_names_offsets_as_ranges() -> None:
    place = TopicPartition(DLQ, 1)
    made = note(place, [5, 1, 3, 2, 9])
    assert (made.topic, made.partition, made.key, made.value) == (DLQ, 1, None, None)
    assert made.headers == (("__dlq.replayed", b"1-3,5,9"),)
    known = Offsets()
    known.add(ranges_of_note(made.headers))
    assert [offset for offset in range(12) if offset in known] == [1, 2, 3, 5, 9]


@pytest.mark.parametrize("value", [None, b"", b"x", b"1-", b"\xff", b"-1"])
def test_what_is_no_note_says_nothing(value: bytes | None) -> None:
    assert ranges_of_note([("__dlq.replayed", value), ("other", b"1")]) == []


@pytest.mark.parametrize("offsets", ["x", "5-2", "-3", "1-2-3", "9" * 30])
def test_offsets_are_a_range(offsets: str, broker: ReferenceBroker) -> None:
    result = run(broker, "list", f"--offsets={offsets}")
    assert result.exit_code == 2
    assert "such as 5-17" in result.stderr
