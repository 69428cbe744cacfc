"""How `kafka-share demo` looks: a progress bar, or plain lines where the output is no terminal; then the tables.

Called by `kafka_share.cli.demo.command`. Writes no control characters to anything but a terminal.
"""

from __future__ import annotations

import time
from typing import IO, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kafka_share.cli.demo.ledger import Ledger, Settlement
from kafka_share.cli.demo.report import Report
from kafka_share.harmless import harmless

PLAIN_LINE_EVERY_S = 1.0
_PLAIN_WIDTH = 110
_MAX_LINES = 20
_HISTOGRAM_WIDTH = 40


class View:
    """The progress of a run (the `Observer` of `kafka_share.cli.demo.job`). Use it as a context manager."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = _console(stream)
        self._progress: Progress | None = None
        self._next_line_at_s = 0.0
        self._last_line = ""
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description:<10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
            )
            self._publish_task = self._progress.add_task("publish", total=None, note="", start=False)
            self._work_task = self._progress.add_task("settle", total=None, note="", start=False)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def headline(self, text: str) -> None:
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def publishing(self, published: int, total: int) -> None:
        if self._progress is None:
            self._plain_line(f"published {published} of {total}", is_last=published == total)
            return
        if published == 0:
            self._progress.start_task(self._publish_task)
        self._progress.update(self._publish_task, completed=published, total=total)

    def working(self, ledger: Ledger) -> None:
        counts = [
            f"{sum(getattr(tally, name) for tally in ledger.workers)} {name}"
            for name in ("accepted", "rejected", "released", "redelivered")
        ]
        if self._progress is None:
            line = f"settled {ledger.settled} of {ledger.published}: {', '.join(counts)}"
            self._plain_line(line, is_last=ledger.is_complete)
            return
        note = ", ".join(counts[2:])  # the bar needs the room
        if not self._progress.tasks[self._work_task].started:
            self._progress.update(self._publish_task, total=ledger.published)
            self._progress.start_task(self._work_task)
        self._progress.update(self._work_task, completed=ledger.settled, total=ledger.published, note=note)

    def _plain_line(self, line: str, *, is_last: bool) -> None:
        now_s = time.monotonic()
        if line != self._last_line and (now_s >= self._next_line_at_s or is_last):
            self._last_line = line
            self._next_line_at_s = now_s + PLAIN_LINE_EVERY_S
            self._console.print(line, highlight=False, soft_wrap=True)


def print_report(report: Report, stream: IO[str]) -> None:
    """The tables of the result, and below them whether the check passed."""
    console = _console(stream)
    _print_table(console, "Records by worker", _workers_table(report))
    _print_table(console, "Files by the delivery that settled them", _delivery_counts_table(report))
    console.print()
    for line in _summary(report):
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print()
    if report.ok:
        console.print(Text(f"OK: each of the {report.files} files was settled exactly once.", style="bold green"))
        return
    console.print(Text(f"FAILED: {_count(len(report.problems), 'problem')}.", style="bold red"))
    for line in _shortened(report.problems):
        console.print(Text(f"  {line}"), soft_wrap=True)


def _console(stream: IO[str]) -> Console:
    console = Console(file=stream)
    return console if console.is_terminal else Console(file=stream, width=_PLAIN_WIDTH, no_color=True)


def _print_table(console: Console, title: str, table: Table) -> None:
    """The title is no part of the table: it would be wrapped to the table's width."""
    console.print()
    console.print(Text(title, style="bold"), soft_wrap=True)
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()), soft_wrap=True)


def _workers_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = ("delivered", "redelivered", "accepted", "released", "rejected", "dropped", "failed")
    table.add_column("worker")
    for column in columns:
        table.add_column(column, justify="right")
    for tally in report.workers:
        counts = (str(getattr(tally, column)) for column in columns)
        table.add_row(f"{tally.worker + 1} stopped" if tally.stopped else str(tally.worker + 1), *counts)
    table.add_row("all", *(str(report.total(column)) for column in columns), style="bold")
    return table


def _delivery_counts_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("delivery", justify="right")
    table.add_column("files", justify="right")
    table.add_column("")
    most = max(report.delivery_counts.values(), default=1)
    for count, files in report.delivery_counts.items():
        table.add_row(str(count), str(files), "#" * max(1, files * _HISTOGRAM_WIDTH // most))
    return table


def _summary(report: Report) -> list[str]:
    settled = report.settlements
    mebibytes = report.bytes_published / 2**20
    lines = [
        f"records      {report.files} published ({mebibytes:.1f} MiB)"
        + "".join(f", {count} files left out: {reason}" for reason, count in report.left_out.items()),
        f"settled      {settled.get(Settlement.ACCEPTED, 0)} accepted, {settled.get(Settlement.REJECTED, 0)} rejected, "
        f"{settled.get(Settlement.ARCHIVED, 0)} archived after {report.delivery_count_limit} deliveries",
        f"definitions  {report.definitions.functions} functions, {report.definitions.async_functions} async functions, "
        f"{report.definitions.classes} classes",
        f"throughput   {report.files_per_second:.0f} files/s, {report.mebibytes_per_second:.1f} MiB/s "
        f"in {report.seconds:.1f} s from the first delivery to the last settlement",
        f"seed         {report.seed}",
    ]
    if report.rejected_files:
        reasons = ", ".join(f"{reason} {count}" for reason, count in report.reject_reasons.items())
        lines.append(f"rejected     {reasons}")
        lines += [f"  {name}" for name in _shortened(report.rejected_files)]
    return lines


def _shortened(lines: tuple[str, ...]) -> list[str]:
    shown = [harmless(line) for line in lines[:_MAX_LINES]]
    if len(lines) > _MAX_LINES:
        shown.append(f"… and {len(lines) - _MAX_LINES} more (all with --format json)")
    return shown


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
