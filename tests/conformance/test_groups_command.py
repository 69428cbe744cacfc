"""`kafka-share-groups` on the reference broker and on real Apache Kafka: the same commands, the same output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin
from support.waiting import poll_until, wait_until

from kafka_share.cli.groups.command import main

Names = Callable[[str], str]


class Tool:
    """The command in this process, pointed at one target."""

    def __init__(self, target: Target, capsys: pytest.CaptureFixture[str]) -> None:
        self._servers = target.bootstrap_servers
        self._capsys = capsys

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """Standard output and standard error."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main(["--bootstrap-server", self._servers, *arguments], prog_name="kafka-share-groups")
        out, err = self._capsys.readouterr()
        assert ended.value.code == code, out + err
        return out, err

    def rows(self, *arguments: str, code: int = 0) -> list[list[str]]:
        """The words of each line of the table below its header."""
        return [line.split() for line in self.run(*arguments, code=code)[0].strip("\n").splitlines()[1:]]

    def partitions(self, group: str) -> list[dict[str, Any]]:
        out, _ = self.run("--describe", "--group", group, "--format", "json")
        found: list[dict[str, Any]] = json.loads(out)["groups"][0]["partitions"]
        return found


@pytest.fixture
def tool(kafka: Target, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(kafka, capsys)


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing, partitions=2)


def alters_offsets(target: Target) -> bool:
    """Kafka 4.1 answers that it has altered offsets, and does nothing."""
    return target.speaks_v2


@pytest.mark.behaviour("administration")
def test_a_new_group_starts_where_it_was_reset_to(tool: Tool, flow: Flow) -> None:
    """kafka-share-groups resets a group that does not exist yet; a consumer then starts there."""
    flow.produce(*(b"%d" % number for number in range(10)))
    reset = ("--reset-offsets", "--group", flow.group, "--topic", flow.topic, "--to-offset", "8")
    planned = [[flow.group, flow.topic, "0", "8"], [flow.group, flow.topic, "1", "0"]]
    # the first two lines say that partition 1 ends before
    assert tool.rows(*reset, "--dry-run")[-2:] == planned
    if not alters_offsets(flow.target):
        out, _ = tool.run(*reset, "--execute", code=1)
        assert out.startswith("\nError: UNSUPPORTED_VERSION")
        assert "Kafka 4.2 or later" in out
        return
    assert tool.rows(*reset, "--execute")[-2:] == planned
    assert [(one["start_offset"], one["lag"]) for one in tool.partitions(flow.group)] == [(8, 2), (0, 0)]
    assert [record.offset for record in poll_until(flow.member(), 2)] == [8, 9]


@pytest.mark.behaviour("tools")
def test_a_group_with_a_member_is_described_and_left_alone(tool: Tool, flow: Flow) -> None:
    """kafka-share-groups shows a group that is consumed, its member and its lag; it neither resets nor deletes it."""
    flow.produce(b"1", b"2", b"3")
    member = flow.member(client_id="worker")
    poll_until(member, 3)
    member.commit_sync()
    start, lag = ("0", "0") if flow.target.speaks_v2 else ("0", "-")
    offsets = tool.rows("--describe", "--group", flow.group)
    assert [flow.group, flow.topic, "0", start, lag] in offsets
    assert [flow.group, flow.topic, "1", "-", "-"] in offsets
    [row] = tool.rows("--describe", "--group", flow.group, "--members", "--verbose")
    assert (row[0], row[3], row[4], row[6]) == (flow.group, "worker", "2", f"{flow.topic}:0,1")
    [row] = tool.rows("--describe", "--group", flow.group, "--state")
    assert (row[0], row[-2:]) == (flow.group, ["Stable", "1"])
    assert [flow.group, "Stable"] in tool.rows("--list", "--state", "stable")
    _, err = tool.run("--reset-offsets", "--group", flow.group, "--all-topics", "--to-latest", "--execute", code=1)
    assert "has 1 member(s): stop them first" in err
    out, _ = tool.run("--delete", "--group", flow.group, code=1)
    assert f"* '{flow.group}': group '{flow.group}' has 1 member(s)" in out
    [row] = tool.rows("--delete-offsets", "--group", flow.group, "--topic", flow.topic, code=1)[-1:]
    assert row[:2] == [flow.topic, "Error:"]


@pytest.mark.behaviour("administration")
def test_a_group_is_deleted_when_its_member_has_left(tool: Tool, flow: Flow, unique: Names) -> None:
    """kafka-share-groups deletes offsets, then the group, and warns while a leader has them in memory."""
    flow.produce(b"1")
    member = flow.member()
    poll_until(member, 1)
    member.commit_sync()
    member.unsubscribe()
    wait_until(lambda: tool.rows("--describe", "--group", flow.group, "--state")[0][-1] == "0")
    out, err = tool.run("--delete-offsets", "--group", flow.group, "--topic", flow.topic, "--topic", "nope", code=1)
    assert f"{flow.topic} Successful\n" in out.replace("      ", " ").replace("  ", " ")
    assert f"leaders still have {flow.topic}-0" in err
    member.close(timeout_ms=10_000)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in out
    assert "has no offsets" in tool.run("--describe", "--group", flow.group)[0]
    missing = unique("missing")
    out, err = tool.run("--delete", "--group", flow.group, "--group", missing, code=1)
    assert f"Deleted share groups: '{flow.group}'" in out
    assert f"* '{missing}': there is no share group of this id" in out
    assert err == ""
    assert flow.group not in tool.run("--list")[0].split()


@pytest.mark.behaviour("administration")
def test_configs_of_a_group_are_set_shown_and_unset(tool: Tool, unique: Names) -> None:
    """kafka-share-groups sets configs of a group that does not exist, all or none of them, and unsets them again."""
    group, name = unique("g"), "share.record.lock.duration.ms"
    both = f"{name}=16000,share.auto.offset.reset=earliest"
    out, _ = tool.run("--alter", "--group", group, "--add-config", both)
    assert out == f"Group {group}: {name} is 16000 now; share.auto.offset.reset is earliest now.\n"
    out, _ = tool.run("--describe", "--group", group, "--configs")
    lines = out.splitlines()
    assert lines[0] == f"Dynamic configs for group {group} are:"
    shown = "sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:share.auto.offset.reset=earliest"
    assert lines[1].startswith(f"  share.auto.offset.reset=earliest {shown}")
    assert lines[2].startswith(f"  {name}=16000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{name}=16000")
    out, _ = tool.run("--alter", "--group", group, "--add-config", f"{name}=1,share.isolation.level=nonsense", code=1)
    assert "INVALID_CONFIG" in out
    tool.run("--alter", "--group", group, "--delete-config", f"{name},share.auto.offset.reset")
    assert tool.run("--describe", "--group", group, "--configs")[0].count("\n") == 1


@pytest.mark.behaviour("administration")
def test_groups_of_every_coordinator_are_shown(
    cluster: Target, cluster_admin: Admin, unique: Names, capsys: pytest.CaptureFixture[str]
) -> None:
    """kafka-share-groups lists and describes groups of a cluster of three nodes, whichever coordinates them."""
    tool, topic, groups = Tool(cluster, capsys), unique("t"), sorted(unique(f"g{number}") for number in range(6))
    cluster_admin.create_topic(topic)
    if not alters_offsets(cluster):
        pytest.skip("Kafka 4.1 creates no group this way")
    for group in groups:
        tool.run("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
    assert set(groups) <= set(tool.run("--list")[0].split())
    chosen = [argument for group in groups for argument in ("--group", group)]
    out, _ = tool.run("--describe", *chosen)
    assert [line.split() for line in out.splitlines() if line.startswith("g")] == [
        [g, topic, "0", "0", "0"] for g in groups
    ]
    tool.run("--delete", *chosen)
    assert not set(groups) & set(tool.run("--list")[0].split())
