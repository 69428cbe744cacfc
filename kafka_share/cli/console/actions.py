"""What `kafka-share-console` does with its options: print a group's records, or write lines into a topic.

`command` calls `print_records` or `write_lines` with the options as click has parsed them.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.clients import FIRST_ANSWER_MS, client_settings, first_answer, require_topic
from kafka_share.cli.command_config import read_properties
from kafka_share.cli.console.consuming import Consumption, Record
from kafka_share.cli.console.formatting import PROPERTIES, Formatter
from kafka_share.cli.console.lines import JsonLines, Parse, TextLines
from kafka_share.cli.console.producing import produce
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.foreign import client_settings as client_settings_of_kafka_python
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_document
from kafka_share.cli.topics import create_topic
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.records import AcknowledgeType

_NAME: Final = "kafka-share-console"
_CONNECTING_TIMEOUT_MS: Final = 30_000
_LEAST_TIMEOUT_MS: Final = 5_000
"""A short --timeout-ms is about records; a cluster gets this long at least to answer."""


def write_lines(bootstrap_server: str, command_config: Path | None, debug: bool, given: Mapping[str, Any]) -> None:
    """Each line of standard input becomes a record; the number of them goes to standard error."""
    parse = _parser(given)
    settings = {
        "client_id": _NAME,
        **client_settings(bootstrap_server, command_config, ShareAdminConfig, given["command_property"]),
    }
    topic = given["topic"]
    with logging_to_stderr(debug, logging.WARNING, stack_traces=False):
        _look_for_topic(settings, topic, _CONNECTING_TIMEOUT_MS, create=given["create_topic"])
        count = produce(sys.stdin.buffer, topic, parse, settings, _CONNECTING_TIMEOUT_MS, _prompt())
    click.echo(f"{count} record{'' if count == 1 else 's'} written", err=True)


def print_records(bootstrap_server: str, command_config: Path | None, debug: bool, given: Mapping[str, Any]) -> None:
    """Until enough records came, none came for too long, or Ctrl-C; their number goes to standard error.

    Raises what says that the cluster or the topic is not there, at the start and when none came for too long.
    """
    write = _writer(given)
    settings = {
        "client_id": _NAME,
        "allow_auto_create_topics": False,
        **client_settings(bootstrap_server, command_config, ShareConsumerConfig, given["command_property"]),
        "group_id": given["group"],
        "share_acknowledgement_mode": "explicit",
    }
    properties, patience_ms = given["command_property"], _patience_ms(given["timeout_ms"])
    of_admin = {
        "client_id": _NAME,
        **client_settings(bootstrap_server, command_config, ShareAdminConfig, properties, warn=False),
    }
    with logging_to_stderr(debug, logging.WARNING, stack_traces=False):
        _look_for_topic(of_admin, given["topic"], patience_ms)
        if given["from_beginning"]:
            with KafkaShareAdmin(**{"default_api_timeout_ms": patience_ms, **of_admin}) as admin:
                admin.ensure_group_config(given["group"], {"share.auto.offset.reset": "earliest"})
        if not _consume(settings, write, given):
            _look_for_topic(of_admin, given["topic"], patience_ms)
    if given["enable_systest_events"]:
        print_document({"timestamp": time.time_ns() // 1_000_000, "name": "shutdown_complete"})


def _consume(settings: Mapping[str, Any], write: Callable[[Record], None], given: Mapping[str, Any]) -> bool:
    """Returns whether it was enough; False if none came for too long."""
    processed = [0]

    def count() -> None:
        processed[0] += 1

    try:
        consumer: KafkaShareConsumer[bytes | None, bytes | None]
        with KafkaShareConsumer(given["topic"], **settings) as consumer:
            return Consumption(
                consumer=consumer,
                write=write,
                kind=_kind(given),
                max_messages=given["max_messages"],
                timeout_ms=given["timeout_ms"],
                reject_on_error=given["reject_message_on_error"],
            ).run(count)
    except KeyboardInterrupt:
        return True  # how a reader without an end is ended; what was printed has been acknowledged
    finally:
        click.echo(f"{processed[0]} record{'' if processed[0] == 1 else 's'} processed", err=True)


def _patience_ms(timeout_ms: int | None) -> int:
    return _CONNECTING_TIMEOUT_MS if timeout_ms is None else max(_LEAST_TIMEOUT_MS, timeout_ms)


def _look_for_topic(settings: Mapping[str, Any], topic: str, timeout_ms: int, *, create: bool | None = None) -> None:
    """Raises what keeps the cluster from being asked, and `ToolFailedError` if the topic is not there.

    `create`: whether it is made then; None: it cannot be.
    """
    limit_ms = settings.get("default_api_timeout_ms", min(FIRST_ANSWER_MS, timeout_ms))
    with KafkaShareAdmin(**{"default_api_timeout_ms": timeout_ms, **settings}) as admin:
        first_answer(admin, settings["bootstrap_servers"], limit_ms)
        try:
            require_topic(admin, topic)
        except ToolFailedError as error:
            if create is None:
                raise
            if not create:
                raise ToolFailedError(f"{error} (--create-topic)", code=error.code) from None
        else:
            return
    create_topic(client_settings_of_kafka_python(settings, timeout_ms), topic)


def _prompt() -> Callable[[], None]:
    """Someone who types sees when the next line is awaited."""
    if not sys.stdin.isatty():
        return lambda: None
    return lambda: click.echo(">", nl=False, err=True)


def _parser(given: Mapping[str, Any]) -> Parse:
    headers = tuple((name, value.encode()) for name, value in given["header"])
    if given["output_format"] == "json":
        return JsonLines(headers)
    separator, marker = given["key_separator"], given["null_marker"]
    return TextLines(
        separator.encode() if separator else None, marker.encode() if marker is not None else None, headers
    )


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
    if not given["has_output"]:
        return lambda record: None
    as_json, on_terminal = given["output_format"] == "json", sys.stdout.isatty()
    formatter = Formatter(properties, given["key_deserializer"], given["value_deserializer"], on_terminal)
    as_bytes = formatter.json if as_json else formatter.text
    # Flushed each time: a record is acknowledged only after the reader of a pipe could see it.
    return lambda record: click.echo(as_bytes(record), nl=False)
