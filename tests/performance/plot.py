"""Draws the plot of docs/benchmarks.md, with matplotlib, which only `tox run -e bench` installs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from performance.figures import Figures, figures_of
from performance.rows import BROKERS, CONFLUENT, JAVA, NAMES, OURS, RATE, ROWS
from performance.runs import Result

_COLOURS: Final = {OURS: "#d1495b", CONFLUENT: "#30638e", JAVA: "#edae49"}


def draw(results: Sequence[Result], file: Path) -> None:
    """One group of bars per row, for both figures, on scales that grow by factors."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "benchmarks"  # the same results make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    rows = [
        (row.title, {one.contestant: one for one in figures_of(row, results) if one.contestant in _COLOURS})
        for row in ROWS
        if row.part in (RATE, BROKERS)
    ]
    rows = [(title, figures) for title, figures in reversed(rows) if len(figures) > 1]
    figure, panels = pyplot.subplots(1, 2, figsize=(13, 0.42 * len(rows) + 1.6), sharey=True)
    _bars(panels[0], rows, "cpu", "CPU seconds per million records (less is better)")
    _bars(panels[1], rows, "rate", "records per second (more is better)")
    panels[0].set_yticks(range(len(rows)), [title for title, _ in rows])
    panels[0].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def _bars(panel: Any, rows: list[tuple[str, dict[str, Figures]]], name: str, label: str) -> None:
    height = 0.8 / len(_COLOURS)
    for turn, (contestant, colour) in enumerate(_COLOURS.items()):
        found = [
            (at, getattr(figures[contestant], name)) for at, (_, figures) in enumerate(rows) if contestant in figures
        ]
        panel.barh(
            [at + 0.4 - (turn + 0.5) * height for at, _ in found],
            [spread.median for _, spread in found],
            height,
            xerr=[
                [spread.median - spread.low for _, spread in found],
                [spread.high - spread.median for _, spread in found],
            ],
            color=colour,
            label=NAMES[contestant],
            error_kw={"linewidth": 0.8},
        )
    panel.set_xscale("log")
    panel.margins(y=0.01)
    panel.set_xlabel(label)
    panel.grid(axis="x", alpha=0.3)
