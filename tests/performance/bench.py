"""The benchmarks: our client, confluent-kafka's and Java's, on the stub, on the reference broker and on a real Kafka.

    tox run -e bench -- --help          or: PYTHONPATH=tests python -m performance.bench --help

Without options it measures every row, which takes the time that docs/benchmarks.md states. What cannot run here (Java,
Maven, confluent-kafka) is left out, and the reason is printed.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.kafka_jars import KafkaUnavailableError
from performance import page, targets
from performance.costs import PAIRS, PARTS, costs
from performance.machine import load, machine
from performance.other_brokers import NAMES as OTHER_BROKERS
from performance.other_brokers import BrokerMissingError
from performance.profiling import NoProfilerError, profile
from performance.rows import QUICK, ROWS, Row
from performance.runs import Result, Runner
from performance.targets import STUB, Target

_ROUNDS: Final = 3
_MINUTES: Final = 30
"""What the full table takes, as the page states it."""


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="append", metavar="PATTERN", help="only rows with such names, as in 'stub-*'")
    parser.add_argument("--quick", action="store_true", help="the main rows on the stub, once")
    parser.add_argument("--list", action="store_true", help="print the names of the rows, and end")
    parser.add_argument("--rounds", type=int, help=f"runs of each contestant (default: {_ROUNDS})")
    parser.add_argument("--size", type=float, default=1, help="times the usual number of records (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the results")
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="FILE", help="measure nothing: show what --json has kept"
    )
    parser.add_argument("--write", action="store_true", help=f"write {page.PAGE.name} and its plot")
    parser.add_argument("--profile", metavar="ROW", help="run our client in this row under py-spy")
    parser.add_argument(
        "--costs", nargs="*", choices=list(PARTS), metavar="PART", help=f"what parts cost: {', '.join(PARTS)} (or all)"
    )
    return parser.parse_args(words)


def chosen(options: argparse.Namespace) -> list[Row]:
    patterns = [*(options.rows or ()), *(QUICK if options.quick else ())]
    rows = [row for row in ROWS if not patterns or any(fnmatch.fnmatch(row.id, pattern) for pattern in patterns)]
    if not rows:
        sys.exit(f"no row is called {' or '.join(patterns)}; --list has the names")
    return rows


def measured(rows: Sequence[Row], runner: Runner, rounds: int) -> Iterator[Result]:
    """Every run; each broker is started once, each stub for one row."""
    runner.prepare(rows)
    for target_name in dict.fromkeys(row.target for row in rows):
        of_target = [row for row in rows if row.target == target_name]
        try:
            with contextlib.nullcontext() if target_name == STUB else targets.broker(target_name) as broker:
                for row in of_target:
                    yield from _of_row(row, runner, broker, rounds)
        except KafkaUnavailableError as error:
            runner.why_not[f"rows on Kafka {target_name}"] = str(error)
        except BrokerMissingError as error:
            runner.why_not[f"rows on {OTHER_BROKERS[target_name]}"] = str(error)


def _of_row(row: Row, runner: Runner, broker: Target | None, rounds: int) -> Iterator[Result]:
    with targets.stub(row.settings) if broker is None else contextlib.nullcontext(broker) as target:
        for result in runner.rounds(row, target, rounds):
            kept = {**result, "load": load()}
            print(page.line_of(row, kept), flush=True)
            yield kept


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """A row that several files have is that of the last one."""
    results: dict[str, list[Result]] = {}
    kept: dict[str, Any] = {}
    for file in files:
        kept = json.loads(file.read_text(encoding="utf-8"))
        of_file: dict[str, list[Result]] = {}
        for result in kept["results"]:
            of_file.setdefault(result["row"], []).append(result)
        results.update(of_file)
    return {**kept, "results": [result for runs in results.values() for result in runs]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began_at_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        runner = Runner(Path(folder), options.size)
        rounds = options.rounds or (1 if options.quick else _ROUNDS)
        results: list[Result] = []
        for result in measured(chosen(options), runner, rounds):
            results.append(result)
            keep(options.json, runner, results)
    print(f"\n{len(results)} runs in {(time.monotonic() - began_at_s) / 60:.1f} minutes")
    for name, reason in runner.why_not.items():
        print(f"not measured: {name}: {reason}")
    return kept_as(runner, results)


def kept_as(runner: Runner, results: list[Result]) -> dict[str, Any]:
    return {"machine": machine(), "why_not": runner.why_not, "results": results}


def keep(file: Path | None, runner: Runner, results: list[Result]) -> None:
    """After each run: what was measured is there even if the machine is wanted for something else."""
    if file is not None:
        file.write_text(json.dumps(kept_as(runner, results)), encoding="utf-8")


def show_profile(row_id: str, size: float) -> None:
    row = next((row for row in ROWS if row.id == row_id), None)
    if row is None:
        sys.exit(f"no row is called {row_id}; --list has the names")
    handle, name = tempfile.mkstemp(prefix=f"{row_id}-", suffix=".raw")
    open(handle).close()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        opened = targets.stub(row.settings) if row.target == STUB else targets.broker(row.target)
        with opened as target:
            try:
                for line in profile(row, Runner(Path(folder), size), target, Path(name)):
                    print(line)
            except NoProfilerError as error:
                sys.exit(str(error))


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    if options.list:
        print("\n".join(f"{row.id:<28}{row.part}: {row.title}" for row in ROWS))
        return
    if options.costs is not None:
        for cost in costs(options.costs or list(PARTS), options.rounds or PAIRS, options.size):
            print(f"{cost}   {PARTS[cost.name].title}", flush=True)
        return
    if options.profile:
        show_profile(options.profile, options.size)
        return
    kept = merged(options.results) if options.results else measure(options)
    if not kept["results"]:
        return
    print("\n".join(page.tables(kept["results"])))
    if options.write:
        from performance.plot import draw

        page.PAGE.write_text(page.page(kept, _MINUTES), encoding="utf-8")
        draw(kept["results"], page.PLOT)


if __name__ == "__main__":
    main()
