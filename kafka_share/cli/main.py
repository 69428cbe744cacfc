"""The `kafka-share` command: its sub-commands by name, each in a module that is imported when it is called.

The console script calls `main`. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from kafka_share._version import VERSION
from kafka_share.cli.front import SubCommand, tool_group

_SUB_COMMANDS: Final[Mapping[str, SubCommand]] = MappingProxyType(
    {
        "broker": SubCommand("kafka_share.cli.broker:main", "Run the reference broker."),
        "console": SubCommand(
            "kafka_share.cli.console.command:main", "Read a topic as a member of a share group; write lines into it."
        ),
        "demo": SubCommand(
            "kafka_share.cli.demo.command:demo", "Parse Python source files, shared among a pool of workers."
        ),
        "dlq": SubCommand("kafka_share.cli.dlq.command:dlq", "List, show and replay dead letters."),
        "doctor": SubCommand(
            "kafka_share.cli.doctor.command:doctor", "Name the reason why a share group gets no records."
        ),
        "export-lag": SubCommand(
            "kafka_share.cli.export_lag.command:export_lag", "Serve lag and members of groups as Prometheus metrics."
        ),
        "groups": SubCommand(
            "kafka_share.cli.groups.command:main", "List, describe, reset, delete and configure share groups."
        ),
        "perf": SubCommand("kafka_share.cli.perf.command:main", "Measure how fast a share group can be read."),
        "watch": SubCommand(
            "kafka_share.cli.watch.command:watch", "Watch a share group: members, partitions, lag, rate."
        ),
        "worker": SubCommand("kafka_share.cli.worker.command:worker", "Call a function for each record of a group."),
    }
)


_EPILOG: Final = """\b
kafka-share-groups, kafka-share-console, kafka-share-perf and kafka-share-broker are the commands of these names.
KAFKA_BOOTSTRAP_SERVERS stands in for --bootstrap-server, except in demo: that one would create a topic there.
kafka-share COMMAND --help shows options, examples and exit codes.
"""


def _show_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from kafka_share import native

        how = "compiled" if native.WHY_PURE is None else f"not compiled: {native.WHY_PURE}"
        click.echo(f"kafka-share, version {VERSION}, {how}")
        context.exit()


@tool_group("kafka-share", _SUB_COMMANDS, epilog=_EPILOG)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
    help="Show the version, whether it is compiled, and exit.",
)  # fmt: skip
def main() -> None:
    """Share groups of Apache Kafka (Queues for Kafka, KIP-932) from the command line."""


if __name__ == "__main__":
    main(prog_name="kafka-share")
