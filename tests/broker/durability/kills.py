"""Brokers with a data directory, killed with -9 under load by seeds: what a run is and what it checks, `killing` says.

A script: `tox run -e kills -- --seeds 0-999`. It ends: a seed that does not come to its end fails like any other, with
what its processes did, and SIGINT or SIGTERM ends all of them. The folder of a seed that fails stays. Exit code 1 if
one has failed.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import attrs
from broker.durability.killing import Killing
from broker.durability.nursery import Nursery
from broker.durability.seed_worker import Outcome, RunSeed, SeedWorker

LIMIT_S: Final = 300
"""Of a seed, which takes a second or two where nothing else runs."""
PROGRESS_EVERY: Final = 25
MOST_COMPLAINTS: Final = 10
LONGEST_COMPLAINT: Final = 5_000
INTERRUPTED: Final = 130
"""The exit code, as a shell's."""


@contextlib.contextmanager
def kill_runs() -> Iterator[RunSeed]:
    with Nursery() as nursery:
        yield partial(_run_seed, nursery)


def _run_seed(nursery: Nursery, seed: int, folder: Path) -> Outcome:
    account = Killing(seed, folder, nursery).run()
    complaints = [one[:LONGEST_COMPLAINT] for one in account.complaints[:MOST_COMPLAINTS]]
    return Outcome(complaints, account.numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99", help="first and last seed (default: %(default)s)")
    first, _, last = parser.parse_args().seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has it ignore the first, as in the background
        signal.signal(number, signal.default_int_handler)
    tally = Tally(len(seeds))
    with SeedWorker(kill_runs, LIMIT_S) as worker:
        try:
            for seed in seeds:
                tally.add(seed, worker.run(seed))
        except KeyboardInterrupt:
            print(tally, "interrupted", sep="\n")
            return INTERRUPTED
    print(tally)
    return 1 if tally.failed else 0


@attrs.define
class Tally:
    """Of all seeds. Prints what failed when it does, and how far it has come now and then."""

    _seeds: int
    failed: list[int] = attrs.Factory(list)
    _done: int = 0
    _numbers: Counter[str] = attrs.Factory(Counter)
    _began_s: float = attrs.Factory(time.monotonic)

    def add(self, seed: int, outcome: Outcome) -> None:
        self._done += 1
        self._numbers += outcome.numbers
        if outcome.complaints:
            self.failed.append(seed)
            print(f"seed {seed}:", *outcome.complaints, sep="\n  ", flush=True)
        if self._done % PROGRESS_EVERY == 0 and self._done < self._seeds:
            print(self, flush=True)

    def __str__(self) -> str:
        took_s = time.monotonic() - self._began_s
        return f"{self._done} of {self._seeds} seeds, {took_s:.0f} s: {dict(self._numbers)}; failed: {self.failed}"


if __name__ == "__main__":
    sys.exit(main())
