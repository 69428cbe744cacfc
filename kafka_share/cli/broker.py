"""`kafka-share-broker`: the reference broker as a process, until SIGTERM or SIGINT.

A thin front on `ReferenceBroker`. It exits 0 when a signal stopped it, and 1 when it cannot listen.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import click

from kafka_share._version import VERSION
from kafka_share.broker.configs.broker_settings import EMBEDDED_DEFAULTS
from kafka_share.broker.configs.config_keys import BROKER_KEYS
from kafka_share.broker.durability.fsync_policy import DEFAULT_INTERVAL_MS, FSYNC_CLASSES, MAX_INTERVAL_MS
from kafka_share.broker.kafka_version import BEHAVIOURS, DEFAULT_VERSION
from kafka_share.broker.limits import LIMIT_MEANINGS, limits_of
from kafka_share.broker.reference_broker import MAX_NODES, ReferenceBroker
from kafka_share.cli.broker_page.server import page_server
from kafka_share.cli.broker_security import security_options, take_security
from kafka_share.cli.control.server import control_server
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.front import tool_command
from kafka_share.cli.http_server import HttpServer
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.options import debug_option, property_option

_LOOPBACK: Final = "127.0.0.1"
_EPILOG: Final = """\b
Examples:
  kafka-share-broker
      one node on a free port of 127.0.0.1; prints "bootstrap: 127.0.0.1:PORT" when it is ready
  kafka-share-broker --port 9092 --nodes 3
      three nodes on the ports 9092 to 9094
  kafka-share-broker --config group.share.record.lock.duration.ms=60000 --config auto.create.topics.enable=false
  kafka-share-broker --port 9092 --data-dir /var/lib/kafka-share
      keeps records, settings and users in the directory, and syncs them before it answers
  kafka-share-broker --security-protocol SASL_SSL --users users.txt --acls acls.txt --super-user User:admin
      clients need a password, and may do what an ACL allows; what verifies the broker's certificate is printed
  kafka-share-broker --ready-file /tmp/broker.ready
      writes the bootstrap line into the file, for scripts that wait for it
  kafka-share-broker --metrics-port 9400
      serves its metrics, by Kafka's names, on http://127.0.0.1:9400/metrics

Without --data-dir everything is kept in memory and gone when the broker stops.

\b
Exit codes:
  0  a signal stopped it
  1  it cannot listen, or something failed
  2  an option is wrong
"""


@tool_command("kafka-share-broker", no_args_is_help=False, epilog=_EPILOG)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--advertised-host", metavar="ADDRESS", help="Address that clients are told to connect to.  [default: the --host]"
)
@click.option(
    "--port",
    metavar="PORT",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port of the first node, the next nodes get the next ports; 0 takes free ones.",
)
@click.option(
    "--nodes", metavar="N", default=1, show_default=True, type=click.IntRange(1, MAX_NODES), help="Number of nodes."
)
@property_option("--config", "A broker setting; may be repeated.", "settings", known=BROKER_KEYS)
@property_option(
    "--limit",
    "NAME=NUMBER: what clients may cost, where Kafka has no setting for it; may be repeated. "
    f"Names: {', '.join(LIMIT_MEANINGS)}.",
    known=LIMIT_MEANINGS,
)
@security_options
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything in this directory, and begin with what is there.  [default: in memory]",
)
@property_option(
    "--fsync",
    f"CLASS=always or CLASS=interval: whether answers to requests wait for fsync. Classes: {', '.join(FSYNC_CLASSES)}. "
    "May be repeated.  [default: all=always, produce-acks-1=interval]",
    known=FSYNC_CLASSES,
)
@click.option(
    "--fsync-interval-ms",
    metavar="MS",
    default=DEFAULT_INTERVAL_MS,
    show_default=True,
    type=click.IntRange(1, MAX_INTERVAL_MS),
    help="What no answer waits for is synced this often.",
)
@click.option(
    "--share-version",
    metavar="N",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2),
    help="Level of the feature share.version; 0 switches share groups off, 2 (Kafka 4.4) has dead-letter queues.",
)
@click.option(
    "--kafka-version",
    default=DEFAULT_VERSION,
    show_default=True,
    type=click.Choice(list(BEHAVIOURS)),
    help="The version of Kafka to behave like, where versions differ.",
)
@click.option("--list-config", is_flag=True, help="Print the settings that --config takes, and exit.")
@click.option("--ready-file", type=click.Path(dir_okay=False, path_type=Path), help="Written when clients may connect.")
@click.option(
    "--metrics-port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Serve metrics for Prometheus on this port; 0 takes a free one.  [default: none are served]",
)
@click.option(
    "--ui",
    "ui_port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Serve a page for a browser on this port of 127.0.0.1; 0 takes a free one.  [default: none is served]",
)
@click.option(
    "--control",
    "control_port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Serve a control port for tests in any language on this port of 127.0.0.1; 0 takes a free one.  "
    "[default: none is served]",
)
@click.option(
    "--metrics-host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to serve the metrics on."
)
@click.option(
    "--log-level",
    default="WARNING",
    show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    help="What is logged to standard error.",
)
@debug_option
@click.option("--log-requests", is_flag=True, help="Log every request that arrives to standard error.")
@click.version_option(VERSION, prog_name="kafka-share-broker")
def main(
    list_config: bool,
    ready_file: Path | None,
    ui_port: int | None,
    control_port: int | None,
    metrics_port: int | None,
    metrics_host: str,
    log_level: str,
    debug: bool,
    log_requests: bool,
    settings: Mapping[str, str],
    **given: Any,
) -> None:
    """Run a Kafka broker with share groups, for tests and demos."""
    if list_config:
        _list_config(given["kafka_version"])
        return
    config = {name: value.strip() for name, value in settings.items()}
    with logging_to_stderr(debug, logging.getLevelNamesMapping()[log_level]):
        if log_requests:
            logging.getLogger("kafka_share.broker.request_log").setLevel(logging.DEBUG)
        security, limits = take_security(given), limits_of(given.pop("limit"))
        broker = ReferenceBroker(config=config, keep_requests=False, security=security, limits=limits, **given)
        asyncio.run(_serve(broker, ready_file, metrics_host, metrics_port, ui_port, control_port))


def _list_config(kafka_version: str) -> None:
    absent = BEHAVIOURS[kafka_version].absent_config_keys
    for key in [key for key in BROKER_KEYS.values() if key.name not in absent]:
        click.echo(f"{key.name} (default {EMBEDDED_DEFAULTS.get(key.name, key.default)})")


async def _serve(
    broker: ReferenceBroker,
    ready_file: Path | None,
    metrics_host: str,
    metrics_port: int | None,
    ui_port: int | None,
    control_port: int | None,
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with broker, AsyncExitStack() as served:
        metrics = page = control = None
        if control_port is not None:
            server = control_server(broker, _LOOPBACK, control_port)
            control = f"{await _listening(server, _LOOPBACK, control_port, served)}/"
        if ui_port is not None:
            page = f"{await _listening(page_server(broker, _LOOPBACK, ui_port), _LOOPBACK, ui_port, served)}/"
        if metrics_port is not None:
            metrics = await _serve_metrics(broker, metrics_host, metrics_port, served)
        line = f"bootstrap: {broker.bootstrap_servers}"
        if ready_file is not None:
            _write_whole(ready_file, f"{line}\n")
        click.echo(line)
        authority = broker.client_settings().get("ssl_cafile")
        if authority is not None:
            click.echo(f"authority: {authority}")
        if metrics is not None:
            click.echo(f"metrics: {metrics}")
        if page is not None:
            click.echo(f"page: {page}")
        if control is not None:
            click.echo(f"control: {control}")
        await stopped.wait()


async def _serve_metrics(broker: ReferenceBroker, host: str, port: int, served: AsyncExitStack) -> str:
    """Serve them until `served` ends; returns their address. Raises `ToolFailedError`."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise ToolFailedError("--metrics-port needs prometheus-client: pip install 'kafka-share[prometheus]'")
    from kafka_share.cli.broker_metrics import metrics_server

    return f"{await _listening(metrics_server(broker, host, port), host, port, served)}/metrics"


async def _listening(server: HttpServer, host: str, port: int, served: AsyncExitStack) -> str:
    try:
        await served.enter_async_context(server)
    except OSError as error:
        raise ToolFailedError(f"it cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from error
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.port}"


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody who waits for it sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
