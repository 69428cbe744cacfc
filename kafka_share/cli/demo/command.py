"""`kafka-share demo`: checks the options, starts the embedded broker if none is given, shows progress and result.

The job itself is in `kafka_share.cli.demo`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kafka_share.cli.demo.cluster import CODECS, missing_package
from kafka_share.cli.demo.job import JobSettings, run_job
from kafka_share.cli.demo.report import Report
from kafka_share.cli.demo.sources import Sources, standard_library
from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError

EXIT_CHECK_FAILED = 1
EXIT_INTERRUPTED = 130

_EPILOG = """\b
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


def _codec(_: click.Context, __: click.Parameter, value: str) -> str:
    package = missing_package(value)
    if package is not None:
        raise click.BadParameter(f"kafka-python's producer needs the package {package} for {value}")
    return value


def _servers(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            ShareConsumerConfig.from_mapping({"bootstrap_servers": value, "group_id": "demo"})
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from None
    return value


@click.command(epilog=_EPILOG)
@click.option(
    "--input",
    "root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory whose *.py files are the input.  [default: the standard library of this Python]",
)
@click.option("--limit", type=click.IntRange(1), help="At most this many files, evenly spread.  [default: all]")
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True, help="Share consumers.")
@click.option("--partitions", type=click.IntRange(1, 64), default=2, show_default=True, help="Of the topic.")
@click.option(
    "--codec",
    type=click.Choice(CODECS),
    default="gzip",
    show_default=True,
    callback=_codec,
    help="Compression of the published records.",
)
@click.option(
    "--flaky",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Probability that a delivery meets a transient error and is released.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the transient errors.  [default: a new one, shown]")
@click.option(
    "--stop-worker/--no-stop-worker",
    default=None,
    help="Stop a worker in the middle, while it holds records.  [default: yes, with more than one worker]",
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120, show_default=True, help="In seconds.")
@click.option(
    "--bootstrap-server",
    callback=_servers,
    metavar="HOST:PORT[,…]",
    help="Use this Kafka cluster (4.1 or later) instead of an embedded broker.",
)
@click.option("--keep-topic", is_flag=True, help="With --bootstrap-server: do not remove topic and group at the end.")
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Result."
)
@click.option("--debug", is_flag=True, help="Log to standard error, and show stack traces.")
@click.pass_context
def demo(context: click.Context, /, output_format: str, debug: bool, **options: Any) -> None:
    """Parse Python source files, shared among a pool of workers.

    Publishes the files as records, and lets share consumers parse each one and count its definitions. Files that do
    not parse are rejected, transient errors are released and delivered again, and so are the records of a worker that
    is stopped in the middle. At the end it checks that every file was settled exactly once.
    """
    try:
        with _logging(debug):
            report = _run(output_format, **options)
    except KeyboardInterrupt:
        click.echo("Interrupted: the workers have been stopped.", err=True)
        context.exit(EXIT_INTERRUPTED)
    except click.ClickException:
        raise
    except Exception as error:
        if debug:
            raise
        click.echo(f"Error: {error} (--debug shows where)", err=True)
        context.exit(EXIT_CHECK_FAILED)
    if not report.ok:
        context.exit(EXIT_CHECK_FAILED)


class _WithoutStackTrace(logging.Formatter):
    """Keeps a log record to its message; the record itself stays whole for other handlers."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.exc_info = record.exc_text = record.stack_info = None
        return super().format(record)


@contextlib.contextmanager
def _logging(debug: bool) -> Iterator[None]:
    """Warnings go to standard error, with `debug` everything; afterwards logging is as it was."""
    root, of_kafka_python = logging.getLogger(), logging.getLogger("kafka")
    levels = root.level, of_kafka_python.level
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter if debug else _WithoutStackTrace
    handler.setFormatter(formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    if not debug:
        # It reports each attempt to connect as an error, although what matters is raised in the end.
        of_kafka_python.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        of_kafka_python.setLevel(levels[1])


def _run(
    output_format: str,
    *,
    root: Path | None,
    limit: int | None,
    workers: int,
    partitions: int,
    codec: str,
    flaky: float,
    seed: int | None,
    stop_worker: bool | None,
    timeout: float,
    bootstrap_server: str | None,
    keep_topic: bool,
) -> Report:
    if stop_worker and workers == 1:
        raise click.UsageError("--stop-worker needs at least two workers: nobody would be left to do the work.")
    if keep_topic and bootstrap_server is None:
        raise click.UsageError("--keep-topic needs --bootstrap-server: the embedded broker ends with the run.")
    sources = Sources(root or standard_library(), limit)
    if not len(sources):
        raise click.UsageError(f"There is no *.py file below {sources.root}.")
    from kafka_share.cli.demo.view import View, print_report

    name = f"kafka-share-demo-{random.getrandbits(32):08x}"
    with _servers_to_use(bootstrap_server) as servers:
        settings = JobSettings(
            bootstrap_servers=servers,
            topic=name,
            group=name,
            workers=workers,
            partitions=partitions,
            codec=codec,
            flaky=flaky,
            seed=random.getrandbits(32) if seed is None else seed,
            stop_worker=workers > 1 if stop_worker is None else stop_worker,
            timeout_s=timeout,
            remove_topic=bootstrap_server is not None and not keep_topic,
        )
        with View(sys.stdout if output_format == "text" else sys.stderr) as view:
            view.headline(f"{len(sources)} files of {sources.root} for {workers} workers on {partitions} partitions")
            report = run_job(settings, sources, view)
    if output_format == "json":
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        print_report(report, sys.stdout)
    return report


@contextlib.contextmanager
def _servers_to_use(bootstrap_server: str | None) -> Iterator[str]:
    if bootstrap_server is not None:
        yield bootstrap_server
        return
    from kafka_share.broker import ReferenceBroker

    with ReferenceBroker(nodes=1) as broker:
        yield broker.bootstrap_servers
