"""`kafka-share-console` as it is typed, on the reference broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from support.documentation import environment

from kafka_share import KafkaShareAdmin
from kafka_share.admin_values import SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.console.command import main
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
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, "--group", GROUP, *words]
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
    """A console consumer that runs into its timeout ends without an error, even on a topic that does not exist."""
    command = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "missing", "--timeout-ms", "300"]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "0 records processed\n")


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
    result = run(broker, "--produce", "--key-separator", ":", stdin="k:one\ntwo\n")
    assert (result.exit_code, result.stderr) == (0, "2 records written\n")
    printed = run(broker, "--max-messages", "12", "--formatter-property", "print.key=true").stdout
    assert printed.endswith("k\tone\nnull\ttwo\n")


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
    ],
)
def test_a_wrong_option_is_told_before_anything_is_read(broker: ReferenceBroker, words: tuple[str, ...]) -> None:
    """Options that exclude each other or have no meaning end with exit code 2, or 1 in the old habit."""
    result = run(broker, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert run(broker, *words, "--apache-exit-codes").exit_code == 1
