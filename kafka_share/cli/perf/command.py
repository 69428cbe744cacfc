"""`kafka-share-perf`: the options. The console script calls `main`.

The options are those of Kafka's own performance tool for share consumers; `--apache-columns`, `--acknowledge`,
`--max-poll-records` and `--format` are ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from kafka_share._version import VERSION
from kafka_share.cli.front import tool_command
from kafka_share.cli.options import connection_options, exit_options, format_option, group_option, property_option
from kafka_share.cli.perf.date_format import DEFAULT_PATTERN, DateFormat

_EPILOG: Final = """\b
Examples:
  kafka-share-perf --bootstrap-server localhost:9092 --topic orders --num-records 1000000
  kafka-share-perf --bootstrap-server localhost:9092 --topic orders --num-records 1000000 --threads 2 \\
      --show-detailed-stats --reporting-interval 1000
  kafka-share-perf --bootstrap-server localhost:9092 --topic orders --num-records 10000 --format json
  kafka-share-perf --bootstrap-server localhost:9092 --topic orders --num-records 10000 --apache-columns --hide-header

\b
A group that has read nothing yet starts at the end of the topic, unless its config says otherwise:
  kafka-share-groups --bootstrap-server localhost:9092 --alter --group perf-share-consumer \\
      --add-config share.auto.offset.reset=earliest

\b
Exit codes:
  0    enough records came
  1    too few came, or something failed
  2    an option is wrong or missing; nothing was done
  130  interrupted by Ctrl-C; the row so far was printed
"""


def _date_format(_: click.Context, parameter: click.Parameter, pattern: str) -> DateFormat:
    try:
        return DateFormat(pattern)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


@tool_command("kafka-share-perf", epilog=_EPILOG)
@connection_options
@click.option("--topic", metavar="TOPIC", required=True, help="The topic to read.")
@group_option("The share group to read as.", default="perf-share-consumer")
@click.option("--num-records", type=click.IntRange(1), metavar="N", help="End after N records. Required.")
@click.option("--messages", type=click.IntRange(1), metavar="N", help="Old name of --num-records.")
@click.option(
    "--fetch-size",
    type=click.IntRange(1, 2**31 - 1),
    default=1_048_576,
    show_default=True,
    metavar="BYTES",
    help="How much a broker may answer to one fetch.",
)
@click.option(
    "--socket-buffer-size",
    type=click.IntRange(-1, 2**31 - 1),
    default=2_097_152,
    show_default=True,
    metavar="BYTES",
    help="Of the socket's receive buffer.",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="How many consumers, a thread each.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(1, 2**31 - 1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="End after this time without a record, in milliseconds.",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(1, 2**31 - 1),
    default=5_000,
    show_default=True,
    metavar="MS",
    help="With --show-detailed-stats: how often.",
)
@click.option(
    "--date-format",
    default=DEFAULT_PATTERN,
    callback=_date_format,
    show_default=True,
    metavar="PATTERN",
    help="How times are printed, in SimpleDateFormat's letters y M d H m s S.",
)
@click.option("--hide-header", is_flag=True, help="Print no header.")
@click.option("--show-detailed-stats", is_flag=True, help="A row per consumer and interval, too.")
@click.option("--show-consumer-stats", is_flag=True, help="A row per consumer, too.")
@click.option("--print-metrics", is_flag=True, help="The metrics of each consumer, too.")
@property_option("--command-property", "A setting of the client; wins over --command-config. May be repeated.")
@click.option(
    "--acknowledge",
    type=click.Choice(["implicit", "explicit"]),
    default="implicit",
    show_default=True,
    help="Whether the next poll accepts records, or a call for each.",
)
@click.option(
    "--max-poll-records",
    type=click.IntRange(1, 2**31 - 1),
    default=500,
    show_default=True,
    metavar="N",
    help="How many records a poll returns at most, except that batches stay whole.",
)
@click.option("--apache-columns", is_flag=True, help="Only the columns of Kafka's own tool.")
@format_option("json: one document per row on standard output, everything else on standard error.")
@exit_options
@click.version_option(VERSION, prog_name="kafka-share-perf")
def main(bootstrap_server: str, command_config: Path | None, debug: bool, **given: Any) -> bool:
    """Read a topic as members of a share group; print how fast, how old the records were, and what it cost."""
    from kafka_share.cli.perf.benchmark import measure

    return measure(bootstrap_server, command_config, debug, given)


if __name__ == "__main__":
    main(prog_name="kafka-share-perf")
