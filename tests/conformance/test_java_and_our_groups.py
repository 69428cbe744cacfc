"""`kafka-share-groups` and Kafka's own tool, one after the other on the same broker, print the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conformance.confluent_peer import create_topic, produce, read_from_start
from conformance.java_tools import CONFIGS, GROUPS, JavaTools, chosen_version
from support.waiting import poll_until

from kafka_share import KafkaShareConsumer
from kafka_share.cli.groups.command import main

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def tools(request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    version = chosen_version(request.config)
    if version is None:
        pytest.skip("Kafka's own tools need Java: choose their version, as in --kafka-versions 4.3.1")
    return JavaTools(version, bootstrap, tmp_path_factory.mktemp("java"))


@pytest.mark.behaviour("tools")
def test_both_tools_print_the_same_bytes(
    tools: JavaTools, bootstrap: str, unique: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Our tool for groups and Apache's print the same bytes, for every view of a group."""
    topic, group = unique("a-topic-with-quite-a-long-name"), unique("g")
    empty = unique("an-empty-group-with-quite-a-long-name")
    create_topic(bootstrap, topic, 2)
    read_from_start(bootstrap, group)
    produce(bootstrap, topic, [b"1", b"2", b"3"])

    def ours(*arguments: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main(["--bootstrap-server", bootstrap, *arguments], prog_name="kafka-share-groups")
        assert ended.value.code == 0
        return capsys.readouterr().out

    ours("--reset-offsets", "--group", empty, "--topic", topic, "--to-earliest", "--execute")
    with KafkaShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group, client_id="worker") as member:
        poll_until(member, 1)
        member.commit_sync()
        both = ("--group", group, "--group", empty)
        for view in ([], ["--offsets", "--verbose"], ["--state"], ["--state", "--verbose"]):
            assert ours("--describe", *both, *view) == tools.run(GROUPS, "--describe", *both, *view).stdout
        for view in (["--members"], ["--members", "--verbose"], ["--state", "--verbose"]):
            line = ["--describe", "--group", group, *view]
            assert ours(*line) == tools.run(GROUPS, *line).stdout
        for line in (["--list"], ["--list", "--state"]):
            their_lines = tools.run(GROUPS, *line).stdout.splitlines()
            assert sorted(ours(*line).splitlines()) == sorted(their_lines)
    reset = ["--reset-offsets", "--group", empty, "--topic", topic, "--to-latest", "--dry-run"]
    # Kafka's tool prints these rows in no fixed order
    assert sorted(ours(*reset).splitlines()) == sorted(tools.run(GROUPS, *reset).stdout.splitlines())
    configs = ours("--describe", "--group", group, "--configs")
    assert configs == tools.run(CONFIGS, "--describe", "--group", group).stdout
    delete = ["--delete-offsets", "--group", empty, "--topic", topic]
    printed = ours(*delete)
    ours("--reset-offsets", "--group", empty, "--topic", topic, "--to-earliest", "--execute")
    assert printed == tools.run(GROUPS, *delete).stdout
