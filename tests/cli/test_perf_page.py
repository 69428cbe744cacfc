"""What docs/command-line.md shows of `kafka-share-perf` has its columns, and numbers that belong together."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from support.documentation import ROOT, blocks_of, table_below

from kafka_share.cli.perf import rows

PAGE = ROOT / "docs" / "command-line.md"


def test_the_page_explains_every_column_in_its_order() -> None:
    """The table of columns names those of the header."""
    named = [name for cell, _ in table_below(PAGE, "| column | meaning |") for name in re.findall(r"`([^`]+)`", cell)]
    assert ", ".join(named) == rows.header(apache_only=False)


def test_the_rows_of_the_page_could_have_been_printed() -> None:
    """Each row of the example has all columns; spans and rates follow from its times and amounts."""
    blocks = [block.code for block in blocks_of(PAGE) if block.language == "console"]
    [code] = [code for code in blocks if code.startswith("$ kafka-share-perf")]
    _, header, *shown = code.splitlines()
    assert header == rows.header(apache_only=False)
    before = 0
    for line in shown:
        cells = line.removesuffix(" for share consumer 1").split(", ")
        assert len(cells) == len(header.split(", "))
        start, end = (datetime.strptime(f"{cell}Z", "%Y-%m-%d %H:%M:%S:%f%z") for cell in cells[:2])
        span_s, records = (end - start).total_seconds(), int(cells[5])
        assert int(cells[6]) == round(span_s * 1_000)
        counted = records - before if line.endswith("consumer 1") else records
        assert float(cells[4]) == pytest.approx(counted / span_s, abs=0.0001)
        assert float(cells[13]) == pytest.approx(float(cells[12]) * 1_000_000 / counted, rel=0.01)
        before = records
