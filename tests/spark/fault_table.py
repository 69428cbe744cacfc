"""Writes the fault table of the Spark source, with what the tests have measured, into docs/spark.md.

A pytest plugin, registered when the run was given --write-fault-table. A row is the first sentence of a test's
docstring; its figures are those of the story that the test told. Between the markers the page is generated: change the
tests, not the page. Rows of a broker that this run had nothing of go.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any, Final, cast

import pytest
from spark.story import FIGURES, Figures

_ROW: Final = "row of the fault table"
_SHOWN: Final = ("driver", "data_plane", "fault")
"""The parameters of a test that its row names."""
_BEGIN: Final = "<!-- the fault table: generated -->\n"
_END: Final = "<!-- the end of the fault table -->\n"
_COLUMNS: Final = ("what fails", "broker", "records", "lost", "duplicates", "archived", "most deliveries")
_HEAD: Final = """\
Measured on {date} with Spark {spark} on Python {python}, by `tox run -e spark -- --write-fault-table` and the options
that choose an Apache Kafka. Each row is one query over one topic, {per_batch} records in each batch; where something
fails, it is the third batch, or the second for what befalls tasks.

"""


def note_row(item: pytest.Item) -> None:
    """Put into the test's report which row it is: its file, its line, its docstring's first sentence."""
    assert isinstance(item, pytest.Function)
    if item.function.__doc__:
        title = " ".join(re.split(r"\.\s", f"{item.function.__doc__} ")[0].split())
        params = getattr(getattr(item, "callspec", None), "params", {})
        shown = ", ".join(str(params[name]).replace("_", " ") for name in _SHOWN if name in params)
        title = f"{title} ({shown})" if shown else title
        item.user_properties.append((_ROW, (item.location[0], item.location[1], title)))


class FaultTable:
    """`per_batch`: records of a batch, for the text."""

    def __init__(self, page: Path, per_batch: int) -> None:
        self._page = page
        self._per_batch = per_batch
        self._rows: dict[tuple[str, int, str, str], Figures] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = dict(report.user_properties)
        if report.when == "call" and report.passed and _ROW in noted and FIGURES in noted:
            row = cast(tuple[str, int, str], noted[_ROW])
            figures = Figures(*cast(tuple[Any, ...], noted[FIGURES]))
            self._rows[*row, figures.place] = figures

    def pytest_sessionfinish(self) -> None:
        if self._rows:
            text = self._page.read_text("utf-8")
            before, _, rest = text.partition(_BEGIN)
            _, _, after = rest.partition(_END)
            self._page.write_text(before + _BEGIN + self._text() + _END + after, encoding="utf-8")

    def _text(self) -> str:
        head = _HEAD.format(
            date=datetime.datetime.now(datetime.UTC).date(),
            spark=importlib.metadata.version("pyspark"),
            python=platform.python_version(),
            per_batch=self._per_batch,
        )
        lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
        for (_, _, title, place), found in sorted(self._rows.items(), key=_by_kind):
            figures = (found.records, found.lost, found.duplicates, found.archived, found.deliveries)
            lines.append(_line([title, place, *map(str, figures)]))
        return head + "\n".join(lines) + "\n"


def _by_kind(row: tuple[tuple[str, int, str, str], Figures]) -> tuple[bool, str, int, str, bool, str]:
    """Main rows first; the reference broker before Kafka."""
    (file, line, title, place), _ = row
    return "main_rows" not in file, file, line, title, place != "reference broker", place


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
