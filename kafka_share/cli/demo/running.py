"""`kafka-share demo` from its options to the result on the screen; starts the embedded broker if no other is given.

`command` calls `run_demo`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kafka_share.broker import ReferenceBroker
from kafka_share.cli.demo.job import JobSettings, run_job
from kafka_share.cli.demo.sources import Sources, standard_library
from kafka_share.cli.demo.view import View, print_report
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_document


def run_demo(
    debug: bool,
    *,
    as_json: bool,
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
) -> bool:
    """Show the progress and the result; returns whether every file was settled exactly once."""
    sources = Sources(root or standard_library(), limit)
    if not len(sources):
        raise click.UsageError(f"There is no *.py file below {sources.root}.")
    name = f"kafka-share-demo-{random.getrandbits(32):08x}"
    with (
        logging_to_stderr(debug, logging.WARNING, stack_traces=debug),
        _servers_to_use(bootstrap_server) as servers,
        View(sys.stderr if as_json else sys.stdout) as view,
    ):
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
        where = "" if bootstrap_server is None else f" of {bootstrap_server}"
        view.headline(f"{len(sources)} files of {sources.root} for {workers} workers on {partitions} partitions{where}")
        report = run_job(settings, sources, view)
    if as_json:
        print_document(report.as_json(), indent=2)
    else:
        print_report(report, sys.stdout)
    return report.ok


@contextlib.contextmanager
def _servers_to_use(bootstrap_server: str | None) -> Iterator[str]:
    if bootstrap_server is not None:
        yield bootstrap_server
        return
    with ReferenceBroker(nodes=1) as broker:
        yield broker.bootstrap_servers
