"""`kafka-share-groups` and Kafka 4.3.1's own tool, run on the same cluster: every table, stream and exit code."""

from __future__ import annotations

import pytest
from cli.groups_situation import Block, comparable, forget_unlisted, reference, run, situation

LISTING = "--bootstrap-server HOST:PORT --list"
OUR_REMARK = "Warning: (message)"
"""Above an empty table of --all-topics, where Kafka's own tool says nothing more."""
NOT_COORDINATOR, COORDINATOR_LOADING = 16, 14
DESCRIBE_GROUP, DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUPS = 77, 90, 91, 92, 42


@pytest.mark.behaviour("tools")
@pytest.mark.timeout(180)  # more than fifty commands, each of which waits twice for its coordinator
@pytest.mark.parametrize("habit", ["apache", "ours"])
def test_every_command_prints_what_kafkas_own_tool_prints(habit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """kafka-share-groups prints what Kafka's own tool prints, byte for byte, and can have its exit codes.

    In one of the two runs each command meets a coordinator that has just moved, and one that is still loading.
    """
    with situation(nodes=3) as broker:
        group = broker.share_group("g-active")
        assert group is not None
        blocks = reference(group)
        last_list = max(number for number, block in enumerate(blocks) if block.command.startswith(LISTING))
        for number, block in enumerate(blocks):
            if habit == "ours" and block.command == "--help":
                continue  # help is no error then, and goes to standard output
            arguments = block.arguments(broker.bootstrap_servers)
            if habit == "apache":
                arguments.append("--apache-exit-codes")
            else:
                for api in (DESCRIBE_GROUP, DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUPS):
                    broker.faults.fail(api, NOT_COORDINATOR, client_id="kafka-share-groups")
                    broker.faults.fail(api, COORDINATOR_LOADING, client_id="kafka-share-groups")
            result = run(capsys, *arguments)
            broker.faults.clear()
            expected = block.apache_code if habit == "apache" else block.our_code
            assert_same(block, comparable(result.stdout), comparable(result.stderr), habit)
            assert result.code == expected, f"{block.command}: {result}"
            if number == last_list:
                forget_unlisted(broker)


def assert_same(block: Block, stdout: str, stderr: str, habit: str) -> None:
    assert stdout == comparable(block.stdout), f"{habit}: {block.command}\n{stdout}\n-- expected --\n{block.stdout}"
    stderr = "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith(OUR_REMARK))
    assert stderr.replace("\n\n", "\n").replace("Error: ", "") == block.stderr, f"{habit}: {block.command}\n{stderr}"
