"""The tables of `kafka-share-groups`, compared with what Kafka 4.3.1's own tool printed for the same values."""

from __future__ import annotations

import attrs
import pytest

from kafka_share.admin_values import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    GroupListing,
    GroupState,
    GroupType,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafka_share.cli.endings import Problem
from kafka_share.cli.groups import tables
from kafka_share.errors import OffsetNotAvailableError
from kafka_share.records import Node, TopicPartition

NODE = Node(1, "127.0.0.1", 29000)
LONG_TOPIC = "a-topic-with-a-quite-long-name"
LONG_GROUP = "a-group-with-a-long-name"


def listing(group_id: str, state: GroupState = GroupState.EMPTY) -> GroupListing:
    return GroupListing(group_id, state, "share", GroupType.SHARE, NODE)


def group(group_id: str, *members: ShareMemberDescription, epoch: int = 1) -> ShareGroupDescription:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return ShareGroupDescription(group_id, state, epoch, epoch, "simple", members, NODE, None)


def member(member_id: str, *assignment: tuple[str, int], epoch: int = 3) -> ShareMemberDescription:
    partitions = tuple(TopicPartition(*one) for one in assignment)
    return ShareMemberDescription(member_id, epoch, "cli-client", "/127.0.0.1", None, ("t",), partitions)


@pytest.mark.behaviour("tools")
def test_the_list_is_one_id_per_line() -> None:
    """A plain list of groups has one id per line and nothing else."""
    assert tables.group_names([listing(LONG_GROUP), listing("g1")]) == f"{LONG_GROUP}\ng1\n"
    assert tables.group_names([]) == ""


@pytest.mark.behaviour("tools")
def test_the_column_of_groups_grows_with_the_longest_id_when_states_are_listed() -> None:
    """The states' table is as wide as its longest group id, at least 15; without a group only the header is left."""
    assert tables.group_states([listing(LONG_GROUP), listing("g1", GroupState.STABLE)]) == (
        "GROUP                    STATE\na-group-with-a-long-name Empty\ng1                       Stable\n"
    )
    assert tables.group_states([]) == "GROUP           STATE\n"


@pytest.mark.behaviour("tools")
def test_offsets_that_are_unknown_are_shown_as_dashes() -> None:
    """A partition of which nothing is stored has dashes for start offset and lag."""
    found = {TopicPartition("cli1", 1): None, TopicPartition("cli1", 0): SharePartitionOffset(1, 0, 7)}
    assert tables.offsets("g-part", found, verbose=False) == (
        "\n"
        "GROUP           TOPIC           PARTITION  START-OFFSET  LAG\n"
        "g-part          cli1            0          1             7\n"
        "g-part          cli1            1          -             -\n"
    )


@pytest.mark.behaviour("tools")
def test_the_leader_epoch_stands_before_the_start_offset_when_the_table_is_verbose() -> None:
    """The verbose table has the leader epoch in the middle; columns of names grow with the longest name."""
    found = {TopicPartition(LONG_TOPIC, 0): SharePartitionOffset(0, 0, 0), TopicPartition("cli1", 1): None}
    assert tables.offsets("g-active", found, verbose=True) == (
        "\n"
        "GROUP           TOPIC                          PARTITION  LEADER-EPOCH  START-OFFSET  LAG\n"
        "g-active        a-topic-with-a-quite-long-name 0          0             0             0\n"
        "g-active        cli1                           1          -             -             -\n"
    )


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        pytest.param(SharePartitionOffset(5, None, None), "-             5             -", id="no epoch, no lag"),
        pytest.param(SharePartitionOffset(100, 2, -90), "2             100           -", id="start beyond the end"),
        pytest.param(OffsetNotAvailableError(), "-             -             -", id="error"),
    ],
)
@pytest.mark.behaviour("tools")
def test_what_a_broker_does_not_tell_is_a_dash(offset: SharePartitionOffset, shown: str) -> None:
    """Brokers of Kafka 4.1 tell no lag; a lag below zero and a partition with an error are shown as unknown, too."""
    table = tables.offsets("g", {TopicPartition("t", 0): offset}, verbose=True)
    assert table.splitlines()[-1] == f"g               t               0          {shown}"


@pytest.mark.behaviour("tools")
def test_partitions_are_ordered_by_number_and_not_by_text() -> None:
    """Tables list partitions by number: partition 10 comes behind partition 9."""
    found = dict.fromkeys([TopicPartition("t", n) for n in (10, 9, 1)])
    assert [line.split()[2] for line in tables.offsets("g", found, verbose=False).splitlines()[2:]] == ["1", "9", "10"]


@pytest.mark.behaviour("tools")
def test_the_state_shows_coordinator_and_members() -> None:
    """The state of a group is one row: coordinator, state, number of members, and its epochs when verbose."""
    assert tables.state(group("g1"), verbose=False) == (
        "\n"
        "GROUP           COORDINATOR (ID)          STATE           #MEMBERS\n"
        "g1              127.0.0.1:29000  (1)      Empty           0\n"
    )
    assert tables.state(group(LONG_GROUP), verbose=True) == (
        "\n"
        "GROUP                    COORDINATOR (ID)          STATE           GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS\n"
        "a-group-with-a-long-name 127.0.0.1:29000  (1)      Empty           1            1                 0\n"
    )


@pytest.mark.behaviour("tools")
def test_members_are_shown_by_id_with_their_assignment() -> None:
    """Tables list members by id, and their partitions grouped by topic."""
    described = group(
        "g-active",
        member("O0jrKIW7Txe8FzVJf8jxhw", ("cli2", 0), ("cli1", 1), ("cli1", 0)),
        member("AAAAAAAAAAAAAAAAAAAAAA", (LONG_TOPIC, 0)),
    )
    assert tables.members(described, verbose=False) == (
        "\n"
        "GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS  ASSIGNMENT\n"
        "g-active        AAAAAAAAAAAAAAAAAAAAAA /127.0.0.1      cli-client      1            "
        "a-topic-with-a-quite-long-name:0\n"
        "g-active        O0jrKIW7Txe8FzVJf8jxhw /127.0.0.1      cli-client      3            cli1:0,1;cli2:0\n"
    )


@pytest.mark.behaviour("tools")
def test_the_member_epoch_stands_before_the_assignment_when_the_table_is_verbose() -> None:
    """The verbose table of members has the member epoch as the last column but one; nothing assigned is empty."""
    described = group("g-active", member("O0jrKIW7Txe8FzVJf8jxhw", ("cli1", 1)), member("short"))
    assert tables.members(described, verbose=True) == (
        "\n"
        "GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS  MEMBER-EPOCH  ASSIGNMENT\n"
        "g-active        O0jrKIW7Txe8FzVJf8jxhw /127.0.0.1      cli-client      1            3             cli1:1\n"
        "g-active        short                  /127.0.0.1      cli-client      0            3             \n"
    )


def test_new_offsets_have_columns_as_wide_as_their_names() -> None:
    """The table of a reset names group, topic, partition and the new offset."""
    planned = {TopicPartition(LONG_TOPIC, 1): 0, TopicPartition(LONG_TOPIC, 0): 10}
    assert tables.new_offsets(LONG_GROUP, planned) == (
        "\n"
        "GROUP                    TOPIC                          PARTITION  NEW-OFFSET\n"
        "a-group-with-a-long-name a-topic-with-a-quite-long-name 0          10\n"
        "a-group-with-a-long-name a-topic-with-a-quite-long-name 1          0\n"
    )
    assert tables.new_offsets("g", {}) == "\nGROUP           TOPIC           PARTITION  NEW-OFFSET\n"


@pytest.mark.behaviour("tools")
def test_deleted_offsets_are_shown_by_topic() -> None:
    """The table of deleted offsets says for each topic that it was successful, or its error."""
    assert tables.topic_results({"nope": Problem("X", "no such topic"), LONG_TOPIC: None}) == (
        "\n"
        "TOPIC                          STATUS\n"
        "a-topic-with-a-quite-long-name Successful\n"
        "nope                           Error: no such topic\n"
    )


@pytest.mark.behaviour("administration")
def test_deletions_tell_what_failed_before_what_was_done() -> None:
    """The output of deletions names the groups that were not deleted first, each with its reason."""
    assert tables.deletions({"g1": None, "g2": None}) == "Deleted share groups: 'g1', 'g2'\n"
    assert tables.deletions({}) == "Deleted share groups: none\n"
    assert tables.deletions({"g1": None, "g2": Problem("X", "it has members")}) == (
        "\nError: these groups were not deleted:\n* 'g2': it has members\n\nDeleted share groups: 'g1'\n"
    )
    assert tables.deletions({"g2": Problem("X", "it has members")}) == (
        "\nError: these groups were not deleted:\n* 'g2': it has members\n"
    )


def test_names_from_the_cluster_cannot_forge_rows_or_reach_the_terminal() -> None:
    """Any client that may join chooses its client id, and any group its name: controls are shown as escapes."""
    hostile = attrs.evolve(member("m1", ("t", 0)), client_id="\x1b]0;owned\x07\x1b[2J\nforged")
    table = tables.members(group("g\n1", hostile), verbose=False)
    assert table.count("\n") == 3, "an empty line, the header and one row"
    assert r"\x1b]0;owned\x07\x1b[2J\nforged" in table
    printed = [
        table,
        tables.group_names([listing("a\x9bb")]),
        tables.group_states([listing("a\x9bb")]),
        tables.deletions({"a\x9bb": None}),
        tables.deletions({"a\x9bb": Problem("X", "c\x9bd")}),
        tables.topic_results({"a\x9bb": Problem("X", "c\x9bd")}),
        tables.configs("a\x9bb", [entry("n", "c\x9bd", ConfigSource.DYNAMIC_GROUP_CONFIG)], all_of_them=False),
    ]
    assert [text for text in printed if not text.replace("\n", "").isprintable()] == []


def test_columns_stay_in_line_when_names_are_wide() -> None:
    """Characters that take two columns of a terminal are counted as two, and combining ones as none."""
    wide, combined, narrow = tables.group_states([listing("注文処理"), listing("e\u0301"), listing("g")]).splitlines()[
        1:
    ]
    assert wide == "注文処理        Empty"
    assert combined == f"e\u0301{' ' * 15}Empty"
    assert narrow == f"g{' ' * 15}Empty"


def entry(name: str, value: str | None, source: ConfigSource, *synonyms: ConfigSynonym) -> ConfigEntry:
    return ConfigEntry(name, value, source, ConfigType.STRING, False, False, synonyms)


@pytest.mark.behaviour("administration")
def test_configs_are_shown_with_the_places_that_they_may_come_from() -> None:
    """The configs of a group are those that are set on it, or with --all also those that come from elsewhere."""
    reset = entry(
        "share.auto.offset.reset",
        "earliest",
        ConfigSource.DYNAMIC_GROUP_CONFIG,
        ConfigSynonym("share.auto.offset.reset", "earliest", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ConfigSynonym("share.auto.offset.reset", "latest", ConfigSource.DEFAULT_CONFIG),
    )
    level = entry("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT_CONFIG)
    line = (
        "  share.auto.offset.reset=earliest sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:share.auto.offset.reset="
        "earliest, DEFAULT_CONFIG:share.auto.offset.reset=latest}\n"
    )
    other = "  share.isolation.level=read_uncommitted sensitive=false synonyms={}\n"
    assert tables.configs("g", [level, reset], all_of_them=False) == f"Dynamic configs for group g are:\n{line}"
    assert tables.configs("g", [level, reset], all_of_them=True) == f"All configs for group g are:\n{line}{other}"
