"""`kafka-share-console`: the options. The console script calls `main`.

The options are those of Kafka's own console share consumer; `--produce`, `--from-beginning` and `--format` are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kafka_share._version import VERSION
from kafka_share.cli.console.deserializers import DESERIALIZERS, Deserializer, deserializer_of
from kafka_share.cli.console.formatting import PROPERTIES
from kafka_share.cli.front import tool_command
from kafka_share.cli.options import (
    completing,
    connection_options,
    exit_options,
    format_option,
    group_option,
    property_option,
)

_NO_OUTPUT: Final = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
_FORMATTERS: Final = ("default", "org.apache.kafka.tools.consumer.DefaultMessageFormatter", _NO_OUTPUT)

_EPILOG: Final = """\b
Examples:
  kafka-share-console --bootstrap-server localhost:9092 --topic orders
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --group order-workers \\
      --max-messages 10 --formatter-property print.key=true --formatter-property print.delivery=true
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --from-beginning --format json --timeout-ms 5000
  kafka-share-console --bootstrap-server localhost:9092 --topic orders --group order-workers --reject --max-messages 1
  echo "42:paid" | kafka-share-console --bootstrap-server localhost:9092 --topic orders --produce --key-separator :
  echo '{"key": "42", "value": null, "headers": [["by", "me"]]}' | \\
      kafka-share-console --bootstrap-server localhost:9092 --topic orders --produce --format json

\b
Exit codes:
  0  enough was read, nothing came for --timeout-ms, or Ctrl-C ended it
  1  something failed: the cluster or the topic is not there, a line is no record, …
  2  an option is wrong or missing; nothing was done
"""


def _deserializer(_: click.Context, parameter: click.Parameter, name: str) -> Deserializer:
    found = deserializer_of(name)
    if found is None:
        raise click.BadParameter(f"there is no '{name}'; use one of {', '.join(DESERIALIZERS)}", param=parameter)
    return found


def _headers(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = [value.partition("=") for value in values]
    for name, equals, _rest in pairs:
        if not equals or not name:
            raise click.BadParameter(f"{name!r} is not NAME=VALUE", param=parameter)
    return tuple((name, value) for name, _equals, value in pairs)


_OF_PRODUCING: Final = ("key_separator", "null_marker", "header", "create_topic")
_OF_READING: Final = (
    "max_messages", "timeout_ms", "release", "reject", "reject_message_on_error", "from_beginning",
)  # fmt: skip


def _check(given: Mapping[str, Any]) -> None:
    """Raises `click.UsageError` for options that mean nothing together."""
    producing = given["is_producing"]
    for name in _OF_READING if producing else _OF_PRODUCING:
        if given[name] is not None and given[name] is not False and given[name] != ():
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} {'does not go with' if producing else 'goes with'} --produce.")
    if given["key_separator"] == "":
        raise click.UsageError("--key-separator is empty; leave it out to write values only.")
    for name in ("key_separator", "null_marker"):
        if given[name] is not None and given["output_format"] == "json":
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --format json, which has fields.")


@tool_command("kafka-share-console", epilog=_EPILOG)
@connection_options
@click.option("--topic", metavar="TOPIC", required=True, help="The topic to read, or with --produce to write.")
@group_option("The share group to read as.", default="console-share-consumer")
@click.option("--max-messages", type=click.IntRange(0), metavar="N", help="End after N records.  [default: never]")
@click.option(
    "--timeout-ms", type=click.IntRange(0), metavar="MS", help="End after this time without a record, in milliseconds."
)
@click.option("--release", is_flag=True, help="Give each record back after printing it, instead of accepting it.")
@click.option("--reject", is_flag=True, help="Reject each record after printing it, instead of accepting it.")
@click.option("--reject-message-on-error", is_flag=True, help="Reject a record that cannot be printed, and go on.")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="First set the group's share.auto.offset.reset to earliest: a group that has read nothing yet gets "
    "the records that are already there.",
)
@click.option(
    "--formatter",
    type=click.Choice(_FORMATTERS),
    default="default",
    show_default=True,
    help="How records are printed; Java's class names are known for the default and for no output.",
)
@property_option("--formatter-property", f"One of {', '.join(PROPERTIES)}. May be repeated.", known=PROPERTIES)
@property_option("--property", "Old name of --formatter-property.", known=PROPERTIES)
@click.option(
    "--formatter-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Property file with formatter properties.",
)
@click.option(
    "--key-deserializer",
    metavar="NAME",
    default="string",
    callback=_deserializer,
    show_default=True,
    shell_complete=completing(DESERIALIZERS),
    help="As for values.",
)
@click.option(
    "--value-deserializer",
    metavar="NAME",
    default="string",
    callback=_deserializer,
    show_default=True,
    shell_complete=completing(DESERIALIZERS),
    help=f"One of {', '.join(DESERIALIZERS)}, or the Java class of the same name.",
)
@property_option("--command-property", "A setting of the client. May be repeated.")
@click.option("--produce", "is_producing", is_flag=True, help="Write each line of standard input as a record instead.")
@click.option("--key-separator", metavar="TEXT", help="With --produce: each line is a key, this, and a value.")
@click.option("--null-marker", metavar="TEXT", help="With --produce: a key or value of this text is written as null.")
@click.option(
    "--header", multiple=True, metavar="NAME=VALUE", callback=_headers, help="With --produce: a header of each record."
)
@click.option("--create-topic", is_flag=True, help="With --produce: create the topic first, if it is not there.")
@click.option("--enable-systest-events", is_flag=True, help="Print a JSON line at the end, for Kafka's system tests.")
@format_option("json: an object per line with every field of the record; with --produce, such lines are read.")
@exit_options
@click.version_option(VERSION, prog_name="kafka-share-console")
def main(bootstrap_server: str, command_config: Path | None, debug: bool, **given: Any) -> None:
    """Read a topic as a member of a share group and print its records; or write lines into it."""
    _check(given)
    if given["release"] and given["reject"]:
        raise click.UsageError("--release and --reject exclude each other: a record has one acknowledgement.")
    from kafka_share.cli.console.actions import print_records, write_lines

    given["has_output"] = given.pop("formatter") != _NO_OUTPUT
    act = write_lines if given["is_producing"] else print_records
    act(bootstrap_server, command_config, debug, given)


if __name__ == "__main__":
    main(prog_name="kafka-share-console")
