"""The cluster that Kafka's own tools were run on for share_groups_4.3.1.txt, rebuilt; and how outputs are compared.

Topics with records of known times, groups in every state, one of them with two members, one of another type.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import kafka
import pytest
from support.waiting import looks, poll_until

from kafka_share import KafkaShareConsumer
from kafka_share.admin import KafkaShareAdmin
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.inspection import ShareGroupSnapshot
from kafka_share.cli.groups.command import main
from kafka_share.records import TopicPartition

REFERENCE: Final = Path(__file__).parent / "share_groups_4.3.1.txt"
LONG_TOPIC: Final = "a-topic-with-quite-a-long-name"
UNLISTED: Final = "another-group-that-the-reference-does-not-show-"
"""Its 47 characters make the column of groups as wide as in the reference, where such groups were left out."""
CONFIG: Final = {
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.assignment.interval.ms": "1000",
}
"""What the reference's broker was set to, and Kafka's default where this one has another."""
FIRST_RECORD_MS: Final = 1_700_000_000_000


@attrs.frozen
class Result:
    """What a run of the command printed and ended with."""

    stdout: str
    stderr: str
    code: int


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Result:
    """`kafka-share-groups` with these arguments, in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main.main(list(arguments), prog_name="kafka-share-groups")
    out, err = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return Result(out, err, code)


# ---- the cluster


@contextlib.contextmanager
def situation(nodes: int) -> Iterator[ReferenceBroker]:
    """A running cluster as the reference had it; the two members of g-active stay until the end."""
    with ReferenceBroker(nodes, config=CONFIG) as broker, contextlib.ExitStack() as members:
        _fill_topics(broker)
        with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for group in ("g-empty", "g-rst"):
                _alter(admin, group, {("cli1", 0): 4, ("cli1", 1): 0, ("cli2", 0): 1})
            for group in ("g-del", "g-del2", UNLISTED):
                _alter(admin, group, {("cli2", 0): 0})
        _consume_a_part(broker)
        _make_classic_group(broker)
        _join_two(broker, members)
        yield broker


def forget_unlisted(broker: ReferenceBroker) -> None:
    """Delete the group that only made a column wide."""
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.delete_share_groups([UNLISTED]) == {UNLISTED: None}


def _fill_topics(broker: ReferenceBroker) -> None:
    broker.create_topic("cli1", partitions=2)
    broker.create_topic("cli2")
    broker.create_topic(LONG_TOPIC)
    for number in range(10):
        broker.produce("cli1", b"v%d" % number, timestamp_ms=FIRST_RECORD_MS + 1_000 * number)
    broker.produce_batch("cli2", [b"a", b"b", b"c"])
    broker.produce(LONG_TOPIC, b"x")


def _alter(admin: KafkaShareAdmin, group: str, offsets: dict[tuple[str, int], int]) -> None:
    wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
    assert set(admin.alter_share_group_offsets(group, wanted).values()) == {None}


def consumer(broker: ReferenceBroker, group: str, *topics: str, **settings: Any) -> KafkaShareConsumer[Any, Any]:
    return KafkaShareConsumer(
        *topics, bootstrap_servers=broker.bootstrap_servers, group_id=group, client_id="cli-client", **settings
    )


def _consume_a_part(broker: ReferenceBroker) -> None:
    """g-part has accepted 0, 5 and 6 of ten records, and left the others to be delivered again."""
    broker.set_group_config("g-part", share_auto_offset_reset="earliest")
    with consumer(broker, "g-part", "cli1", share_acknowledgement_mode="explicit") as one:
        got = poll_until(one, 1)
        assert len(got) == 10
        for record in got:
            if record.offset in (0, 5, 6):
                one.acknowledge(record)
        one.commit_sync()
        # Closing releases the others in a second write, which stores the start that the first one moved.


def _make_classic_group(broker: ReferenceBroker) -> None:
    """A group of another type that has committed an offset."""
    classic = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g-classic")
    try:
        partition = kafka.TopicPartition("cli1", 0)
        classic.assign([partition])
        classic.commit({partition: kafka.structs.OffsetAndMetadata(1, "", -1)})
    finally:
        classic.close()


def _join_two(broker: ReferenceBroker, members: contextlib.ExitStack) -> None:
    """Two members share the partitions, and accept every record, each partition's in one write."""
    broker.set_group_config("g-active", share_auto_offset_reset="earliest")
    topics = ("cli1", "cli2", LONG_TOPIC)
    both = [members.enter_context(consumer(broker, "g-active", *topics)) for _ in range(2)]
    got, assigned = 0, False
    for _ in looks("the two members do not get all records and two partitions each"):
        got += sum(len(one.poll(timeout_ms=50)) for one in both)
        group = broker.share_group("g-active")
        assigned = group is not None and sorted(len(one.assigned) for one in group.members.values()) == [2, 2]
        if got == 14 and assigned:
            break
    for one in both:
        one.commit_sync()


# ---- the comparison


@attrs.frozen
class Block:
    """One command of the reference: what Kafka's tool printed, and how both tools end."""

    command: str
    stdout: str
    stderr: str
    apache_code: int
    our_code: int

    def arguments(self, bootstrap_servers: str) -> list[str]:
        return shlex.split(self.command.replace("HOST:PORT", bootstrap_servers))


ASSIGNMENTS: Final = ("a-topic-with-quite-a-long-name:0;cli1:0", "cli1:1;cli2:0")
"""Of the two members in the reference."""


def reference(active: ShareGroupSnapshot) -> list[Block]:
    """The blocks of the reference in their order.

    Who got what, and the epoch, hang on who came when: those of the reference are replaced by those of the group here.
    """
    assignments = [_assignment(member.assigned) for member in active.members.values()]
    here = dict(zip(ASSIGNMENTS, assignments, strict=True))
    blocks = []
    for text in re.split(r"^\$ ", REFERENCE.read_text("utf-8"), flags=re.M)[1:]:
        # All at once: what the first member has here may be what the second one had there.
        text = re.sub(rf"(?<= )({'|'.join(ASSIGNMENTS)})(?=\n)", lambda found: here[str(found[1])], text)
        command, *lines = text.rstrip("\n").split("\n")
        if "--group g-active" in command and "--verbose" in command:
            lines = [re.sub(r"(?<=  )3(?=  )", str(active.epoch), line) for line in lines]
        codes = re.fullmatch(r"\[apache (\d), ours (\d)\]", lines.pop())
        assert codes is not None, text
        err = [line.removeprefix("[err] ") for line in lines if line.startswith("[err] ")]
        out = [line for line in lines if not line.startswith("[err] ")]
        blocks.append(Block(command, "\n".join(out), "\n".join(err), int(codes[1]), int(codes[2])))
    return blocks


def _assignment(partitions: tuple[TopicPartition, ...]) -> str:
    topics = dict.fromkeys(tp.topic for tp in sorted(partitions))
    return ";".join(f"{t}:{','.join(str(tp.partition) for tp in partitions if tp.topic == t)}" for t in topics)


LEFT_OUT: Final = (UNLISTED, "  consumer.", "  streams.")
"""Lines with the configs of other types of groups, which the reference broker does not have."""
_OUR_MESSAGES: Final = re.compile(r"^(\* '|Deleted share groups|Group '?g-)")


def comparable(text: str) -> str:
    """A stream with ids, ports and messages replaced as in the reference; the lines of a table in one order."""
    if text.startswith("Usage: "):
        return "(usage)"
    text = re.sub(r"127\.0\.0\.1:\d{5}  \(\d\)", "127.0.0.1:PORT  (1)", text)
    text = re.sub(r"(?<= )[A-Za-z0-9_-]{22} (?=/127)", "MEMBERID-------------- ", text)
    lines = [_without_message(line) for line in text.strip("\n").split("\n") if not line.startswith(LEFT_OUT)]
    return "\n".join(_ordered(lines))


def _without_message(line: str) -> str:
    if _OUR_MESSAGES.match(line):
        return "(message)"
    return re.sub(r"(^|(?<=\s))(Error|Warn|Warning): .*", r"\2: (message)", line)


def _ordered(lines: list[str]) -> list[str]:
    """Rows between two headers or messages are ordered: neither tool promises their order."""
    ordered: list[str] = []
    rows: list[str] = []
    for line in [*lines, ""]:
        if line.startswith(("GROUP ", "TOPIC ")) or not line:
            ordered += [*sorted(rows), line]
            rows = []
        else:
            rows.append(line)
    return ordered[:-1]
