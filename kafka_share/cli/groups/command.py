"""`kafka-share-groups`: the options, and which action they start. The console script calls `main`.

The options are those of Kafka's own tool, with `--format`, exit codes for scripts and the configs of groups besides.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kafka_share._version import VERSION
from kafka_share.cli.front import tool_command
from kafka_share.cli.options import (
    MAX_OFFSET,
    completing,
    connection_options,
    exit_options,
    format_option,
    timeout_option,
)

SHARE_CONFIGS: Final = (
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
)
"""Configs of share groups that the shell completes; brokers decide which there are."""

_EPILOG: Final = """\b
Examples:
  kafka-share-groups --bootstrap-server localhost:9092 --list --state
  kafka-share-groups --bootstrap-server localhost:9092 --describe --group order-workers
  kafka-share-groups --bootstrap-server localhost:9092 --describe --all-groups --format json
  kafka-share-groups --bootstrap-server localhost:9092 --describe --group order-workers --members --verbose
  kafka-share-groups --bootstrap-server localhost:9092 --reset-offsets --group order-workers \\
      --topic orders:0,1 --to-datetime 2026-01-31T13:00:00.000 --dry-run
  kafka-share-groups --bootstrap-server localhost:9092 --reset-offsets --group order-workers \\
      --all-topics --shift-by -100 --execute
  kafka-share-groups --bootstrap-server localhost:9092 --delete-offsets --group order-workers --topic orders
  kafka-share-groups --bootstrap-server localhost:9092 --delete --group order-workers
  kafka-share-groups --bootstrap-server localhost:9092 --alter --group order-workers \\
      --add-config share.auto.offset.reset=earliest --delete-config share.record.lock.duration.ms
  kafka-share-groups --bootstrap-server localhost:9092 --describe --group order-workers --configs

\b
Exit codes:
  0    everything was done
  1    the operation, or a part of it, failed
  2    an option is wrong or missing; nothing was done
  130  interrupted by Ctrl-C

\b
Shell completion (bash; zsh and fish likewise):
  eval "$(_KAFKA_SHARE_GROUPS_COMPLETE=bash_source kafka-share-groups)"
"""


def _flag(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, is_flag=True, help=text)


@tool_command("kafka-share-groups", errors_on_stdout=True, epilog=_EPILOG)
@connection_options
@_flag("--list", "Action: show the share groups.")
@_flag("--describe", "Action: show groups, by default their offsets and lag.")
@_flag("--delete", "Action: delete groups that have no members.")
@_flag("--delete-offsets", "Action: forget the offsets of whole topics; the group's reset policy applies again.")
@_flag("--reset-offsets", "Action: have a group without members start elsewhere.")
@_flag("--alter", "Action: set and unset configs of a group.")
@click.option("--group", multiple=True, metavar="ID", help="The group; --describe and --delete take several.")
@_flag("--all-groups", "With --describe and --delete: every share group.")
@click.option(
    "--topic",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="With --reset-offsets: a topic, or some partitions of it. With --delete-offsets: a topic. May be repeated.",
)
@_flag("--all-topics", "With --reset-offsets: every partition that the group has offsets for.")
@_flag("--offsets", "With --describe: start offset and lag per partition. The default.")
@_flag("--members", "With --describe: the members and what is assigned to them.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATES]",
    shell_complete=completing(("empty", "stable", "dead")),
    help="With --describe: coordinator, state, number of members. With --list: show states, and choose by them, "
    "as in empty,stable.",
)
@_flag("--configs", "With --describe: the configs that are set on the group.")
@_flag("--all", "With --configs: those that are not set on the group, too.")
@_flag("--verbose", "With --describe: more columns.")
@_flag("--to-earliest", "New offset: the oldest record that is still there.")
@_flag("--to-latest", "New offset: the end of the log.")
@_flag("--to-current", "New offset: the present one, for --export and to forget delivery counts.")
@click.option(
    "--to-datetime", metavar="TIME", help="New offset: the first record at or after this time or day (UTC, or +02:00)."
)
@click.option("--to-offset", type=click.IntRange(0, MAX_OFFSET), metavar="N", help="New offset: this one.")
@click.option("--by-duration", metavar="SPAN", help="New offset: the first record of the last 1h30m, 2d, PT1H30M, ….")
@click.option(
    "--shift-by",
    type=click.IntRange(-MAX_OFFSET, MAX_OFFSET),
    metavar="N",
    help="New offset: the present one plus N, which may be negative.",
)
@click.option(
    "--from-file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="New offsets: lines topic,partition,offset as --export prints them; - is standard input.",
)
@_flag("--export", "With --reset-offsets: print lines topic,partition,offset instead of a table.")
@_flag("--dry-run", "With --reset-offsets: only show what would be done.")
@_flag("--execute", "With --reset-offsets: do it.")
@click.option(
    "--add-config",
    multiple=True,
    metavar="NAME=VALUE[,…]",
    shell_complete=completing(SHARE_CONFIGS, "="),
    help="With --alter: set a config. May be repeated.",
)
@click.option(
    "--delete-config",
    multiple=True,
    metavar="NAME[,…]",
    shell_complete=completing(SHARE_CONFIGS),
    help="With --alter: unset a config. May be repeated.",
)
@timeout_option
@format_option("json: one document on standard output, everything else on standard error.")
@exit_options
@click.version_option(VERSION, prog_name="kafka-share-groups")
def main(bootstrap_server: str, command_config: Path | None, debug: bool, **given: Any) -> bool:
    """List, describe, reset, delete and configure share groups."""
    from kafka_share.cli.groups.actions import run
    from kafka_share.cli.groups.rules import Options

    return run(Options(**given), bootstrap_server, command_config, debug)


if __name__ == "__main__":
    main(prog_name="kafka-share-groups")
