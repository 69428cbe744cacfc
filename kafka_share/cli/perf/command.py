"""`kafka-share-perf`: the options. The console script calls `main`.

The options are those of Kafka's own performance tool for share consumers; `--apache-columns`, `--acknowledge`,
`--max-poll-records` and `--format` are ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from kafka_share._version import VERSION
from kafka_share.cli.exit_codes import APACHE, OURS
from kafka_share.cli.front import (
    behaviour_options,
    client_settings,
    connection_options,
    logging_to_stderr,
    property_option,
    tool_command,
)
from kafka_share.cli.perf.date_format import DEFAULT_PATTERN, DateFormat
from kafka_share.cli.perf.report import Report
from kafka_share.cli.perf.running import Consumer, Run
from kafka_share.config import ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer

_CLIENT_ID: Final = "perf-share-consumer-client"
_COMMIT_TIMEOUT_MS: Final = 10_000
_SETTINGS: Final = {
    "group": "group_id",
    "fetch_size": "fetch_max_bytes",
    "socket_buffer_size": "receive_buffer_bytes",
    "max_poll_records": "max_poll_records",
    "acknowledge": "share_acknowledgement_mode",
}
"""Option -> the setting of the client that it is."""
_TOO_FEW: Final = (
    "fewer records came than the {wanted} that were asked for: there was none for {timeout_ms} ms. If more were to "
    "come, raise --timeout; a new group starts at the end of the topic unless its share.auto.offset.reset is earliest."
)
_NO_ANSWER: Final = (
    "no broker has answered within {timeout_ms} ms: is --bootstrap-server right, does it run, are the security "
    "settings those of its listener? --debug shows the attempts."
)

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
@click.option("--topic", required=True, help="The topic to read.")
@click.option("--group", default="perf-share-consumer", show_default=True, help="The share group to read as.")
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
    "--threads", type=click.IntRange(1, 1_000), default=1, show_default=True, help="How many consumers, a thread each."
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(1, 2**31 - 1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="End after so long without a record.",
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
@property_option(
    "--command-property", "NAME=VALUE", "A setting of the client; wins over --command-config. May be repeated."
)
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
    help="How many records a poll returns at most, but for whole batches.",
)
@click.option("--apache-columns", is_flag=True, help="Only the columns of Kafka's own tool.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one document per row on standard output, everything else on standard error.",
)
@behaviour_options
@click.version_option(VERSION, prog_name="kafka-share-perf")
def main(bootstrap_server: str, command_config: Path | None, apache_exit_codes: bool, debug: bool, **given: Any) -> int:
    """Read a topic as members of a share group; print how fast, how old the records were, and what it cost."""
    codes = APACHE if apache_exit_codes else OURS
    report = Report(
        date_format=given["date_format"],
        apache_only=given["apache_columns"],
        as_json=given["output_format"] == "json",
    )
    wanted_records = _wanted_records(given, report)
    settings = _settings(bootstrap_server, command_config, given)
    with logging_to_stderr(debug), contextlib.ExitStack() as stack:
        consumers: list[Consumer] = []
        client_ids = _client_ids(settings.pop("client_id"), given["threads"])
        for client_id in client_ids:
            consumer: Consumer = KafkaShareConsumer(given["topic"], **settings, client_id=client_id)
            consumers.append(stack.enter_context(consumer))
        run = Run(
            consumers=consumers,
            wanted_records=wanted_records,
            timeout_ms=given["timeout_ms"],
            acknowledges_each=settings["share_acknowledgement_mode"] == "explicit",
            report_every_ms=given["reporting_interval"] if given["show_detailed_stats"] else None,
            on_interval=report.interval,
        )
        if not given["hide_header"]:
            report.header()
        interrupted = False
        try:
            run.run()
        except KeyboardInterrupt:
            interrupted = True
        if given["show_consumer_stats"]:
            report.consumers(run.of_each(), client_ids)
        if run.timed_out:
            reason = _TOO_FEW if any(map(_has_been_answered, consumers)) else _NO_ANSWER
            report.remark(reason.format(wanted=wanted_records, timeout_ms=given["timeout_ms"]))
        report.total(run.total(), complete=not (interrupted or run.timed_out))
        if given["print_metrics"]:
            for client_id, consumer in zip(client_ids, consumers, strict=True):
                report.metrics(client_id, consumer.metrics())
        _accept_the_last(consumers)
    if interrupted:
        return codes.interrupted
    return codes.failed if run.timed_out else codes.ok


def _wanted_records(given: dict[str, Any], report: Report) -> int:
    wanted, old = given["num_records"], given["messages"]
    if (wanted is None) == (old is None):
        raise click.UsageError("say with --num-records after how many records to end.")
    if old is not None:
        report.remark("--messages is an old name; use --num-records.")
    found: int = old if wanted is None else wanted
    return found


def _settings(bootstrap_server: str, command_config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """An option that was given wins over a property, and a property over the default of an option."""
    context = click.get_current_context()
    options = {setting: given[option] for option, setting in _SETTINGS.items()}
    chosen = {
        setting: given[option]
        for option, setting in _SETTINGS.items()
        if context.get_parameter_source(option) is not ParameterSource.DEFAULT
    }
    properties = client_settings(bootstrap_server, command_config, ShareConsumerConfig, given["command_property"])
    return {"client_id": _CLIENT_ID, **options, **properties, **chosen}


def _client_ids(name: str, threads: int) -> list[str]:
    return [name] if threads == 1 else [f"{name}-{number}" for number in range(1, threads + 1)]


def _has_been_answered(consumer: Consumer) -> bool:
    return consumer.metrics()["consumer-metrics"]["response-total"] > 0


def _accept_the_last(consumers: Sequence[Consumer]) -> None:
    """What was counted is accepted, too; no poll follows that would do it."""
    for consumer in consumers:
        for partition, error in consumer.commit_sync(timeout_ms=_COMMIT_TIMEOUT_MS).items():
            if error is not None:
                click.echo(f"Warning: records of {partition} could not be accepted: {error}", err=True)


if __name__ == "__main__":
    main(prog_name="kafka-share-perf")
