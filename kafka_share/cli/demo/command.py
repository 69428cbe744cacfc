"""`kafka-share demo`: the options. The rest of `kafka_share.cli.demo` is imported when they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from kafka_share.cli.front import tool_command
from kafka_share.cli.options import debug_option, format_option

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_EPILOG: Final = """\b
Examples:
  kafka-share demo
  kafka-share demo --limit 200 --workers 8 --partitions 3
  kafka-share demo --input ~/src/project --flaky 0.2 --seed 7
  kafka-share demo --format json | jq .delivery_counts
  kafka-share demo --bootstrap-server localhost:9092

\b
Exit codes:
  0    every file was settled exactly once
  1    the check failed, or the job could not be done
  2    an option is wrong
  130  interrupted by Ctrl-C
"""


def _codec(_: click.Context, parameter: click.Parameter, name: str) -> str:
    from kafka_share.cli.demo.cluster import missing_package

    package = missing_package(name)
    if package is not None:
        raise click.BadParameter(f"kafka-python's producer needs the package {package} for {name}", param=parameter)
    return name


def _servers(_: click.Context, parameter: click.Parameter, servers: str | None) -> str | None:
    if servers is not None:
        from kafka_share.config import ShareAdminConfig
        from kafka_share.errors import ConfigurationError

        try:
            ShareAdminConfig.from_mapping({"bootstrap_servers": servers})
        except ConfigurationError as error:
            raise click.BadParameter(str(error), param=parameter) from None
    return servers


@tool_command("demo", no_args_is_help=False, epilog=_EPILOG)
@click.option(
    "--input",
    "root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory whose *.py files are the input.  [default: the standard library of this Python]",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="At most this many files, evenly spread.  [default: all]"
)
@click.option(
    "--workers", metavar="N", type=click.IntRange(1, 64), default=4, show_default=True, help="How many share consumers."
)
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="How many the topic has.",
)
@click.option(
    "--codec",
    type=click.Choice(_CODECS),
    default="gzip",
    show_default=True,
    callback=_codec,
    help="Compression of the published records.",
)
@click.option(
    "--flaky",
    metavar="P",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Probability that a delivery meets a transient error and is released.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0),
    help="What the transient errors are drawn from.  [default: a new one, shown]",
)
@click.option(
    "--stop-worker/--no-stop-worker",
    default=None,
    help="Stop a worker in the middle, while it holds records.  [default: yes, with more than one worker]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=120,
    show_default=True,
    help="How long the job may take, in seconds.",
)
@click.option(
    "--bootstrap-server",
    callback=_servers,
    metavar="HOST:PORT[,…]",
    help="Use this Kafka cluster (4.1 or later) instead of an embedded broker.",
)
@click.option("--keep-topic", is_flag=True, help="With --bootstrap-server: do not remove topic and group at the end.")
@format_option("Of the result. json: one document on standard output, progress on standard error.")
@debug_option
def demo(debug: bool, output_format: str, **options: Any) -> bool:
    """Parse Python source files, shared among a pool of workers.

    Publishes the files as records, and lets share consumers parse each one and count its definitions. Files that do
    not parse are rejected, transient errors are released and delivered again, and so are the records of a worker that
    is stopped in the middle. At the end it checks that every file was settled exactly once.
    """
    if options["stop_worker"] and options["workers"] == 1:
        raise click.UsageError("--stop-worker needs at least two workers: nobody would be left to do the work.")
    if options["keep_topic"] and options["bootstrap_server"] is None:
        raise click.UsageError("--keep-topic needs --bootstrap-server: the embedded broker ends with the run.")
    from kafka_share.cli.demo.running import run_demo

    return run_demo(debug, as_json=output_format == "json", **options)
