"""What `kafka-share-console` does with its options: print a group's records, or write lines into a topic.

`command` calls `print_records` or `write_lines` with the options as click has parsed them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from kafka_share.cli.clients import admin_client, client_settings
from kafka_share.cli.command_config import read_properties
from kafka_share.cli.console.consuming import Consumption, Record
from kafka_share.cli.console.formatting import PROPERTIES, Formatter
from kafka_share.cli.console.producing import produce
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.records import AcknowledgeType

_NAME: Final = "kafka-share-console"
_ADMIN_TIMEOUT_MS: Final = 60_000


def write_lines(bootstrap_server: str, command_config: Path | None, debug: bool, given: Mapping[str, Any]) -> None:
    """Each line of standard input becomes a record; the number of them goes to standard error."""
    settings = {
        "client_id": _NAME,
        **client_settings(bootstrap_server, command_config, ShareAdminConfig, given["command_property"]),
    }
    separator = given["key_separator"]
    with logging_to_stderr(debug):
        count = produce(sys.stdin.buffer, given["topic"], separator.encode() if separator else None, settings)
    click.echo(f"{count} records written", err=True)


def print_records(bootstrap_server: str, command_config: Path | None, debug: bool, given: Mapping[str, Any]) -> None:
    """Until enough records came, none came for too long, or Ctrl-C; their number goes to standard error."""
    write = _writer(given)
    settings = {
        "client_id": _NAME,
        **client_settings(bootstrap_server, command_config, ShareConsumerConfig, given["command_property"]),
        "group_id": given["group"],
        "share_acknowledgement_mode": "explicit",
    }
    if given["from_beginning"]:
        with admin_client(_NAME, bootstrap_server, command_config, _ADMIN_TIMEOUT_MS, debug) as admin:
            admin.ensure_group_config(given["group"], {"share.auto.offset.reset": "earliest"})
    processed = [0]

    def count() -> None:
        processed[0] += 1

    with logging_to_stderr(debug):
        try:
            consumer: KafkaShareConsumer[bytes | None, bytes | None]
            with KafkaShareConsumer(given["topic"], **settings) as consumer:
                Consumption(
                    consumer=consumer,
                    write=write,
                    kind=_kind(given),
                    max_messages=given["max_messages"],
                    timeout_ms=given["timeout_ms"],
                    reject_on_error=given["reject_message_on_error"],
                ).run(count)
        except KeyboardInterrupt:
            pass  # how a reader without an end is ended; what was printed has been acknowledged
        finally:
            click.echo(f"{processed[0]} records processed", err=True)
    if given["enable_systest_events"]:
        click.echo(json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": "shutdown_complete"}))


def _kind(given: Mapping[str, Any]) -> AcknowledgeType:
    if given["release"]:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if given["reject"] else AcknowledgeType.ACCEPT


def _writer(given: Mapping[str, Any]) -> Callable[[Record], None]:
    if given["property"]:
        click.echo("--property is an old name; use --formatter-property.")
    config = given["formatter_config"]
    properties = {
        **(read_properties(config) if config else {}),
        **given["property"],
        **given["formatter_property"],
    }
    for name in properties:
        if name not in PROPERTIES:
            raise click.UsageError(f"there is no formatter property '{name}'; there are {', '.join(PROPERTIES)}.")
    formatter = Formatter(properties, given["key_deserializer"], given["value_deserializer"])
    text = formatter.json if given["output_format"] == "json" else formatter.text
    if not given["has_output"]:
        return lambda record: None
    # Flushed each time: a record is acknowledged only after the reader of a pipe could see it.
    return lambda record: click.echo(text(record), nl=False)
