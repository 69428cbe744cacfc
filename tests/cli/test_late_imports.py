"""What a tool's help imports: its options, and nothing that only the tool's work needs."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from support.documentation import environment

from kafka_share.cli.main import main

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s

_SCRIPT = """
import json, sys
before = set(sys.modules)
from {module} import main
try:
    main({arguments}, prog_name="tool")
except SystemExit as end:
    assert end.code == 0, end.code
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
"""

AT_WORK = {"asyncio", "javaproperties", "kafka", "prometheus_client", "rich", "ssl"}
OURS_AT_WORK = ("admin", "application", "broker", "consumer", "core", "network", "protocol")


def imported(module: str, *arguments: str) -> set[str]:
    """What a new process has imported when it has shown a tool's help."""
    script = _SCRIPT.format(module=module, arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True, timeout=60
    )
    assert "Usage: tool" in done.stdout
    return set(json.loads(done.stderr))


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("kafka_share.cli.groups.command", ["--help"]),
        ("kafka_share.cli.console.command", ["--help"]),
        ("kafka_share.cli.perf.command", ["--help"]),
        ("kafka_share.cli.main", ["--help"]),
        *[("kafka_share.cli.main", [name, "--help"]) for name in sorted(main.sub_commands) if name != "broker"],
        ("kafka_share.cli.main", ["dlq", "replay", "--help"]),
    ],
)
def test_the_help_of_a_tool_imports_no_client_and_no_broker(module: str, arguments: list[str]) -> None:
    found = imported(module, *arguments)
    assert AT_WORK & {name.partition(".")[0] for name in found} == set()
    assert [name for name in found if name.startswith(tuple(f"kafka_share.{room}" for room in OURS_AT_WORK))] == []
    if arguments == ["--help"]:
        others = {sub.place.partition(":")[0] for sub in main.sub_commands.values()} - {module}
        assert found.isdisjoint(others), "the list of sub-commands is made without them"


def test_the_help_of_the_broker_needs_no_client() -> None:
    """It names the versions that the broker knows, so it is the one that imports the broker."""
    found = imported("kafka_share.cli.broker", "--help")
    assert {"javaproperties", "rich"} & found == set()
    assert not [name for name in found if name.startswith(("kafka_share.core", "kafka_share.application"))]


@pytest.mark.parametrize("name", sorted(main.sub_commands))
def test_every_sub_command_is_where_the_list_has_it(name: str) -> None:
    context = click.Context(main)
    command = main.get_command(context, name)
    assert command is not None
    assert command.name in (name, f"kafka-share-{name}")
    assert main.get_command(context, f"{name}x") is None
    [line] = [line for line in main.get_help(context).splitlines() if line.strip().startswith(f"{name} ")]
    assert line.strip().endswith(main.sub_commands[name].summary), "a summary fits into its line"
