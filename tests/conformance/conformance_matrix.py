"""Writes what a run has shown, scenario by broker, to docs/conformance.md.

A pytest plugin, registered when the run was given --write-matrix. A scenario is a test of `test_main_flows`; its row is
the first sentence of the test's docstring. The file is generated: change the tests, not the file.
"""

from __future__ import annotations

import datetime
import platform
from pathlib import Path
from typing import Final, cast

import pytest
from conformance.kafka_targets import REFERENCE, target_name

from kafka_share._version import VERSION

NOTE: Final = "note"
"""The property by which a test says that what it showed on this target is another thing than its row says."""

_ROW: Final = "row of the matrix"
_MODULE: Final = "test_main_flows"
_HEAD: Final = """\
# What was shown on which broker

Generated on {date} with kafka_share {version} on Python {python}; `python3 -m tox run -e conformance` does it again.
Each row is a test of `tests/conformance/test_main_flows.py`: the same code on each broker, through the public API of
`KafkaShareConsumer`; what else the test needs goes over the wire, too. The Apache Kafka brokers are the released
artifacts with their default settings, except `group.share.min.record.lock.duration.ms=1000`, which lets a test wait
until a lock ends.

"yes": the test passed. "refused": the broker is too old for it, and the test passed by showing that the consumer raises
`UnsupportedVersionError` instead of doing something else. "not counted": the test passed, and the delivery that ended
with close did not stay counted, as usual with Kafka 4.1.
"""


def note_row(item: pytest.Item) -> None:
    """Put into the test's report where in the matrix it belongs: its line in the file, its row, its column."""
    spec = getattr(item, "callspec", None)
    if item.path.stem != _MODULE or spec is None:
        return
    target = spec.params.get("kafka", spec.params.get("cluster"))
    if target is not None:
        assert isinstance(item, pytest.Function)
        title = " ".join((item.function.__doc__ or item.name).split(".")[0].split())
        item.user_properties.append((_ROW, (item.location[1], title, target)))


class ConformanceMatrix:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: dict[tuple[int, str], dict[str, str]] = {}
        self._columns: dict[str, None] = {REFERENCE: None}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cell = self._cell(report)
        for name, value in report.user_properties:
            if name == _ROW and cell is not None:
                line, title, target = cast(tuple[int, str, str], value)
                self._columns[target] = None
                self._rows.setdefault((line, title), {})[target] = cell

    @staticmethod
    def _cell(report: pytest.TestReport) -> str | None:
        if report.failed:
            return "**no**"
        if report.skipped:
            return "not run"
        if report.when != "call":
            return None
        return str(dict(report.user_properties).get(NOTE, "yes"))

    def pytest_sessionfinish(self) -> None:
        if not self._rows:
            return  # a run of other tests: what is written stays true
        self._file.write_text(self._text(), encoding="utf-8")

    def _text(self) -> str:
        columns = sorted(self._columns, key=lambda c: (c != REFERENCE, c))
        head = _HEAD.format(
            date=datetime.datetime.now(datetime.UTC).date(),
            version=VERSION,
            python=platform.python_version(),
        )
        lines = [head, _line(["scenario", *map(target_name, columns)]), _line(["---"] * (1 + len(columns)))]
        for (_, title), cells in sorted(self._rows.items()):
            lines.append(_line([title, *(cells.get(c, "not run") for c in columns)]))
        return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
