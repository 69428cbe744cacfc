"""What the actions of `kafka-share-groups` do to a cluster, and what they say beyond the tables of Kafka's own tool."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.groups_situation import Result, consumer, run
from support.waiting import poll_until, wait_until

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import GroupState, ShareGroupDescription, SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.groups.reading import run_describe
from kafka_share.cli.groups.rules import Options
from kafka_share.errors import TopicAuthorizationFailedError
from kafka_share.records import Node, TopicPartition

LIST_GROUPS, LIST_OFFSETS, DESCRIBE_OFFSETS, SHARE_FETCH = 16, 2, 90, 78
CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR = 31, 29, -1
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Tool:
    """`kafka-share-groups` against a cluster of three nodes with a topic t: ten records, and an empty partition."""

    def __init__(self, broker: ReferenceBroker, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self._capsys = capsys

    def run(self, *arguments: str, code: int = 0) -> Result:
        result = run(self._capsys, "--bootstrap-server", self.broker.bootstrap_servers, *arguments)
        assert result.code == code, result
        return result

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        document = json.loads(self.run(*arguments, "--format", "json", code=code).stdout)
        assert isinstance(document, dict)
        return document

    def reset(self, *arguments: str, group: str = "g", code: int = 0) -> Result:
        return self.run("--reset-offsets", "--group", group, *arguments, code=code)

    def starts(self, group: str = "g") -> list[int | None]:
        document = self.json("--describe", "--group", group)
        return [one["start_offset"] for one in document["groups"][0]["partitions"]]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Iterator[Tool]:
    with ReferenceBroker(3) as broker:
        broker.create_topic("t", partitions=2)
        now_ms = time.time_ns() // 1_000_000
        for age_h in range(10, 0, -1):
            broker.produce("t", b"x", timestamp_ms=now_ms - age_h * 3_600_000)
        yield Tool(broker, capsys)


def rows(result: Result) -> list[list[str]]:
    """Partition and new offset of a reset."""
    return [line.split()[2:] for line in result.stdout.splitlines() if line.startswith("g ")]


# ---- reset


def test_offsets_are_set_to_a_number_inside_the_log(tool: Tool) -> None:
    """--to-offset moves a number beyond the end to the end, and tells so."""
    result = tool.reset("--topic", "t", "--to-offset", "4", "--execute")
    assert rows(result) == [["0", "4"], ["1", "0"]]
    assert result.stdout.startswith("\nWarn: t-1 has no offset 4: it is set to its end.\n\nGROUP")
    assert tool.starts() == [4, 0]


def test_a_number_before_the_first_record_is_moved_to_it(tool: Tool) -> None:
    """Offset 0 counts as given, and records that were deleted cannot be gone back to."""
    tool.broker.delete_records("t", 0, 3)
    result = tool.reset("--topic", "t:0", "--to-offset", "0", "--execute")
    assert rows(result) == [["0", "3"]]
    assert "t-0 has no offset 0: it is set to its first record" in result.stdout


def test_offsets_are_shifted_from_where_the_group_is(tool: Tool) -> None:
    """--shift-by goes forwards and backwards, but not out of the log."""
    tool.reset("--topic", "t:0", "--to-offset", "4", "--execute")
    assert rows(tool.reset("--all-topics", "--shift-by", "3", "--execute")) == [["0", "7"]]
    assert rows(tool.reset("--all-topics", "--shift-by", "-2", "--execute")) == [["0", "5"]]
    assert rows(tool.reset("--all-topics", "--shift-by", "-9", "--dry-run")) == [["0", "0"]]
    assert tool.starts() == [5]


def test_a_shift_is_refused_when_there_is_no_offset_to_start_from(tool: Tool) -> None:
    """A partition without a start offset cannot be shifted; nothing is reset."""
    tool.reset("--topic", "t:0", "--to-latest", "--execute")
    result = tool.reset("--topic", "t", "--shift-by", "-1", "--execute", code=1)
    assert result.stdout == "\nError: these partitions have no start offset to shift: t-1\n"
    assert tool.starts() == [10]


def test_offsets_are_set_by_age(tool: Tool) -> None:
    """--by-duration finds the first record that is not older; a partition without one is set to its end."""
    result = tool.reset("--topic", "t", "--by-duration", "PT2H30M", "--execute")
    assert rows(result) == [["0", "8"], ["1", "0"]]
    assert "Warn: t-1 has no record at or after that time" in result.stdout


def test_offsets_that_were_exported_can_be_put_back(tool: Tool, tmp_path: Path) -> None:
    """--to-current --export prints a file that --from-file takes; partitions without an offset are set to their end."""
    tool.reset("--topic", "t:0", "--to-offset", "6", "--execute")
    exported = tool.reset("--topic", "t", "--to-current", "--export", "--dry-run")
    assert exported.stdout == "t,0,6\nt,1,0\n"
    assert "Warn: t-1 has no start offset yet: it is set to its end" in exported.stderr
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout)
    tool.reset("--topic", "t", "--to-earliest", "--execute")
    assert tool.starts() == [0, 0]
    assert rows(tool.reset("--from-file", str(file), "--execute")) == [["0", "6"], ["1", "0"]]
    assert tool.starts() == [6, 0]


@pytest.mark.parametrize(
    ("line", "message"), [("t,7,0\n", "do not exist: t-7"), ("nope,0,0\n", "topic 'nope' does not exist")]
)
def test_a_file_with_a_partition_that_does_not_exist_resets_nothing(
    tool: Tool, tmp_path: Path, line: str, message: str
) -> None:
    """One wrong line, and no offset is altered."""
    file = tmp_path / "offsets.csv"
    file.write_text(f"t,0,5\n{line}")
    result = tool.reset("--from-file", str(file), "--execute", code=1)
    assert message in result.stdout
    assert "nothing was reset" in result.stdout
    assert tool.json("--list") == {"groups": []}


def test_a_dry_run_creates_no_group(tool: Tool) -> None:
    """--dry-run shows the rows of a group that does not exist; --execute creates it."""
    assert rows(tool.reset("--topic", "t", "--to-latest", "--dry-run")) == [["0", "10"], ["1", "0"]]
    assert tool.run("--list").stdout == ""
    tool.reset("--topic", "t", "--to-latest", "--execute")
    assert tool.run("--list").stdout == "g\n"


def test_partitions_that_are_refused_fail_the_reset(tool: Tool) -> None:
    """An error of the look-up is shown with what to do, and ends with exit code 1."""
    for node in (1, 2, 3):
        tool.broker.faults.fail(LIST_OFFSETS, TOPIC_AUTHORIZATION_FAILED, times=10, node_id=node)
    result = tool.reset("--topic", "t", "--to-latest", "--execute", code=1)
    assert "TOPIC_AUTHORIZATION_FAILED" in result.stdout
    assert "ACL" in result.stdout


def test_a_misspelt_config_is_not_unset_with_success(tool: Tool) -> None:
    """Brokers take it in silence to unset what does not exist; the tool names the configs that there are."""
    result = tool.run("--alter", "--group", "g", "--delete-config", "share.lock.duration.ms", code=2)
    assert "there is no config share.lock.duration.ms of groups" in result.stdout
    assert "share.record.lock.duration.ms" in result.stdout
    assert (
        "is so already"
        in tool.run("--alter", "--group", "g", "--delete-config", "share.record.lock.duration.ms").stdout
    )


def test_all_topics_of_a_group_without_offsets_is_remarked_on(tool: Tool) -> None:
    """The empty table of Kafka's own tool comes with what to do instead."""
    result = tool.reset("--all-topics", "--to-latest", "--dry-run", group="new")
    assert result.stdout.splitlines()[1:] == ["GROUP           TOPIC           PARTITION  NEW-OFFSET"]
    assert "name topics with --topic" in result.stderr


def test_a_list_of_a_cluster_without_share_groups_says_why_it_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    with ReferenceBroker(share_version=0) as broker:
        result = run(capsys, "--bootstrap-server", broker.bootstrap_servers, "--list")
    assert (result.stdout, result.code) == ("", 0)
    assert "share groups are switched off in this cluster" in result.stderr


# ---- members that were connected


def consume_all(tool: Tool, group: str) -> None:
    tool.broker.set_group_config(group, share_auto_offset_reset="earliest")
    with consumer(tool.broker, group, "t") as one:
        poll_until(one, 1)


@contextlib.contextmanager
def connected(tool: Tool, group: str) -> Iterator[None]:
    """A process that was a member and is still connected to the brokers."""
    tool.broker.set_group_config(group, share_auto_offset_reset="earliest")
    with consumer(tool.broker, group, "t") as one:
        poll_until(one, 1)
        one.commit_sync()
        one.unsubscribe()
        yield


def wait_until_unloaded(tool: Tool, group: str) -> None:
    with KafkaShareAdmin(bootstrap_servers=tool.broker.bootstrap_servers) as admin:
        places = [TopicPartition("t", number) for number in (0, 1)]
        wait_until(lambda: True not in admin.loaded_share_partitions(group, places).values())


@pytest.mark.behaviour("administration")
def test_a_reset_warns_when_leaders_would_not_hear_of_it(tool: Tool) -> None:
    """kafka-share-groups warns of a reset only if leaders still have partitions in memory, and names them."""
    with connected(tool, "g"):
        assert tool.reset("--topic", "t", "--to-earliest", "--dry-run").stderr == ""
        result = tool.reset("--topic", "t", "--to-earliest", "--execute")
        assert "leaders still have t-0" in result.stderr
        assert rows(result) == [["0", "0"], ["1", "0"]]
    wait_until_unloaded(tool, "g")
    assert tool.reset("--topic", "t", "--to-earliest", "--execute").stderr == ""
    consume_all(tool, "g")


def test_deletions_warn_when_leaders_would_not_hear_of_them(tool: Tool) -> None:
    """The same is true of offsets that are deleted, alone or with their group."""
    with connected(tool, "g"):
        assert "leaders still have t-0" in tool.run("--delete-offsets", "--group", "g", "--topic", "t").stderr
    wait_until_unloaded(tool, "g")
    with connected(tool, "h"):
        assert "leaders still have t-0" in tool.run("--delete", "--group", "h").stderr
    assert tool.run("--delete", "--group", "g").stderr == ""
    tool.reset("--topic", "t", "--to-latest", "--execute", group="never-used")
    assert tool.run("--delete-offsets", "--group", "never-used", "--topic", "t").stderr == ""
    assert tool.run("--delete", "--group", "never-used").stderr == ""


def test_a_reset_warns_when_it_cannot_be_told_whether_leaders_hear_of_it(tool: Tool) -> None:
    """Without the right to ask, the old advice is given."""
    consume_all(tool, "g")
    for node in (1, 2, 3):
        tool.broker.faults.fail(SHARE_FETCH, TOPIC_AUTHORIZATION_FAILED, node_id=node)
    result = tool.reset("--topic", "t", "--to-earliest", "--execute")
    assert "in memory cannot be told: TOPIC_AUTHORIZATION_FAILED" in result.stderr


# ---- the cluster in trouble


@pytest.mark.behaviour("administration")
def test_everything_goes_on_when_the_coordinator_moves_to_another_node(tool: Tool) -> None:
    """The tools go on when the node that coordinates a group stops between two commands, and nothing is lost."""
    tool.reset("--topic", "t", "--to-offset", "4", "--execute")
    tool.broker.stop_node(tool.broker.coordinator("g"))
    assert tool.starts() == [4, 0]
    tool.reset("--topic", "t:0", "--to-offset", "5", "--execute")
    assert tool.starts() == [5, 0]
    assert tool.run("--delete", "--group", "g").stdout == "Deleted share groups: 'g'\n"


def test_a_list_is_shown_as_far_as_it_goes_when_a_node_refuses_it(tool: Tool) -> None:
    """The groups of the other nodes are listed; what is missing is told, and the exit code is 1."""
    for number in range(6):
        tool.reset("--topic", "t", "--to-latest", "--execute", group=f"g{number}")
    node = tool.broker.coordinator("g0")
    tool.broker.faults.fail(LIST_GROUPS, CLUSTER_AUTHORIZATION_FAILED, node_id=node)
    result = tool.run("--list", code=1)
    assert "g0" not in result.stdout.split()
    assert f"(id: {node}) are missing: CLUSTER_AUTHORIZATION_FAILED" in result.stderr


class OneBadPartition:
    """Stands for the admin client of a cluster that lets the caller see one of two partitions."""

    def describe_share_groups(self, group_ids: list[str], **_: Any) -> dict[str, ShareGroupDescription]:
        empty = GroupState.EMPTY
        return {g: ShareGroupDescription(g, empty, 1, 1, "simple", (), Node(1, "h", 1), None) for g in group_ids}

    def list_share_group_offsets(self, groups: dict[str, None], **_: Any) -> dict[str, Any]:
        offsets = {T0: TopicAuthorizationFailedError(), T1: SharePartitionOffset(3, 0, 2)}
        return dict.fromkeys(groups, offsets)


def test_a_partition_with_an_error_has_dashes_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the other partitions everything is shown; standard error says what is wrong, and the run has failed."""
    admin: Any = OneBadPartition()
    assert not run_describe(admin, Options(describe=True, group=("g",)))
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()[2:]] == [["g", "t", "0", "-", "-"], ["g", "t", "1", "3", "2"]]
    assert "Warning: t-0 of group 'g' is unknown: TOPIC_AUTHORIZATION_FAILED" in err
    assert not run_describe(admin, Options(describe=True, group=("g",), output_format="json"))
    (first, second) = json.loads(capsys.readouterr().out)["groups"][0]["partitions"]
    assert first["error"]["code"] == "TOPIC_AUTHORIZATION_FAILED"
    assert "error" not in second


def test_an_error_of_a_whole_group_leaves_its_table_unshown(tool: Tool) -> None:
    """As text the error ends the run; in JSON it stands beside the group."""
    tool.reset("--topic", "t:0", "--to-latest", "--execute")
    for _ in range(2):
        tool.broker.faults.fail(DESCRIBE_OFFSETS, UNKNOWN_SERVER_ERROR)
    assert tool.run("--describe", "--group", "g", code=1).stdout.startswith("\nError: UNKNOWN_SERVER_ERROR")
    (group,) = tool.json("--describe", "--group", "g", code=1)["groups"]
    assert group["error"]["code"] == "UNKNOWN_SERVER_ERROR"


@pytest.mark.behaviour("administration")
def test_one_group_that_cannot_be_deleted_leaves_the_others_deleted(tool: Tool) -> None:
    """Groups that can be deleted are deleted even if another cannot; its error makes the exit code 1."""
    for group in ("a", "b"):
        tool.reset("--topic", "t", "--to-latest", "--execute", group=group)
    assert tool.json("--delete", "--group", "a", "--group", "nope", code=1) == {
        "groups": [
            {"group": "a", "error": None},
            {
                "group": "nope",
                "error": {
                    "code": "GROUP_ID_NOT_FOUND",
                    "message": "there is no share group of this id; --list shows those that there are",
                },
            },
        ]
    }
    assert tool.json("--delete", "--all-groups") == {"groups": [{"group": "b", "error": None}]}
    assert tool.run("--delete", "--all-groups").stdout == "Deleted share groups: none\n"


# ---- JSON


@pytest.mark.behaviour("tools")
def test_json_has_everything_that_the_tables_have_and_more(tool: Tool) -> None:
    """With JSON each run prints one document, in which numbers are numbers and what is unknown is null."""
    tool.broker.set_group_config("g", share_auto_offset_reset="earliest")
    with consumer(tool.broker, "g", "t") as one:
        poll_until(one, 1)
        one.commit_sync()
        assert tool.json("--list", "--state", "stable") == {"groups": [{"group": "g", "state": "Stable"}]}
        state = tool.json("--describe", "--group", "g", "--state")["groups"][0]
        assert (state["state"], state["member_count"]) == ("Stable", 1)
        assert state["coordinator"]["id"] == tool.broker.coordinator("g")
        (member,) = tool.json("--describe", "--group", "g", "--members")["groups"][0]["members"]
        assert member["client_id"] == "cli-client"
        assert member["assignment"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        assert tool.json("--describe", "--all-groups")["groups"][0]["partitions"] == [
            {"topic": "t", "partition": 0, "start_offset": 0, "leader_epoch": 0, "lag": 0},
            {"topic": "t", "partition": 1, "start_offset": None, "leader_epoch": None, "lag": None},
        ]


def test_a_group_that_cannot_be_described_has_an_error_in_json(tool: Tool) -> None:
    """The other groups are described all the same; the exit code is 1."""
    tool.reset("--topic", "t:0", "--to-latest", "--execute")
    for view in ([], ["--members"], ["--state"]):
        groups = tool.json("--describe", "--group", "g", "--group", "nope", *view, code=1)["groups"]
        assert [one["group"] for one in groups] == ["g", "nope"]
        assert groups[1]["error"]["code"] == "GROUP_ID_NOT_FOUND"
        assert "nope" in groups[1]["error"]["message"]


def test_json_of_the_changing_actions(tool: Tool) -> None:
    """New offsets, deleted offsets and changed configs are documents, too."""
    assert tool.json("--reset-offsets", "--group", "g", "--topic", "t:0", "--to-offset", "99", "--execute") == {
        "group": "g",
        "executed": True,
        "partitions": [{"topic": "t", "partition": 0, "new_offset": 10}],
        "warnings": ["t-0 has no offset 99: it is set to its end"],
    }
    document = tool.json("--delete-offsets", "--group", "g", "--topic", "t", "--topic", "nope", code=1)
    assert [(one["topic"], one["error"] is None) for one in document["topics"]] == [("nope", False), ("t", True)]
    assert tool.json("--delete-offsets", "--group", "nope", "--topic", "t", code=1)["topics"][0]["error"]
    assert tool.json("--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest") == {
        "group": "g",
        "changed": {"share.auto.offset.reset": {"before": None, "after": "earliest"}},
    }
    assert tool.json("--describe", "--group", "g", "--configs")["groups"] == [
        {
            "group": "g",
            "configs": {
                "share.auto.offset.reset": {
                    "value": "earliest",
                    "source": "DYNAMIC_GROUP_CONFIG",
                    "sensitive": False,
                }
            },
        }
    ]


# ---- configs


@pytest.mark.behaviour("administration")
def test_configs_are_set_and_unset_once(tool: Tool) -> None:
    """Setting a group config that is set already changes nothing and says so; the group need not exist."""
    first = tool.run("--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest")
    assert first.stdout == "Group g: share.auto.offset.reset is earliest now.\n"
    again = tool.run("--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest")
    assert again.stdout == "Group g: share.auto.offset.reset is so already.\n"
    unset = tool.run("--alter", "--group", "g", "--delete-config", "share.auto.offset.reset")
    assert unset.stdout == "Group g: share.auto.offset.reset is not set any more (it was earliest).\n"
    assert tool.run("--describe", "--group", "g", "--configs").stdout == "Dynamic configs for group g are:\n"


@pytest.mark.behaviour("administration")
def test_a_config_that_is_not_allowed_changes_nothing(tool: Tool) -> None:
    """If one of several group configs is not allowed, none is set, and the error says where to look."""
    result = tool.run(
        "--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest,share.nope=1", code=1
    )
    assert "INVALID_CONFIG" in result.stdout
    assert "--configs --all" in result.stdout
    with KafkaShareAdmin(bootstrap_servers=tool.broker.bootstrap_servers) as admin:
        configs = admin.describe_group_configs(["g"])["g"]
    assert not isinstance(configs, Exception)
    assert configs["share.auto.offset.reset"].value == "latest"


def test_settings_of_a_property_file_reach_the_client(tool: Tool, tmp_path: Path) -> None:
    """--command-config is read, and what means nothing is warned of on standard error."""
    file = tmp_path / "client.properties"
    file.write_text("client.id=my-tool\nacks=all\n")
    result = tool.run("--list", "--command-config", str(file))
    assert "acks is ignored" in result.stderr
    assert {context.client_id for context, _ in tool.broker.requests(LIST_GROUPS)} == {"my-tool"}
