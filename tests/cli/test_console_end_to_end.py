"""`kafka-share-console` as it is typed, on the reference broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from support.documentation import environment

from kafka_share import KafkaShareAdmin
from kafka_share.admin_values import SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.console import actions
from kafka_share.cli.console.command import main
from kafka_share.cli.console.consuming import Consumption
from kafka_share.records import TopicPartition

TOPIC, GROUP = "t", "g"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as broker:
        broker.create_topic(TOPIC)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for number in range(10):
            broker.produce(TOPIC, b"v%d" % number)
        yield broker


def run(broker: ReferenceBroker, *words: str, stdin: str = "") -> Result:
    group = () if "--group" in words else ("--group", GROUP)
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, *group, *words]
    return CliRunner().invoke(main, command, input=stdin)


def offset(broker: ReferenceBroker) -> tuple[int, int | None]:
    """(start offset, lag) of the group."""
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_share_group_offsets({GROUP: None})[GROUP]
    assert isinstance(found, dict)
    stored = found[TopicPartition(TOPIC, 0)]
    assert isinstance(stored, SharePartitionOffset)
    return stored.start_offset, stored.lag


@pytest.mark.behaviour("tools")
def test_it_stops_after_max_messages_and_accepts_only_what_it_printed(broker: ReferenceBroker) -> None:
    """The console consumer accepts only the records that it printed; the rest of a batch goes back to the group."""
    result = run(broker, "--max-messages", "3", "--timeout-ms", "30000")
    assert (result.exit_code, result.stdout) == (0, "v0\nv1\nv2\n")
    assert result.stderr == "3 records processed\n"
    assert offset(broker) == (3, 7)


@pytest.mark.behaviour("tools")
def test_it_ends_without_an_error_when_nothing_comes_in_time(broker: ReferenceBroker) -> None:
    """A console consumer to which nothing comes in time ends without an error, as Kafka's own does."""
    result = run(broker, "--group", "late", "--timeout-ms", "300")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "0 records processed\n")


@pytest.mark.behaviour("tools")
@pytest.mark.parametrize("words", [("--timeout-ms", "300"), ("--produce",), ("--from-beginning",)])
def test_a_topic_that_is_not_there_is_an_error(broker: ReferenceBroker, words: tuple[str, ...]) -> None:
    """The console says that a topic does not exist, and fails; a misspelt name creates nothing."""
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "missing", *words]
    result = CliRunner().invoke(main, command, input="x\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: there is no topic 'missing' in this cluster")
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert list(admin.describe_topics()) == [TOPIC]


@pytest.mark.behaviour("tools")
@pytest.mark.parametrize("words", [("--timeout-ms", "300"), ("--produce",)])
def test_a_cluster_that_does_not_answer_is_an_error(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The console says that no broker answers, and fails; it does not end as if nothing had come."""
    monkeypatch.setattr(actions, "_CONNECTING_TIMEOUT_MS", 300)
    monkeypatch.setattr(actions, "_LEAST_TIMEOUT_MS", 300)
    result = CliRunner().invoke(main, ["--bootstrap-server", "127.0.0.1:1", "--topic", TOPIC, *words])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Error: no broker answers at 127.0.0.1:1: nothing came within 300 ms" in result.stderr
    assert "check --bootstrap-server" in result.stderr


def test_a_cluster_that_goes_away_is_an_error_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing came in time, because nobody was there any more: that is no success."""
    monkeypatch.setattr(actions, "_LEAST_TIMEOUT_MS", 300)
    with ReferenceBroker() as broker:
        broker.create_topic(TOPIC)
        real = Consumption.run

        def goes_away(consumption: Consumption, count: Callable[[], None]) -> bool:
            broker.stop()
            return real(consumption, count)

        monkeypatch.setattr(Consumption, "run", goes_away)
        result = run(broker, "--timeout-ms", "300")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "\n0 records processed\n" in result.stderr
    assert f"\nError: no broker answers at {broker.bootstrap_servers}: nothing came within 300 ms" in result.stderr


def test_rejected_records_do_not_come_again_and_released_ones_do(broker: ReferenceBroker) -> None:
    """--release gives records back with a higher delivery count, --reject ends them."""
    counts = ("--formatter-property", "print.delivery=true", "--max-messages", "2")
    assert run(broker, "--release", *counts).stdout == "Delivery:1\tv0\nDelivery:1\tv1\n"
    assert run(broker, "--reject", *counts).stdout == "Delivery:2\tv0\nDelivery:2\tv1\n"
    assert run(broker, "--max-messages", "1").stdout == "v2\n"


def test_json_lines_can_be_parsed(broker: ReferenceBroker) -> None:
    """--format json prints an object per line and nothing else."""
    result = run(broker, "--format", "json", "--max-messages", "2")
    assert [json.loads(line)["value"] for line in result.stdout.splitlines()] == ["v0", "v1"]


def test_a_record_that_cannot_be_printed_is_an_error_or_rejected(broker: ReferenceBroker) -> None:
    """The error names the record and what to do; --reject-message-on-error rejects it and goes on."""
    result = run(broker, "--value-deserializer", "integer", "--max-messages", "1")
    assert result.exit_code == 1
    assert "t-0 at offset 0 cannot be printed: 2 bytes instead of 4" in result.stderr
    result = run(broker, "--value-deserializer", "integer", "--reject-message-on-error", "--max-messages", "10")
    assert (result.exit_code, result.stdout) == (0, "")
    assert offset(broker)[1] == 0


def test_lines_are_produced_and_read_back(broker: ReferenceBroker) -> None:
    """--produce writes a record per line, with a key in front of the separator; a group sees them at once."""
    words = ("--produce", "--key-separator", ":", "--null-marker", "NULL", "--header", "by=me", "--header", "by=you")
    result = run(broker, *words, stdin="k:one\nNULL:two\r\nk:NULL\n")
    assert (result.exit_code, result.stderr) == (0, "3 records written\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    printed = run(broker, "--max-messages", "13", *shown, "--formatter-property", "null.literal=-").stdout
    assert printed.endswith("by:me,by:you\tk\tone\nby:me,by:you\t-\ttwo\nby:me,by:you\tk\t-\n")


def test_a_line_without_its_separator_is_an_error(broker: ReferenceBroker) -> None:
    """It does not become a record without a key; the lines before it are written, and it is said how many."""
    result = run(broker, "--produce", "--key-separator", ":", stdin="a:1\nb:2\nno key\nc:3\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: line 3: there is no separator ':' in it, which ends the key (--key-separator). 2 lines before it were "
        "written\n"
    )
    assert len(broker.records(TOPIC)) == 12


def test_what_the_console_prints_as_json_it_can_write(broker: ReferenceBroker) -> None:
    """Records with bytes that are no text, tombstones and headers go through a pipe of JSON lines without a loss."""
    broker.create_topic("copy")
    broker.produce(TOPIC, b"\xff\x00\x1b", b"\xfe", headers=[("h", b"\xfd"), ("h", b"text")])
    broker.produce(TOPIC, None, b"tombstone")
    lines = run(broker, "--max-messages", "12", "--format", "json").stdout_bytes
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "copy", "--produce", "--format", "json"]
    result = CliRunner().invoke(main, command, input=lines)
    assert (result.exit_code, result.stderr) == (0, "12 records written\n")

    def content(topic: str) -> list[tuple[object, ...]]:
        return [(one.key, one.value, tuple(one.headers)) for one in broker.records(topic)]

    assert content("copy") == content(TOPIC)


def test_a_topic_is_created_when_that_is_asked_for(broker: ReferenceBroker) -> None:
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "new", "--produce", "--create-topic"]
    assert CliRunner().invoke(main, command, input="x\n").exit_code == 0
    assert [one.value for one in broker.records("new")] == [b"x"]
    assert CliRunner().invoke(main, command, input="y\n").exit_code == 0, "it is there already"


def test_a_record_that_is_refused_is_told_with_its_line(broker: ReferenceBroker) -> None:
    """A record that is too large is no stack trace; what was written before it is counted."""
    result = run(broker, "--produce", stdin=f"a\n{'x' * 2_000_000}\n")
    assert result.exit_code == 1
    assert f"Error: '{TOPIC}' refused line 2: " in result.stderr
    assert "1 line before it was written" in result.stderr


def test_a_new_group_reads_what_is_there_when_it_starts_from_the_beginning(broker: ReferenceBroker) -> None:
    """--from-beginning sets the group's reset policy first; by default a new group waits for new records."""
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, "--group", "new"]
    result = CliRunner().invoke(main, [*command, "--from-beginning", "--max-messages", "1"])
    assert result.stdout == "v0\n"


def test_an_old_option_name_is_taken_with_a_remark(broker: ReferenceBroker) -> None:
    """--property works as --formatter-property does, and says so where Kafka's tool says it."""
    result = run(broker, "--property", "print.offset=true", "--max-messages", "1")
    remark, record = result.stdout.splitlines()
    assert "--formatter-property" in remark
    assert record == "Offset:0\tv0"


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_the_reader_of_a_pipe_may_stop(broker: ReferenceBroker) -> None:
    """A closed standard output ends the tool without a stack trace; what was not printed is not accepted."""
    command = [sys.executable, "-m", "kafka_share.cli.console.command", "--bootstrap-server", broker.bootstrap_servers]
    process = subprocess.Popen(
        [*command, "--topic", TOPIC, "--group", GROUP, "--timeout-ms", "60000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "v0\n"
    process.stdout.close()
    for number in range(10, 60):
        broker.produce(TOPIC, b"v%d" % number)
    with process.stderr as stderr:
        said = stderr.read()
    assert process.wait() == 1
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("--reject", "--release"),
        ("--formatter-property", "print.nothing=true"),
        ("--formatter-property", "print.key"),
        ("--value-deserializer", "avro"),
        ("--command-property", "max.poll.records=many"),
        ("--key-separator", ":"),
        ("--create-topic",),
        ("--produce", "--max-messages", "1"),
        ("--produce", "--key-separator", ""),
        ("--produce", "--format", "json", "--key-separator", ":"),
        ("--produce", "--header", "by"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_read(broker: ReferenceBroker, words: tuple[str, ...]) -> None:
    """Options that exclude each other or have no meaning end with exit code 2, or 1 in the old habit."""
    result = run(broker, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert run(broker, *words, "--apache-exit-codes").exit_code == 1
