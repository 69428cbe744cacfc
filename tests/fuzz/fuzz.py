"""Run seeds of the fuzz. A seed that fails prints one line, and its whole story goes to a file.

PYTHONPATH=tests python -m fuzz.fuzz client --seeds 2000 --jobs 2
PYTHONPATH=tests python -m fuzz.fuzz admin --seeds 2000 --jobs 2
PYTHONPATH=tests python -m fuzz.fuzz batches --seeds 20000 --jobs 2
PYTHONPATH=tests python -m fuzz.fuzz broker --seeds 5000 --jobs 2
PYTHONPATH=tests python -m fuzz.fuzz proxy --seeds 50
PYTHONPATH=tests python -m fuzz.fuzz client --seed 42 --trace
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from fuzz.admin_history import run_admin
from fuzz.batch_run import run_batches
from fuzz.broker_run import run_broker
from fuzz.client_history import run_client
from fuzz.outcome import Outcome
from fuzz.proxy_run import run_proxy

PROGRESS_EVERY = 500
_TITLE_WIDTH = 52
RUNS: Final[dict[str, Callable[..., Outcome]]] = {
    "client": run_client,
    "admin": run_admin,
    "batches": run_batches,
    "broker": run_broker,
    "proxy": run_proxy,
}


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if no seed ended in a complaint."""
    options = _parser().parse_args(arguments)
    first = options.seed or 0
    seeds = range(first, first + (options.seeds or (1 if options.seed is not None else 200)))
    began = time.monotonic()
    done = failed = excused = mutations = 0
    happened: Counter[str] = Counter()
    for outcome in _outcomes(options.what, seeds, options.jobs):
        done += 1
        mutations += outcome.mutations
        happened += outcome.happened
        excused += outcome.excuse is not None
        if outcome.excuse is not None and options.excuses:
            _say(f"excused seed {outcome.seed}: {outcome.excuse}")
        if outcome.complaint is not None:
            failed += 1
            _say(_failure(options.what, outcome, options.logs))
        if options.trace:
            _say("\n".join(RUNS[options.what](outcome.seed, trace=True).lines))
        if done % PROGRESS_EVERY == 0:
            _say(f"{done:,} seeds, {time.monotonic() - began:.0f} s")
    for name, times in sorted(happened.items()):
        _say(f"  {name:{_TITLE_WIDTH}} {times:10,}")
    _say(f"{done:,} seeds, {mutations:,} mutations in {time.monotonic() - began:.0f} s")
    _say(f"{done - failed - excused:,} settled, {excused:,} excused by a lie that lasts, {failed:,} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(RUNS))
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds to run [default: 200, or 1 with --seed]")
    parser.add_argument("--seed", type=int, metavar="N", help="the first seed, or the only one [default: 0]")
    parser.add_argument("--trace", action="store_true", help="print every message, event and mutation")
    parser.add_argument("--excuses", action="store_true", help="print the lie that kept a seed from being settled")
    parser.add_argument("--logs", type=Path, default=Path("fuzz-logs"), metavar="FOLDER", help="for seeds that fail")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes [default: %(default)s]")
    return parser


def _outcomes(what: str, seeds: range, jobs: int) -> Iterator[Outcome]:
    if jobs <= 1 or len(seeds) == 1:
        yield from map(RUNS[what], seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(RUNS[what], seeds, chunksize=8)


def _failure(what: str, outcome: Outcome, folder: Path) -> str:
    """The line about a seed that failed; its story is written beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{what}-{outcome.seed}.log"
    path.write_text("\n".join(RUNS[what](outcome.seed, trace=True).lines) + "\n", encoding="utf-8")
    return f"FAILED seed {outcome.seed}: {outcome.complaint} -- {path}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
