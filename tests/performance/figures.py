"""From the results of single runs to the figures of the table: medians, spreads, ratios within rounds, percentiles.

Used by `page` and `plot`; computes, and prints nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final, Self

import attrs
from performance.rows import CONFLUENT, OURS, Row
from performance.runs import Result

PERCENTILES: Final = (50.0, 99.0, 99.9)


@attrs.frozen
class Spread:
    """A median, and the lowest and the highest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self | None:
        return cls(statistics.median(numbers), min(numbers), max(numbers)) if numbers else None


@attrs.frozen
class Figures:
    """Of one contestant in one row. The ratios are to confluent-kafka's figure of the same round: a rate above 1 and
    CPU below 1 are better. `latency_us`: percentile -> spread over the rounds; 99.9 is of all rounds together."""

    contestant: str
    rate: Spread
    cpu: Spread
    rss_mb: Spread
    broker_cpu: Spread | None
    rate_ratio: Spread | None
    cpu_ratio: Spread | None
    latency_us: dict[float, Spread]
    latency_ratio: Spread | None
    """Of the medians."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def figures_of(row: Row, results: Sequence[Result]) -> list[Figures]:
    """Those of a row's contestants that have run, in the row's order."""
    mine = [one for one in results if one["row"] == row.id]
    peers = {one["round"]: one for one in mine if one["contestant"] == CONFLUENT}
    found = []
    for contestant in row.contestants:
        runs = [one for one in mine if one["contestant"] == contestant]
        if runs:
            found.append(_figures(contestant, runs, peers if contestant != CONFLUENT else {}))
    return found


def _figures(contestant: str, runs: list[Result], peers: dict[int, Result]) -> Figures:
    pairs = [(one, peers[one["round"]]) for one in runs if one["round"] in peers]

    def ratio(name: str) -> Spread | None:
        return Spread.of([one[name] / peer[name] for one, peer in pairs])

    costs = [one["broker_cpu"] for one in runs if one["broker_cpu"] is not None]
    return Figures(
        contestant,
        _spread(runs, "rate"),
        _spread(runs, "cpu"),
        _spread(runs, "rss_mb"),
        Spread.of(costs),
        ratio("rate"),
        ratio("cpu"),
        _latency(runs),
        Spread.of([_median_latency(one) / _median_latency(peer) for one, peer in pairs if peer["latencies_us"]]),
    )


def _spread(runs: list[Result], name: str) -> Spread:
    spread = Spread.of([one[name] for one in runs])
    assert spread is not None
    return spread


def _median_latency(run: Result) -> float:
    return percentile(run["latencies_us"], 50)


def _latency(runs: list[Result]) -> dict[float, Spread]:
    measured: list[list[float]] = [one["latencies_us"] for one in runs if one["latencies_us"]]
    if not measured:
        return {}
    found: dict[float, Any] = {
        percent: Spread.of([percentile(values, percent) for values in measured]) for percent in PERCENTILES
    }
    everything = percentile([value for values in measured for value in values], PERCENTILES[-1])
    return {**found, PERCENTILES[-1]: Spread(everything, everything, everything)}


def is_behind(row: Row, figures: Sequence[Figures]) -> bool:
    """Whether our blocking client costs more, or is slower, than one of the others in this row."""
    by_name = {one.contestant: one for one in figures}
    ours = by_name.get(OURS)
    peers = [one for one in figures if not one.contestant.startswith(OURS)]
    if ours is None or not peers:
        return False
    if row.is_latency:
        return any(
            ours.latency_us[percent].median > peer.latency_us[percent].median for peer in peers for percent in (50, 99)
        )
    return any(ours.cpu.median > peer.cpu.median or ours.rate.median < peer.rate.median for peer in peers)
