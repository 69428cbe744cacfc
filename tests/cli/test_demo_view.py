"""How `kafka-share demo` looks on a terminal: bars that fill, and tables below them."""

from __future__ import annotations

import pytest
from support.terminal import Terminal

from kafka_share.cli.demo.ledger import Acknowledged, Delivered, Ledger, OutcomeKnown, WorkerStopped
from kafka_share.cli.demo.report import Report
from kafka_share.cli.demo.view import View, print_report
from kafka_share.records import AcknowledgeType

FILES = 4


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


@pytest.fixture
def ledger() -> Ledger:
    """Four files, of which one comes twice; worker 2 was stopped in the middle."""
    ledger = Ledger(2, 5)
    for offset in range(FILES):
        ledger.publish(f"file{offset}.py", 0, offset)
    ledger.handle(Delivered(1, 0, 0, 1))
    ledger.handle(Acknowledged(1, 0, 0, AcknowledgeType.RELEASE))
    ledger.handle(OutcomeKnown(1, 0, 0, None))
    ledger.handle(WorkerStopped(1))
    for offset in range(FILES):
        ledger.handle(Delivered(0, 0, offset, 2 if offset == 0 else 1))
        ledger.handle(Acknowledged(0, 0, offset, AcknowledgeType.ACCEPT))
        ledger.handle(OutcomeKnown(0, 0, offset, None))
    return ledger


def report_of(ledger: Ledger) -> Report:
    return Report.from_ledger(ledger, bytes_published=2**20, left_out={}, seconds=2.0, seed=7)


def test_two_bars_fill_when_the_output_is_a_terminal(terminal: Terminal, ledger: Ledger) -> None:
    """A terminal shows one bar for publishing and one for settling, each full at the end."""
    with View(terminal) as view:
        view.headline("4 files [of /tmp]")
        view.publishing(0, FILES)
        view.publishing(FILES, FILES)
        view.working(ledger)
    *_, published, settled = terminal.shown
    assert published.split()[0] == "publish"
    assert f"{FILES}/{FILES}" in published
    assert settled.split()[0] == "settle"
    assert f"{FILES}/{FILES}" in settled
    assert settled.endswith("1 released, 1 redelivered")
    assert "4 files [of /tmp]" in terminal.shown


def test_the_bar_of_publishing_is_full_when_fewer_files_were_published(terminal: Terminal, ledger: Ledger) -> None:
    """What was published is the whole, once settling begins: a bar that was announced longer ends full."""
    with View(terminal) as view:
        view.publishing(0, FILES + 3)
        view.publishing(FILES, FILES + 3)
        view.working(ledger)
    assert f"{FILES}/{FILES}" in terminal.shown[-2]


def test_the_tables_and_the_verdict_are_shown_when_the_output_is_a_terminal(terminal: Terminal, ledger: Ledger) -> None:
    """A terminal shows a row per worker, the deliveries that settled files, and the verdict."""
    print_report(report_of(ledger), terminal)
    rows = [" ".join(line.split()) for line in terminal.shown]
    assert "1 4 1 4 0 0 0 0" in rows
    assert "2 stopped 1 0 0 1 0 0 0" in rows
    assert "all 5 1 4 1 0 0 0" in rows
    assert f"1 3 {'#' * 40}" in rows
    assert f"2 1 {'#' * 13}" in rows
    assert terminal.shown[-1] == "OK: each of the 4 files was settled exactly once."


def test_a_long_list_of_problems_is_cut(terminal: Terminal) -> None:
    """Twenty problems are shown, and how many more there are."""
    ledger = Ledger(1, 5)
    for offset in range(23):
        ledger.publish(f"file{offset}.py", 0, offset)
    print_report(report_of(ledger), terminal)
    problems = len(report_of(ledger).problems)
    assert f"FAILED: {problems} problems." in terminal.shown
    assert terminal.shown[-1].strip() == f"… and {problems - 20} more (all with --format json)"
