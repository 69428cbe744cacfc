"""`kafka-share worker`: the options. The handler is imported when they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafka_share.cli.front import tool_command
from kafka_share.cli.options import connection_options, debug_option, group_option

_EPILOG: Final = """\b
Examples:
  kafka-share worker jobs:handle --topic orders --group order-workers --bootstrap-server localhost:9092
  kafka-share worker shop.jobs:handle --topic orders --topic refunds --group g --value json --concurrency 50

\b
SIGTERM and Ctrl-C drain: nothing more is fetched, records that have not begun are released, handlers may end.
A second one waits for no handler.

\b
Exit codes:
  0  the worker was stopped, and all its handlers have ended
  1  an error that lasts has ended it, or handlers were left behind
  2  an option is wrong or missing, or the handler cannot be imported
"""


@tool_command("worker", epilog=_EPILOG)
@click.argument("handler", metavar="MODULE:HANDLER")
@click.option(
    "--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="Topic to read; may be repeated."
)
@group_option("The share group to join.")
@connection_options
@click.option(
    "--value",
    "value_format",
    type=click.Choice(["bytes", "text", "json"]),
    default="bytes",
    show_default=True,
    help="What the handler finds in record.value.",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=10, show_default=True, metavar="N",
    help="How many handlers run at a time: threads, or tasks if the handler is async def.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N",
    help="Run a plain handler in N processes instead of threads, for work that needs the CPU.",
)  # fmt: skip
@click.option(
    "--batch", "batch_records", type=click.IntRange(1), metavar="N",
    help="Give the handler a list of up to N records.",
)  # fmt: skip
@click.option(
    "--batch-wait", "batch_wait_ms", type=click.IntRange(0), default=100, show_default=True, metavar="MS",
    help="How long the first record of a batch waits for others, in milliseconds.",
)  # fmt: skip
@click.option("--ordered-by-key", is_flag=True, help="Handle records of equal key one after another.")
@click.option(
    "--window", "window_records", type=click.IntRange(1), metavar="N",
    help="How many records may be here at a time.  [default: five, or two batches, for each handler]",
)  # fmt: skip
@click.option(
    "--window-bytes", type=click.IntRange(1), metavar="N",
    help="Fetch nothing more while what came with the records that are here has N bytes.",
)  # fmt: skip
@click.option(
    "--max-lease", "max_lease_ms", type=click.IntRange(1), default=900_000, show_default=True, metavar="MS",
    help="How long the lock of a record is renewed, in milliseconds.",
)  # fmt: skip
@click.option(
    "--expected", "expected_ms", type=click.IntRange(1), metavar="MS",
    help="Log a WARNING when a handler takes longer than this, in milliseconds.",
)  # fmt: skip
@click.option(
    "--dead-letters", "has_dead_letters", is_flag=True,
    help="Write a record that has had its last delivery to dlq.TOPIC, instead of rejecting it.",
)  # fmt: skip
@click.option(
    "--drain-timeout", "drain_timeout_ms", type=click.IntRange(0), default=25_000, show_default=True, metavar="MS",
    help="How long handlers may run on when the worker stops, in milliseconds.",
)  # fmt: skip
@click.option(
    "--probe-port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Answer GET /healthz on this port, for a liveness probe; 0 takes a free one.  [default: no probe]",
)  # fmt: skip
@click.option(
    "--probe-listen", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Address to answer on; 0.0.0.0 for all.",
)  # fmt: skip
@debug_option
def worker(
    handler: str,
    topics: tuple[str, ...],
    group: str,
    bootstrap_server: str,
    command_config: Path | None,
    value_format: str,
    concurrency: int,
    processes: int | None,
    batch_records: int | None,
    batch_wait_ms: int,
    ordered_by_key: bool,
    window_records: int | None,
    window_bytes: int | None,
    max_lease_ms: int,
    expected_ms: int | None,
    has_dead_letters: bool,
    drain_timeout_ms: int,
    probe_port: int | None,
    probe_listen: str,
    debug: bool,
) -> bool:
    """Call a function for each record of a share group, until SIGTERM or Ctrl-C.

    HANDLER is a function of MODULE, plain or async def; the working directory is searched first. Its record is accepted
    when it returns, and tried again or released when it raises. A program with ShareWorker can say more about failures.
    """
    from kafka_share.cli.clients import client_settings
    from kafka_share.cli.worker.running import load_handler, run
    from kafka_share.config import ShareConsumerConfig
    from kafka_share.worker import DeadLetter

    settings = {
        **client_settings(bootstrap_server, command_config, ShareConsumerConfig),
        "group_id": group,
        "concurrency": concurrency,
        "processes": processes,
        "batch_records": batch_records,
        "batch_wait_ms": batch_wait_ms,
        "ordered_by": "key" if ordered_by_key else None,
        "window_records": window_records,
        "window_bytes": window_bytes,
        "max_lease_ms": max_lease_ms,
        "expected_ms": expected_ms,
        "drain_timeout_ms": drain_timeout_ms,
    }
    if has_dead_letters:
        settings["on_last_delivery"] = DeadLetter()
    probe = (probe_listen, probe_port)
    return run(topics, load_handler(handler), value_format, settings, probe=probe, debug=debug)
