"""`kafka-share-console`: the options. The console script calls `main`.

The options are those of Kafka's own console share consumer; `--produce`, `--from-beginning` and `--format` are ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kafka_share._version import VERSION
from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.command_config import read_properties
from kafka_share.cli.console.consuming import Consumption, Record
from kafka_share.cli.console.deserializers import DESERIALIZERS, Deserializer, deserializer_of
from kafka_share.cli.console.formatting import PROPERTIES, Formatter
from kafka_share.cli.console.producing import produce
from kafka_share.cli.exit_codes import OURS
from kafka_share.cli.front import (
    behaviour_options,
    client_settings,
    connection_options,
    logging_to_stderr,
    property_option,
    tool_command,
)
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.records import AcknowledgeType

_FORMATTERS: Final = (
    "default",
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
)
_NO_OUTPUT: Final = _FORMATTERS[2]

_EPILOG: Final = """\b
Examples:
  kafka-share-console --bootstrap-server localhost:9092 --topic orders
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --group order-workers \\
      --max-messages 10 --formatter-property print.key=true --formatter-property print.delivery=true
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --from-beginning --format json --timeout-ms 5000
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --group order-workers --reject --max-messages 1
  echo "42:paid" | kafka-share-console --bootstrap-server localhost:9092 --topic orders --produce --key-separator :

\b
Exit codes:
  0  enough was read, nothing came for --timeout-ms, or Ctrl-C ended it
  1  something failed
  2  an option is wrong or missing; nothing was done
"""


def _deserializer(_: click.Context, parameter: click.Parameter, name: str) -> Deserializer:
    found = deserializer_of(name)
    if found is None:
        raise click.BadParameter(f"there is no '{name}'; use one of {', '.join(DESERIALIZERS)}", param=parameter)
    return found


@tool_command("kafka-share-console", epilog=_EPILOG)
@connection_options
@click.option("--topic", required=True, help="The topic to read, or with --produce to write.")
@click.option("--group", default="console-share-consumer", show_default=True, help="The share group to read as.")
@click.option("--max-messages", type=click.IntRange(0), metavar="N", help="End after N records.  [default: never]")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="End after so long without a record.")
@click.option("--release", is_flag=True, help="Give each record back after printing it, instead of accepting it.")
@click.option("--reject", is_flag=True, help="Reject each record after printing it, instead of accepting it.")
@click.option("--reject-message-on-error", is_flag=True, help="Reject a record that cannot be printed, and go on.")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="First set the group's share.auto.offset.reset to earliest: a group that has read nothing yet gets what is "
    "there already.",
)
@click.option(
    "--formatter",
    type=click.Choice(_FORMATTERS),
    default="default",
    show_default=True,
    help="How records are printed; Java's class names are known for the default and for no output.",
)
@property_option("--formatter-property", "NAME=VALUE", f"One of {', '.join(PROPERTIES)}. May be repeated.")
@property_option("--property", "NAME=VALUE", "Old name of --formatter-property.")
@click.option(
    "--formatter-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Property file with formatter properties.",
)
@click.option("--key-deserializer", default="string", callback=_deserializer, show_default=True, help="See below.")
@click.option(
    "--value-deserializer",
    default="string",
    callback=_deserializer,
    show_default=True,
    help=f"One of {', '.join(DESERIALIZERS)}, or the Java class of the same name.",
)
@property_option("--command-property", "NAME=VALUE", "A setting of the client. May be repeated.")
@click.option("--produce", "is_producing", is_flag=True, help="Write each line of standard input as a record instead.")
@click.option("--key-separator", metavar="TEXT", help="With --produce: a line is a key, this, and a value.")
@click.option("--enable-systest-events", is_flag=True, help="Print a JSON line at the end, for Kafka's system tests.")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@behaviour_options
@click.version_option(VERSION, prog_name="kafka-share-console")
def main(bootstrap_server: str, command_config: Path | None, apache_exit_codes: bool, debug: bool, **given: Any) -> int:
    """Read a topic as a member of a share group and print its records; or write lines into it."""
    del apache_exit_codes  # the front looks at it
    if given["release"] and given["reject"]:
        raise click.UsageError("--release and --reject exclude each other: a record has one acknowledgement.")
    if given["is_producing"]:
        settings = {
            "client_id": "kafka-share-console",
            **client_settings(bootstrap_server, command_config, ShareAdminConfig, given["command_property"]),
        }
        separator = given["key_separator"]
        with logging_to_stderr(debug):
            count = produce(sys.stdin.buffer, given["topic"], separator.encode() if separator else None, settings)
        click.echo(f"{count} records written", err=True)
        return OURS.ok
    return _consume(bootstrap_server, command_config, debug, given)


def _consume(bootstrap_server: str, command_config: Path | None, debug: bool, given: dict[str, Any]) -> int:
    write = _writer(given)
    settings = {
        "client_id": "kafka-share-console",
        **client_settings(bootstrap_server, command_config, ShareConsumerConfig, given["command_property"]),
        "group_id": given["group"],
        "share_acknowledgement_mode": "explicit",
    }
    processed = [0]

    def count() -> None:
        processed[0] += 1

    with logging_to_stderr(debug):
        if given["from_beginning"]:
            _start_at_earliest(bootstrap_server, command_config, given["group"])
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
    return OURS.ok


def _kind(given: dict[str, Any]) -> AcknowledgeType:
    if given["release"]:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if given["reject"] else AcknowledgeType.ACCEPT


def _writer(given: dict[str, Any]) -> Callable[[Record], None]:
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
    if given["formatter"] == _NO_OUTPUT:
        return lambda record: None
    # Flushed each time: a record is acknowledged only after the reader of a pipe could see it.
    return lambda record: click.echo(text(record), nl=False)


def _start_at_earliest(bootstrap_server: str, command_config: Path | None, group: str) -> None:
    settings = {
        "client_id": "kafka-share-console",
        **client_settings(bootstrap_server, command_config, ShareAdminConfig),
    }
    with KafkaShareAdmin(**settings) as admin:
        admin.ensure_group_config(group, {"share.auto.offset.reset": "earliest"})


if __name__ == "__main__":
    main(prog_name="kafka-share-console")
