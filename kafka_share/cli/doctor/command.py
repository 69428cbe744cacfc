"""`kafka-share doctor GROUP --topic T`: the options, and how findings are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafka_share.cli.front import sub_command
from kafka_share.cli.options import connection_options, debug_option, format_option, timeout_option

_EPILOG: Final = """\b
Examples:
  kafka-share doctor order-workers --topic orders --bootstrap-server localhost:9092
  kafka-share doctor order-workers --topic orders --bootstrap-server localhost:9092 --format json

\b
Exit codes:
  0  nothing was found that explains it
  1  a cause was found, or the cluster could not be asked
  2  an option is wrong or missing
"""


@sub_command("doctor", epilog=_EPILOG)
@click.argument("group")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic whose records do not arrive.")
@connection_options
@click.option(
    "--observe",
    "observe_ms",
    type=click.IntRange(0),
    default=3_000,
    show_default=True,
    metavar="MS",
    help="How long to watch whether anything moves, in milliseconds.",
)
@format_option("json: one document with the findings.")
@timeout_option
@debug_option
def doctor(
    group: str,
    topic: str,
    bootstrap_server: str,
    command_config: Path | None,
    observe_ms: int,
    output_format: str,
    timeout_ms: int,
    debug: bool,
) -> bool:
    """Name the reason why a share group gets no records of a topic.

    Looks at the cluster, the topic, the group and its members, and says for each finding what to do. It changes
    nothing, joins no group and takes no record.
    """
    from kafka_share.cli.clients import admin_client
    from kafka_share.cli.doctor.examination import examine

    with admin_client("kafka-share", bootstrap_server, command_config, timeout_ms, debug) as admin:
        return examine(admin, group, topic, observe_ms, as_json=output_format == "json")
