"""Reading the pages and running what they show: for test_docs.py and test_examples.py."""

from __future__ import annotations

import os
import re
from pathlib import Path

import attrs

import kafka_share

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)


@attrs.frozen
class Block:
    """A fenced block; `mark` is the text of a comment right above it, `line` the number of lines before its code."""

    page: Path
    line: int
    language: str
    mark: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """The README, the changelog and everything below docs."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, m.start("code")), m["language"], m["mark"] or "", m["code"])
        for m in _FENCE.finditer(text)
    ]


def prose_of(page: Path) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose_of(page))


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table_below(page: Path, header: str, number: int = 0) -> list[list[str]]:
    """The rows of the table whose header line begins so; `number` counts tables with the same header."""
    lines = page.read_text("utf-8").splitlines()
    found = [index for index, line in enumerate(lines) if line.startswith(header)]
    assert len(found) > number, f"{page.name} has no such table: {header}"
    rows = []
    for line in lines[found[number] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def environment() -> dict[str, str]:
    """For a process that uses the same kafka_share as this one, and the helpers of these tests."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(kafka_share.__file__).parents[1]), str(ROOT / "tests")]),
    }
