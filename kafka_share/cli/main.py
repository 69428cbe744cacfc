"""The `kafka-share` command: a group of sub-commands, each in a module of its own.

The console script calls `main`. Nothing is decided here.
"""

from __future__ import annotations

import click

from kafka_share._version import VERSION
from kafka_share.cli.demo import demo


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, prog_name="kafka-share")
def cli() -> None:
    """Share groups of Apache Kafka (Queues for Kafka, KIP-932) from the command line."""


cli.add_command(demo)


def main() -> None:
    """Entry point of the console script `kafka-share`."""
    cli(prog_name="kafka-share")


if __name__ == "__main__":
    main()
