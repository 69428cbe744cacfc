"""The `kafka-share` command: a group of sub-commands, each in a module of its own.

The console script calls `main`. Nothing is decided here.
"""

from __future__ import annotations

import click

from kafka_share._version import VERSION
from kafka_share.cli.demo.command import demo
from kafka_share.cli.doctor.command import doctor
from kafka_share.cli.export_lag import export_lag
from kafka_share.cli.front import CONTEXT_SETTINGS, ToolGroup
from kafka_share.cli.watch.command import watch


@click.group(cls=ToolGroup, context_settings=CONTEXT_SETTINGS)
@click.version_option(VERSION, prog_name="kafka-share")
def cli() -> None:
    """Share groups of Apache Kafka (Queues for Kafka, KIP-932) from the command line."""


cli.add_command(demo)
cli.add_command(doctor)
cli.add_command(export_lag)
cli.add_command(watch)


def main() -> None:
    """Entry point of the console script `kafka-share`."""
    cli(prog_name="kafka-share")


if __name__ == "__main__":
    main()
