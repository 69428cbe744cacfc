"""Writes the figures down: lines while a run goes on, and the page docs/benchmarks.md from kept results.

Used by `bench`; makes text of what it is given.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from performance.figures import PERCENTILES, Figures, Spread, figures_of, is_behind
from performance.rows import (
    ALONE,
    BROKERS,
    BY_CONSUMERS,
    CAUSES,
    HANDLERS,
    LATENCY,
    NAMES,
    OURS,
    PARTS,
    RATE,
    ROWS,
    Row,
)
from performance.runs import Result
from performance.targets import KAFKA

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks.md"
PLOT: Final = PAGE.with_suffix(".svg")
OVER: Final = "÷ confluent"
WHY: Final = "why ours is behind"

_HEAD: Final = """\
# Benchmarks

What a record costs in this client and in others, measured by one command:

```sh
python3 -m tox run -e bench                                  # the full table: {minutes} minutes
python3 -m tox run -e bench -- --quick                       # the main rows on the stub, once: a minute
python3 -m tox run -e bench -- --rows 'stub-100-*' --rounds 5
python3 -m tox run -e bench -- --write                       # the full table, and this page
```

`--help` has the other options, `--list` the names of the rows, `--json` keeps the results, and
`--profile stub-100-implicit` runs one row under [py-spy](https://github.com/benfred/py-spy) and prints where each
thread spends its time. This page is made by `--write`; do not edit it.

How to read it:

- **CPU** is user and system time of the client's process, all its threads, in seconds per million records: 1 is one
  microsecond per record. It decides how many workers fit a machine, and is the number to trust: rates depend more on
  what else the machine does.
- The contestants take turns, each run in a fresh process and a fresh share group. Figures are medians [lowest to
  highest] of {rounds} rounds; a ratio is the median of the ratios within each round. The clock begins with the first
  records and stops with the last ones, so joining a group is not measured; of the Java client the first quarter is left
  out as well, since its virtual machine compiles then.
- The value of each record is read in every run. `max_poll_records` is 500, batches have 500 records, and on the stub
  there is one partition (on brokers four), where a row does not say otherwise.
- **The stub** replays batches that were encoded once and only changes their offsets; it checks that nothing is
  acknowledged twice. What it costs itself per million records is in the table: it is no part of the other figures.
- **A broker alone** is given raw requests, with batches that were encoded once, by a process that looks at no record.
  Its own CPU (“broker s/M”, known on Linux) is that of one process for everything. Beside the reference broker stand
  two fake brokers that others have for their tests: kfake, of franz-go, in Go, and the mock of librdkafka, in C.
- A load above the number of processors (below) makes everything slower, and high percentiles of latency most of all:
  they are then the machine's. Ratios suffer less.
"""


def line_of(row: Row, result: Result) -> str:
    """One run, as soon as it is over."""
    text = f"{row.id:<28}{NAMES[result['contestant']]:<22}{result['round'] + 1:>2}  "
    text += f"{result['rate']:>11,.0f} records/s {result['cpu']:>9.3f} CPU s/M {result['rss_mb']:>6.0f} MB"
    if result["broker_cpu"] is not None:
        text += f"   broker {result['broker_cpu']:.3f}"
    if row.is_latency:
        middle, high, highest = (spread.median for spread in _latency_of(row, result).values())
        text += f"   p50 {middle:,.0f} µs, p99 {high:,.0f}, p99.9 {highest:,.0f}"
    return text


def _latency_of(row: Row, result: Result) -> dict[float, Spread]:
    return figures_of(row, [result])[0].latency_us


def tables(results: Sequence[Result]) -> Iterator[str]:
    """Lines of Markdown: a table for each part that has been measured."""
    for part in PARTS:
        rows = [(row, figures) for row in ROWS if row.part == part and (figures := figures_of(row, results))]
        if rows:
            yield from ("", f"## {part}", "")
            yield from _table(part, rows)


def _table(part: str, rows: list[tuple[Row, list[Figures]]]) -> Iterator[str]:
    if part == LATENCY:
        yield from _latency_table(rows)
    elif part == ALONE:
        yield from _broker_table(rows)
    elif part in (RATE, BROKERS, HANDLERS):
        yield from _rate_table(rows)
    else:
        yield from _growth_table(part, rows)


def _header(*names: str) -> str:
    return f"| {' | '.join(names)} |"


def _rate_table(rows: list[tuple[Row, list[Figures]]]) -> Iterator[str]:
    yield _header("case", "client", "CPU s/M", OVER, "records/s", OVER, "memory, MB", "broker s/M", WHY)
    yield "|" + 9 * "---|"
    for row, figures in rows:
        for number, one in enumerate(figures):
            why = _why(row, figures) if one.contestant == OURS else ""
            cells = [
                row.title if number == 0 else "",
                NAMES[one.contestant],
                _spread(one.cpu, 2),
                _ratio(one.cpu_ratio),
            ]
            cells += [_spread(one.rate, 0), _ratio(one.rate_ratio), f"{one.rss_mb.median:.0f}"]
            cells += ["" if one.broker_cpu is None else f"{one.broker_cpu.median:.2f}", why]
            yield f"| {' | '.join(cells)} |"


def _broker_table(rows: list[tuple[Row, list[Figures]]]) -> Iterator[str]:
    yield _header("broker", "records/s", "broker s/M")
    yield "|" + 3 * "---|"
    for row, (one,) in rows:
        cpu = "" if one.broker_cpu is None else f"{one.broker_cpu.median:.2f}"
        yield f"| {row.title} | {_spread(one.rate, 0)} | {cpu} |"


def _latency_table(rows: list[tuple[Row, list[Figures]]]) -> Iterator[str]:
    yield "One record every 20 ms, from the time written into it to the application's hands, in microseconds."
    yield "On the stub the time is the one at which the broker has it; on brokers, at which a producer is given it."
    yield ""
    names = " | ".join(f"p{percent:g}" for percent in PERCENTILES)
    yield _header("broker", "client", names, f"p50 {OVER}", WHY)
    yield "|" + 7 * "---|"
    for row, figures in rows:
        for number, one in enumerate(figures):
            why = _why(row, figures) if one.contestant == OURS else ""
            cells = [row.title if number == 0 else "", NAMES[one.contestant]]
            cells += [_spread(one.latency_us[percent], 0) for percent in PERCENTILES[:-1]]
            cells += [f"{one.latency_us[PERCENTILES[-1]].median:,.0f}", _ratio(one.latency_ratio), why]
            yield f"| {' | '.join(cells)} |"


def _growth_table(part: str, rows: list[tuple[Row, list[Figures]]]) -> Iterator[str]:
    """Each step beside the one before: 1.00 is linear for CPU per record, whatever the step."""
    if part == BY_CONSUMERS:
        yield "Rates are of all consumers together; more of them than the machine has processors only take turns."
        yield ""
    before_it = "÷ step before"
    yield _header("step", "client", "CPU s/M", before_it, "records/s", before_it, "memory, MB", before_it, WHY)
    yield "|" + 9 * "---|"
    before: dict[str, Figures] = {}
    for row, figures in rows:
        for one in figures:
            last = before.get(one.contestant)
            cells = [row.title, NAMES[one.contestant]]
            for name, digits in (("cpu", 2), ("rate", 0), ("rss_mb", 0)):
                spread: Spread = getattr(one, name)
                grown = "" if last is None else f"{spread.median / getattr(last, name).median:.2f}"
                cells += [_spread(spread, digits), grown]
            yield f"| {' | '.join(cells)} | {_why(row, figures) if one.contestant == OURS else ''} |"
            before[one.contestant] = one


def _why(row: Row, figures: list[Figures]) -> str:
    """Rows without a peer have their causes too: nobody else offers what they measure."""
    return ", ".join(row.causes) if is_behind(row, figures) or len(row.contestants) == 1 else ""


def _spread(spread: Spread, digits: int) -> str:
    middle, low, high = (f"{number:,.{digits}f}" for number in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} [{low} to {high}]"


def _ratio(ratio: Spread | None) -> str:
    return "" if ratio is None else _spread(ratio, 2)


def page(kept: Mapping[str, Any], minutes: int) -> str:
    """The whole of docs/benchmarks.md."""
    results: list[Result] = kept["results"]
    lines = [_HEAD.format(minutes=minutes, rounds=_rounds(results)).rstrip()]
    lines += ["", *_standing(results), "", f"![CPU per record and records per second]({PLOT.name})", ""]
    lines += ["## Where and when", "", *_facts(kept), *tables(results), "", "## Why ours is behind", ""]
    lines += [f"- **{name}**: {sentence}." for name, sentence in CAUSES.items()]
    return "\n".join(lines) + "\n"


def _rounds(results: Sequence[Result]) -> str:
    """How many each row had, if they are from several runs."""
    last = {one["row"]: one["round"] for one in results}
    fewest, most = 1 + min(last.values()), 1 + max(last.values())
    return f"{most}" if fewest == most else f"{fewest} to {most}"


def _standing(results: Sequence[Result]) -> Iterator[str]:
    """How many rows are lost, in a sentence that is true of these results."""
    shared = [(row, figures) for row in ROWS if len(figures := figures_of(row, results)) > 1]
    behind = sum(is_behind(row, figures) for row, figures in shared)
    ratios = sorted(
        ours.cpu_ratio.median for _, figures in shared for ours in figures[:1] if ours.cpu_ratio and not ours.latency_us
    )
    yield f"Our client is behind in {behind} of the {len(shared)} rows that it shares with others: it needs more CPU"
    yield "than one of them, or is slower. The last column says why, in the words of"
    yield "[the list at the end](#why-ours-is-behind)."
    if ratios:
        middle = statistics.median(ratios)
        yield f"It takes {ratios[0]:.1f} to {ratios[-1]:.1f} times the CPU of confluent-kafka, {middle:.1f} times in"
        yield f"the median row. In a column “{OVER}”, 1 is level with it."


def _facts(kept: Mapping[str, Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, fact in kept["machine"].items():
        yield f"| {name} | {fact} |"
    yield f"| Apache Kafka, and its Java client | {KAFKA} |"
    loads = [one["load"] for one in kept["results"]]
    yield f"| load during the runs (processes that want a processor) | {min(loads):.1f} to {max(loads):.1f} |"
    for name, reason in kept["why_not"].items():
        yield f"| not measured | {NAMES.get(name, name)}: {reason} |"
