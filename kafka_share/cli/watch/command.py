"""`kafka-share watch`: the options."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafka_share.cli.front import tool_command
from kafka_share.cli.options import connection_options, debug_option, format_option, group_option, timeout_option

_EPILOG: Final = """\b
Examples:
  kafka-share watch --group order-workers --bootstrap-server localhost:9092
  kafka-share watch --group order-workers --bootstrap-server localhost:9092 --interval 10000 >> watch.log
  kafka-share watch --group order-workers --bootstrap-server localhost:9092 --count 1 --format json

\b
Exit codes:
  0  the asked number of looks was taken, or q or Ctrl-C ended it
  1  the last look failed
  2  an option is wrong or missing
"""


@tool_command("watch", epilog=_EPILOG)
@group_option("The share group to watch.")
@connection_options
@click.option(
    "--interval",
    "interval_ms",
    type=click.IntRange(100),
    default=2_000,
    show_default=True,
    metavar="MS",
    help="Time between two looks, in milliseconds.",
)
@click.option(
    "--agent-dir",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where lease agents of Spark have their folders: the option agentDir of the source.  [default: its default]",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after this many looks.  [default: never]")
@format_option("text: a live view on a terminal, else a line per look. json: an object per line.")
@timeout_option
@debug_option
def watch(
    group: str,
    bootstrap_server: str,
    command_config: Path | None,
    interval_ms: int,
    agent_dir: str | None,
    count: int | None,
    output_format: str,
    timeout_ms: int,
    debug: bool,
) -> bool:
    """Watch a share group: members, partitions, start offset, lag, records per second.

    Below it are the leases of Spark's queries on this host that read through the group, if there are any.

    A cluster that has answered once and does not answer for a while does not end it; what went wrong is shown instead.
    """
    from kafka_share.cli.clients import admin_client
    from kafka_share.cli.watch.looking import watch_group

    with admin_client("kafka-share", bootstrap_server, command_config, timeout_ms, debug) as admin:
        return watch_group(admin, group, interval_ms, count, as_json=output_format == "json", agent_dir=agent_dir or "")
