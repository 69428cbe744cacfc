"""`kafka-share export-lag`: the options."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

import click

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.front import tool_command
from kafka_share.cli.options import connection_options, debug_option, timeout_option

_EPILOG: Final = """\b
Examples:
  kafka-share export-lag --bootstrap-server localhost:9092 --port 9400
  kafka-share export-lag --bootstrap-server localhost:9092 --group order-workers --listen 0.0.0.0

\b
Metrics:
  kafka_share_group_lag{group,topic,partition}           records that the group is not through with
  kafka_share_group_start_offset{group,topic,partition}  first offset that is not finished, as stored
  kafka_share_group_members{group}                       members of the group
  kafka_share_group_state{group,state}                   1 for the state that the group has, 0 for the others
  kafka_share_group_up{group}                            1 if the group could be described, else 0
  kafka_share_cluster_up                                 1 if the cluster could be asked, else 0
It answers /metrics, and /healthz as long as it runs.
Brokers tell lag and start offset of a partition from the first stored acknowledgement on; Kafka 4.1 tells no lag.
"""


@tool_command("export-lag", epilog=_EPILOG)
@connection_options
@click.option(
    "--group",
    "groups",
    metavar="ID",
    multiple=True,
    help="Only this group; may be repeated.  [default: all share groups]",
)
@click.option(
    "--listen", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to serve on; 0.0.0.0: all."
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=9400,
    show_default=True,
    help="0 takes a free port.",
)
@timeout_option
@debug_option
def export_lag(
    bootstrap_server: str,
    command_config: Path | None,
    groups: tuple[str, ...],
    listen: str,
    port: int,
    timeout_ms: int,
    debug: bool,
) -> None:
    """Serve lag, start offsets and members of share groups as Prometheus metrics, until Ctrl-C."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise ToolFailedError("it needs prometheus-client: pip install 'kafka-share[prometheus]'")
    from kafka_share.cli.clients import admin_client
    from kafka_share.cli.export_lag.exporter import serve

    connection = ("kafka-share", bootstrap_server, command_config, timeout_ms, debug)
    with admin_client(*connection, must_answer=False) as admin:  # a cluster that is down is a metric
        serve(admin, groups, listen, port)
