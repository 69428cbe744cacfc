"""What `kafka-share watch` shows of a reading: on a terminal, and as a line; and how rates are counted."""

from __future__ import annotations

import io

from rich.console import Console

from kafka_share.admin_values import GroupState, ShareMemberDescription
from kafka_share.cli.group_snapshot import GroupSnapshot, PartitionSnapshot
from kafka_share.cli.watch.rates import Rates
from kafka_share.cli.watch.view import MAX_ROWS, line, screen
from kafka_share.records import TopicPartition
from kafka_share.spark.agent_status import AgentStatus, LeaseStatus

COUNTS = {
    "open_leases": 1,
    "open_records": 250,
    "leases_done": 7,
    "records_accepted": 1_750,
    "records_redelivered": 3,
    "records_lost": 2,
    "renewals": 500,
}
AGENT = AgentStatus("a1", False, COUNTS, (LeaseStatus(8, 12_345, 250, 2, 0, 1),))
MEMBER = ShareMemberDescription("m1", 3, "app", "/10.0.0.7", None, ("t",), (TopicPartition("t", 0),))


def partition(
    number: int = 0, *, start: int | None = 5, lag: int | None = 4, end: int | None = 10
) -> PartitionSnapshot:
    return PartitionSnapshot(TopicPartition("t", number), start, lag, end, ("m1",))


def snapshot(*partitions: PartitionSnapshot, members: tuple[ShareMemberDescription, ...] = (MEMBER,)) -> GroupSnapshot:
    return GroupSnapshot("g", GroupState.STABLE, members, partitions)


def drawn(one: GroupSnapshot, *agents: AgentStatus) -> list[str]:
    """The screen as a terminal of 100 columns shows it, without the blanks at the ends of its lines."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    console.print(screen(Rates().read(one, 0, agents), "NOW"))
    assert isinstance(console.file, io.StringIO)
    return [text.rstrip() for text in console.file.getvalue().splitlines()]


def test_the_screen_has_headline_partitions_and_members() -> None:
    """A terminal shows the group's state and lag, a row per partition and a row per member."""
    assert drawn(snapshot(partition())) == [
        "g  Stable  members 1  lag 4  - records/s  NOW",
        "TOPIC  PARTITION  START-OFFSET  END-OFFSET  LAG  RECORDS/S  MEMBERS",
        "t              0             5          10    4          -        1",
        "CONSUMER-ID  HOST       CLIENT-ID  ASSIGNMENT",
        "m1           /10.0.0.7  app        t:0",
    ]


def test_leases_of_spark_are_below_the_members() -> None:
    """With Spark on the host there is a row per lease agent, and one per open lease with age, records and renewals."""
    assert drawn(snapshot(partition()), AGENT)[5:] == [
        "LEASE-AGENT  READS   OPEN  OPEN-RECORDS  DONE  ACCEPTED  REDELIVERED  LOST",
        "a1           stream     1           250     7      1750            3     2",
        "LEASE     AGE  RECORDS  RENEWALS  LOST  REPLAYS",
        "a1-8   12.3 s      250         2     0        1",
    ]


def test_a_line_says_of_leases_how_many_there_are() -> None:
    reading = Rates().read(snapshot(partition()), 0, (AGENT, AGENT))
    assert line(reading, "NOW").endswith(" agents=2 open_leases=2 open_records=500 renewals=1000 redelivered=6 lost=4")


def test_square_brackets_are_shown_as_they_are() -> None:
    """Names that look like markup do not vanish from the screen."""
    odd = ShareMemberDescription("m1", 3, "[bold]", "/10.0.0.7", None, ("t",), ())
    assert any("[bold]" in text for text in drawn(snapshot(partition(), members=(odd,))))


def test_nothing_that_a_client_says_reaches_the_terminal_raw() -> None:
    """A client id with escapes neither clears the screen nor sets the window's title; a newline makes no row."""
    hostile = ShareMemberDescription("m1", 3, "\x1b]0;owned\x07\x1b[2J\n\x9b31m", "/10.0.0.7", None, ("t",), ())
    one = GroupSnapshot("g\x1b[2J\nh", GroupState.STABLE, (hostile,), (partition(),))
    lines = drawn(one)
    assert len(lines) == len(drawn(snapshot(partition())))
    assert [text for text in lines if not text.isprintable()] == []
    assert any(r"\x1b]0;owned\x07\x1b[2J\n\x9b31m" in text for text in lines)


def test_a_group_of_many_partitions_is_cut() -> None:
    """No more rows are drawn than a screen can use; the rest is counted."""
    text = drawn(snapshot(*(partition(number) for number in range(MAX_ROWS + 7))))
    assert "... and 7 more" in text


def test_what_is_unknown_is_a_dash() -> None:
    """Before the first acknowledgement brokers know neither start offset nor lag."""
    reading = Rates().read(snapshot(partition(start=None, lag=None)), 0)
    assert line(reading, "NOW") == "NOW g Stable members=1 partitions=1 lag=- rate=-"


def test_the_rate_is_what_was_finished_per_second() -> None:
    """What the group got through between two looks counts, whatever was written meanwhile."""
    rates = Rates()
    rates.read(snapshot(partition(lag=4, end=10), partition(1, lag=0, end=3)), 1_000)
    reading = rates.read(snapshot(partition(lag=10, end=20), partition(1, lag=0, end=3)), 3_000)
    assert reading.rates == {TopicPartition("t", 0): 2.0, TopicPartition("t", 1): 0.0}
    assert line(reading, "NOW").endswith("lag=10 rate=2.0")


def test_no_work_is_shown_when_offsets_went_back() -> None:
    """A reset of the offsets is no negative work."""
    rates = Rates()
    rates.read(snapshot(partition(lag=0, end=10)), 0)
    assert rates.read(snapshot(partition(lag=10, end=10)), 1_000).rate == 0.0


def test_a_partition_that_appears_has_no_rate_yet() -> None:
    """Only partitions that both looks know have a rate."""
    rates = Rates()
    rates.read(snapshot(partition()), 0)
    reading = rates.read(snapshot(partition(), partition(1)), 1_000)
    assert set(reading.rates) == {TopicPartition("t", 0)}
