"""The page of behaviours, made from the tests: which behaviour is shown by which test, and on what it is shown.

`python -m support.behaviours --write` (with `tests` on the path) writes docs/behaviours.md, which is not committed;
without the option it prints it. A test counts when it carries the marker `behaviour`: its argument is the part of the
page, and the first line of the test's docstring is the row. test_behaviours.py holds that each row is a sentence.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "behaviours.md"


HEADINGS: Final[Mapping[str, str]] = {
    "polling": "Subscribing and polling",
    "membership": "Joining, staying in and leaving the group",
    "share sessions": "Share sessions",
    "fetching": "Fetching and handing out records",
    "bad records": "Records that cannot be decoded",
    "transactions": "Transactions",
    "start offset": "Where a group starts",
    "implicit acknowledgement": "Implicit acknowledgement",
    "explicit acknowledgement": "Explicit acknowledgement",
    "commits": "Commits and the acknowledgement commit callback",
    "delivery counts": "Release, reject, renew and delivery counts",
    "acquisition locks": "Acquisition locks",
    "misuse and close": "Wakeup, misuse and close",
    "several members": "Several consumers and several groups",
    "topic changes": "Topics deleted, created again, enlarged",
    "broker failures": "Brokers that stop, restart or hand over",
    "security": "Authentication and authorisation",
    "broker": "The broker's side",
    "administration": "Administration",
    "tools": "Command-line tools",
    "metrics": "Metrics",
}
"""The argument of the marker `behaviour` -> the part of the page that the test's row stands in."""


@attrs.frozen
class NotShown:
    """A behaviour that no test shows: what it is, and in one sentence why."""

    behaviour: str
    reason: str


NOT_SHOWN: Final = (
    NotShown(
        "With a rack-aware assignor in the broker, members get the partitions that are led in their rack.",
        "The assignor is Java code inside Apache's broker, and neither a client nor the reference broker has one.",
    ),
    NotShown(
        "Acknowledgements are part of a transaction, and count only when it is committed.",
        "No release of Apache Kafka has them: they are only proposed, in a draft (KIP-1289).",
    ),
    NotShown(
        "The broker measures acknowledgements by type, share fetches, and locked records.",
        "Apache's broker tells these numbers over JMX only, which no Kafka client speaks.",
    ),
    NotShown(
        "An empty pattern in the heartbeat of an ordinary consumer means no pattern, not one that matches everything.",
        "It concerns groups of the new consumer protocol, which the reference broker does not offer.",
    ),
    NotShown(
        "On a broker that looks for ended locks only every few seconds, late acknowledgements are accepted.",
        "Apache's broker and the reference broker end each lock by a timer of its own, so that there is no such delay.",
    ),
)
"""What belongs to the page, and no test shows."""

ON_REFERENCE: Final = frozenset({"bootstrap", "kafka", "cluster", "probed_kafka", "broker_process"})
"""Fixtures of which the reference broker is a target; others are known by `ReferenceBroker(` in their source."""
ON_REAL: Final = frozenset({"kafka", "cluster", "probed_kafka", "real_version", "real_kafka"})
"""Fixtures of which the versions of Apache Kafka that are asked for are targets."""


@attrs.define
class Shown:
    """One test function and what it shows, on what."""

    file: str
    name: str
    heading: str
    behaviour: str
    on_reference: bool = False
    on_real: bool = False
    by_foreign: bool = False


class IncompleteError(RuntimeError):
    """Modules of tests were skipped as a whole, because something that they import is not installed."""


class Collector:
    """A pytest plugin: notes every collected test that carries the marker."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Shown] = {}
        self.skipped: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        for item in items:
            assert isinstance(item, pytest.Function)
            mark = item.get_closest_marker("behaviour")
            if mark is not None:
                self._note(item, *mark.args)

    def in_order(self) -> list[Shown]:
        """What was noted, in the order of the files."""
        return sorted(self.found.values(), key=lambda shown: (shown.file, shown.name))

    def _note(self, item: pytest.Function, heading: str) -> None:
        file = item.path.relative_to(ROOT).as_posix()
        lines = (item.function.__doc__ or "").strip().splitlines()
        shown = self.found.setdefault(
            (file, item.originalname), Shown(file, item.originalname, heading, lines[0].strip() if lines else "")
        )
        fixtures = set(item.fixturenames)
        folder = file.split("/")[1]
        shown.on_real |= folder == "conformance" and bool(fixtures & ON_REAL)
        shown.on_reference |= bool(fixtures & ON_REFERENCE) or folder in ("broker", "simulation")
        shown.on_reference |= any("ReferenceBroker(" in _source(made_by) for made_by in _functions(item))
        shown.by_foreign |= any(item.get_closest_marker(name) for name in ("foreign", "go", "java"))


def _functions(item: pytest.Function) -> Iterator[Callable[..., object]]:
    """The test, the helpers that it calls by name, and its fixtures."""
    yield item.function
    for name in item.function.__code__.co_names:
        helper = item.function.__globals__.get(name)
        if inspect.isfunction(helper):
            yield helper
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield definitions[-1].func


def _source(made_by: Callable[..., object]) -> str:
    try:
        return inspect.getsource(made_by)
    except (OSError, TypeError):  # made by a library, not by these tests
        return ""


def collect() -> list[Shown]:
    """Every marked test of the project, in the order of the files."""
    collector = Collector()
    printed = io.StringIO()
    # Another pytest may run around this one: its settings of the environment are not for here.
    here = {name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST") if name in os.environ}
    try:
        with contextlib.redirect_stdout(printed):
            code = pytest.main(
                ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(ROOT / "tests")],
                plugins=[collector],
            )
    finally:
        os.environ.update(here)
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests could not be collected:\n{printed.getvalue()[-2000:]}")
    if collector.skipped:
        raise IncompleteError(f"not everything is installed that the tests need: {', '.join(collector.skipped)}")
    return collector.in_order()


def collected_by(session: pytest.Session) -> list[Shown] | None:
    """The same of a session that has collected all files of tests; None of others."""
    if set((ROOT / "tests").rglob("test_*.py")) - {item.path for item in session.items}:
        return None
    collector = Collector()
    collector.pytest_collection_modifyitems(session.items)
    return collector.in_order()


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(shown: Shown) -> str:
    test = f"[`{shown.name.removeprefix('test_')}`](../{shown.file})"
    where = " | ".join(_yes(on) for on in (shown.on_reference, shown.on_real, shown.by_foreign))
    return f"| {_cell(shown.behaviour)} | {test} | {where} |"


_PREFACE: Final = """\
# Behaviours

What a share group, its clients and its brokers do, in {count} sentences, each with the test that shows it. The page is
made from the tests by `tox run -e docs`, and not kept in the repository.

"Reference broker" means that the test runs on the bundled broker, or on the parts that it is made of. "Real Kafka"
means that it also runs on Apache Kafka with `tox run -e conformance`; the versions, and what they showed, are in
[conformance.md](conformance.md). "Foreign client" means that a client or a tool which is not ours takes part. A row
without any of the three is a test of the logic of a client or a tool alone: events in, requests out.

A few terms are used throughout. A record that a member gets is *acquired*: locked for that member. To *acknowledge* it
is to accept, release, reject or renew it, and the *outcome* is what the broker made of that. The *count* of a record is
its delivery count. A record is *finished* when it was accepted, rejected, or *archived* by the broker because it was
delivered too often. The *start* of a group is the first offset of a partition that the group has not finished. A *gap*
is an acquired offset without a record. In *explicit* mode the application acknowledges each record; in *implicit* mode
the next poll accepts what the last one returned. *record_limit* and *batch_optimized* are the two ways to acquire
records: exactly as many as asked for, or whole record batches.
"""


def page(found: Iterable[Shown]) -> str:
    """The text of docs/behaviours.md."""
    by_heading: dict[str, list[Shown]] = {heading: [] for heading in HEADINGS}
    for shown in found:
        by_heading[shown.heading].append(shown)
    lines = [_PREFACE.format(count=sum(map(len, by_heading.values()))).rstrip()]
    for heading, rows in by_heading.items():
        lines += [
            "",
            f"## {HEADINGS[heading]}",
            "",
            "| behaviour | test | reference broker | real Kafka | foreign client |",
        ]
        lines += ["|---|---|---|---|---|"]
        lines += [_row(shown) for shown in rows]
    lines += ["", "## Not shown", "", "What belongs here too, and why no test shows it.", ""]
    lines += ["| behaviour | reason |", "|---|---|"]
    lines += [f"| {_cell(missing.behaviour)} | {_cell(missing.reason)} |" for missing in NOT_SHOWN]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/behaviours.md instead of printing it")
    options = parser.parse_args()
    text = page(collect())
    if options.write:
        PAGE.write_text(text, "utf-8")
        print(f"{PAGE.relative_to(ROOT)} written")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
