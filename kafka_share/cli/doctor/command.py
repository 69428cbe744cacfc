"""`kafka-share doctor`: the options."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafka_share.cli.front import tool_command
from kafka_share.cli.options import connection_options, debug_option, format_option, group_option, timeout_option

_EPILOG: Final = """\b
Examples:
  kafka-share doctor --group order-workers --bootstrap-server localhost:9092
  kafka-share doctor --group order-workers --topic orders --bootstrap-server localhost:9092 --format json

\b
Exit codes:
  0  nothing was found that keeps records away
  1  a cause was found, or the cluster could not be asked
  2  an option is wrong or missing
"""


@tool_command("doctor", epilog=_EPILOG)
@group_option("The share group that gets nothing.")
@click.option(
    "--topic",
    metavar="TOPIC",
    help="The topic whose records do not arrive.  [default: all that the group's members subscribe to, or that it has "
    "offsets of]",
)
@connection_options
@click.option(
    "--observe",
    "observe_ms",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="How long at most to watch whether anything moves, in milliseconds.",
)
@format_option("json: one document with the findings.")
@timeout_option
@debug_option
def doctor(
    group: str,
    topic: str | None,
    bootstrap_server: str,
    command_config: Path | None,
    observe_ms: int,
    output_format: str,
    timeout_ms: int,
    debug: bool,
) -> bool:
    """Name the reason why a share group gets no records.

    Looks at the cluster, the group, its members and its topics, and says for each finding what to do. It changes
    nothing, joins no group and takes no record.
    """
    from kafka_share.cli.clients import admin_connection
    from kafka_share.cli.doctor.examination import examine

    connection = admin_connection("kafka-share", bootstrap_server, command_config, timeout_ms)
    return examine(connection, group, topic, observe_ms, debug, as_json=output_format == "json")
