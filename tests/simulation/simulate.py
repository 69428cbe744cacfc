"""Run histories of the simulation: many seeds at once, or one with its trace.

PYTHONPATH=tests python -m simulation.simulate --seeds 500 --jobs 2
PYTHONPATH=tests python -m simulation.simulate --seed 42 --trace
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

from simulation.history import Outcome, run_history
from simulation.plan import FaultKind, Flavour

_TITLE_WIDTH = 44
PROGRESS_EVERY = 1_000
"""Histories after which a long run shows how far it is."""


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if no history ended in a complaint."""
    options = _parser().parse_args(arguments)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + (options.seeds or 1))
    else:
        seeds = range(options.seeds or 200)
    _calm_the_collector()
    began = time.monotonic()
    total = Totals()
    for outcome in _outcomes(seeds, options.jobs, options.trace):
        if options.trace:
            _say("\n".join(outcome.lines))
        total.add(outcome)
        if outcome.complaint is not None:
            _say(failure_line(outcome))
        if total.histories % PROGRESS_EVERY == 0:
            _say(total.line(time.monotonic() - began))
    total.report(time.monotonic() - began)
    return 1 if total.failures else 0


def failure_line(outcome: Outcome) -> str:
    """The one line that is enough to see it again."""
    return (
        f"FAILED seed {outcome.seed} at step {outcome.steps} ({outcome.virtual_ms} ms): {outcome.complaint} "
        f"-- replay: PYTHONPATH=tests python -m simulation.simulate --seed {outcome.seed} --trace"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds to run [default: 200, or 1 with --seed]")
    parser.add_argument("--seed", type=int, metavar="N", help="the first seed, or the only one [default: 0]")
    parser.add_argument("--trace", action="store_true", help="print every message, event and fault")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes [default: %(default)s]")
    return parser


def _outcomes(seeds: range, jobs: int, trace: bool) -> Iterator[Outcome]:
    if jobs <= 1 or len(seeds) == 1:
        for seed in seeds:
            yield run_history(seed, trace=trace)
        return
    with get_context("spawn").Pool(jobs, _calm_the_collector) as pool:
        yield from pool.imap_unordered(run_history, seeds, chunksize=8)


def _calm_the_collector() -> None:
    """What is imported stays anyway, and a history leaves little behind: one look in many is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Totals:
    """The sums over all histories."""

    def __init__(self) -> None:
        self.histories = self.steps = self.virtual_ms = self.failures = 0
        self.happened: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        self.steps += outcome.steps
        self.virtual_ms += outcome.virtual_ms
        self.failures += outcome.complaint is not None
        self.happened += outcome.happened

    def report(self, seconds: float) -> None:
        faults = {kind.value for kind in FaultKind} | {flavour.value for flavour in Flavour}
        rows = sorted(self.happened.items(), key=lambda row: (row[0] not in faults, row[0]))
        for name, times in rows:
            _say(f"  {name:{_TITLE_WIDTH}} {times:10,}")
        _say(self.line(seconds))

    def line(self, seconds: float) -> str:
        """The totals in one line."""
        return (
            f"{self.histories:,} histories, {self.steps:,} events, {self.virtual_ms / 3_600_000:.2f} virtual hours "
            f"in {seconds:.0f} s ({self.histories / max(seconds, 0.001):.1f} per second); {self.failures} failed"
        )


if __name__ == "__main__":
    sys.exit(main())
