"""`kafka-share watch GROUP`: the options, and the loop of snapshots."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.live import Live

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.admin_client import admin_client
from kafka_share.cli.exit_codes import OURS
from kafka_share.cli.front import connection_options, debug_option, sub_command, timeout_option
from kafka_share.cli.group_snapshot import take_snapshots
from kafka_share.cli.remedies import with_remedy
from kafka_share.cli.watch.rates import Rates, Reading
from kafka_share.cli.watch.view import line, screen
from kafka_share.errors import KafkaShareError

_EPILOG: Final = """\b
Examples:
  kafka-share watch order-workers --bootstrap-server localhost:9092
  kafka-share watch order-workers --bootstrap-server localhost:9092 --interval 10000 >> watch.log
  kafka-share watch order-workers --bootstrap-server localhost:9092 --count 1 --format json

\b
Exit codes:
  0  the asked number of looks was taken, or Ctrl-C ended it
  1  the last look failed
  2  an option is wrong or missing
"""


@sub_command("watch", epilog=_EPILOG)
@click.argument("group")
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
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after this many looks.  [default: never]")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: a live view on a terminal, else a line per look. json: an object per line.",
)
@timeout_option
@debug_option
def watch(
    group: str,
    bootstrap_server: str,
    command_config: Path | None,
    interval_ms: int,
    count: int | None,
    output_format: str,
    timeout_ms: int,
    debug: bool,
) -> int:
    """Watch a share group: members, partitions, start offset, lag, records per second.

    A cluster that does not answer for a while does not end it; what went wrong is shown instead.
    """
    with admin_client(bootstrap_server, command_config, timeout_ms, debug) as admin, _shower(output_format) as show:
        ok = True
        with contextlib.suppress(KeyboardInterrupt):
            for reading in _readings(admin, group, interval_ms, count):
                ok = not isinstance(reading, KafkaShareError)
                show(reading)
            return OURS.ok if ok else OURS.failed
    return OURS.ok


def _readings(
    admin: KafkaShareAdmin, group: str, interval_ms: int, count: int | None
) -> Iterator[Reading | KafkaShareError]:
    rates = Rates()
    for number in itertools.count():
        if number == count:
            return
        if number:
            time.sleep(interval_ms / 1000)
        try:
            snapshot = take_snapshots(admin, [group])[group]
        except KafkaShareError as error:
            snapshot = error
        if isinstance(snapshot, KafkaShareError):
            yield snapshot
        else:
            yield rates.read(snapshot, time.monotonic_ns() // 1_000_000)


Show = Callable[[Reading | KafkaShareError], None]


@contextlib.contextmanager
def _shower(output_format: str) -> Iterator[Show]:
    """How each look is shown, for as long as the block runs."""
    console = Console(file=sys.stdout)
    if output_format == "json":
        yield _show_json
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:

            def draw(reading: Reading | KafkaShareError) -> None:
                if isinstance(reading, KafkaShareError):
                    live.update(_failure(reading), refresh=True)
                else:
                    live.update(screen(reading, _time()), refresh=True)

            yield draw
    else:
        yield _show_line


def _show_line(reading: Reading | KafkaShareError) -> None:
    if isinstance(reading, KafkaShareError):
        click.echo(_failure(reading), err=True)
    else:
        click.echo(line(reading, _time()))


def _show_json(reading: Reading | KafkaShareError) -> None:
    if isinstance(reading, KafkaShareError):
        click.echo(json.dumps({"time": _time(), "error": str(reading)}))
        return
    snapshot = reading.snapshot
    partitions = [
        {
            "topic": one.where.topic,
            "partition": one.where.partition,
            "start_offset": one.start_offset,
            "end_offset": one.end_offset,
            "lag": one.lag,
            "rate": reading.rates.get(one.where),
            "members": list(one.member_ids),
        }
        for one in snapshot.partitions
    ]
    document = {
        "time": _time(),
        "group": snapshot.group_id,
        "state": snapshot.state.value,
        "members": len(snapshot.members),
        "lag": snapshot.lag,
        "rate": reading.rate,
        "partitions": partitions,
    }
    click.echo(json.dumps(document))


def _failure(error: KafkaShareError) -> str:
    return f"{_time()} {with_remedy(error)}"


def _time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
