"""`kafka-share-broker`: the reference broker as a process, until SIGTERM or SIGINT.

A thin front on `ReferenceBroker`; exit codes: 0 stopped by a signal, 2 wrong arguments or settings, 1 cannot listen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_share._version import VERSION
from kafka_share.broker.configs.config_keys import BROKER_KEYS
from kafka_share.broker.kafka_version import BEHAVIOURS, DEFAULT_VERSION
from kafka_share.broker.reference_broker import EMBEDDED_DEFAULTS, MAX_NODES, ReferenceBroker
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """\b
Examples:
  kafka-share-broker
      one node on a free port of 127.0.0.1; prints "bootstrap: 127.0.0.1:PORT" when it is ready
  kafka-share-broker --port 9092 --nodes 3
      three nodes on the ports 9092 to 9094
  kafka-share-broker --config group.share.record.lock.duration.ms=60000 --config auto.create.topics.enable=false
  kafka-share-broker --ready-file /tmp/broker.ready
      writes the bootstrap line into the file, for scripts that wait for it

Everything is kept in memory and gone when the broker stops.
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}, epilog=_EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--advertised-host", help="Address that clients are told to connect to.  [default: the --host]")
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port of the first node, the next nodes get the next ports; 0 takes free ones.",
)
@click.option("--nodes", default=1, show_default=True, type=click.IntRange(1, MAX_NODES), help="Number of nodes.")
@click.option("--config", "settings", multiple=True, metavar="KEY=VALUE", help="A broker setting; may be repeated.")
@click.option(
    "--share-version",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1),
    help="Level of the feature share.version; 0 switches share groups off.",
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
    "--log-level",
    default="WARNING",
    show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    help="What is logged to standard error.",
)
@click.version_option(VERSION, prog_name="kafka-share-broker")
def main(
    host: str,
    advertised_host: str | None,
    port: int,
    nodes: int,
    settings: Sequence[str],
    share_version: int,
    kafka_version: str,
    list_config: bool,
    ready_file: Path | None,
    log_level: str,
) -> None:
    """Run a Kafka broker with share groups in memory, for tests and demos."""
    if list_config:
        absent = BEHAVIOURS[kafka_version].absent_config_keys
        for key in [key for key in BROKER_KEYS.values() if key.name not in absent]:
            click.echo(f"{key.name} (default {EMBEDDED_DEFAULTS.get(key.name, key.default)})")
        return
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        broker = ReferenceBroker(
            nodes,
            host,
            port,
            _parse_settings(settings),
            advertised_host=advertised_host,
            share_version=share_version,
            kafka_version=kafka_version,
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    try:
        asyncio.run(_serve(broker, ready_file))
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--config takes KEY=VALUE, not {setting!r}")
        parsed[name.strip()] = value.strip()
    return parsed


async def _serve(broker: ReferenceBroker, ready_file: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with broker:
        line = f"bootstrap: {broker.bootstrap_servers}"
        if ready_file is not None:
            _write_whole(ready_file, f"{line}\n")
        click.echo(line)
        await stopped.wait()


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody who waits for it sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
