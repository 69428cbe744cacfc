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
        "demo": SubCommand(
            "kafka_share.cli.demo.command:demo", "Parse Python source files, shared among a pool of workers."
        ),
        "doctor": SubCommand(
            "kafka_share.cli.doctor.command:doctor", "Name the reason why a share group gets no records of a topic."
        ),
        "export-lag": SubCommand(
            "kafka_share.cli.export_lag.command:export_lag", "Serve lag and members of groups as Prometheus metrics."
        ),
        "watch": SubCommand(
            "kafka_share.cli.watch.command:watch", "Watch a share group: members, partitions, lag, rate."
        ),
    }
)


@tool_group("kafka-share", _SUB_COMMANDS)
@click.version_option(VERSION, prog_name="kafka-share")
def main() -> None:
    """Share groups of Apache Kafka (Queues for Kafka, KIP-932) from the command line."""


if __name__ == "__main__":
    main(prog_name="kafka-share")
